"""Clocks and sleeping, all in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.clock import clock_of
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import BILLION, DOUBLEWORD, TIMESPEC, TIMEX, timex
from kvrm.linux.waiting import wait_until

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_UNSYNCHRONIZED: Final = 5
_ADJTIME: Final = 0x8000
_SINGLE_SHOT, _READ_ONLY = 1, 0x2000
_MILLION: Final = 1_000_000


def clock_settime(process: Process, clock: int, pointer: int) -> int:
    """Set a clock: the guest may not."""
    error = clock_of(process, clock).set
    if error is Errno.EPERM or clock < 0:
        given = process.memory.read(pointer, TIMESPEC.size)
        if clock == abi.CLOCK_REALTIME:
            _require_time(given, BILLION)
    raise Failure(error)


def settimeofday(process: Process, pointer: int, zone: int) -> int:
    """Set the time of day: the guest may not."""
    if pointer:
        _require_time(process.memory.read(pointer, TIMESPEC.size), _MILLION)
    if zone:
        process.memory.read(zone, 8)
    if pointer or zone:
        raise Failure(Errno.EPERM)
    return 0


def adjtimex(process: Process, pointer: int) -> int:
    """How the clock of real time is adjusted: not at all. The guest may not change that."""
    return clock_adjtime(process, abi.CLOCK_REALTIME, pointer)


def clock_adjtime(process: Process, clock: int, pointer: int) -> int:
    """How a clock is adjusted: not at all. The guest may not change that."""
    modes = int.from_bytes(process.memory.read(pointer, TIMEX.size)[:4], "little")
    if error := clock_of(process, clock).adjust:
        raise Failure(error)
    if modes & _ADJTIME and not modes & _SINGLE_SHOT:
        raise Failure(Errno.EINVAL)
    if modes and not (modes & _ADJTIME and modes & _READ_ONLY):
        raise Failure(Errno.EPERM)
    process.memory.write(pointer, timex(modes, process.kernel.realtime))
    return _UNSYNCHRONIZED


def clock_nanosleep(process: Process, clock: int, flags: int, wanted: int, remaining: int) -> int:
    """Let time pass, or until a time of a clock."""
    kind = clock_of(process, clock)
    if kind.sleep:
        raise Failure(kind.sleep)
    time = process.timespec(wanted)
    duration = time - kind.now(process) if flags & abi.TIMER_ABSTIME else time
    if kind.cpu and duration > 0:
        wait_until(process, None, "processor time, which does not pass while it sleeps")
    wait_until(process, process.kernel.uptime + duration, "a sleep")
    return 0


def times(process: Process, buffer: int) -> int:
    """Processor time, and ticks since the start."""
    ticks = process.cpu_time * abi.CLOCK_TICKS // BILLION
    if buffer:
        process.memory.write(buffer, DOUBLEWORD.pack(ticks) + bytes(24))
    return process.kernel.uptime * abi.CLOCK_TICKS // BILLION


def _require_time(given: bytes, parts: int) -> None:
    """EINVAL unless it is a time, with that many parts in a second."""
    seconds, part = TIMESPEC.unpack(given)
    if seconds < 0 or not 0 <= part < parts:
        raise Failure(Errno.EINVAL)
