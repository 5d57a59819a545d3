"""What one process does to another, here to itself: memory, open files, waiting, tracing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.pidfd import pid_of
from kvrm.linux.calls.sched import require_process
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import IOVEC
from kvrm.memory import PAGE, GuestFault

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_INT_MIN: Final = -(1 << 31)

Pieces = list[tuple[int, int]]


def process_vm_readv(
    process: Process, pid: int, local: int, locals_: int, remote: int, remotes: int, flags: int
) -> int:
    """Read memory of the process."""
    to, source = _vectors(process, pid, local, locals_, remote, remotes, flags)
    return _copy(process, source, to)


def process_vm_writev(
    process: Process, pid: int, local: int, locals_: int, remote: int, remotes: int, flags: int
) -> int:
    """Write memory of the process."""
    source, to = _vectors(process, pid, local, locals_, remote, remotes, flags)
    return _copy(process, source, to)


def _vectors(
    process: Process, pid: int, local: int, locals_: int, remote: int, remotes: int, flags: int
) -> tuple[Pieces, Pieces]:
    """Local and remote buffers, none if there is nothing to copy."""
    if flags:
        raise Failure(Errno.EINVAL)
    mine = _vector(process, local, locals_)
    if not sum(size for _, size in mine):
        return [], []
    others = _vector(process, remote, remotes)
    if not sum(size for _, size in others):
        return [], []
    if pid == 0:
        raise Failure(Errno.ESRCH)
    require_process(process, pid, change=True)
    return mine, others


def _vector(process: Process, vector: int, count: int) -> Pieces:
    if count > abi.IOV_MAX:
        raise Failure(Errno.EINVAL)
    pieces = list(IOVEC.iter_unpack(process.memory.read(vector, count * IOVEC.size)))
    if any(size >> 63 for _, size in pieces):
        raise Failure(Errno.EINVAL)
    return pieces


def _copy(process: Process, source: Pieces, to: Pieces) -> int:
    """Copy between buffers, up to the first byte that cannot be read or written."""
    done, left = 0, sum(size for _, size in to)
    targets = _pages(to)
    at = room = 0
    for address, size in _pages(source):
        while size and left:
            if not room:
                at, room = next(targets)
            length = min(size, room)
            try:
                process.memory.write(at, process.memory.read(address, length))
            except GuestFault:
                if not done:
                    raise
                return done
            address, size, at, room = address + length, size - length, at + length, room - length
            done, left = done + length, left - length
    return done


def _pages(pieces: Pieces) -> Iterator[tuple[int, int]]:
    """Buffers cut at page ends, so that what can be copied of them is."""
    for address, size in pieces:
        while size:
            length = min(size, PAGE - address % PAGE)
            yield address, length
            address, size = address + length, size - length


def kcmp(process: Process, first: int, second: int, kind: int, one: int, other: int) -> int:
    """Whether two processes, or two descriptors, share something: 0 if they do."""
    for pid in (first, second):
        if pid == 0:
            raise Failure(Errno.ESRCH)
        require_process(process, pid)
    if abi.INIT in (first, second):
        raise Failure(Errno.EPERM)
    if kind == abi.KCMP_FILE:
        files = [process.file(fd) for fd in (one, other)]
        numbers = [min(fd for fd, d in process.descriptors.items() if d.file is file) for file in files]
        return (numbers[0] < numbers[1]) + 2 * (numbers[0] > numbers[1])
    if not 0 <= kind <= abi.KCMP_SYSVSEM:
        raise Failure(Errno.EINVAL)
    return 0


def ptrace(process: Process, request: int, pid: int, address: int, data: int) -> int:
    """Be traced, which process 1 then never does; no process can be traced."""
    if request == abi.PTRACE_TRACEME:
        if process.controls.traced:
            raise Failure(Errno.EPERM)
        process.controls = replace(process.controls, traced=True)
        return 0
    if pid == 0:
        raise Failure(Errno.ESRCH)
    require_process(process, pid)
    raise Failure(Errno.EPERM if request in (abi.PTRACE_ATTACH, abi.PTRACE_SEIZE) else Errno.ESRCH)


# Children


def wait4(process: Process, pid: int, status: int, options: int, usage: int) -> int:
    """Wait for a child: there is none."""
    if options & ~abi.WAIT4_OPTIONS:
        raise Failure(Errno.EINVAL)
    raise Failure(Errno.ESRCH if pid == _INT_MIN else Errno.ECHILD)


def waitid(process: Process, kind: int, number: int, info: int, options: int, usage: int) -> int:
    """Wait for a child: there is none."""
    if options & ~abi.WAITID_OPTIONS or not options & abi.WAIT_STATES:
        raise Failure(Errno.EINVAL)
    least = {abi.P_ALL: _INT_MIN, abi.P_PID: 1, abi.P_PGID: 0, abi.P_PIDFD: 0}.get(kind)
    if least is None or number < least:
        raise Failure(Errno.EINVAL)
    if kind == abi.P_PIDFD:
        pid_of(process, number)
    raise Failure(Errno.ECHILD)
