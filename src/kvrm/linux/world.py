"""The kernel of one world: what all its processes share."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from random import Random
from typing import Final

from kvrm.linux.clock import EPOCH, LATEST
from kvrm.linux.files.filesystem import FileSystem
from kvrm.linux.files.mqueue import QueueNames
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.socket_names import BoundSockets
from kvrm.linux.files.watches import Watches
from kvrm.linux.layout import BILLION
from kvrm.linux.sysv import Ipc


class Kernel:
    """Files, time, random numbers, and the names of what processes share.

    Time is virtual: one nanosecond for each instruction `retired`, and what sleeping `skipped`. `streams` are
    standard input, output and error as they were given, None where closed; `stdout` and `stderr` hold what
    was written to those that capture it. `features` are the processor's.
    """

    SAVED: Final = ("retired", "skipped")
    LINKED: Final = ("ipc", "mqueues", "sockets", "watches")

    def __init__(
        self, files: FileSystem, streams: Sequence[OpenFile | None], features: frozenset[str], seed: int
    ) -> None:
        self.files = files
        self.streams: Final = streams
        self.features: Final = features
        self.retired = self.skipped = 0
        self.random = Random(seed)
        self.stdout, self.stderr = bytearray(), bytearray()
        self.ipc, self.mqueues = Ipc(), QueueNames()
        self.sockets, self.watches = BoundSockets(), Watches()

    def twin(self) -> Kernel:
        """A kernel of the same world, for a snapshot to be restored to."""
        other = copy(self)
        other.stdout, other.stderr, other.random = bytearray(), bytearray(), Random()
        return other

    @property
    def uptime(self) -> int:
        """CLOCK_MONOTONIC, in nanoseconds."""
        return self.retired + self.skipped

    @property
    def realtime(self) -> int:
        """CLOCK_REALTIME, in nanoseconds."""
        return EPOCH * BILLION + self.uptime

    def skip_to(self, time: int) -> None:
        """Let time pass without an instruction, up to a time of the monotonic clock or `LATEST`."""
        self.skipped = max(self.skipped, min(time, LATEST) - self.retired)

    def random_bytes(self, size: int) -> bytes:
        """The next `size` bytes of the seeded generator."""
        return self.random.randbytes(size)
