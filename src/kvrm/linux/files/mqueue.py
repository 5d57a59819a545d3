"""POSIX message queues: they have names of their own, and outlive their descriptors (ipc/mqueue.c)."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.linux import abi
from kvrm.linux.delivery import send
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.nodes import Special
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.siginfo import Info

if TYPE_CHECKING:
    from kvrm.linux.files.copying import FileCopies
    from kvrm.linux.process import Process

_OVERHEAD: Final = 48 + 48
"""What the kernel counts for each message besides its text."""


class Letter(NamedTuple):
    """A message, the most urgent of which is received first."""

    priority: int
    text: bytes


class Notice(NamedTuple):
    """What a message into an empty queue sends: a signal (0: none) with a value, which a file asked for."""

    file: QueueFile
    signal: int
    value: int


class MessageQueue:
    """A queue of at most `most` messages of `size` bytes each."""

    def __init__(self, node: Special, most: int, size: int) -> None:
        self.node, self.most, self.size = node, most, size
        self.letters: list[Letter] = []
        self.notice: Notice | None = None
        self.waiting = WaitQueue()

    def relink(self, copies: FileCopies) -> None:
        # a queue that is not open is reached from no file that is copied
        node = copies.nodes.of(self.node)
        assert isinstance(node, Special)
        self.node, self.letters = copy(node) if node is self.node else node, self.letters.copy()
        self.waiting = copies.of(self.waiting)
        if self.notice is not None:
            self.notice = self.notice._replace(file=copies.of(self.notice.file))

    def put(self, process: Process, letter: Letter) -> None:
        """Add a message, and tell of it if it is the first."""
        after = [nth for nth, other in enumerate(self.letters) if other.priority < letter.priority]
        self.letters.insert(after[0] if after else len(self.letters), letter)
        self.waiting.wake(abi.POLLIN | abi.POLLRDNORM)
        if len(self.letters) == 1 and self.notice is not None:
            _, signal, value = self.notice
            self.notice = None
            if signal:
                who = process.pid, process.credentials.uid
                send(process, Info.sent(signal, abi.SI_MESGQ, *who, value))

    def take(self) -> Letter:
        """Remove the first message."""
        letter = self.letters.pop(0)
        self.waiting.wake(abi.POLLOUT | abi.POLLWRNORM)
        return letter


class QueueFile(OpenFile):
    """An open message queue."""

    def __init__(self, flags: int, name: bytes, contents: MessageQueue) -> None:
        super().__init__(flags, b"/" + name, contents.node)
        self.contents, self.queue = contents, contents.waiting
        self._offset = 0

    def relink(self, copies: FileCopies) -> None:
        super().relink(copies)
        self.contents = copies.of(self.contents)

    def read(self, process: Process, size: int) -> bytes:
        contents, notice = self.contents, self.contents.notice
        used = sum(len(letter.text) for letter in contents.letters)
        signal, pid = (notice.signal, process.pid) if notice else (0, 0)
        kind = 0 if notice is None or signal else abi.SIGEV_NONE
        text = f"QSIZE:{used:<10} NOTIFY:{kind:<5} SIGNO:{signal:<5} NOTIFY_PID:{pid:<6}\n".encode()
        data = text[self._offset : self._offset + size]
        self._offset += len(data)
        return data

    def poll(self, process: Process) -> int:
        letters, most = len(self.contents.letters), self.contents.most
        return (abi.POLLIN | abi.POLLRDNORM if letters else 0) | (
            abi.POLLOUT | abi.POLLWRNORM if letters < most else 0
        )

    def closed(self, process: Process) -> None:
        notice = self.contents.notice
        if notice is not None and notice.file is self:
            self.contents.notice = None


class QueueNames:
    """The message queues that can be opened."""

    def __init__(self) -> None:
        self._queues: dict[bytes, MessageQueue] = {}

    def relink(self, copies: FileCopies) -> None:
        self._queues = {name: copies.of(queue) for name, queue in self._queues.items()}

    def find(self, name: bytes) -> MessageQueue | None:
        return self._queues.get(name)

    def add(self, name: bytes, queue: MessageQueue) -> None:
        self._queues[name] = queue

    def remove(self, name: bytes) -> None:
        """Forget a name, or ENOENT."""
        if name not in self._queues:
            raise Failure(Errno.ENOENT)
        del self._queues[name]

    @property
    def size(self) -> int:
        """Bytes that all may hold (RLIMIT_MSGQUEUE)."""
        return sum(room_of(queue.most, queue.size) for queue in self._queues.values())


def room_of(most: int, size: int) -> int:
    """Bytes that a queue may hold."""
    return most * (size + _OVERHEAD)
