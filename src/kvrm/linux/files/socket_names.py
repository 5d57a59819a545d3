"""What sockets are bound to: abstract names, and paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvrm.linux.files.copying import FileCopies
    from kvrm.linux.files.sockets import Socket
    from kvrm.linux.layout import Stat

Place = tuple[int, bytes] | tuple[int, int]
"""The kind of a socket and its abstract name, or device and inode of the file that stands for it."""


class BoundSockets:
    """The sockets of a process that others can connect to."""

    def __init__(self) -> None:
        self._sockets: dict[Place, Socket] = {}
        self._named = 0

    def relink(self, copies: FileCopies) -> None:
        self._sockets = {place: copies.of(socket) for place, socket in self._sockets.items()}

    def find(self, place: Place) -> Socket | None:
        """The socket that is bound there."""
        return self._sockets.get(place)

    def bind(self, place: Place, socket: Socket) -> None:
        """Have it found there."""
        self._sockets[place] = socket

    def forget(self, socket: Socket) -> None:
        """Have a socket found nowhere."""
        self._sockets = {place: other for place, other in self._sockets.items() if other is not socket}

    def new_name(self, kind: int) -> bytes:
        """An abstract name that no socket of this kind has."""
        while True:
            name = b"\0%05x" % self._named
            self._named = (self._named + 1) % (1 << 20)
            if (kind, name) not in self._sockets:
                return name


def place_of(status: Stat) -> Place:
    """Where a socket is bound whose file has this status."""
    return status.identity
