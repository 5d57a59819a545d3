"""Timers of a process: when the next one expires, and what then happens.

Time is virtual, so a timer expires at an exact count of retired instructions (`Timers.due`), where the
engine's caller stops and has `Timers.expire` called. A timer fires once and then stays as it is until its
signal is taken or its descriptor read: only then are the expiries in between counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.clock import LATEST, Clock
from kvrm.linux.delivery import act, keep, send
from kvrm.linux.layout import BILLION
from kvrm.linux.siginfo import Info

if TYPE_CHECKING:
    from kvrm.linux.files.copying import FileCopies
    from kvrm.linux.process import Process

_LAST: Final = (1 << 63) - 1
"""The last time that a timer can be set to; one after `clock.LATEST` never comes."""


class Timer:
    """One timer. `at` is its next expiry while it is `armed`, the last one once it has `fired`.

    Times are nanoseconds of the monotonic clock, or retired instructions if the timer measures processor
    time (`cpu`). `interval` is 0 for a timer that expires once.
    """

    def __init__(self, cpu: bool) -> None:
        self.cpu = cpu
        self.at = self.interval = 0
        self.armed = self.fired = False

    def relink(self, copies: FileCopies) -> None:
        """Nothing of it is shared with a copy."""

    def now(self, process: Process) -> int:
        """What its clock says."""
        return process.cpu_time if self.cpu else process.kernel.uptime

    def due(self, process: Process) -> int:
        """The count of retired instructions at which it expires, if no time is skipped."""
        return self.at if self.cpu else self.at - process.kernel.skipped

    def remaining(self, process: Process) -> int:
        """Nanoseconds to the next expiry, 0 or less if that is past; 0 if there is none."""
        now = self.now(process)
        if self.fired and self.interval:
            return self.interval - (now - self.at) % self.interval
        return self.at - now if self.armed else 0

    def set(self, process: Process, at: int, interval: int) -> None:
        """Expire at `at`, then each `interval` nanoseconds."""
        self.fired, self.at, self.interval = False, min(at, _LAST), interval
        process.timers.arm(self)

    def stop(self, process: Process) -> None:
        """Do not expire any more."""
        self.fired = False
        process.timers.disarm(self)

    def go_on(self, process: Process) -> int:
        """After it has fired, expire next in the future; how many expiries were due by now."""
        count = (self.now(process) - self.at) // self.interval + 1
        self.fired, self.at = False, min(self.at + count * self.interval, _LAST)
        process.timers.arm(self)
        return count

    def expire(self, process: Process) -> None:
        """What happens at an expiry; the timer has `fired`. May end the run by Finish."""


class Alarm(Timer):
    """The timer of setitimer that measures real time, and ITIMER_VIRTUAL and ITIMER_PROF."""

    def __init__(self, signal: int, cpu: bool) -> None:
        super().__init__(cpu)
        self.signal = signal

    def expire(self, process: Process) -> None:
        if self.cpu:
            # unlike the one of real time, it does not wait until its signal is taken
            if self.interval:
                self.go_on(process)
            self.fired = False
        send(process, Info(self.signal, abi.SI_KERNEL))


class PosixTimer(Timer):
    """A timer of timer_create.

    `signal` is None for SIGEV_NONE; `to_thread` sends it to the thread. `missed` is what timer_getoverrun
    says. `stale`: a signal that waits is of an expiry before the timer was set anew.
    """

    def __init__(self, number: int, clock: Clock, signal: int | None, value: int, to_thread: bool) -> None:
        super().__init__(clock.cpu)
        self.number, self.clock = number, clock
        self.signal, self.value, self.to_thread = signal, value, to_thread
        self.missed, self.stale = 0, False

    def expire(self, process: Process) -> None:
        if self.signal is None:
            return
        self.stale = False
        if not process.task.blocked >> self.signal - 1 & 1:
            # one that is ignored is sent again when it no longer is, if the timer is periodic
            act(process, self._info(0))
        elif not self.waits(process):
            keep(process, self._info(0), not self.to_thread, True)

    def waits(self, process: Process) -> bool:
        """Whether its signal is pending."""
        waiting = (*process.task.pending.queue, *process.signals.shared.queue)
        return any(info.timer == self.number for info in waiting)

    def taken(self, process: Process) -> Info | None:
        """Its signal is taken: what that tells; None if it is of an expiry that no longer counts."""
        if self.stale:
            return None
        if self.fired and self.interval:
            self.missed = min(self.go_on(process) - 1, abi.INT_MAX)
            return self._info(self.missed)
        return self._info(0)

    def _info(self, overrun: int) -> Info:
        assert self.signal is not None
        return Info.sent(self.signal, abi.SI_TIMER, self.number, overrun, self.value, timer=self.number)


class CpuLimit(Timer):
    """RLIMIT_CPU: SIGXCPU at the soft limit and each second from then on, SIGKILL at the hard one."""

    def __init__(self) -> None:
        super().__init__(cpu=True)

    def follow(self, process: Process) -> None:
        """The limit is another one now."""
        soft = process.limit(abi.RLIMIT_CPU)[0]
        if soft == abi.RLIM_INFINITY:
            self.stop(process)
        else:
            self.set(process, max(soft * BILLION, process.cpu_time), 0)

    def expire(self, process: Process) -> None:
        soft, hard = process.limit(abi.RLIMIT_CPU)
        ends = process.cpu_time >= hard * BILLION
        process.limits[abi.RLIMIT_CPU] = (soft + 1, hard)
        self.set(process, (soft + 1) * BILLION, 0)
        send(process, Info(abi.SIGKILL if ends else abi.SIGXCPU, abi.SI_KERNEL))


class Timers:
    """All timers of a process: of setitimer, timer_create and descriptors, and the limit of its time."""

    def __init__(self) -> None:
        self.alarms = [Alarm(abi.SIGALRM, False), Alarm(abi.SIGVTALRM, True), Alarm(abi.SIGPROF, True)]
        """By ITIMER_REAL, ITIMER_VIRTUAL and ITIMER_PROF."""
        self.limit = CpuLimit()
        self.posix: dict[int, PosixTimer] = {}
        self.next_number = 0
        self._armed: list[Timer] = []

    def relink(self, copies: FileCopies) -> None:
        self.alarms = [copies.of(timer) for timer in self.alarms]
        self.limit = copies.of(self.limit)
        self.posix = {number: copies.of(timer) for number, timer in self.posix.items()}
        self._armed = [copies.of(timer) for timer in self._armed]

    def arm(self, timer: Timer) -> None:
        """Have a timer expire at its time."""
        if not timer.armed:
            timer.armed = True
            self._armed.append(timer)

    def disarm(self, timer: Timer) -> None:
        """Have a timer not expire."""
        if timer.armed:
            timer.armed = False
            self._armed.remove(timer)

    def due(self, process: Process) -> int | None:
        """The count of retired instructions at which the next timer expires; None if no timer is armed."""
        return min(timer.due(process) for timer in self._armed) if self._armed else None

    def next_time(self) -> int | None:
        """When the next timer expires if time passes without instructions, on the monotonic clock."""
        return min((timer.at for timer in self._armed if not timer.cpu and timer.at <= LATEST), default=None)

    def expire(self, process: Process) -> None:
        """Let all expire that are due, in order of time. May end the run by Finish."""
        while self._armed:
            first = min(self._armed, key=lambda timer: timer.due(process))
            if first.due(process) > process.kernel.retired:
                return
            self.disarm(first)
            first.fired = True
            first.expire(process)

    def taken(self, process: Process, info: Info) -> Info | None:
        """A pending signal is taken: what it tells by now, or None if it no longer counts."""
        if info.timer is None:
            return info
        timer = self.posix.get(info.timer)
        return None if timer is None else timer.taken(process)

    def alarm_taken(self, process: Process) -> None:
        """A SIGALRM of the process was taken: the timer of real time goes on if it has an interval."""
        alarm = self.alarms[abi.ITIMER_REAL]
        if alarm.fired and alarm.interval:
            alarm.go_on(process)

    def heard(self, process: Process, signal: int) -> None:
        """A signal is no longer ignored: periodic timers that sent it meanwhile send it now."""
        for timer in list(self.posix.values()):
            if timer.signal == signal and timer.fired and timer.interval and not timer.waits(process):
                timer.expire(process)
