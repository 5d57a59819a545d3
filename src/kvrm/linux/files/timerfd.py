"""timerfd: a timer whose expiries are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.anonymous import AnonymousFile
from kvrm.linux.files.copying import FileCopies
from kvrm.linux.layout import DOUBLEWORD, timespec
from kvrm.linux.timers import Timer
from kvrm.linux.waiting import wait

if TYPE_CHECKING:
    from kvrm.linux.process import Process


class TimerFile(AnonymousFile):
    """The descriptor's file. `offset` is that of its clock from the monotonic one, in nanoseconds."""

    def __init__(self, flags: int, offset: int) -> None:
        super().__init__(abi.O_RDWR | flags, b"[timerfd]")
        self._offset, self._expired = offset, 0
        self._timer = _Expiry(self)

    def relink(self, copies: FileCopies) -> None:
        super().relink(copies)
        self._timer = copies.of(self._timer)

    def set(self, process: Process, value: int, interval: int, absolute: bool) -> None:
        """Expire after `value` nanoseconds or, if `absolute`, at this time of its clock; 0: do not."""
        self._timer.stop(process)
        self._timer.interval, self._expired = interval, 0
        if value:
            at = value - self._offset if absolute else process.kernel.uptime + value
            self._timer.set(process, at, interval)

    def remaining(self, process: Process) -> bytes:
        """`struct itimerspec`: what is left, and the interval."""
        self._catch_up(process)
        timer = self._timer
        return timespec(timer.interval) + timespec(max(0, timer.remaining(process)))

    def read(self, process: Process, size: int) -> bytes:
        if size < DOUBLEWORD.size:
            raise Failure(Errno.EINVAL)
        if not self._expired:
            self.require_wait()
            wait(process, lambda: self._expired or None, None, "it reads a timerfd that does not run")
        self._catch_up(process)
        expired, self._expired = self._expired, 0
        return DOUBLEWORD.pack(expired)

    def poll(self, process: Process) -> int:
        return abi.POLLIN if self._expired else 0

    def closed(self, process: Process) -> None:
        self._timer.stop(process)

    def fire(self) -> None:
        """The timer has expired."""
        self._expired += 1
        self.queue.wake(abi.POLLIN)

    def _catch_up(self, process: Process) -> None:
        """Count the expiries since the first that was not read, and go on."""
        if self._timer.fired and self._timer.interval:
            self._expired += self._timer.go_on(process) - 1


class _Expiry(Timer):
    """The timer of a descriptor."""

    def __init__(self, file: TimerFile) -> None:
        super().__init__(cpu=False)
        self._file = file

    def relink(self, copies: FileCopies) -> None:
        self._file = copies.of(self._file)

    def expire(self, process: Process) -> None:
        self._file.fire()
