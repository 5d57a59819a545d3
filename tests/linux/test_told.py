"""Lanes of a process that has what must be told of their calls, which Python then does as it would have."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from cuda_tools import KEEP, PATH, Op, alike, begun, calls_in_python, opening, path, result, scratch, script
from kvrm.memory import PAGE


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory, with a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(bytes(range(200)) * 60)


SHOWN: list[Op | bytes] = [("umask", 0), ("read", 3, scratch(5000), 400), ("write", 1, scratch(5000), 200)]
WATCHED: list[Op | bytes] = [
    ("inotify_init1", 0o4000),
    *path("file"),
    ("inotify_add_watch", 3, scratch(PATH), 0xFFF),
]
POLLED: list[Op | bytes] = [
    ("epoll_create1", 0),
    ("read", 0, scratch(), 16),
    struct.pack("<IIQ", 4, 0, 99),
    ("epoll_ctl", 3, 1, 2, scratch()),
]
REPORTED: list[Op | bytes] = [
    ("umask", 0),
    ("epoll_pwait", 3, scratch(100), 5, 0, 0, 8),
    ("write", 1, scratch(100), 20),
]
ACTION = struct.pack("<4Q", 0x1000, 0x8000_0000, 0, (1 << 64) - 1)
IGNORED = struct.pack("<4Q", 1, 0, 0, 0)
FIRED: list[Op | bytes] = [
    *[("read", 0, scratch(), 32), IGNORED, ("rt_sigaction", 10, scratch(), 0, 8)],
    *[
        ("read", 0, scratch(), 64),
        struct.pack("<QII48x", 0, 10, 0),
        ("timer_create", 1, scratch(), scratch(64)),
    ],
    *[("read", 0, scratch(), 32), struct.pack("<4Q", 0, 50, 0, 50), ("timer_settime", 0, 0, scratch(), 0)],
    *[("read", 0, scratch(), 16), struct.pack("<2Q", 0, 999), ("nanosleep", scratch(), 0)],
]


def lock(kind: int, fd: int, command: int) -> list[Op | bytes]:
    """Ask for a lock of a file's first byte."""
    text = struct.pack("<hhxxxxqqixxxx", kind, 0, 0, 1, 0)
    return [("read", 0, scratch(), 32), text, ("fcntl", fd, command, scratch())]


LOCKED = [*opening("file"), *lock(0, 3, 6)]


def whether_locked(fd: int) -> list[Op | bytes]:
    """For whom the file is not open yet, and will be by this descriptor."""
    return [*opening("file"), *lock(1, fd, 36), ("write", 1, scratch(), 32)]


BEGUN: dict[str, tuple[list[Op | bytes], list[Op | bytes]]] = {
    "a segment": (
        [("shmget", 0, PAGE, 0o1600), ("shmat", result(0), 0, 0)],
        [
            ("store", result(1, 5), 77),
            ("munmap", result(1), PAGE),
            ("shmat", result(0), 0, 0),
            ("load", result(4, 5)),
        ],
    ),
    "a file that is watched, and opened": (
        WATCHED,
        [*opening("file"), ("read", 4, scratch(5000), 50), ("close", 4), *SHOWN],
    ),
    "a file that is watched, and read": (
        [*WATCHED, *opening("file")],
        [("read", 4, scratch(100), 50), *SHOWN],
    ),
    "a file that is watched, and closed": ([*WATCHED, *opening("file")], [("close", 4), *SHOWN]),
    "a stream that is polled, and closed": (POLLED, [("close", 2), *REPORTED]),
    "a stream that is polled, and whose descriptor is another file's": (
        POLLED,
        [("close", 2), *opening("file"), *REPORTED],
    ),
    "a timer whose signal is ignored": (
        FIRED,
        [("read", 0, scratch(), 32), ACTION, ("rt_sigaction", 10, scratch(), 0, 8), ("umask", 0)],
    ),
    "a lock of its own, and closes the file by another descriptor": (
        LOCKED,
        [*opening("file"), ("close", 4), *whether_locked(4)],
    ),
    "a lock of its own, and opens the file where it was": (
        LOCKED,
        [("close", 3), *opening("file"), *whether_locked(4)],
    ),
    "a lock of its own, and copies a descriptor over its like": (
        [*LOCKED, ("dup", 3)],
        [("dup3", 3, 4, 0), *whether_locked(5)],
    ),
    "a lock": (
        [*opening("file"), ("flock", 3, 2)],
        [("close", 3), *opening("file"), ("umask", 0), ("flock", 3, 6)],
    ),
}
"""What a process has that is told of its calls, and what lanes that begin with it do."""


@pytest.mark.parametrize("name", BEGUN)
def test_lanes_of_a_process_that_has(calls: Path, name: str) -> None:
    before, after = BEGUN[name]

    def gone_on() -> Any:
        lanes = begun(calls, before, "cpu").fork(2)
        lanes.stdin, lanes.keep = [script(after)] * 2, KEEP
        return lanes.run()

    with calls_in_python():
        want = gone_on()
    alike(want, gone_on())
