"""Timers that send signals: setitimer, and POSIX timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.clock import clock_of
from kvrm.linux.delivery import pending_room
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import BILLION, INT, ITIMERSPEC, SIGEVENT, timespec, timeval
from kvrm.linux.timers import Alarm, PosixTimer, Timer

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_MILLION: Final = 1_000_000
_SIGNALLING: Final = (abi.SIGEV_SIGNAL, abi.SIGEV_THREAD, abi.SIGEV_THREAD_ID)


def getitimer(process: Process, which: int, pointer: int) -> int:
    """What is left of an interval timer, and its interval."""
    process.memory.write(pointer, _shown(process, _alarm(process, which)))
    return 0


def setitimer(process: Process, which: int, new: int, old: int) -> int:
    """Have a signal sent after some time, real or the processor's, and then at intervals."""
    interval, value = times_of(process, new, _MILLION) if new else (0, 0)
    alarm = _alarm(process, which)
    before = _shown(process, alarm)
    if value:
        alarm.set(process, alarm.now(process) + value, interval)
    else:
        alarm.stop(process)
        alarm.interval = interval if alarm.cpu else 0
    if old:
        process.memory.write(old, before)
    return 0


def timer_create(process: Process, clock: int, event: int, pointer: int) -> int:
    """A timer of a clock; what an expiry does is in a `struct sigevent`."""
    given = SIGEVENT.unpack(process.memory.read(event, SIGEVENT.size)) if event else None
    kind = clock_of(process, clock)
    if kind.timer:
        raise Failure(kind.timer)
    if pending_room(process) <= 0:
        raise Failure(Errno.EAGAIN)
    timers = process.timers
    number = timers.next_number
    timers.next_number += 1
    value, signal, notify, thread = given or (number, abi.SIGALRM, abi.SIGEV_SIGNAL, 0)
    to_thread = notify == abi.SIGEV_THREAD_ID
    if notify == abi.SIGEV_NONE:
        signal = None
    elif notify not in _SIGNALLING or not 1 <= signal <= abi.NSIG or (to_thread and thread != process.pid):
        raise Failure(Errno.EINVAL)
    process.memory.write(pointer, INT.pack(number))
    timers.posix[number] = PosixTimer(number, kind, signal, value, to_thread)
    return 0


def timer_settime(process: Process, number: int, flags: int, new: int, old: int) -> int:
    """Set or stop a timer."""
    if not new:
        raise Failure(Errno.EINVAL)
    interval, value = times_of(process, new, BILLION)
    timer = _timer(process, number)
    before = _remaining(process, timer)
    timer.missed, timer.stale = 0, True
    if value:
        start = -timer.clock.offset if flags & abi.TIMER_ABSTIME else timer.now(process)
        timer.set(process, start + value, interval)
    else:
        timer.stop(process)
        timer.interval = 0
    if old:
        process.memory.write(old, before)
    return 0


def timer_gettime(process: Process, number: int, pointer: int) -> int:
    """What is left of a timer, and its interval."""
    process.memory.write(pointer, _remaining(process, _timer(process, number)))
    return 0


def timer_getoverrun(process: Process, number: int) -> int:
    """Expiries between the one that sent the last signal taken and the taking."""
    return _timer(process, number).missed


def timer_delete(process: Process, number: int) -> int:
    """Remove a timer."""
    _timer(process, number).stop(process)
    del process.timers.posix[number]
    return 0


def times_of(process: Process, pointer: int, units: int) -> tuple[int, int]:
    """Interval and value of a timer at a guest address, in nanoseconds; EINVAL if they are none.

    `units` are in a second: those of struct itimerval or itimerspec.
    """
    numbers = ITIMERSPEC.unpack(process.memory.read(pointer, ITIMERSPEC.size))
    if min(numbers) < 0 or max(numbers[1], numbers[3]) >= units:
        raise Failure(Errno.EINVAL)
    interval, part, value, more = numbers
    return interval * BILLION + part * (BILLION // units), value * BILLION + more * (BILLION // units)


def _alarm(process: Process, which: int) -> Alarm:
    if not 0 <= which < len(process.timers.alarms):
        raise Failure(Errno.EINVAL)
    return process.timers.alarms[which]


def _timer(process: Process, number: int) -> PosixTimer:
    if number not in process.timers.posix:
        raise Failure(Errno.EINVAL)
    return process.timers.posix[number]


def _shown(process: Process, alarm: Alarm) -> bytes:
    return timeval(alarm.interval) + timeval(alarm.remaining(process) if alarm.armed else 0)


def _remaining(process: Process, timer: Timer) -> bytes:
    return timespec(timer.interval) + timespec(timer.remaining(process))
