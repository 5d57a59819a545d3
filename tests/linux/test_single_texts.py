"""Calls that have one text: what Linux returns, by value, since no second text shows a mistake in it."""

from __future__ import annotations

import struct

from kvrm.linux.clock import EPOCH
from kvrm.linux.errno import Errno as E
from linux_tools import BUFFER, Guest

SECOND, MILLISECOND = 10**9, 10**6
UNMAPPED = 0x6660_0000
NOFILE, STACK = 7, 3
KILL, STOP = 1 << 8, 1 << 18


def test_clocks_count_what_was_slept(guest: Guest) -> None:
    assert guest.call("nanosleep", struct.pack("<qq", 5, 123_456_789), 0) == 0
    for clock, seconds in {0: EPOCH + 5, 1: 5, 4: 5, 5: EPOCH + 5, 6: 5, 7: 5, 11: EPOCH + 5}.items():
        assert guest.call("clock_gettime", clock, BUFFER) == 0
        assert guest.unpack("<qq") == (seconds, 123_456_789)
    for clock in (2, 3, -2, -6, ~guest.call("getpid") << 3 | 2):
        assert guest.call("clock_gettime", clock, BUFFER) == 0
        assert guest.unpack("<qq") == (0, 0)  # of no instructions
    for clock in (8, 9, 10, 12, -1, -5, ~4242 << 3 | 2):
        assert guest.call("clock_gettime", clock, BUFFER) == -E.EINVAL
        assert guest.call("clock_getres", clock, BUFFER) == -E.EINVAL
    assert guest.call("clock_getres", 1, 0) == guest.call("clock_getres", 1, BUFFER) == 0
    assert guest.unpack("<qq") == (0, 1)
    assert guest.call("gettimeofday", BUFFER, BUFFER + 16) == 0
    assert guest.unpack("<qqq") == (EPOCH + 5, 123_456, 0)
    assert guest.call("gettimeofday", 0, 0) == 0
    assert guest.call("gettimeofday", UNMAPPED, 0) == guest.call("gettimeofday", 0, UNMAPPED) == -E.EFAULT


def test_sleeps_that_there_are_none_of(guest: Guest) -> None:
    for seconds, rest in ((-1, 0), (0, -1), (0, SECOND)):
        assert guest.call("nanosleep", struct.pack("<qq", seconds, rest), 0) == -E.EINVAL
    assert guest.call("nanosleep", UNMAPPED, 0) == -E.EFAULT
    assert guest.process.kernel.uptime == 0


def test_limits_are_each_their_own(guest: Guest) -> None:
    assert guest.call("prlimit64", 0, NOFILE, struct.pack("<QQ", 100, 200), BUFFER) == 0
    assert guest.unpack("<QQ") == (1024, 4096)
    for name, before, after in (("getrlimit", [], []), ("prlimit64", [0], [0])):
        known = {}
        for resource in range(16):
            assert guest.call(name, *before, resource, *after, BUFFER) == 0
            known[resource] = guest.unpack("<QQ")
        assert known[NOFILE] == (100, 200)
        assert known[STACK] == (8 << 20, (1 << 64) - 1)
        assert known[NOFILE + 1] != (100, 200) != known[NOFILE - 1]
    assert guest.call("getrlimit", 16, BUFFER) == guest.call("prlimit64", 0, 16, 0, 0) == -E.EINVAL
    assert guest.call("prlimit64", 1, NOFILE, 0, BUFFER) == -E.EPERM
    assert guest.call("prlimit64", 4242, NOFILE, 0, BUFFER) == -E.ESRCH
    assert guest.call("prlimit64", guest.call("getpid"), NOFILE, 0, 0) == 0


def test_masks_of_signals(guest: Guest) -> None:
    def mask(how: int, new: int) -> int:
        assert guest.call("rt_sigprocmask", how, struct.pack("<Q", new), BUFFER, 8) == 0
        return int(guest.unpack("<Q")[0])

    assert mask(2, 0b11_0000) == 0
    assert mask(0, 0b01_1000) == 0b11_0000
    assert mask(1, 0b01_0000) == 0b11_1000
    assert mask(2, (1 << 64) - 1) == 0b10_1000
    assert mask(2, 0) == (1 << 64) - 1 & ~(KILL | STOP)
    assert guest.call("rt_sigprocmask", 3, struct.pack("<Q", 1), 0, 8) == -E.EINVAL
    assert guest.call("rt_sigprocmask", 3, 0, BUFFER, 8) == 0  # nothing is set
    assert guest.call("rt_sigprocmask", 0, 0, 0, 16) == -E.EINVAL
    assert guest.call("rt_sigprocmask", 0, UNMAPPED, 0, 8) == -E.EFAULT


def test_who_and_where(guest: Guest) -> None:
    pid = guest.call("getpid")
    assert guest.call("gettid") == pid == guest.call("set_tid_address", BUFFER) > 1
    assert guest.process.task.clear_tid == BUFFER
    assert guest.call("getppid") == 1
    assert {guest.call(name) for name in ("getuid", "geteuid")} == {guest.process.credentials.uid}
    assert {guest.call(name) for name in ("getgid", "getegid")} == {guest.process.credentials.gid}
    assert guest.call("sched_yield") == 0
    assert guest.call("uname", BUFFER) == 0
    names = [name.rstrip(b"\0") for (name,) in struct.iter_unpack("65s", guest.bytes(6 * 65))]
    assert names[0] == b"Linux"
    assert names[4] == b"aarch64"
    assert guest.call("uname", UNMAPPED) == -E.EFAULT
    assert guest.call("set_robust_list", BUFFER, 24) == 0
    assert guest.process.task.robust_list == BUFFER
    assert guest.call("set_robust_list", 0, 16) == -E.EINVAL


def test_futexes_without_another_thread(guest: Guest) -> None:
    wake, bitset, private = 1, 10, 128
    assert guest.call("futex", BUFFER, wake, 1, 0, 0, 0) == 0
    assert guest.call("futex", BUFFER + 2, wake, 1, 0, 0, 0) == -E.EINVAL
    assert guest.call("futex", BUFFER, bitset, 1, 0, 0, 0) == -E.EINVAL
    assert guest.call("futex", BUFFER, bitset, 1, 0, 0, 1) == 0
    assert guest.call("futex", UNMAPPED, wake, 1, 0, 0, 0) == -E.EFAULT
    assert guest.call("futex", UNMAPPED, wake | private, 1, 0, 0, 0) == 0
