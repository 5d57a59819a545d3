"""Descriptors of events in virtual time: what waits, what wakes, snapshots and forks."""

from __future__ import annotations

import errno as E
import struct
from pathlib import Path

import pytest

from kvrm.linux import Killed, Stopped
from linux_tools import BUFFER, Guest

SECOND = 10**9
ADD, DELETE, MODIFY = 1, 2, 3
IN, OUT, EDGE, ONCE = 1, 4, 1 << 31, 1 << 30
NONBLOCK = 0o4000
ALRM, USR1 = 14, 10
ALL = struct.pack("<Q", (1 << 64) - 1)


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def spec(value: int, interval: int = 0) -> bytes:
    return struct.pack("<4q", *divmod(interval, SECOND), *divmod(value, SECOND))


def timer(guest: Guest, value: int, interval: int = 0, flags: int = 0) -> int:
    fd = guest.call("timerfd_create", 1, flags)
    assert guest.call("timerfd_settime", fd, 0, spec(value, interval), 0) == 0
    return fd


def watch(guest: Guest, epoll: int, fd: int, events: int = IN, operation: int = ADD) -> int:
    return guest.call("epoll_ctl", epoll, operation, fd, struct.pack("<IIQ", events, 0, fd))


def told(guest: Guest, epoll: int, timeout: int = 0) -> list[tuple[int, int]]:
    """Events and descriptor of all that are ready."""
    count = guest.call("epoll_pwait", epoll, BUFFER, 16, timeout, 0, 8)
    return [(events, data) for events, _, data in struct.iter_unpack("<IIQ", guest.bytes(16 * count))]


def add(guest: Guest, fd: int, value: int = 1) -> int:
    return guest.call("write", fd, struct.pack("<Q", value), 8)


def get(guest: Guest, fd: int) -> int:
    """The number that is read, or the error."""
    result = guest.call("read", fd, BUFFER, 8)
    return guest.unpack("<Q")[0] if result == 8 else result


class TestTime:
    """A wait skips to the timer that ends it, and not a nanosecond further."""

    def test_reading(self, guest: Guest) -> None:
        fd = timer(guest, 5, 10)
        for time, count in ((5, 1), (15, 1)):
            assert (get(guest, fd), guest.process.kernel.uptime) == (count, time)
        guest.retired = 30
        assert (get(guest, fd), guest.process.kernel.uptime) == (3, 45)
        assert guest.call("timerfd_gettime", fd, BUFFER) == 0
        assert guest.unpack("<4q") == (0, 10, 0, 10)

    def test_absolute_time_of_each_clock(self, guest: Guest) -> None:
        assert guest.call("clock_gettime", 0, BUFFER) == 0
        real = guest.unpack("<qq")[0] * SECOND
        for clock, start in ((0, real), (1, 0), (7, 0)):
            fd = guest.call("timerfd_create", clock, 0)
            assert guest.call("timerfd_settime", fd, 1, spec(start + SECOND + clock), 0) == 0
        guest.call("nanosleep", struct.pack("<qq", 1, 7), 0)
        assert [get(guest, fd) for fd in (3, 4, 5)] == [1, 1, 1]
        assert guest.process.kernel.uptime == SECOND + 7

    def test_polling(self, guest: Guest) -> None:
        late, soon = timer(guest, 2 * SECOND), timer(guest, SECOND)
        fds = struct.pack("<ihhihh", late, IN, 0, soon, IN, 0)
        limit = struct.pack("<qq", 5, 0)
        guest.memory.write(BUFFER, fds + limit)
        assert guest.call("ppoll", BUFFER, 2, BUFFER + 16, 0, 8) == 1
        assert guest.unpack("<ihhihhqq") == (late, IN, 0, soon, IN, IN, 4, 0)
        guest.memory.write(BUFFER, struct.pack("<Q", 1 << late))
        assert guest.call("pselect6", 10, BUFFER, 0, 0, 0, 0) == 1
        assert guest.process.kernel.uptime == 2 * SECOND

    def test_a_limit_that_is_earlier(self, guest: Guest) -> None:
        fd, epoll = timer(guest, SECOND), guest.call("epoll_create1", 0)
        assert watch(guest, epoll, fd) == 0
        assert told(guest, epoll, 10) == [] and guest.process.kernel.uptime == SECOND // 100
        assert told(guest, epoll, -1) == [(IN, fd)] and guest.process.kernel.uptime == SECOND

    def test_retired_instructions_count(self, guest: Guest) -> None:
        fd = timer(guest, 1000, flags=NONBLOCK)
        guest.retired = 999
        assert get(guest, fd) == -E.EAGAIN
        guest.retired = 1000
        assert get(guest, fd) == 1


class TestNothingCanCome:
    """The run ends where a program would wait for ever; a timer's signal ends it before, as on Linux."""

    @pytest.mark.parametrize("what", ["eventfd", "full", "timer", "signal", "epoll"])
    def test_waiting_for_ever(self, guest: Guest, what: str) -> None:
        number = struct.pack("<Q", (1 << 64) - 2)
        epoll = guest.call("epoll_create1", 0)
        counter = guest.call("eventfd2", 0, 0)
        watch(guest, epoll, counter)
        calls: dict[str, tuple[str, int | bytes]] = {
            "eventfd": ("read", counter, BUFFER, 8),
            "full": ("write", counter, number, 8),
            "timer": ("read", guest.call("timerfd_create", 1, 0), BUFFER, 8),
            "signal": ("read", guest.call("signalfd4", -1, ALL, 8, 0), BUFFER, 128),
            "epoll": ("epoll_pwait", epoll, BUFFER, 1, -1, 0, 8),
        }  # type: ignore[dict-item]
        if what == "full":
            guest.call("write", counter, number, 8)
        assert isinstance(guest.attempt(*calls[what]), Stopped)
        assert guest.call("setitimer", 0, struct.pack("<4q", 0, 0, 1, 0), 0) == 0
        assert guest.attempt(*calls[what]) == Killed(ALRM)
        assert guest.process.kernel.uptime == SECOND

    def test_an_interval_that_is_not_read(self, guest: Guest) -> None:
        """It expires once, so that waiting for something else ends."""
        timer(guest, 1, 1)
        assert isinstance(guest.attempt("ppoll", 0, 0, 0, 0, 8), Stopped)
        assert guest.process.kernel.uptime == 1


class TestSignals:
    def test_one_that_is_blocked_is_read(self, guest: Guest) -> None:
        guest.call("rt_sigprocmask", 2, ALL, 0, 8)
        fd, epoll = guest.call("signalfd4", -1, ALL, 8, 0), guest.call("epoll_create1", 0)
        assert watch(guest, epoll, fd) == 0
        assert guest.call("setitimer", 0, struct.pack("<4q", 0, 0, 0, 5), 0) == 0
        assert told(guest, epoll, -1) == [(IN, fd)] and guest.process.kernel.uptime == 5000
        assert guest.call("read", fd, BUFFER, 128) == 128
        assert guest.unpack("<Iii") == (ALRM, 0, 0x80)

    @pytest.mark.parametrize("call", ["ppoll", "pselect6", "epoll_pwait"])
    def test_a_mask_holds_while_it_waits(self, guest: Guest, call: str) -> None:
        """A signal that waits is not looked at if there is an event; else it ends the run."""
        guest.call("rt_sigprocmask", 2, ALL, 0, 8)
        fd, epoll = guest.call("eventfd2", 1, 0), guest.call("epoll_create1", 0)
        watch(guest, epoll, fd)
        guest.call("kill", 0, USR1)
        zero = struct.pack("<qq", 1, 0)
        place = BUFFER + 64
        guest.memory.write(place, struct.pack("<QQQ", place + 16, 8, 0))

        def wait() -> tuple[str, *tuple[int | bytes, ...]]:
            guest.memory.write(
                BUFFER, struct.pack("<Q", 1 << fd) if call == "pselect6" else struct.pack("<ihh", fd, IN, 0)
            )
            return {
                "ppoll": ("ppoll", BUFFER, 1, zero, place + 16, 8),
                "pselect6": ("pselect6", fd + 1, BUFFER, 0, 0, zero, place),
                "epoll_pwait": ("epoll_pwait", epoll, BUFFER, 1, 1000, place + 16, 8),
            }[call]

        assert guest.call(*wait()) == 1
        get(guest, fd)
        assert guest.attempt(*wait()) == Killed(USR1)

    def test_a_mask_is_put_back(self, guest: Guest) -> None:
        guest.call("rt_sigprocmask", 2, struct.pack("<Q", 1 << 20), 0, 8)
        assert guest.call("ppoll", 0, 0, struct.pack("<qq", 1, 0), bytes(8), 8) == 0
        assert guest.call("rt_sigprocmask", 0, 0, BUFFER, 8) == 0
        assert guest.unpack("<Q") == (1 << 20,)


class TestSelect:
    def test_what_the_table_has_no_room_for_is_not_looked_at(self, guest: Guest) -> None:
        guest.memory.write(BUFFER, struct.pack("<QQ", 1 << 1, 1 << 9))
        assert guest.call("pselect6", 128, 0, BUFFER, 0, 0, 0) == 1
        assert guest.unpack("<QQ") == (1 << 1, 1 << 9)
        guest.memory.write(BUFFER, struct.pack("<QQ", 1 << 40, 0))
        assert guest.call("pselect6", 64, 0, BUFFER, 0, 0, 0) == -E.EBADF
        assert guest.call("pselect6", -1, 0, BUFFER, 0, 0, 0) == -E.EINVAL

    def test_an_error_makes_both_ready(self, guest: Guest) -> None:
        guest.call("pipe2", BUFFER, 0)
        read, write = guest.unpack("<ii")
        guest.call("close", read)
        guest.memory.write(BUFFER, struct.pack("<QQ", 1 << write, 1 << write))
        assert guest.call("pselect6", 10, BUFFER, BUFFER + 8, 0, 0, 0) == 2


def test_snapshots_and_copies_are_independent(guest: Guest) -> None:
    """Counters, timers, masks, and what an instance watches and has not told yet."""
    epoll, counter = guest.call("epoll_create1", 0), guest.call("eventfd2", 0, NONBLOCK)
    outer = guest.call("epoll_create1", 0)
    clock, dup = timer(guest, 100, 100, NONBLOCK), guest.call("dup", counter)
    guest.call("rt_sigprocmask", 2, ALL, 0, 8)
    signals = guest.call("signalfd4", -1, ALL, 8, NONBLOCK)
    for fd in (counter, clock, signals):
        assert watch(guest, epoll, fd, IN | EDGE) == 0
    assert watch(guest, outer, epoll) == 0
    add(guest, counter)
    snapshot = guest.process.snapshot()
    for _ in range(2):
        assert told(guest, outer) == [(IN, epoll)] and told(guest, epoll) == [(IN, counter)]
        add(guest, dup)
        guest.retired = 150
        guest.call("kill", 0, USR1)
        assert told(guest, epoll) == [(IN, counter), (IN, clock), (IN, signals)]
        assert (get(guest, counter), get(guest, clock)) == (2, 1)
        assert watch(guest, epoll, counter, operation=DELETE) == 0
        for fd in (epoll, counter, dup, signals):
            guest.call("close", fd)
        assert told(guest, outer) == []
        guest.retired = 0
        guest.process.restore(snapshot)
        assert guest.process.due == 100


def test_closing_stops_a_timer_and_leaves_an_instance(guest: Guest) -> None:
    epoll, clock = guest.call("epoll_create1", 0), timer(guest, 100)
    watch(guest, epoll, clock)
    assert guest.process.due == 100
    copy = guest.call("dup", clock)
    guest.call("close", clock)
    assert guest.process.due == 100
    guest.call("close", copy)
    assert guest.process.due is None
    guest.retired = 200
    assert told(guest, epoll) == []


def test_memory_that_cannot_be_written_loses_no_event(guest: Guest) -> None:
    epoll, counters = guest.call("epoll_create1", 0), [guest.call("eventfd2", 1, 0) for _ in range(3)]
    for fd in counters:
        watch(guest, epoll, fd, IN | EDGE)
    end = BUFFER + (1 << 19)
    assert guest.call("epoll_pwait", epoll, end - 16, 3, 0, 0, 8) == 1
    assert guest.call("epoll_pwait", epoll, end, 3, 0, 0, 8) == -E.EFAULT
    assert told(guest, epoll) == [(IN, fd) for fd in counters[1:]]
