"""Pipes and FIFOs: buffers of a page each, as in Linux (fs/pipe.c), so that full and empty mean the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import Budget
from kvrm.linux.files.copying import FileCopies
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.paths import Name
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.layout import Stat
from kvrm.linux.waiting import wait_for_ever
from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_SLOTS: Final = 16
_INPUT: Final = abi.POLLIN | abi.POLLRDNORM
_OUTPUT: Final = abi.POLLOUT | abi.POLLWRNORM
LARGEST: Final = 1 << 20
"""Bytes that a pipe may be given room for without privileges (/proc/sys/fs/pipe-max-size)."""


class Buffer(NamedTuple):
    """One slot of a pipe: bytes of one page, and how many more of the next write it takes.

    A `packet` is read at once: what the reader has no room for is lost (O_DIRECT).
    """

    data: bytes
    room: int = 0
    packet: bool = False


class Pipe:
    """What is in a pipe, in at most `slots` buffers, and how many of its ends are open.

    `opened` counts writers that there ever were: a FIFO has not ended as long as none came.
    """

    def __init__(self) -> None:
        self.buffers: tuple[Buffer, ...] = ()
        self.slots = _SLOTS
        self.readers = self.writers = self.opened = 0
        self.queue = WaitQueue()

    @property
    def full(self) -> bool:
        """Whether no slot is free."""
        return len(self.buffers) >= self.slots

    @property
    def size(self) -> int:
        return sum(len(buffer.data) for buffer in self.buffers)

    def with_written(self, data: bytes, packets: bool) -> tuple[tuple[Buffer, ...], int]:
        """The buffers after a write, and how many bytes it could place.

        What is more than whole pages goes after the last bytes, if it fits into their page.
        """
        buffers, done = list(self.buffers), 0
        rest = len(data) % PAGE
        if rest and buffers and buffers[-1].room >= rest:
            last = buffers[-1]
            buffers[-1] = Buffer(last.data + data[:rest], last.room - rest)
            done = rest
        while done < len(data) and len(buffers) < self.slots:
            piece = data[done : done + PAGE]
            buffers.append(Buffer(piece, 0 if packets else PAGE - len(piece), packets))
            done += len(piece)
        return tuple(buffers), done

    def put(self, buffers: tuple[Buffer, ...]) -> None:
        """Have these buffers, which are more than before."""
        self.buffers = buffers
        self.queue.wake(_INPUT)

    def take(self, size: int) -> bytes:
        """Remove up to `size` bytes from the front, of one packet at most."""
        taken, buffers, was_full = b"", list(self.buffers), self.full
        while buffers and len(taken) < size:
            first = buffers[0]
            piece = first.data[: size - len(taken)]
            taken += piece
            if first.packet or len(piece) == len(first.data):
                del buffers[0]
            else:
                buffers[0] = first._replace(data=first.data[len(piece) :])
            if first.packet:
                break
        self.buffers = tuple(buffers)
        if was_full and not self.full:
            self.queue.wake(_OUTPUT)
        return taken

    def front(self, size: int) -> list[Buffer]:
        """The first buffers, cut to `size` bytes. Nothing is merged with what is in two pipes (tee)."""
        found: list[Buffer] = []
        for buffer in self.buffers:
            if size <= 0:
                break
            found.append(Buffer(buffer.data[:size], 0, buffer.packet))
            size -= len(buffer.data)
        return found

    def append(self, buffers: Iterable[Buffer]) -> int:
        """Put buffers at the end as far as slots are free; how many bytes that were."""
        fitting = list(buffers)[: max(0, self.slots - len(self.buffers))]
        self.put(self.buffers + tuple(fitting))
        return sum(len(buffer.data) for buffer in fitting)

    def resize(self, size: int, privileged: bool) -> int:
        """Make room for `size` bytes, in a power of two of pages; the room that there is then."""
        pages = 1
        while pages * PAGE < size:
            pages *= 2
        if size > 1 << 31:
            raise Failure(Errno.EINVAL)
        if pages > self.slots and pages * PAGE > LARGEST and not privileged:
            raise Failure(Errno.EPERM)
        if pages < len(self.buffers):
            raise Failure(Errno.EBUSY)
        self.slots = pages
        return pages * PAGE


class Fifo(Node):
    """A pipe as a node: a FIFO in a directory, or the pipe that pipe2 makes."""

    __slots__ = ("pipe",)

    def __init__(self, meta: Stat) -> None:
        super().__init__(meta)
        self.pipe = Pipe()

    def part(self, budget: Budget) -> None:
        pipe, queue = Pipe(), WaitQueue()
        pipe.__dict__.update(self.pipe.__dict__)
        self.pipe, pipe.queue = pipe, queue


class PipeEnd(OpenFile):
    """An end of a pipe, or both. Nothing but this process fills or empties it."""

    node: Fifo
    queue: WaitQueue
    waits = True

    def __init__(self, flags: int, name: Name | bytes, node: Fifo) -> None:
        super().__init__(flags, name, node)
        pipe = node.pipe
        self._before: tuple[Buffer, ...] = ()
        self.queue = pipe.queue
        self._unwritten = pipe.opened if not pipe.writers and not self.writable else None
        pipe.readers += self.readable
        pipe.writers += self.writable
        pipe.opened += self.writable

    @property
    def pipe(self) -> Pipe:
        """What it is an end of."""
        return self.node.pipe

    def read(self, process: Process, size: int) -> bytes:
        pipe = self.pipe
        self._before = pipe.buffers
        if size and not self.readable_now(process, bool(self.flags & abi.O_NONBLOCK)):
            return b""
        return pipe.take(size)

    def unread(self, data: bytes, kept: int) -> int:
        self.pipe.buffers = self._before
        whole = 0
        for buffer in self._before:
            if whole + len(buffer.data) > kept:
                break
            whole += len(buffer.data)
        self.pipe.take(whole)
        return whole

    def readable_now(self, process: Process, nonblocking: bool) -> bool:
        """Whether there are bytes; False at the end. EAGAIN if they might come, else the run ends."""
        if not self.pipe.buffers and self.pipe.writers:
            if nonblocking:
                raise Failure(Errno.EAGAIN)
            wait_for_ever(process, "it reads from an empty pipe that nothing else writes to")
        return bool(self.pipe.buffers)

    def write(self, process: Process, data: bytes) -> int:
        pipe = self.pipe
        if not data:
            return 0
        self.require_reader()
        buffers, done = pipe.with_written(data, bool(self.flags & abi.O_DIRECT))
        if self.flags & abi.O_NONBLOCK:
            if not done:
                raise Failure(Errno.EAGAIN)
        elif done < len(data):
            wait_for_ever(process, "it writes more to a pipe than fits, and nothing else reads from it")
        pipe.put(buffers)
        return done

    def require_reader(self) -> None:
        """EPIPE if nothing will ever be read."""
        if not self.pipe.readers:
            raise BrokenPipeError(Errno.EPIPE, "no reader")

    def writable_now(self, process: Process, nonblocking: bool) -> None:
        """EAGAIN if no slot is free but might become so, else the run ends."""
        self.require_reader()
        if self.pipe.full:
            if nonblocking:
                raise Failure(Errno.EAGAIN)
            wait_for_ever(process, "it writes to a full pipe that nothing else reads from")

    def available(self) -> int | None:
        return self.pipe.size

    def poll(self, process: Process) -> int:
        pipe, events = self.pipe, 0
        if self.readable:
            events |= abi.POLLIN | abi.POLLRDNORM if pipe.buffers else 0
            events |= abi.POLLHUP if not pipe.writers and pipe.opened != self._unwritten else 0
        if self.writable:
            events |= abi.POLLOUT | abi.POLLWRNORM if not pipe.full else 0
            events |= abi.POLLERR if not pipe.readers else 0
        return events

    def closed(self, process: Process) -> None:
        pipe = self.pipe
        pipe.readers -= self.readable
        pipe.writers -= self.writable
        if bool(pipe.readers) != bool(pipe.writers):
            self.queue.wake(_INPUT | _OUTPUT | abi.POLLERR | abi.POLLHUP)
        if not pipe.readers and not pipe.writers:
            self.node.pipe = Pipe()

    def relink(self, copies: FileCopies) -> None:
        super().relink(copies)
        self._before = ()
        self.pipe.queue = self.queue


def open_fifo(process: Process, node: Fifo, flags: int, name: Name | bytes, named: bool) -> PipeEnd:
    """Open a FIFO. An end waits for the other, unless it is `named` by a descriptor of the pipe only."""
    access, nonblocking = flags & abi.O_ACCMODE, flags & abi.O_NONBLOCK
    if access == abi.O_ACCMODE:
        raise Failure(Errno.EINVAL)
    if named and access == abi.O_WRONLY and not node.pipe.readers:
        if nonblocking:
            raise Failure(Errno.ENXIO)
        wait_for_ever(process, "it opens a FIFO for writing that nothing else reads from")
    if named and access == abi.O_RDONLY and not node.pipe.writers and not nonblocking:
        wait_for_ever(process, "it opens a FIFO for reading that nothing else writes to")
    return PipeEnd(flags, name, node)
