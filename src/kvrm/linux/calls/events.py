"""Descriptors of events: eventfd, timerfd, signalfd, epoll."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.polling import NO_EVENT, blocking, signal_mask
from kvrm.linux.calls.timers import times_of
from kvrm.linux.clock import CLOCKS
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.epoll import Epoll
from kvrm.linux.files.eventfd import EventCounter
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.signalfd import SignalFile
from kvrm.linux.files.timerfd import TimerFile
from kvrm.linux.layout import BILLION, DOUBLEWORD, EPOLL_EVENT
from kvrm.linux.signals import UNBLOCKABLE
from kvrm.linux.waiting import wait
from kvrm.memory import VA_END, untagged

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_SEMAPHORE: Final = 1
_CANCEL_ON_SET: Final = 2
_SET_SIZE: Final = 8
_TIMER_CLOCKS: Final = (abi.CLOCK_REALTIME, abi.CLOCK_MONOTONIC, abi.CLOCK_BOOTTIME)
_ALARM_CLOCKS: Final = {
    abi.CLOCK_REALTIME_ALARM: abi.CLOCK_REALTIME,
    abi.CLOCK_BOOTTIME_ALARM: abi.CLOCK_BOOTTIME,
}
_MOST_EVENTS: Final = abi.INT_MAX // EPOLL_EVENT.size
_EXCLUSIVE: Final = (
    abi.POLLIN | abi.POLLOUT | abi.POLLERR | abi.POLLHUP | abi.EPOLLWAKEUP | abi.EPOLLET | abi.EPOLLEXCLUSIVE
)
"""What may go with EPOLLEXCLUSIVE."""


def eventfd2(process: Process, count: int, flags: int) -> int:
    """A counter that writes add to and reads take from."""
    _require_flags(flags, _SEMAPHORE)
    return _open(process, EventCounter(flags & abi.O_NONBLOCK, count, bool(flags & _SEMAPHORE)), flags)


def timerfd_create(process: Process, clock: int, flags: int) -> int:
    """A timer whose expiries are read."""
    _require_flags(flags)
    if clock in _ALARM_CLOCKS:
        if process.credentials.uid:
            raise Failure(Errno.EPERM)
        clock = _ALARM_CLOCKS[clock]
    if clock not in _TIMER_CLOCKS:
        raise Failure(Errno.EINVAL)
    return _open(process, TimerFile(flags & abi.O_NONBLOCK, CLOCKS[clock].offset), flags)


def timerfd_settime(process: Process, fd: int, flags: int, new: int, old: int) -> int:
    """Set or stop the timer of a descriptor."""
    interval, value = times_of(process, new, BILLION)
    if flags & ~(abi.TIMER_ABSTIME | _CANCEL_ON_SET):
        raise Failure(Errno.EINVAL)
    file = _timer(process, fd)
    before = file.remaining(process)
    file.set(process, value, interval, bool(flags & abi.TIMER_ABSTIME))
    if old:
        process.memory.write(old, before)
    return 0


def timerfd_gettime(process: Process, fd: int, pointer: int) -> int:
    """What is left of the timer of a descriptor, and its interval."""
    process.memory.write(pointer, _timer(process, fd).remaining(process))
    return 0


def signalfd4(process: Process, fd: int, mask: int, size: int, flags: int) -> int:
    """Read pending signals from a descriptor, or change which ones."""
    if size != _SET_SIZE:
        raise Failure(Errno.EINVAL)
    signals = DOUBLEWORD.unpack(process.memory.read(mask, _SET_SIZE))[0] & ~UNBLOCKABLE
    _require_flags(flags)
    queue = process.signals.queue
    if fd == -1:
        return _open(process, SignalFile(flags & abi.O_NONBLOCK, signals, queue), flags)
    file = process.file(fd)
    if not isinstance(file, SignalFile):
        raise Failure(Errno.EINVAL)
    file.mask = signals
    queue.wake()
    return fd


def epoll_create1(process: Process, flags: int) -> int:
    """A set of files to wait for."""
    if flags & ~abi.O_CLOEXEC:
        raise Failure(Errno.EINVAL)
    return _open(process, Epoll(), flags)


def epoll_ctl(process: Process, fd: int, operation: int, target: int, event: int) -> int:
    """Add a file to such a set, change what to wait for, or remove it."""
    events = data = 0
    if operation != abi.EPOLL_CTL_DEL:
        events, data = EPOLL_EVENT.unpack(process.memory.read(event, EPOLL_EVENT.size))
    epoll, file = process.file(fd), process.file(target)
    if file.queue is None:
        raise Failure(Errno.EPERM)
    if epoll is file or not isinstance(epoll, Epoll):
        raise Failure(Errno.EINVAL)
    if events & abi.EPOLLEXCLUSIVE:
        possible = operation == abi.EPOLL_CTL_ADD and not isinstance(file, Epoll)
        if not possible or events & ~_EXCLUSIVE:
            raise Failure(Errno.EINVAL)
    item = epoll.find(target, file)
    if operation == abi.EPOLL_CTL_ADD:
        if item is not None:
            raise Failure(Errno.EEXIST)
        epoll.add(target, file).watch(process, events, data)
    elif operation not in (abi.EPOLL_CTL_MOD, abi.EPOLL_CTL_DEL):
        raise Failure(Errno.EINVAL)
    elif item is None:
        raise Failure(Errno.ENOENT)
    elif operation == abi.EPOLL_CTL_DEL:
        item.leave()
    elif item.events & abi.EPOLLEXCLUSIVE:
        raise Failure(Errno.EINVAL)
    else:
        item.watch(process, events, data)
    return 0


def epoll_pwait(process: Process, fd: int, events: int, most: int, timeout: int, mask: int, size: int) -> int:
    """Wait for one of the files of a set; an idle wait skips its time."""
    limit = None if timeout < 0 else timeout * (BILLION // 1000)
    return _epoll_wait(process, fd, events, most, limit, mask, size)


def epoll_pwait2(
    process: Process, fd: int, events: int, most: int, timeout: int, mask: int, size: int
) -> int:
    """Wait for one of the files of a set; an idle wait skips its time."""
    limit = process.timespec(timeout) if timeout else None
    return _epoll_wait(process, fd, events, most, limit, mask, size)


def _epoll_wait(
    process: Process, fd: int, pointer: int, most: int, limit: int | None, mask: int, size: int
) -> int:
    blocked = signal_mask(process, mask, size)
    epoll = process.file(fd)
    if not 0 < most <= _MOST_EVENTS:
        raise Failure(Errno.EINVAL)
    if untagged(pointer) + most * EPOLL_EVENT.size > VA_END:
        raise Failure(Errno.EFAULT)
    if not isinstance(epoll, Epoll):
        raise Failure(Errno.EINVAL)
    told = epoll.report(process, pointer, most)
    if told or limit == 0:
        return told
    with blocking(process, blocked):
        deadline = None if limit is None else process.kernel.uptime + limit
        return wait(process, lambda: epoll.report(process, pointer, most) or None, deadline, NO_EVENT) or 0


def _timer(process: Process, fd: int) -> TimerFile:
    file = process.file(fd)
    if not isinstance(file, TimerFile):
        raise Failure(Errno.EINVAL)
    return file


def _require_flags(flags: int, *others: int) -> None:
    if flags & ~sum((abi.O_CLOEXEC, abi.O_NONBLOCK, *others)):
        raise Failure(Errno.EINVAL)


def _open(process: Process, file: OpenFile, flags: int) -> int:
    return process.open(file, bool(flags & abi.O_CLOEXEC))
