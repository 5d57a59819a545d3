"""Signals that the process sends itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import DOUBLEWORD, SIGACTION, SIGSTACK
from kvrm.linux.outcome import deadlock
from kvrm.linux.signals import Action

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_SET_SIZE: Final = 8


def kill(process: Process, pid: int, signal: int) -> int:
    """Send a signal to the own process or group; there is nobody else."""
    if pid == 1:
        raise Failure(Errno.EPERM)
    if pid not in (0, process.pid, -process.pid):
        raise Failure(Errno.ESRCH)
    return _send(process, signal)


def tkill(process: Process, tid: int, signal: int) -> int:
    """Send a signal to the own thread."""
    return tgkill(process, process.pid, tid, signal)


def tgkill(process: Process, pid: int, tid: int, signal: int) -> int:
    """Send a signal to the own thread."""
    if pid <= 0 or tid <= 0:
        raise Failure(Errno.EINVAL)
    if (pid, tid) != (process.pid, process.pid):
        raise Failure(Errno.ESRCH)
    return _send(process, signal)


def rt_sigaction(process: Process, signal: int, new: int, old: int, size: int) -> int:
    """Set what a signal does. A handler is stored, but a signal that would call it stops the run."""
    if size != _SET_SIZE or not 1 <= signal <= abi.NSIG:
        raise Failure(Errno.EINVAL)
    if new and signal in (abi.SIGKILL, abi.SIGSTOP):
        raise Failure(Errno.EINVAL)
    before = process.signals.action(signal)
    if new:
        process.signals.actions[signal] = Action(*SIGACTION.unpack(process.memory.read(new, SIGACTION.size)))
    if old:
        packed = SIGACTION.pack(before.handler, before.flags, before.restorer, before.mask)
        process.memory.write(old, packed)
    return 0


def rt_sigprocmask(process: Process, how: int, new: int, old: int, size: int) -> int:
    """Block and unblock signals."""
    if size != _SET_SIZE:
        raise Failure(Errno.EINVAL)
    before = process.signals.blocked
    if new:
        mask = DOUBLEWORD.unpack(process.memory.read(new, _SET_SIZE))[0]
        match how:
            case abi.SIG_BLOCK:
                mask |= before
            case abi.SIG_UNBLOCK:
                mask = before & ~mask
            case abi.SIG_SETMASK:
                pass
            case _:
                raise Failure(Errno.EINVAL)
        process.signals.block(mask)
    if old:
        process.memory.write(old, DOUBLEWORD.pack(before))
    return 0


def rt_sigpending(process: Process, pointer: int, size: int) -> int:
    """Signals that are blocked and wait."""
    if size > _SET_SIZE:
        raise Failure(Errno.EINVAL)
    process.memory.write(pointer, DOUBLEWORD.pack(process.signals.pending)[:size])
    return 0


def rt_sigsuspend(process: Process, mask: int, size: int) -> int:
    """Wait for a signal: only one that is pending can come."""
    if size != _SET_SIZE:
        raise Failure(Errno.EINVAL)
    process.signals.block(DOUBLEWORD.unpack(process.memory.read(mask, _SET_SIZE))[0])
    deadlock("a signal that nobody sends")


def rt_sigtimedwait(process: Process, mask: int, info: int, timeout: int, size: int) -> int:
    """Take a pending signal, or wait for one until the time limit."""
    if size != _SET_SIZE:
        raise Failure(Errno.EINVAL)
    ready: int = DOUBLEWORD.unpack(process.memory.read(mask, _SET_SIZE))[0] & process.signals.pending
    if ready:
        signal = (ready & -ready).bit_length()
        if info:
            process.memory.write(info, signal.to_bytes(4, "little") + bytes(124))
        process.signals.pending &= ~(1 << signal - 1)
        return signal
    if not timeout:
        deadlock("a signal that nobody sends")
    process.sleep(process.timespec(timeout))
    raise Failure(Errno.EAGAIN)


def sigaltstack(process: Process, new: int, old: int) -> int:
    """Set the stack for signal handlers."""
    before = process.signals.stack
    if new:
        pointer, flags, _, size = SIGSTACK.unpack(process.memory.read(new, SIGSTACK.size))
        if flags & ~(abi.SS_DISABLE | abi.SS_ONSTACK):
            raise Failure(Errno.EINVAL)
        if flags & abi.SS_DISABLE:
            pointer = size = 0
        elif size < abi.MINSIGSTKSZ:
            raise Failure(Errno.ENOMEM)
        process.signals.stack = (pointer, flags, size)
    if old:
        pointer, flags, size = before
        process.memory.write(old, SIGSTACK.pack(pointer, flags, 0, size))
    return 0


def _send(process: Process, signal: int) -> int:
    if not 0 <= signal <= abi.NSIG:
        raise Failure(Errno.EINVAL)
    if signal:
        process.signals.send(signal)
    return 0
