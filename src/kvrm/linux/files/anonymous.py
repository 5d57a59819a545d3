"""Open files that no name leads to and that all share one inode: eventfd, epoll, timerfd and their like."""

from __future__ import annotations

from typing import Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.mounts import ANONYMOUS
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.layout import Stat

_STATUS: Final = Stat(ANONYMOUS.device, 1, 0o600)


class AnonymousFile(OpenFile):
    """Such a file; `kind` is what /proc/self/fd shows after "anon_inode:"."""

    queue: WaitQueue
    can_be_written = False
    gives_pages = False
    takes_pages = False
    waits = True

    def __init__(self, flags: int, kind: bytes) -> None:
        super().__init__(flags, b"anon_inode:" + kind)
        self.queue = WaitQueue()

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
