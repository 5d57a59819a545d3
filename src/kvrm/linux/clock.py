"""The guest's clocks: which there are, and what each can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import BILLION

if TYPE_CHECKING:
    from kvrm.linux.process import Process

EPOCH: Final = 1_704_067_200
"""The guest's time at its first instruction: 2024-01-01 00:00:00 UTC, in seconds since 1970."""
LATEST: Final = (1 << 63) - 1 - EPOCH * BILLION
"""The last time of the monotonic clock that a sleep ends at: that of day must fit into 63 bits."""

_THREAD: Final = 4
_WHICH: Final = 3
_DESCRIPTOR: Final = 3
_NONE: Final = Errno.EOPNOTSUPP
_CANNOT: Final = Errno.EINVAL
_MAY_NOT: Final = Errno.EPERM


class Clock(NamedTuple):
    """One clock: `offset` nanoseconds ahead of the monotonic clock or, if `cpu`, of retired instructions.

    For what it cannot do it has the error instead of None: give its time, sleep, have timers, be set.
    """

    cpu: bool = False
    offset: int = 0
    read: Errno | None = None
    sleep: Errno | None = None
    timer: Errno | None = None
    set: Errno = _CANNOT
    adjust: Errno | None = _NONE

    def now(self, process: Process) -> int:
        """Its time, in nanoseconds."""
        if self.read:
            raise Failure(self.read)
        return self.offset + (process.cpu_time if self.cpu else process.kernel.uptime)


_REAL: Final = EPOCH * BILLION
CLOCKS: Final = {
    abi.CLOCK_REALTIME: Clock(offset=_REAL, set=_MAY_NOT, adjust=None),
    abi.CLOCK_MONOTONIC: Clock(),
    abi.CLOCK_PROCESS_CPUTIME_ID: Clock(cpu=True),
    abi.CLOCK_THREAD_CPUTIME_ID: Clock(cpu=True, sleep=_NONE),
    abi.CLOCK_MONOTONIC_RAW: Clock(sleep=_NONE, timer=_NONE),
    abi.CLOCK_REALTIME_COARSE: Clock(offset=_REAL, sleep=_NONE, timer=_NONE),
    abi.CLOCK_MONOTONIC_COARSE: Clock(sleep=_NONE, timer=_NONE),
    abi.CLOCK_BOOTTIME: Clock(),
    # the two alarm clocks need a device that the machine has not
    abi.CLOCK_REALTIME_ALARM: Clock(read=_CANNOT, sleep=_NONE, timer=_NONE),
    abi.CLOCK_BOOTTIME_ALARM: Clock(read=_CANNOT, sleep=_NONE, timer=_NONE),
    abi.CLOCK_TAI: Clock(offset=_REAL),
}
"""The clocks that have a number of their own."""
_DEVICE: Final = Clock(read=_CANNOT, sleep=_NONE, timer=_NONE, adjust=_CANNOT)
_NO_PROCESS: Final = Clock(read=_CANNOT, sleep=_CANNOT, timer=_CANNOT)
_OF_PROCESS: Final = Clock(cpu=True, set=_MAY_NOT)
_OF_THREAD: Final = Clock(cpu=True, sleep=_CANNOT, set=_MAY_NOT)


def clock_of(process: Process, number: int) -> Clock:
    """The clock with this number, or EINVAL; negative ones stand for processor time or a device."""
    if number >= 0:
        clock = CLOCKS.get(number)
        if clock is None:
            raise Failure(Errno.EINVAL)
        return clock
    if number & (_THREAD | _WHICH) == _DESCRIPTOR:
        return _DEVICE
    if number & _WHICH == _WHICH or ~(number >> 3) not in (0, process.pid):
        return _NO_PROCESS
    return _OF_THREAD if number & _THREAD else _OF_PROCESS
