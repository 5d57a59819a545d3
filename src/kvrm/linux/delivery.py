"""Sending signals, and what they do to the process when they are not blocked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.outcome import Finish, Killed, Stopped
from kvrm.linux.siginfo import Info
from kvrm.linux.signals import STOPPING, UNBLOCKABLE, Action

if TYPE_CHECKING:
    from kvrm.linux.process import Process


def send(process: Process, info: Info, *, shared: bool = True) -> None:
    """Send a signal to the process, or to its thread: it acts, or waits while it is blocked.

    Ends the run by Finish if the signal does. EAGAIN where it cannot be queued.
    """
    bit = 1 << info.signal - 1
    if bit & STOPPING:
        drop(process, 1 << abi.SIGCONT - 1)
    elif info.signal == abi.SIGCONT:
        drop(process, STOPPING)
    if not process.task.blocked & bit:
        act(process, info)
        return
    if not keep(process, info, shared, pending_room(process) > 0):
        raise Failure(Errno.EAGAIN)


def keep(process: Process, info: Info, shared: bool, room: bool) -> bool:
    """Have a signal wait, as `Pending.add`, and tell signal descriptors."""
    pending = process.signals.shared if shared else process.task.pending
    before = pending.mask, len(pending.queue)
    kept = pending.add(info, room)
    if before != (pending.mask, len(pending.queue)):
        process.signals.queue.wake()
    return kept


def drop(process: Process, signals: int) -> None:
    """Forget pending signals of a mask."""
    process.task.pending.drop(signals)
    process.signals.shared.drop(signals)


def set_action(process: Process, signal: int, action: Action) -> None:
    """What is to happen from now on; a signal that is to be ignored no longer waits, blocked or not."""
    process.signals.actions[signal] = action
    if process.signals.ignored(signal):
        drop(process, 1 << signal - 1)
    else:
        process.timers.heard(process, signal)


def queued(process: Process) -> int:
    """How many count against RLIMIT_SIGPENDING; those of timers were counted when these were made."""
    waiting = (*process.task.pending.queue, *process.signals.shared.queue)
    return sum(info.timer is None for info in waiting)


def pending_room(process: Process) -> int:
    """How many more signals may wait (RLIMIT_SIGPENDING); each POSIX timer takes one of that number."""
    used = queued(process) + len(process.timers.posix)
    return process.limit(abi.RLIMIT_SIGPENDING)[0] - used


def send_own(process: Process, signal: int) -> None:
    """Send a signal to the thread for what it just did, such as writing to a pipe without a reader."""
    send(process, Info.sent(signal, abi.SI_USER, process.pid, process.credentials.uid), shared=False)


def take(process: Process, among: int) -> Info | None:
    """Remove the first pending signal of a mask, those of the thread before those of the process."""
    own, shared, timers = process.task.pending, process.signals.shared, process.timers
    while True:
        info = own.take(among)
        if info is None and (info := shared.take(among)) is not None and info.signal == abi.SIGALRM:
            timers.alarm_taken(process)
        if info is None or (told := timers.taken(process, info)) is not None:
            return info and told


def block(process: Process, mask: int) -> None:
    """Set which signals are blocked; pending ones that no longer are act."""
    process.task.blocked = mask & ~UNBLOCKABLE
    while (info := take(process, ~process.task.blocked)) is not None:
        act(process, info)


def act(process: Process, info: Info) -> None:
    """What a signal does that is not blocked. Ends the run by Finish, unless that is nothing."""
    signal, handler = info.signal, process.signals.action(info.signal).handler
    if process.signals.ignored(signal):
        return
    name = abi.signal_name(signal)
    if handler != abi.SIG_DFL:
        raise Finish(Stopped(f"signal handlers are not supported yet: {name} is to call {handler:#x}"))
    if STOPPING >> signal - 1 & 1:
        raise Finish(Stopped(f"the program stopped itself with {name}"))
    raise Finish(Killed(signal))
