"""Signals that the process sends itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.delivery import block, send, take
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import DOUBLEWORD, SIGSTACK
from kvrm.linux.siginfo import KEPT, SIZE, Info, known
from kvrm.linux.signals import UNBLOCKABLE
from kvrm.linux.waiting import wait, wait_for_ever

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_SET_SIZE: Final = 8
_NO_SENDER: Final = "a signal that nothing sends"


def kill(process: Process, pid: int, signal: int) -> int:
    """Send a signal to this process or group; there is no other."""
    if pid == abi.INIT:
        raise Failure(Errno.EPERM)
    if pid not in (0, process.pid, -process.pid):
        raise Failure(Errno.ESRCH)
    return _send(process, signal, abi.SI_USER)


def tkill(process: Process, tid: int, signal: int) -> int:
    """Send a signal to this thread."""
    return tgkill(process, process.pid, tid, signal)


def tgkill(process: Process, pid: int, tid: int, signal: int) -> int:
    """Send a signal to this thread."""
    _own_thread(process, pid, tid)
    return _send(process, signal, abi.SI_TKILL, shared=False)


def rt_sigqueueinfo(process: Process, pid: int, signal: int, info: int) -> int:
    """Send a signal to this process, with a value."""
    told = _told(process, signal, info)
    if pid != process.pid:
        raise Failure(Errno.EPERM if told.code >= 0 or told.code == abi.SI_TKILL else Errno.ESRCH)
    return _send_told(process, told)


def rt_tgsigqueueinfo(process: Process, pid: int, tid: int, signal: int, info: int) -> int:
    """Send a signal to this thread, with a value."""
    told = _told(process, signal, info)
    _own_thread(process, pid, tid)
    return _send_told(process, told, shared=False)


def restart_syscall(process: Process) -> int:
    """Go on with a call that a signal interrupted: there is none."""
    raise Failure(Errno.EINTR)


def rt_sigpending(process: Process, pointer: int, size: int) -> int:
    """Signals that are blocked and wait."""
    if size > _SET_SIZE:
        raise Failure(Errno.EINVAL)
    waiting = process.pending_signals & process.task.blocked
    process.memory.write(pointer, DOUBLEWORD.pack(waiting)[:size])
    return 0


def rt_sigsuspend(process: Process, mask: int, size: int) -> int:
    """Wait for a signal: only one that is pending can come."""
    if size != _SET_SIZE:
        raise Failure(Errno.EINVAL)
    block(process, DOUBLEWORD.unpack(process.memory.read(mask, _SET_SIZE))[0])
    wait_for_ever(process, _NO_SENDER)


def rt_sigtimedwait(process: Process, mask: int, info: int, timeout: int, size: int) -> int:
    """Take a pending signal, or wait for one until the time limit."""
    if size != _SET_SIZE:
        raise Failure(Errno.EINVAL)
    among = DOUBLEWORD.unpack(process.memory.read(mask, _SET_SIZE))[0] & ~UNBLOCKABLE
    limit = process.kernel.uptime + process.timespec(timeout) if timeout else None
    taken = wait(process, lambda: take(process, among), limit, _NO_SENDER)
    if taken is None:
        raise Failure(Errno.EAGAIN)
    if info:
        process.memory.write(info, taken.packed())
    return taken.signal


def sigaltstack(process: Process, new: int, old: int) -> int:
    """Set the stack for signal handlers."""
    before = process.task.alternate_stack
    if new:
        stack = SIGSTACK.unpack(process.memory.read(new, SIGSTACK.size))
        process.task.alternate_stack = _checked_stack(process, *stack)
    if old:
        pointer, flags, size = before
        shown = flags & abi.SS_AUTODISARM
        shown |= abi.SS_ONSTACK if _is_on(before, process.task.state.sp) else 0 if size else abi.SS_DISABLE
        process.memory.write(old, SIGSTACK.pack(pointer, shown, 0, size))
    return 0


def _checked_stack(
    process: Process, pointer: int, flags: int, padding: int, size: int
) -> tuple[int, int, int]:
    if _is_on(process.task.alternate_stack, process.task.state.sp):
        raise Failure(Errno.EPERM)
    mode = flags & ~abi.SS_AUTODISARM
    if mode not in (0, abi.SS_ONSTACK, abi.SS_DISABLE):
        raise Failure(Errno.EINVAL)
    if mode == abi.SS_DISABLE:
        return 0, flags, 0
    if size < abi.MINSIGSTKSZ:
        raise Failure(Errno.ENOMEM)
    return pointer, flags, size


def _is_on(stack: tuple[int, int, int], sp: int) -> bool:
    """Whether a stack for handlers is the one in use."""
    pointer, flags, size = stack
    return not flags & abi.SS_AUTODISARM and 0 < sp - pointer <= size


def _own_thread(process: Process, pid: int, tid: int) -> None:
    if pid <= 0 or tid <= 0:
        raise Failure(Errno.EINVAL)
    if (pid, tid) != (process.pid, process.task.tid):
        raise Failure(Errno.ESRCH)


def _send(process: Process, signal: int, code: int, shared: bool = True) -> int:
    """Send a signal from this process, or nothing if its number is 0."""
    info = Info.sent(signal, code, process.pid, process.credentials.uid)
    return _send_told(process, info, shared)


def _send_told(process: Process, info: Info, shared: bool = True) -> int:
    if not 0 <= info.signal <= abi.NSIG:
        raise Failure(Errno.EINVAL)
    if info.signal:
        send(process, info, shared=shared)
    return 0


def _told(process: Process, signal: int, pointer: int) -> Info:
    """What a program tells with a signal. E2BIG if it may be more than the kernel keeps."""
    data = process.memory.read(pointer, KEPT)
    info = Info.unpack(signal, data)
    if not known(info.code) and any(process.memory.read(pointer + KEPT, SIZE - KEPT)):
        raise Failure(Errno.E2BIG)
    return info
