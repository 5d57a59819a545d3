"""Timers that fire: at one count of retired instructions on every engine, in lanes, forks and snapshots."""

from __future__ import annotations

import errno as E
import struct
from pathlib import Path

import pytest

import kvrm
from cuda_tools import alarm, script
from kvrm import Stop
from kvrm.linux import Killed, Stopped
from kvrm.machine.engines import ENGINES
from linux_tools import BUFFER, Guest

MICROSECOND, SECOND = 1000, 10**9
REAL, VIRTUAL, PROF = range(3)
ALRM, VTALRM, USR1 = 14, 26, 10
ALL = struct.pack("<Q", (1 << 64) - 1)
NOW = bytes(16)


def itimer(value_us: int, interval_us: int = 0) -> bytes:
    return struct.pack("<4q", *divmod(interval_us, 10**6), *divmod(value_us, 10**6))


def itimerspec(value: int, interval: int = 0) -> bytes:
    return struct.pack("<4q", *divmod(interval, SECOND), *divmod(value, SECOND))


def sigevent(signal: int, value: int = 0) -> bytes:
    return struct.pack("<Qii", value, signal, 0).ljust(64, b"\0")


def spinning(which: int, microseconds: int) -> bytes:
    """Input of `cuda_calls.c`: set a timer, then do nothing for long."""
    return script([*alarm(which, microseconds), ("spin", 1 << 40)])


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    """A guest with all signals blocked."""
    guest = Guest(tmp_path)
    assert guest.call("rt_sigprocmask", 2, ALL, 0, 8) == 0
    return guest


def pending(guest: Guest) -> int:
    assert guest.call("rt_sigpending", BUFFER, 8) == 0
    return guest.unpack("<Q")[0]  # type: ignore[no-any-return]


class TestComputing:
    """A loop without system calls, at whose end the timer's signal kills."""

    @pytest.mark.parametrize(("which", "signal"), [(REAL, ALRM), (VIRTUAL, VTALRM), (PROF, 27)])
    def test_the_same_count_on_all_engines(self, calls: Path, which: int, signal: int) -> None:
        ends = set()
        for engine in ENGINES:
            r = kvrm.Machine(calls, stdin=spinning(which, 30), engine=engine).run(max_instructions=10**6)
            assert (r.stop, r.signal) == (Stop.SIGNAL, signal)
            ends.add((r.retired, r.pc))
        assert len(ends) == 1
        set_at = self.retired_when_set(calls, which)
        assert ends.pop()[0] == set_at + 30 * MICROSECOND

    def retired_when_set(self, calls: Path, which: int) -> int:
        """Where the call of setitimer has retired: one instruction earlier its result is not there."""
        m = kvrm.Machine(calls, stdin=spinning(which, 30))
        while m.lane.process.due is None:
            m.run(max_instructions=1)
        return m.retired

    def test_in_pieces_and_after_a_snapshot(self, calls: Path) -> None:
        whole = kvrm.Machine(calls, stdin=spinning(REAL, 50)).run()
        m = kvrm.Machine(calls, stdin=spinning(REAL, 50))
        m.run(max_instructions=whole.retired - 10)
        snapshot = m.snapshot()
        assert m.run(max_instructions=9).stop is Stop.BUDGET
        assert m.run(max_instructions=1).signal == ALRM
        for _ in range(2):
            m.restore(snapshot)
            assert (m.run().retired, m.pc) == (10, whole.pc)

    @pytest.mark.parametrize("engine", ["tiered", "interpreter"])
    def test_lanes_and_forks(self, calls: Path, engine: str) -> None:
        inputs = [spinning(REAL, 20), spinning(VIRTUAL, 40), b"", spinning(PROF, 60)]
        alone = [kvrm.Machine(calls, stdin=text, engine=engine).run() for text in inputs]
        results = kvrm.Machine(calls, stdin=inputs, lanes=4, engine=engine).run()
        assert [(r.stop, r.signal, r.retired, r.pc) for r in alone] == [
            (r.stop, r.signal, r.retired, r.pc) for r in map(results.lane, range(4))
        ]
        m = kvrm.Machine(calls, stdin=inputs[0], engine=engine)
        m.run(max_instructions=alone[0].retired - 100)
        forked = m.fork(3).run()
        assert [forked.lane(i).retired for i in range(3)] == [100] * 3
        assert m.run().retired == 100


class TestWaiting:
    def test_a_sleep_is_ended_by_the_signal(self, guest: Guest) -> None:
        guest.call("rt_sigprocmask", 2, bytes(8), 0, 8)
        assert guest.call("setitimer", REAL, itimer(3_000_000), 0) == 0
        assert guest.call("nanosleep", struct.pack("<qq", 2, 0), 0) == 0
        assert guest.call("getitimer", REAL, BUFFER) == 0
        assert guest.unpack("<4q") == (0, 0, 1, 0)
        assert guest.attempt("nanosleep", struct.pack("<qq", 2, 0), 0) == Killed(ALRM)
        assert guest.process.kernel.uptime == 3 * SECOND

    @pytest.mark.parametrize(
        "call",
        [
            ("ppoll", 0, 0, 0, 0, 0),
            ("pselect6", 0, 0, 0, 0, 0, 0),
            ("rt_sigsuspend", bytes(8), 8),
            ("clock_nanosleep", 2, 0, struct.pack("<qq", 1, 0), 0),
        ],
    )
    def test_waits_without_end_are_too(self, guest: Guest, call: tuple[str, int | bytes]) -> None:
        assert isinstance(guest.attempt(*call), Stopped)
        guest.call("rt_sigprocmask", 2, bytes(8), 0, 8)
        assert guest.call("setitimer", REAL, itimer(3_000_000), 0) == 0
        assert guest.attempt(*call) == Killed(ALRM)

    def test_reading_an_empty_pipe_is(self, guest: Guest) -> None:
        assert guest.call("pipe2", BUFFER, 0) == 0
        end = guest.unpack("<i")[0]
        assert guest.call("setitimer", REAL, itimer(1), 0) == 0
        assert isinstance(guest.attempt("read", end, BUFFER, 1), Stopped)
        guest.call("rt_sigtimedwait", ALL, 0, NOW, 8)
        guest.call("rt_sigprocmask", 2, bytes(8), 0, 8)
        assert guest.call("setitimer", REAL, itimer(1), 0) == 0
        assert guest.attempt("read", end, BUFFER, 1) == Killed(ALRM)

    def test_a_blocked_signal_is_waited_for(self, guest: Guest) -> None:
        assert guest.call("setitimer", REAL, itimer(500, 250), 0) == 0
        for time in (500, 750, 1000):
            assert guest.call("rt_sigtimedwait", ALL, 0, 0, 8) == ALRM
            assert guest.process.kernel.uptime == time * MICROSECOND
        # what was not taken meanwhile is taken once
        assert guest.call("nanosleep", struct.pack("<qq", 1, 100), 0) == 0
        assert guest.call("rt_sigtimedwait", ALL, 0, NOW, 8) == ALRM
        assert guest.call("rt_sigtimedwait", ALL, 0, NOW, 8) == -E.EAGAIN

    def test_processor_time_does_not_pass(self, guest: Guest) -> None:
        assert guest.call("setitimer", PROF, itimer(1), 0) == 0
        assert guest.call("nanosleep", struct.pack("<qq", 5, 0), 0) == 0
        assert not pending(guest)
        guest.retired = MICROSECOND
        assert pending(guest) == 1 << 26

    def test_a_timer_after_the_end_of_time(self, guest: Guest) -> None:
        """The latest time that a wait reaches is that of the real-time clock in 63 bits."""
        late = struct.pack("<4q", 0, 0, (1 << 63) // SECOND - 1, 0)
        assert guest.call("timer_create", 1, sigevent(USR1), BUFFER) == 0
        assert guest.call("timer_settime", 0, 0, late, 0) == 0
        assert isinstance(guest.attempt("ppoll", 0, 0, 0, 0, 0), Stopped)
        assert guest.call("nanosleep", struct.pack("<qq", (1 << 63) - 1, 0), 0) == 0
        assert not pending(guest)


class TestPosixTimers:
    def test_order_of_time(self, guest: Guest) -> None:
        """Two real-time signals are queued in the order in which their timers expire, whatever the clock."""
        for clock, value in ((1, 300), (2, 200), (0, 100)):
            assert guest.call("timer_create", clock, sigevent(40, value), BUFFER) == 0
            assert guest.call("timer_settime", guest.unpack("<i")[0], 0, itimerspec(value), 0) == 0
        guest.retired = 1000
        found = []
        while guest.call("rt_sigtimedwait", ALL, BUFFER, NOW, 8) == 40:
            found.append(guest.unpack("<iiiiiiQ")[6])
        assert found == [100, 200, 300]

    def test_each_takes_the_place_of_a_pending_signal(self, guest: Guest) -> None:
        guest.call("prlimit64", 0, 11, struct.pack("<QQ", 2, 2), 0)
        assert [guest.call("timer_create", 1, 0, BUFFER) for _ in range(3)] == [0, 0, -E.EAGAIN]
        assert guest.call("timer_delete", 0) == 0
        assert guest.call("timer_create", 1, 0, BUFFER) == 0

    def test_snapshots(self, guest: Guest) -> None:
        assert guest.call("timer_create", 1, sigevent(USR1, 7), BUFFER) == 0
        assert guest.call("timer_settime", 0, 0, itimerspec(1000, 100), 0) == 0
        snapshot = guest.process.snapshot()
        for _ in range(2):
            guest.retired = 1250
            assert guest.call("rt_sigtimedwait", ALL, BUFFER, NOW, 8) == USR1
            assert guest.unpack("<iiiiiiQ")[4:] == (0, 2, 7)
            assert guest.call("timer_getoverrun", 0) == 2
            assert guest.call("timer_delete", 0) == 0
            guest.process.restore(snapshot)
        assert guest.process.due == 1000

    def test_one_that_is_ignored_costs_nothing(self, guest: Guest) -> None:
        """It fires once, and again only when its signal is no longer ignored."""
        assert guest.call("rt_sigaction", USR1, struct.pack("<4Q", 1, 0, 0, 0), 0, 8) == 0
        guest.call("rt_sigprocmask", 2, bytes(8), 0, 8)
        assert guest.call("timer_create", 1, sigevent(USR1), BUFFER) == 0
        assert guest.call("timer_settime", 0, 0, itimerspec(1000, 1), 0) == 0
        guest.retired = 1000
        guest.call("getpid")
        assert guest.process.due is None
        assert guest.call("timer_gettime", 0, BUFFER) == 0
        assert guest.unpack("<4q") == (0, 1, 0, 1)
        assert guest.attempt("rt_sigaction", USR1, bytes(32), 0, 8) == Killed(USR1)
