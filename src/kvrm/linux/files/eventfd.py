"""eventfd: a counter that writes add to and reads take from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.anonymous import AnonymousFile
from kvrm.linux.layout import DOUBLEWORD, U64
from kvrm.linux.waiting import wait_for_ever

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_MOST: Final = U64 - 1


class EventCounter(AnonymousFile):
    """The counter. A read takes all of it, or one if it is a `semaphore`."""

    can_be_written = True
    by_piece = True

    def __init__(self, flags: int, count: int, semaphore: bool) -> None:
        super().__init__(abi.O_RDWR | flags, b"[eventfd]")
        self._count, self._semaphore = count, semaphore

    def read(self, process: Process, size: int) -> bytes:
        if size < DOUBLEWORD.size:
            raise Failure(Errno.EINVAL)
        if not self._count:
            self.require_wait()
            wait_for_ever(process, "it reads an eventfd that nothing else adds to")
        taken = 1 if self._semaphore else self._count
        self._count -= taken
        self.queue.wake(abi.POLLOUT)
        return DOUBLEWORD.pack(taken)

    def require_write(self, size: int) -> None:
        if size != DOUBLEWORD.size:
            raise Failure(Errno.EINVAL)

    def write(self, process: Process, data: bytes) -> int:
        more = DOUBLEWORD.unpack(data)[0]
        if more > _MOST:
            raise Failure(Errno.EINVAL)
        if self._count + more > _MOST:
            self.require_wait()
            wait_for_ever(process, "it adds more to an eventfd than fits, and nothing else reads it")
        self._count += more
        self.queue.wake(abi.POLLIN)
        return len(data)

    def poll(self, process: Process) -> int:
        return (abi.POLLIN if self._count else 0) | (abi.POLLOUT if self._count < _MOST else 0)
