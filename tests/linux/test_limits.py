"""Resource limits that act: processor time and the stack."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import kvrm
from cuda_tools import scratch, script
from kvrm.linux import Killed
from kvrm.linux.loader import MMAP_TOP, STACK_BASE, STACK_GAP, STACK_SIZE, STACK_TOP
from kvrm.memory import PAGE, GuestFault
from linux_tools import BUFFER, CREAT, WRONLY, Guest

SECOND = 10**9
CPU, FSIZE, STACK = 0, 1, 3
SIGKILL, SIGXCPU, SIGXFSZ = 9, 24, 25


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def limit(guest: Guest, resource: int, soft: int, hard: int = (1 << 64) - 1) -> int:
    return guest.call("setrlimit", resource, struct.pack("<2Q", soft, hard))


def test_processor_time(guest: Guest) -> None:
    """SIGXCPU each second from the soft limit on, which moves with it; SIGKILL at the hard one."""
    assert limit(guest, CPU, 2, 4) == 0 and guest.process.due == 2 * SECOND
    assert guest.call("rt_sigprocmask", 0, struct.pack("<Q", 1 << SIGXCPU - 1), 0, 8) == 0
    for second in (2, 3):
        guest.retired = second * SECOND - 1
        assert guest.process.expire(guest.retired) is None
        assert guest.call("rt_sigpending", BUFFER, 8) == 0 == guest.unpack("<Q")[0]
        guest.retired += 1
        assert guest.process.expire(guest.retired) is None
        assert guest.call("rt_sigtimedwait", struct.pack("<Q", 1 << SIGXCPU - 1), 0, 0, 8) == SIGXCPU
        assert guest.call("getrlimit", CPU, BUFFER) == 0 and guest.unpack("<2Q") == (second + 1, 4)
    assert guest.process.expire(4 * SECOND) == Killed(SIGKILL)


def test_processor_time_that_is_used_up(guest: Guest) -> None:
    guest.retired = 5 * SECOND
    assert guest.attempt("setrlimit", CPU, struct.pack("<2Q", 2, 60)) == Killed(SIGXCPU)


def test_processor_time_without_limit(guest: Guest) -> None:
    assert limit(guest, CPU, 2) == 0 == limit(guest, CPU, (1 << 64) - 1)
    assert guest.process.due is None


def test_a_program_that_uses_its_time_up(calls: Path) -> None:
    ops = [
        ("read", 0, scratch(), 16),
        struct.pack("<2Q", 1, 60),
        ("setrlimit", CPU, scratch()),
        ("spin", SECOND),
    ]
    done = kvrm.Machine(calls, stdin=script(ops)).run()
    assert (done.stop, done.signal, done.retired) == (kvrm.Stop.SIGNAL, SIGXCPU, SECOND)


def test_a_file_that_becomes_too_large(guest: Guest) -> None:
    fd = guest.open("new", CREAT | WRONLY)
    assert limit(guest, FSIZE, 4) == 0
    assert guest.call("write", fd, BUFFER, 8) == 4
    assert guest.attempt("write", fd, BUFFER, 1) == Killed(SIGXFSZ) == guest.attempt("ftruncate", fd, 5)
    assert guest.contents("new") == bytes(4)


def stack_is_mapped(guest: Guest, address: int) -> bool:
    try:
        guest.memory.read(address, 1)
    except GuestFault:
        return False
    return True


def test_the_stack_grows_as_far_as_its_limit(guest: Guest) -> None:
    assert stack_is_mapped(guest, STACK_BASE) and not stack_is_mapped(guest, STACK_BASE - 1)
    assert limit(guest, STACK, 64 << 20) == 0
    lowest = STACK_TOP - (64 << 20)
    assert stack_is_mapped(guest, lowest) and not stack_is_mapped(guest, lowest - 1)
    guest.memory.write(lowest + 5 * PAGE, b"used")
    assert limit(guest, STACK, STACK_SIZE) == 0
    assert guest.bytes(4, lowest + 5 * PAGE) == b"used" and not stack_is_mapped(guest, lowest + 4 * PAGE)
    assert limit(guest, STACK, (1 << 64) - 1) == 0
    assert stack_is_mapped(guest, MMAP_TOP + STACK_GAP) and not stack_is_mapped(
        guest, MMAP_TOP + STACK_GAP - 1
    )


def test_a_stack_that_is_not_used_shrinks(guest: Guest) -> None:
    assert limit(guest, STACK, 1 << 20) == 0
    assert not stack_is_mapped(guest, STACK_TOP - (1 << 20) - 1) and stack_is_mapped(
        guest, STACK_TOP - (1 << 20)
    )


def test_a_stack_keeps_away_from_what_is_mapped(guest: Guest) -> None:
    there = STACK_TOP - (32 << 20)
    assert guest.call("mmap", there, PAGE, 3, 0x32, -1, 0) == there
    assert limit(guest, STACK, 64 << 20) == 0
    lowest = there + PAGE + STACK_GAP
    assert stack_is_mapped(guest, lowest) and not stack_is_mapped(guest, lowest - 1)


def test_a_program_overflows_its_stack_at_the_limit(calls: Path) -> None:
    """The pages that a smaller limit takes away are gone at once, those of a larger one are there."""
    for size, ends in ((1 << 20, kvrm.Stop.FAULT), (16 << 20, kvrm.Stop.EXIT)):
        ops = [("read", 0, scratch(), 16), struct.pack("<2Q", size, size), ("setrlimit", STACK, scratch())]
        done = kvrm.Machine(calls, stdin=script([*ops, ("load", STACK_TOP - (4 << 20))])).run()
        assert done.stop is ends
