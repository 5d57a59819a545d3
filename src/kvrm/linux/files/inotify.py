"""inotify: a queue of what happened to files that are watched (fs/notify/inotify)."""

from __future__ import annotations

import stat
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.anonymous import AnonymousFile
from kvrm.linux.files.copying import FileCopies
from kvrm.linux.layout import INOTIFY_EVENT, FileId
from kvrm.linux.waiting import wait_for_ever

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_MOST_EVENTS: Final = 16384
_MOST_WATCHES: Final = 65536
_KEPT: Final = abi.IN_ALL_EVENTS | abi.IN_EXCL_UNLINK | abi.IN_ONESHOT
_OF_ITSELF: Final = abi.IN_MOVE_SELF | abi.IN_DELETE_SELF


class Event(NamedTuple):
    """What is read of one event; `name` is that in the directory that is watched."""

    watch: int
    mask: int
    cookie: int = 0
    name: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of `packed`."""
        # a name is followed by zeros, up to a multiple of the size of the struct
        padded = (len(self.name) // INOTIFY_EVENT.size + 1) * INOTIFY_EVENT.size if self.name else 0
        return INOTIFY_EVENT.size + padded

    @classmethod
    def unpacked(cls, data: bytes, start: int) -> Event:
        """The event whose struct begins at byte `start`."""
        watch, mask, cookie, length = INOTIFY_EVENT.unpack_from(data, start)
        name = start + INOTIFY_EVENT.size
        return cls(watch, mask, cookie, data[name : name + length].rstrip(b"\0"))

    def packed(self) -> bytes:
        """struct inotify_event."""
        header = INOTIFY_EVENT.pack(self.watch, self.mask, self.cookie, self.size - INOTIFY_EVENT.size)
        return (header + self.name).ljust(self.size, b"\0")

    def repeats(self, last: Event) -> bool:
        """Whether it tells nothing new after the `last` one."""
        return last.mask != abi.IN_IGNORED and self._replace(cookie=last.cookie) == last


_OVERFLOW: Final = Event(-1, abi.IN_Q_OVERFLOW)


class Watch(NamedTuple):
    """What is told of a file: its number, and the events and flags that were asked for."""

    number: int
    mask: int


class Inotify(AnonymousFile):
    """An inotify instance."""

    def __init__(self, flags: int) -> None:
        super().__init__(abi.O_RDONLY | flags, b"inotify")
        self.watches: dict[FileId, Watch] = {}
        self._last_number = 0
        self._events: deque[Event] = deque()
        self._overflowed = False

    def relink(self, copies: FileCopies) -> None:
        super().relink(copies)
        self.watches, self._events = self.watches.copy(), self._events.copy()

    def watch(self, file: FileId, mask: int) -> int:
        """Watch a file, or change what is told of it; the watch's number."""
        kept, known = mask & _KEPT, self.watches.get(file)
        if known is not None:
            if mask & abi.IN_MASK_CREATE:
                raise Failure(Errno.EEXIST)
            mask = kept | known.mask if mask & abi.IN_MASK_ADD else kept
            self.watches[file] = known._replace(mask=mask)
            return known.number
        if len(self.watches) >= _MOST_WATCHES:
            raise Failure(Errno.ENOSPC)
        self._last_number += 1
        self.watches[file] = Watch(self._last_number, kept)
        return self._last_number

    def forget(self, number: int) -> None:
        """Remove a watch; EINVAL if there is none of this number."""
        for file, watch in self.watches.items():
            if watch.number == number:
                self.ignore(file)
                return
        raise Failure(Errno.EINVAL)

    def ignore(self, file: FileId) -> None:
        """Remove the watch of a file, if there is one, and tell so."""
        if watch := self.watches.pop(file, None):
            self._put(Event(watch.number, abi.IN_IGNORED))

    def saw(
        self, file: FileId, events: int, mode: int, name: bytes = b"", cookie: int = 0, unlinked: bool = False
    ) -> None:
        """Something of this mode saw `events`: the file itself, or what is called `name` in it.

        `unlinked`: it was used by a name that it has no more.
        """
        watch = self.watches.get(file)
        if watch is None or not events & watch.mask or (unlinked and watch.mask & abi.IN_EXCL_UNLINK):
            return
        if stat.S_ISDIR(mode) and not events & _OF_ITSELF:
            events |= abi.IN_ISDIR
        self._put(Event(watch.number, events, cookie, name))
        if watch.mask & abi.IN_ONESHOT:
            self.ignore(file)

    def _put(self, event: Event) -> None:
        if len(self._events) >= _MOST_EVENTS:
            if self._overflowed:
                return
            event, self._overflowed = _OVERFLOW, True
        elif self._events and event.repeats(self._events[-1]):
            return
        self._events.append(event)
        self.queue.wake(abi.POLLIN)

    def read(self, process: Process, size: int) -> bytes:
        if not self._events:
            self.require_wait()
            wait_for_ever(process, "it reads from inotify, and nothing else changes files")
        data = b""
        while self._events and len(data) + self._events[0].size <= size:
            event = self._events.popleft()
            self._overflowed &= event != _OVERFLOW
            data += event.packed()
        if not data:
            raise Failure(Errno.EINVAL)
        return data

    def unread(self, data: bytes, kept: int) -> int:
        # the events up to that which could not be stored are lost, and the read fails
        start, later = 0, list[Event]()
        while start < len(data):
            event = Event.unpacked(data, start)
            if start > kept:
                later.append(event)
            start += event.size
        self._events.extendleft(reversed(later))
        self._overflowed |= _OVERFLOW in later
        return 0

    def available(self) -> int | None:
        return sum(event.size for event in self._events)

    def poll(self, process: Process) -> int:
        return abi.POLLIN | abi.POLLRDNORM if self._events else 0

    def closed(self, process: Process) -> None:
        process.kernel.watches.leave(self)
