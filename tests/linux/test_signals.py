"""Signals that a process sends itself: what `probes/signals.c` cannot ask the host."""

from __future__ import annotations

import errno as E
import struct
from pathlib import Path

import pytest

from kvrm.linux import Killed
from linux_tools import BUFFER, Guest

ALL = struct.pack("<Q", (1 << 64) - 1)
NOW = bytes(16)
QUEUE = -1
SIGPENDING = 11
USR1, USR2, REAL_TIME = 10, 12, 34


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    """A guest with all signals blocked."""
    guest = Guest(tmp_path)
    assert guest.call("rt_sigprocmask", 2, ALL, 0, 8) == 0
    return guest


def queue(guest: Guest, signal: int, value: int) -> int:
    info = struct.pack("<iiiiiiQ", 0, 0, QUEUE, 0, 0, 0, value).ljust(128, b"\0")
    return guest.call("rt_sigqueueinfo", guest.process.pid, signal, info)


def taken(guest: Guest) -> list[tuple[int, int, int]]:
    """Number, si_code and value of all that wait."""
    found = []
    while guest.call("rt_sigtimedwait", ALL, BUFFER, NOW, 8) > 0:
        signal, _, code, _, _, _, value = guest.unpack("<iiiiiiQ")
        found.append((signal, code, value))
    return found


def test_as_many_are_queued_as_the_limit_says(guest: Guest) -> None:
    """Then sigqueue of a real-time signal fails; kill does not, but loses what it tells."""
    assert guest.call("prlimit64", 0, SIGPENDING, struct.pack("<QQ", 3, 3), 0) == 0
    assert [queue(guest, REAL_TIME, value) for value in range(5)] == [0, 0, 0, -E.EAGAIN, -E.EAGAIN]
    assert guest.call("kill", 0, REAL_TIME + 1) == guest.call("kill", 0, REAL_TIME + 1) == 0
    assert queue(guest, USR2, 7) == guest.call("kill", 0, USR1) == 0
    real_time = [(REAL_TIME, QUEUE, value) for value in range(3)]
    assert taken(guest) == [(USR1, 0, 0), (USR2, 0, 0), *real_time, (REAL_TIME + 1, 0, 0)]
    assert queue(guest, REAL_TIME, 1) == 0


def test_snapshots_hold_what_waits(guest: Guest) -> None:
    queue(guest, REAL_TIME, 1)
    guest.call("tkill", guest.process.pid, USR1)
    snapshot = guest.process.snapshot()
    waiting = [(USR1, -6, 0), (REAL_TIME, QUEUE, 1)]
    for _ in range(2):
        queue(guest, REAL_TIME, 2)
        assert taken(guest) == [*waiting, (REAL_TIME, QUEUE, 2)]
        guest.process.restore(snapshot)
    assert taken(guest) == waiting


def test_the_first_that_is_fatal_ends_the_run(guest: Guest) -> None:
    """Those of an instruction come first, then the lowest number; what is ignored does nothing."""
    for signal in (USR1, REAL_TIME, 8, 17):
        assert guest.call("kill", 0, signal) == 0
    snapshot = guest.process.snapshot()
    assert guest.attempt("rt_sigprocmask", 2, bytes(8), 0, 8) == Killed(8)
    guest.process.restore(snapshot)
    ignore = struct.pack("<4Q", 1, 0, 0, 0)
    assert guest.call("rt_sigaction", 8, ignore, 0, 8) == guest.call("rt_sigaction", USR1, ignore, 0, 8) == 0
    assert guest.attempt("rt_sigprocmask", 2, bytes(8), 0, 8) == Killed(REAL_TIME)
