"""Clocks and sleeping, all in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import BILLION, DOUBLEWORD, TIMESPEC, timespec, timeval

if TYPE_CHECKING:
    from kvrm.linux.process import Process

REAL: Final = frozenset(
    {abi.CLOCK_REALTIME, abi.CLOCK_REALTIME_COARSE, abi.CLOCK_REALTIME_ALARM, abi.CLOCK_TAI}
)
MONOTONIC: Final = frozenset(
    {
        abi.CLOCK_MONOTONIC,
        abi.CLOCK_MONOTONIC_RAW,
        abi.CLOCK_MONOTONIC_COARSE,
        abi.CLOCK_BOOTTIME,
        abi.CLOCK_BOOTTIME_ALARM,
    }
)
CPU: Final = frozenset({abi.CLOCK_PROCESS_CPUTIME_ID, abi.CLOCK_THREAD_CPUTIME_ID})


def clock_gettime(process: Process, clock: int, pointer: int) -> int:
    """Read a clock."""
    process.memory.write(pointer, timespec(_now(process, clock)))
    return 0


def clock_getres(process: Process, clock: int, pointer: int) -> int:
    """Resolution of a clock: a nanosecond."""
    _now(process, clock)
    if pointer:
        process.memory.write(pointer, timespec(1))
    return 0


def gettimeofday(process: Process, pointer: int, zone: int) -> int:
    """Real time in microseconds; the time zone is UTC."""
    if pointer:
        process.memory.write(pointer, timeval(process.realtime))
    if zone:
        process.memory.write(zone, bytes(8))
    return 0


def nanosleep(process: Process, wanted: int, remaining: int) -> int:
    """Let time pass."""
    process.sleep(process.timespec(wanted))
    return 0


def clock_nanosleep(process: Process, clock: int, flags: int, wanted: int, remaining: int) -> int:
    """Let time pass, or until a time of a clock."""
    now = _now(process, clock)
    if clock == abi.CLOCK_THREAD_CPUTIME_ID:
        raise Failure(Errno.EINVAL)
    duration = process.timespec(wanted)
    process.sleep(duration - now if flags & abi.TIMER_ABSTIME else duration)
    return 0


def times(process: Process, buffer: int) -> int:
    """Processor time, and ticks since the start."""
    ticks = process.retired * abi.CLOCK_TICKS // BILLION
    if buffer:
        process.memory.write(buffer, DOUBLEWORD.pack(ticks) + bytes(24))
    return process.uptime * abi.CLOCK_TICKS // BILLION


def getitimer(process: Process, which: int, pointer: int) -> int:
    """Interval timers: none is set."""
    if which not in (0, 1, 2):
        raise Failure(Errno.EINVAL)
    process.memory.write(pointer, bytes(2 * TIMESPEC.size))
    return 0


def setitimer(process: Process, which: int, new: int, old: int) -> int:
    """Interval timers: they can be cleared, but need signal handlers to be set."""
    if which not in (0, 1, 2):
        raise Failure(Errno.EINVAL)
    if new and any(process.memory.read(new + TIMESPEC.size, TIMESPEC.size)):
        raise Failure(Errno.ENOSYS)
    if old:
        process.memory.write(old, bytes(2 * TIMESPEC.size))
    return 0


def _now(process: Process, clock: int) -> int:
    if clock in REAL:
        return process.realtime
    if clock in MONOTONIC:
        return process.uptime
    if clock in CPU:
        return process.retired
    raise Failure(Errno.EINVAL)
