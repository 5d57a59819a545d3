"""Calls on files, and the files, that the tests of the device share."""

from __future__ import annotations

from cuda_tools import HERE, PATH, Op, opening, path, scratch

DATA = 1000
"""Where in the program's scratch memory data are."""
CLOEXEC, LARGE, CREATE, NOCTTY, DIRECTORY = 0o2000000, 0o400000, 0o100, 0o400, 0o40000
EXCLUSIVE, NONBLOCK, NOFOLLOW = 0o200, 0o4000, 0o100000
SET, CURRENT, END = range(3)
TEXT = bytes(range(256)) * 40
"""More than two pages."""


def status(name: str | bytes, flags: int = 0, at: int = HERE) -> list[Op | bytes]:
    return [*path(name), ("newfstatat", at, scratch(PATH), scratch(DATA), flags), SHOW]


SHOW: Op = ("write", 1, scratch(DATA), 1500)
BEFORE: list[Op | bytes] = [
    *opening("text"),
    *opening("sub/short", CLOEXEC),
    *opening("other", LARGE),
    ("read", 3, scratch(DATA), 5000),
    ("read", 5, scratch(DATA), 10),
    ("close", 4),
    ("close", 2),
    *opening("text"),
    ("lseek", 2, 77, SET),
    *opening("sub/short", CLOEXEC),
]
AFTER: list[Op | bytes] = [
    *(op for fd in range(2, 7) for op in (("read", fd, scratch(DATA), 50), SHOW)),
    *(("fcntl", fd, command) for fd in range(2, 7) for command in (1, 3)),
    *(op for fd in range(2, 7) for op in (("lseek", fd, 0, CURRENT), ("fstat", fd, scratch(DATA)), SHOW)),
    *opening("other"),
    ("close", 3),
    *opening("none"),
    *opening("empty"),
]
