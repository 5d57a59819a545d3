"""Descriptors of files that lanes copy, share and begin with, on the device and on the CPU."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cuda_tools import (
    KEEP,
    Away,
    Op,
    alike,
    begun,
    forks,
    lanes,
    opening,
    scratch,
    script,
)
from device_files import (
    AFTER,
    BEFORE,
    CLOEXEC,
    CURRENT,
    DATA,
    SHOW,
    TEXT,
)
from kvrm import Stop
from kvrm.linux.resident import known

pytestmark = pytest.mark.usefixtures("place")


COPIES: list[Op | bytes] = [
    *opening("text"),
    ("dup", 3),
    ("fcntl", 3, 0, 9),
    ("fcntl", 3, 1030, 9),
    ("fcntl", 9, 0, 0),
    *(("fcntl", fd, command) for fd in (3, 4, 5, 9, 10) for command in (1, 3)),
    ("fcntl", 4, 2, 1),
    ("fcntl", 10, 2, 0),
    ("fcntl", 10, 2, 2),
    *(("fcntl", fd, 1) for fd in (3, 4, 5, 9, 10, 1)),
    ("read", 4, scratch(DATA), 100),
    ("lseek", 9, 0, CURRENT),
    ("close", 3),
    ("read", 4, scratch(DATA + 100), 100),
    ("read", 10, scratch(DATA + 200), 100),
    SHOW,
    *opening("other"),
    ("read", 3, scratch(DATA), 30),
    ("dup3", 4, 3, CLOEXEC),
    ("dup3", 4, 4, 0),
    ("dup3", 4, 5, 1),
    ("dup3", 8, 5, 0),
    ("dup", 8),
    ("fcntl", 3, 1),
    ("read", 3, scratch(DATA), 30),
    ("close", 4),
    ("close", 5),
    ("close", 9),
    ("close", 10),
    ("lseek", 3, 0, CURRENT),
    ("fcntl", 2, 0, 12),
    ("dup3", 1, 2, 0),
    ("write", 2, scratch(DATA), 9),
    ("write", 12, scratch(DATA), 10),
    *opening("other"),
    ("fcntl", 2, 2, 1),
    ("fcntl", 2, 1),
    ("dup", 0),
    ("dup3", 3, 2, 0),
    ("write", 2, scratch(DATA), 1),
    ("read", 2, scratch(DATA), 40),
    ("close", 12),
    ("dup3", 5, 12, 0),
    ("fstat", 12, scratch(DATA)),
    SHOW,
]


def test_copies(calls: Path, work: Path, away: Away) -> None:
    """Descriptors that share an open file, also on the CPU afterwards."""
    lanes(calls, COPIES, [*COPIES, ("read", 12, scratch(DATA), 7), b"abcdefg", SHOW])
    assert not away
    lanes(calls, *([*COPIES[:n], ("umask", 0), *COPIES[n:], *AFTER] for n in range(2, len(COPIES), 3)))
    assert {name for _, name in away} == {"umask"}


def test_the_lowest_descriptor_that_is_free(calls: Path, work: Path, away: Away) -> None:
    """The program reads its operations by 0 and reports by 1, but 2 it can do without."""
    ops = [*opening("text"), *opening("other"), ("close", 2), *opening("sub/short"), ("close", 3)]
    ops += [*opening("empty"), *opening("text"), ("write", 2, scratch(), 1), ("close", 2), ("close", 2)]
    ops += [*opening("other"), ("read", 2, scratch(DATA), 200), ("read", 5, scratch(DATA), 99), SHOW]
    lanes(calls, ops)
    assert not away


def test_many_descriptors(calls: Path, work: Path, away: Away) -> None:
    """Those that the device has no room for, and those that do not exist."""
    open_all = opening("text")[-1:] * 1100
    lanes(calls, *([*opening("text"), *open_all[:n]] for n in (5, 12, 13, 40, 1100)))
    assert {lane for lane, _ in away} == {2, 3, 4}


def test_files_that_lanes_begin_with(calls: Path, work: Path, away: Away) -> None:
    """They go on where the machine was, also on the CPU; what it wrote is what they read."""
    changed = [*opening("other", 1), ("write", 5, scratch(DATA), 30), ("close", 5)]
    reopened = [("close", 3), *opening("other"), ("read", 3, scratch(DATA), 100), *AFTER]
    texts = [AFTER, [("read", 3, scratch(DATA), 5), *AFTER], reopened]
    forks(calls, [*opening("text"), *opening("sub/short", CLOEXEC), *changed], *texts)
    assert not away
    forks(calls, BEFORE, *([*text, ("umask", 0), *AFTER] for text in texts))
    assert len(away) == 3


def test_files_that_lanes_begin_with_and_that_grow(
    calls: Path, work: Path, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "MOST", len(TEXT) + 200)
    before, ops = [*opening("text"), *opening("other")], [("read", 4, scratch(DATA), 150), SHOW]
    machines = [begun(calls, before, target).fork(2) for target in ("cpu", "cuda")]
    for size, gone in ((100, 0), (150, 0), (201, 2)):
        (work / "other").write_bytes(b"x" * size)
        for machine in machines:
            machine.reset()
            machine.stdin, machine.keep = [script(ops), script(ops)], KEEP
        alike(*(machine.run() for machine in machines))
        assert len(away) == gone


def test_descriptors_beyond(calls: Path, work: Path, away: Away) -> None:
    before = [*opening("text"), ("dup3", 3, 20, 0)]
    first: Op = ("read", 3, scratch(DATA), 5)
    forks(calls, before, *([first, ("read", fd, scratch(DATA), 5), SHOW] for fd in (3, 20, 21, 5)))
    assert [lane for lane, _ in away] == [1, 2]


def test_a_pipe_that_lanes_begin_with(calls: Path, away: Away) -> None:
    """Its writing end is closed when a copy takes its descriptor."""
    ops: list[Op | bytes] = [("dup3", 1, 4, 0), ("read", 3, scratch(DATA), 1)]
    results = forks(calls, [("pipe2", scratch(DATA), 0)], ops, ops[:1], ops[1:])
    assert results.stops == {Stop.EXIT: 2, Stop.SYSCALL: 1}
    assert away == [(0, "dup3"), (1, "dup3"), (2, "read")]


def test_files_that_are_shared(calls: Path, work: Path, away: Away) -> None:
    """Those of two descriptors have one offset; one to write by is for the CPU."""
    before = [*opening("text"), ("dup", 3), *opening("other", 2), *opening("sub/short")]
    texts = [[("read", fd, scratch(DATA), 5), ("read", 3, scratch(DATA), 5), SHOW] for fd in (3, 4, 5, 6)]
    forks(calls, before, *texts, [*texts[1], ("umask", 0), *texts[1]])
    assert [lane for lane, _ in away] == [2, 4]


def test_a_limit_of_descriptors(calls: Path, work: Path, away: Away) -> None:
    """What it leaves no room to open is for the CPU; copies of descriptors fail on the device, too."""
    copies: list[Op | bytes] = [("dup", 0), ("dup", 1), ("dup3", 0, 5, 0), ("dup3", 0, -1, 0)]
    copies += [("fcntl", 1, 0, 5), ("fcntl", 1, 0, 4)]
    for most, gone in ((6, 0), (5, 1)):
        limit = struct.pack("<2Q", most, 4096)
        before = [("read", 0, scratch(), 16), limit, ("prlimit64", 0, 7, scratch(), 0)]
        forks(calls, before, opening("text") * 3, [*copies, ("dup", 2), ("close", 4), *copies])
        assert [lane for lane, _ in away] == [0] * gone
