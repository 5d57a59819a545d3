"""Filters that end a program, and calls that native code must not answer past them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cuda_tools import PAGE, Op, forks
from kvrm.linux import Killed
from kvrm.linux.bpf import LAYOUT
from linux_tools import BUFFER, NUMBERS, Guest

ALLOW, KILL_PROCESS, KILL_THREAD, TRAP, ERRNO = 0x7FFF0000, 0x80000000, 0, 0x30000, 0x50000
SIGKILL, SIGSYS = 9, 31


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    (tmp_path / "file").write_bytes(b"contents" * 100)
    return Guest(tmp_path)


def program(number: int, action: int, place: int = BUFFER + 16) -> bytes:
    """`struct sock_fprog` and a filter, which lies at `place`, that takes an action on one call."""
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, action), (6, 0, 0, ALLOW)]
    return struct.pack("<HxxxxxxQ", len(steps), place) + b"".join(LAYOUT.pack(*step) for step in steps)


def add(guest: Guest, name: str, action: int) -> int:
    guest.call("prctl", 38, 1, 0, 0, 0)
    guest.memory.write(BUFFER, program(NUMBERS[name], action))
    return guest.call("seccomp", 1, 0, BUFFER)


@pytest.mark.parametrize("action", [KILL_PROCESS, KILL_THREAD, TRAP])
def test_a_filter_ends_the_program(guest: Guest, action: int) -> None:
    assert add(guest, "getpid", ERRNO | 5) == 0 == add(guest, "getpid", action)
    assert guest.call("getuid") >= 0
    assert guest.attempt("getpid") == Killed(SIGSYS)


def test_an_action_that_does_not_exist_ends_the_program(guest: Guest) -> None:
    assert add(guest, "getpid", 0x12340000) == 0
    assert guest.attempt("getpid") == Killed(SIGSYS)


def test_strict_mode(guest: Guest) -> None:
    fd = guest.open("file")
    assert guest.call("prctl", 22, 1, 0, 0, 0) == 0
    assert guest.call("read", fd, BUFFER, 4) == 4 == guest.call("write", 1, BUFFER, 4)
    assert guest.attempt("getpid") == Killed(SIGKILL)


def test_lanes_begin_with_filters(calls: Path, place: str) -> None:
    """On a device, too: the CPU then runs them."""
    there = 0x3000_0000
    data = program(NUMBERS["getpid"], ERRNO | 7, there + 16)
    before: list[Op | bytes] = [("mmap", there, PAGE, 3, 0x32, -1, 0), ("read", 0, there, len(data)), data]
    before += [("prctl", 38, 1), ("seccomp", 1, 0, there)]
    results = forks(calls, before, [("getpid",)], [("getuid",), ("getpid",)])
    for lane in range(2):
        assert int.from_bytes(results.lane(lane).stdout[-8:], "little", signed=True) == -7
