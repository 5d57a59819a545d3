"""signalfd: pending signals that are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvrm.linux import abi
from kvrm.linux.delivery import take
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.anonymous import AnonymousFile
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.siginfo import SIZE
from kvrm.linux.waiting import wait

if TYPE_CHECKING:
    from kvrm.linux.process import Process


class SignalFile(AnonymousFile):
    """Reads take the pending signals of `mask`; `queue` is where all signals of the process are told of."""

    def __init__(self, flags: int, mask: int, queue: WaitQueue) -> None:
        super().__init__(abi.O_RDWR | flags, b"[signalfd]")
        self.mask = mask
        self.queue = queue

    def read(self, process: Process, size: int) -> bytes:
        if size < SIZE:
            raise Failure(Errno.EINVAL)
        found, info = b"", take(process, self.mask)
        if info is None:
            self.require_wait()
            info = wait(
                process, lambda: take(process, self.mask), None, "it reads signals that nothing sends"
            )
        while info is not None:
            found += info.for_descriptor()
            info = take(process, self.mask) if len(found) + SIZE <= size else None
        return found

    def poll(self, process: Process) -> int:
        return abi.POLLIN if process.pending_signals & self.mask else 0
