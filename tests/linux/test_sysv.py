"""System V objects of a process: snapshots, limits, and memory that is attached."""

from __future__ import annotations

import errno as E
import struct
from pathlib import Path

import pytest

from kvrm.linux import Stopped
from linux_tools import BUFFER, Guest

CREATE, NOWAIT = 0o1000, 0o4000
REMOVE, GETVAL, SETVAL, STATUS = 0, 12, 16, 2
PAGE = 4096


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def operation(nth: int, change: int, flags: int = 0) -> bytes:
    return struct.pack("<Hhh", nth, change, flags)


def test_waiting_for_ever_ends_the_run(guest: Guest) -> None:
    semaphores, queue = guest.call("semget", 0, 1, 0o600), guest.call("msgget", 0, 0o600)
    assert isinstance(guest.attempt("semop", semaphores, operation(0, -1), 1), Stopped)
    assert isinstance(guest.attempt("msgrcv", queue, BUFFER, 10, 0, 0), Stopped)
    limit = struct.pack("<qq", 2, 5)
    assert guest.call("semtimedop", semaphores, operation(0, -1), 1, limit) == -E.EAGAIN
    assert guest.process.kernel.uptime == 2 * 10**9 + 5


def test_numbers_are_not_used_again_at_once(guest: Guest) -> None:
    first, second = guest.call("semget", 0, 1, 0o600), guest.call("semget", 0, 1, 0o600)
    assert (first, second) == (0, 1)
    assert guest.call("semctl", first, 0, REMOVE, 0) == 0
    third = guest.call("semget", 0, 1, 0o600)
    assert third == 1 << 15 and guest.call("semctl", first, 0, GETVAL, 0) == -E.EINVAL


def test_the_host_holds_only_so_much(guest: Guest) -> None:
    assert guest.call("shmget", 0, 300 << 20, 0o600) == -E.ENOSPC
    assert guest.call("shmget", 0, 200 << 20, 0o600) == 0
    assert guest.call("shmget", 0, 200 << 20, 0o600) == -E.ENOSPC
    assert guest.call("shmctl", 0, REMOVE, 0) == 0
    assert guest.call("shmget", 0, 200 << 20, 0o600) >= 0
    assert [guest.call("semget", 0, 32000, 0o600) for _ in range(40)].count(-E.ENOSPC) == 8
    assert [guest.call("msgget", 0, 0o600) for _ in range(200)].count(-E.ENOSPC) == 72


def test_snapshots(guest: Guest) -> None:
    semaphores, queue = guest.call("semget", 5, 1, CREATE | 0o600), guest.call("msgget", 5, CREATE | 0o600)
    segment = guest.call("shmget", 5, PAGE, CREATE | 0o600)
    guest.call("semop", semaphores, operation(0, 3), 1)
    guest.call("msgsnd", queue, struct.pack("<q", 1) + b"letter", 6, 0)
    snapshot, memory = guest.process.snapshot(), guest.memory.snapshot()
    for _ in range(2):
        assert guest.call("semctl", semaphores, 0, GETVAL, 0) == 3
        assert guest.call("msgrcv", queue, BUFFER, 10, 0, NOWAIT) == 6
        at = guest.call("shmat", segment, 0, 0)
        assert guest.bytes(1, at) == b"\0"
        guest.memory.write(at, b"x")
        guest.call("shmdt", at)
        for call in (("semctl", semaphores, 0, REMOVE, 0), ("msgctl", queue, REMOVE, 0)):
            assert guest.call(*call) == 0
        guest.process.restore(snapshot)
        guest.memory.restore(memory)


def test_munmap_keeps_what_is_in_a_segment(guest: Guest) -> None:
    segment = guest.call("shmget", 0, 3 * PAGE, 0o600)
    at = guest.call("shmat", segment, 0, 0)
    for page in range(3):
        guest.memory.write(at + page * PAGE, b"page%d" % page)
    assert guest.call("shmat", segment, 0, 0) == -E.ENOMEM
    assert guest.call("munmap", at + PAGE, PAGE) == 0
    assert guest.call("munmap", at, 3 * PAGE) == 0
    assert guest.call("shmdt", at) == -E.EINVAL
    at = guest.call("shmat", segment, 0, 0)
    assert [guest.bytes(5, at + page * PAGE) for page in range(3)] == [b"page0", b"page1", b"page2"]
    assert guest.call("shmctl", segment, STATUS, BUFFER) == 0
    assert guest.unpack("<Q", BUFFER + 96 - 8) == (1,)
