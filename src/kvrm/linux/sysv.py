"""The System V objects of a process."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.linux.ipc import Object, Table
from kvrm.linux.layout import MSQID, SEMID, SHMID

if TYPE_CHECKING:
    from kvrm.linux.files.copying import FileCopies

_SETS: Final = 1024
_QUEUES: Final = 128
_SEGMENTS: Final = 4096
"""Objects of each kind: what they hold is in the host's memory."""
QUEUE_ROOM: Final = 16384
"""Bytes that a queue of messages holds."""


@dataclass
class SemaphoreSet(Object):
    """Counters, who changed each last, and when."""

    values: list[int] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    operated: int = 0
    changed: int = 0

    def packed(self) -> bytes:
        """`struct semid64_ds`, 88 bytes."""
        return self.permissions.packed() + SEMID.pack(self.operated, self.changed, len(self.values))


class Letter(NamedTuple):
    """A message: its type, a positive number, and its text."""

    kind: int
    text: bytes


@dataclass
class Queue(Object):
    """Messages in order of arrival; who sent and received last, and when."""

    letters: list[Letter] = field(default_factory=list)
    room: int = QUEUE_ROOM
    sent: int = 0
    received: int = 0
    changed: int = 0
    sender: int = 0
    receiver: int = 0

    @property
    def size(self) -> int:
        """Bytes in it."""
        return sum(len(letter.text) for letter in self.letters)

    def packed(self) -> bytes:
        """`struct msqid64_ds`, 120 bytes."""
        times = self.sent, self.received, self.changed
        counts = self.size, len(self.letters), self.room
        return self.permissions.packed() + MSQID.pack(*times, *counts, self.sender, self.receiver)


@dataclass
class Segment(Object):
    """`size` bytes, of which `pages` holds those pages that are not zero while it is not attached.

    `name` is that of the memory that shows it, also once the key is gone.
    """

    size: int = 0
    creator: int = 0
    name: str = ""
    last: int = 0
    attached_at: int = 0
    detached_at: int = 0
    changed: int = 0
    pages: dict[int, bytes] = field(default_factory=dict)

    def packed(self, attached: int) -> bytes:
        """`struct shmid64_ds`, 112 bytes."""
        times = self.attached_at, self.detached_at, self.changed
        return self.permissions.packed() + SHMID.pack(self.size, *times, self.creator, self.last, attached)


class Ipc:
    """The objects of the process."""

    def __init__(self) -> None:
        self.semaphores: Table[SemaphoreSet] = Table(_SETS)
        self.queues: Table[Queue] = Table(_QUEUES)
        self.segments: Table[Segment] = Table(_SEGMENTS)
        self.attached: dict[int, int] = {}
        """Numbers of segments by the address where each is attached."""

    def relink(self, copies: FileCopies) -> None:
        self.__dict__.update(deepcopy(self.__dict__))
