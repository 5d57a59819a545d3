"""Waiting for events of descriptors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from kvrm.linux import abi
from kvrm.linux.delivery import block
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import DOUBLEWORD, HALFWORD, POLLFD, SIGSET_ARGUMENT, timespec
from kvrm.linux.waiting import wait
from kvrm.memory import GuestFault

if TYPE_CHECKING:
    from kvrm.linux.process import Process

T = TypeVar("T")
NO_EVENT: Final = "it waits without a time limit for events that cannot come"
_HANGUPS: Final = abi.POLLERR | abi.POLLHUP | abi.POLLNVAL
_SET_SIZE: Final = 8
_REVENTS: Final = 6
"""Offset of the events that are found in a `struct pollfd`."""
_SMALL_TABLE: Final = 64
_READ: Final = abi.POLLIN | abi.POLLRDNORM | abi.POLLRDBAND | abi.POLLHUP | abi.POLLERR
_WRITE: Final = abi.POLLOUT | abi.POLLWRNORM | abi.POLLWRBAND | abi.POLLERR
_EXCEPTIONAL: Final = abi.POLLPRI


def ppoll(process: Process, fds: int, count: int, timeout: int, mask: int, size: int) -> int:
    """Wait for events of an array of descriptors; an idle wait skips its time."""
    limit = process.timespec(timeout) if timeout else None
    blocked = signal_mask(process, mask, size)
    if count > process.limit(abi.RLIMIT_NOFILE)[0]:
        raise Failure(Errno.EINVAL)
    entries = list(POLLFD.iter_unpack(process.memory.read(fds, count * POLLFD.size)))

    def found() -> list[int] | None:
        events = [_events(process, fd, wanted) for fd, wanted, _ in entries]
        return events if any(events) else None

    events = _waited(process, found, timeout, limit, blocked) or [0] * count
    for index, ready in enumerate(events):
        process.memory.write(fds + index * POLLFD.size + _REVENTS, HALFWORD.pack(ready))
    return sum(map(bool, events))


def pselect6(
    process: Process, count: int, read: int, write: int, exceptional: int, timeout: int, mask: int
) -> int:
    """Wait for events of sets of descriptors; an idle wait skips its time."""
    signals, size = SIGSET_ARGUMENT.unpack(process.memory.read(mask, 16)) if mask else (0, 0)
    limit = process.timespec(timeout) if timeout else None
    blocked = signal_mask(process, signals, size)
    if count < 0:
        raise Failure(Errno.EINVAL)
    count = min(count, _table_size(process))
    length = (count + 63) // 64 * 8
    asked = []
    for pointer, events in ((read, _READ), (write, _WRITE), (exceptional, _EXCEPTIONAL)):
        if pointer:
            bits = int.from_bytes(process.memory.read(pointer, length), "little") & (1 << count) - 1
            asked.append((pointer, [fd for fd in range(count) if bits >> fd & 1], events))
    for _, fds, _ in asked:
        for fd in fds:
            process.file(fd)

    def found() -> list[list[int]] | None:
        ready = [[fd for fd in fds if process.file(fd).poll(process) & events] for _, fds, events in asked]
        return ready if any(ready) else None

    ready = _waited(process, found, timeout, limit, blocked) or [[] for _ in asked]
    for (pointer, _, _), fds in zip(asked, ready, strict=True):
        process.memory.write(pointer, sum(1 << fd for fd in fds).to_bytes(length, "little"))
    return sum(map(len, ready))


def signal_mask(process: Process, pointer: int, size: int) -> int | None:
    """The signals that are to be blocked during a call; None if they are the usual ones."""
    if not pointer:
        return None
    if size != _SET_SIZE:
        raise Failure(Errno.EINVAL)
    return int(DOUBLEWORD.unpack(process.memory.read(pointer, _SET_SIZE))[0])


@contextmanager
def blocking(process: Process, mask: int | None) -> Iterator[None]:
    """Have these signals blocked for a while, unless None."""
    if mask is None:
        yield
        return
    before = process.task.blocked
    block(process, mask)
    try:
        yield
    finally:
        process.task.blocked = before
    block(process, before)


def _waited(
    process: Process, found: Callable[[], T | None], pointer: int, limit: int | None, mask: int | None
) -> T | None:
    """What is found before the limit, whose rest goes to `pointer`. `mask` is blocked while it waits."""
    deadline = None if limit is None else process.kernel.uptime + limit
    ready = found()
    if ready is None:
        with blocking(process, mask):
            ready = wait(process, found, deadline, NO_EVENT)
    if deadline is not None and limit:
        with suppress(GuestFault):
            process.memory.write(pointer, timespec(max(0, deadline - process.kernel.uptime)))
    return ready


def _events(process: Process, fd: int, wanted: int) -> int:
    if fd < 0:
        return 0
    descriptor = process.descriptors.get(fd)
    if descriptor is None or descriptor.file.flags & abi.O_PATH:
        return abi.POLLNVAL
    return descriptor.file.poll(process) & (wanted | _HANGUPS)


def _table_size(process: Process) -> int:
    """How many descriptors the kernel's table has room for: select does not look at those after it."""
    highest = max(process.descriptors, default=0)
    return _SMALL_TABLE if highest < _SMALL_TABLE else 128 << (highest // 128).bit_length()
