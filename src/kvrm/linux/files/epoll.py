"""epoll: files that are watched, and a list of those that may be ready (fs/eventpoll.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.anonymous import AnonymousFile
from kvrm.linux.files.copying import FileCopies
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.layout import EPOLL_EVENT
from kvrm.memory import GuestFault

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_ALWAYS: Final = abi.POLLERR | abi.POLLHUP
_PRIVATE: Final = abi.EPOLLWAKEUP | abi.EPOLLONESHOT | abi.EPOLLET | abi.EPOLLEXCLUSIVE
"""Flags that are no events."""
_NESTS: Final = 4
"""How many epoll instances may watch each other in a row."""
_READY: Final = abi.POLLIN | abi.POLLRDNORM


class Item:
    """A file that an epoll instance watches, by the descriptor that it was added with."""

    def __init__(self, owner: Epoll, fd: int, file: OpenFile, queue: WaitQueue) -> None:
        self.owner, self.fd, self.file, self._queue = owner, fd, file, queue
        self.events = self.data = 0
        queue.watchers = (self, *queue.watchers)

    def relink(self, copies: FileCopies) -> None:
        self.owner, self.file = copies.of(self.owner), copies.of(self.file)
        self._queue = copies.of(self._queue)

    def watch(self, process: Process, events: int, data: int) -> None:
        """From now on watch for these events, and tell `data` with them."""
        self.events, self.data = events | _ALWAYS, data
        if self.poll(process):
            self.owner.enlist(self)

    def notice(self, events: int) -> None:
        """The file may be ready; that counts unless the item is disabled, or not for such events."""
        if self.events & ~_PRIVATE and (not events or events & self.events):
            self.owner.enlist(self)

    def leave(self) -> None:
        """Watch no more."""
        self._queue.watchers = tuple(watcher for watcher in self._queue.watchers if watcher is not self)
        self.owner.remove(self)

    def poll(self, process: Process) -> int:
        """The events that hold, of those that are watched for."""
        return self.file.poll(process) & self.events

    def told(self) -> bool:
        """Its events were told. Whether they are to be told again while they hold."""
        if self.events & abi.EPOLLONESHOT:
            self.events &= _PRIVATE
            return False
        return not self.events & abi.EPOLLET


class Epoll(AnonymousFile):
    """An epoll instance. `_ready` are the items that may be ready, in the order in which they became so."""

    can_be_read = False
    refusal = Errno.EINVAL

    def __init__(self) -> None:
        super().__init__(abi.O_RDWR, b"[eventpoll]")
        self._items: list[Item] = []
        self._ready: list[Item] = []

    def relink(self, copies: FileCopies) -> None:
        super().relink(copies)
        self._items = [copies.of(item) for item in self._items]
        self._ready = [copies.of(item) for item in self._ready]

    def find(self, fd: int, file: OpenFile) -> Item | None:
        """The item of a file that was added by this descriptor."""
        return next((item for item in self._items if item.fd == fd and item.file is file), None)

    def add(self, fd: int, file: OpenFile) -> Item:
        """A new item. EPERM if the file never changes, ELOOP if instances would watch each other too deep."""
        if file.queue is None:
            raise Failure(Errno.EPERM)
        if isinstance(file, Epoll) and self._too_deep(file):
            raise Failure(Errno.ELOOP)
        self._items.append(item := Item(self, fd, file, file.queue))
        return item

    def enlist(self, item: Item) -> None:
        """An item may be ready."""
        if item not in self._ready:
            self._ready.append(item)
        self.queue.wake(_READY)

    def remove(self, item: Item) -> None:
        """An item is no more."""
        self._items.remove(item)
        if item in self._ready:
            self._ready.remove(item)

    def report(self, process: Process, pointer: int, most: int) -> int:
        """Write up to `most` events that hold into the guest's array at `pointer`; how many there were.

        The items whose events hold on are told of again after those that there was no room for.
        """
        waiting, again, count = self._ready, [], 0
        while waiting and count < most:
            item, *rest = waiting
            events = item.poll(process)
            if events:
                try:
                    place = pointer + count * EPOLL_EVENT.size
                    process.memory.write(place, EPOLL_EVENT.pack(events, item.data))
                except GuestFault:
                    if not count:
                        raise
                    break
                count += 1
                again += [item] * item.told()
            waiting = self._ready = rest
        self._ready = waiting + again
        return count

    def poll(self, process: Process) -> int:
        while self._ready and not self._ready[0].poll(process):
            del self._ready[0]
        return _READY if self._ready else 0

    def closed(self, process: Process) -> None:
        for item in self._items.copy():
            item.leave()

    def _too_deep(self, file: Epoll) -> bool:
        """Whether a row of instances would get too long, or never end, if this one watched `file`."""
        return file is self or file._reaches(self) or self._above() + 1 + file._below() > _NESTS

    def _reaches(self, other: Epoll) -> bool:
        return any(watched is other or watched._reaches(other) for watched in self._watched())

    def _below(self) -> int:
        return max((1 + watched._below() for watched in self._watched()), default=0)

    def _above(self) -> int:
        owners = [watcher.owner for watcher in self.queue.watchers if isinstance(watcher, Item)]
        return max((1 + owner._above() for owner in owners), default=0)

    def _watched(self) -> list[Epoll]:
        return [item.file for item in self._items if isinstance(item.file, Epoll)]
