"""Who is told when something changes that `poll` reports: the epoll instances that watch a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kvrm.linux.files.copying import FileCopies
    from kvrm.linux.files.open_file import OpenFile


class Watcher(Protocol):
    """What waits in a queue, for one file."""

    file: OpenFile

    def relink(self, copies: FileCopies) -> None:
        """This is a shallow copy for a snapshot: part it from the original."""

    def notice(self, events: int) -> None:
        """These events may hold now; 0: any may."""

    def leave(self) -> None:
        """The file is closed: leave the queue."""


class WaitQueue:
    """The watchers of one thing, the latest first: Linux tells them in this order."""

    def __init__(self) -> None:
        self.watchers: tuple[Watcher, ...] = ()

    def relink(self, copies: FileCopies) -> None:
        self.watchers = tuple(copies.of(watcher) for watcher in self.watchers)

    def wake(self, events: int = 0) -> None:
        """Tell all watchers that these events may hold now; 0: any may."""
        for watcher in self.watchers:
            watcher.notice(events)

    def release(self, file: OpenFile) -> None:
        """A file is closed: those that watch it leave."""
        for watcher in self.watchers:
            if watcher.file is file:
                watcher.leave()
