"""Descriptors of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvrm.linux import abi
from kvrm.linux.calls.sched import require_process
from kvrm.linux.calls.signals import kill, rt_sigqueueinfo
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.anonymous import AnonymousFile
from kvrm.linux.files.mounts import PROCESSES
from kvrm.linux.layout import INT, Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process


class PidFile(AnonymousFile):
    """A process by descriptor. It is never ready: that would be the process's end."""

    can_be_read = False
    positioned = True
    """pread is told apart from read, as on pidfs."""

    def __init__(self, pid: int, flags: int) -> None:
        super().__init__(abi.O_RDWR | flags, b"[pidfd]")
        self.pid = pid

    def poll(self, process: Process) -> int:
        """No event ever."""
        return 0

    def stat(self) -> Stat:
        """A file of a file system of its own."""
        return super().stat()._replace(dev=PROCESSES.device)

    def truncate(self, process: Process, size: int) -> None:
        """EOPNOTSUPP."""
        raise Failure(Errno.EOPNOTSUPP)

    def allocate(self, process: Process, mode: int, offset: int, size: int) -> None:
        """EOPNOTSUPP."""
        raise Failure(Errno.EOPNOTSUPP)

    def tell(self) -> int:
        """0: it has no offset that could be set."""
        return 0

    def seek(self, offset: int, whence: int) -> int:
        """ESPIPE."""
        raise Failure(Errno.ESPIPE)


def pidfd_open(process: Process, pid: int, flags: int) -> int:
    """A descriptor of a process."""
    if flags & ~abi.O_NONBLOCK or pid <= 0:
        raise Failure(Errno.EINVAL)
    require_process(process, pid)
    return process.open(PidFile(pid, flags), cloexec=True)


def pidfd_send_signal(process: Process, pidfd: int, signal: int, info: int, flags: int) -> int:
    """Send a signal to a process."""
    if flags:
        raise Failure(Errno.EINVAL)
    pid = pid_of(process, pidfd)
    if not info:
        return kill(process, pid, signal)
    if INT.unpack(process.memory.read(info, INT.size))[0] != signal:
        raise Failure(Errno.EINVAL)
    return rt_sigqueueinfo(process, pid, signal, info)


def pidfd_getfd(process: Process, pidfd: int, fd: int, flags: int) -> int:
    """A descriptor of an open file of a process, which is this one."""
    if flags:
        raise Failure(Errno.EINVAL)
    require_process(process, pid_of(process, pidfd), change=True)
    return process.open(process.file(fd), cloexec=True)


def pid_of(process: Process, pidfd: int) -> int:
    """The process that a descriptor is of, or EBADF."""
    file = process.file(pidfd)
    if not isinstance(file, PidFile):
        raise Failure(Errno.EBADF)
    return file.pid
