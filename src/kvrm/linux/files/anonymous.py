"""Open files that no name leads to and that all share one inode: eventfd, epoll, timerfd and their like."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.copying import FileCopies
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    pass

_STATUS: Final = Stat(os.makedev(0, 13), 1, 0o600)


class AnonymousFile(OpenFile):
    """Such a file; `kind` is what /proc/self/fd shows after "anon_inode:"."""

    def __init__(self, flags: int, kind: bytes) -> None:
        super().__init__(flags, b"anon_inode:" + kind)
        self._queue = WaitQueue()

    def relink(self, copies: FileCopies) -> None:
        super().relink(copies)
        self._queue = copies.of(self._queue)

    @property
    def queue(self) -> WaitQueue:
        return self._queue

    @property
    def waits(self) -> bool:
        return True

    def target(self) -> Node:
        raise Failure(Errno.EOPNOTSUPP)

    def stat(self) -> Stat:
        return _STATUS

    def seek(self, offset: int, whence: int) -> int:
        if whence > abi.SEEK_HOLE:
            raise Failure(Errno.EINVAL)
        return 0

    def require_wait(self) -> None:
        """EAGAIN if the file is not to wait."""
        if self.flags & abi.O_NONBLOCK:
            raise Failure(Errno.EAGAIN)
