"""Sockets of the Unix domain, all of them of this process (net/unix/af_unix.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.copying import FileCopies
from kvrm.linux.files.nodes import Special
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.socket_queue import Credentials, Message, datagram_charge, pieces
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.waiting import wait_until

if TYPE_CHECKING:
    from kvrm.linux.process import Process

READ, WRITE = 1, 2
"""Directions that are shut down, as bits."""
BUFFER: Final = 212992
_DATAGRAMS: Final = 10
"""Messages that wait for a socket of datagrams before others must wait (net.unix.max_dgram_qlen)."""
_NO_WRITER: Final = "it reads a socket that nothing else writes to"
_INPUT: Final = abi.POLLIN | abi.POLLPRI | abi.POLLRDNORM | abi.POLLRDBAND
_OUTPUT: Final = abi.POLLOUT | abi.POLLWRNORM | abi.POLLWRBAND


class Received(NamedTuple):
    """What a call got: bytes, the length of the message they are from, and what came along."""

    data: bytes = b""
    length: int = 0
    sender: bytes | None = None
    credentials: Credentials | None = None
    rights: tuple[OpenFile, ...] = ()


class Socket(OpenFile):
    """A socket. `kind` is SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET, `name` what it is bound to.

    `inbox` are messages that wait to be read, `callers` the other ends of connections that wait to be
    accepted, if it `listens` to `backlog` of them. `charged` is what its messages take of its buffer.
    """

    queue: WaitQueue
    waits = True

    def __init__(self, kind: int, flags: int, node: Special) -> None:
        super().__init__(abi.O_RDWR | flags, b"socket:[%d]" % node.stat().ino, node)
        self.kind = kind
        self.name: bytes | None = None
        self.peer: Socket | None = None
        self.credentials: Credentials | None = None
        self.inbox: list[Message] = []
        self.callers: list[Socket] = []
        self.listens = self.dead = self.unaccepted = False
        self.backlog = _DATAGRAMS
        self.shut = self.error = self.charged = self.linger = 0
        self.options = {abi.SO_SNDBUF: BUFFER, abi.SO_RCVBUF: BUFFER}
        self.limits = {abi.SO_RCVTIMEO: 0, abi.SO_SNDTIMEO: 0}
        self.queue = WaitQueue()
        self._before: list[tuple[Message, bytes, tuple[OpenFile, ...]]] = []

    def relink(self, copies: FileCopies) -> None:
        super().relink(copies)
        self._before = []
        self.peer = self.peer and copies.of(self.peer)
        self.inbox = [copies.of(message) for message in self.inbox]
        self.callers = [copies.of(caller) for caller in self.callers]
        self.options, self.limits = self.options.copy(), self.limits.copy()

    @property
    def streams(self) -> bool:
        """Whether messages have no ends."""
        return self.kind == abi.SOCK_STREAM

    @property
    def connects(self) -> bool:
        """Whether it is one end of a connection, or could be."""
        return self.kind != abi.SOCK_DGRAM

    # Reading

    def read(self, process: Process, size: int) -> bytes:
        if not size:
            return b""
        received = self.receive(process, size, 0)
        drop(process, received.rights, 0)
        return received.data

    def receive(self, process: Process, size: int, flags: int) -> Received:
        """Take bytes from the queue, or look at them (MSG_PEEK); waits if there are none."""
        if flags & abi.MSG_OOB:
            raise Failure(Errno.EOPNOTSUPP)
        if self.connects and self.peer is None:
            raise Failure(Errno.EINVAL if self.streams else Errno.ENOTCONN)
        if not self.inbox and not self._ended(flags):
            self.require_wait(process, abi.SO_RCVTIMEO, flags, _NO_WRITER)
        if not self.inbox:
            return Received()
        take = self._from_stream if self.streams else self._message
        return take(process, size, flags)

    def _ended(self, flags: int) -> bool:
        """Nothing is in the queue: whether nothing will come. An error that waits is told."""
        if self.error:
            error, self.error = self.error, 0
            raise Failure(error)
        waits = not (self.flags & abi.O_NONBLOCK or flags & abi.MSG_DONTWAIT)
        return bool(self.shut & READ) and (self.connects or waits)

    def _message(self, process: Process, size: int, flags: int) -> Received:
        first = self.inbox[0]
        if not flags & abi.MSG_PEEK:
            self._remove(process)
        return Received(first.data[:size], len(first.data), first.sender, first.credentials, first.rights)

    def _from_stream(self, process: Process, size: int, flags: int) -> Received:
        """Bytes of several messages, up to the end of one that brings open files."""
        peeks, data = flags & abi.MSG_PEEK, b""
        rights: tuple[OpenFile, ...] = ()
        first, self._before = self.inbox[0], []
        for message in self.inbox.copy():
            self._before.append((message, message.data, message.rights))
            part = message.data[: size - len(data)]
            data += part
            rights = message.rights
            if not peeks:
                message.data, message.rights = message.data[len(part) :], ()
                if not message.data:
                    self._remove(process)
            if rights or len(data) == size:
                break
        return Received(data, len(data), first.sender, first.credentials, rights)

    def _remove(self, process: Process) -> None:
        """The first message was read: its sender has room again."""
        message = self.inbox.pop(0)
        owner = message.owner
        owner.charged -= message.charge
        if owner.roomy:
            owner.queue.wake(_OUTPUT)

    def unread(self, data: bytes, kept: int) -> int:
        """A message of a stream that the guest could not store all of stays whole; a datagram is lost."""
        if not self.streams:
            return kept
        whole = 0
        restored: list[Message] = []
        for message, before, rights in self._before:
            taken = len(before) - len(message.data)
            if not restored and whole + taken <= kept:
                whole += taken
            else:
                if not message.data:
                    message.owner.charged += message.charge
                message.data, message.rights = before, rights
                restored.append(message)
        self.inbox = restored + [message for message in self.inbox if message not in restored]
        return whole

    # Writing

    def require_write(self, size: int) -> None:
        if self.streams and self.peer is None:
            raise Failure(Errno.ENOTCONN)

    def write(self, process: Process, data: bytes) -> int:
        return self.send(process, data, None, 0)

    def send(
        self,
        process: Process,
        data: bytes,
        to: Socket | None,
        flags: int,
        rights: tuple[OpenFile, ...] = (),
        credentials: Credentials | None = None,
    ) -> int:
        """Put bytes into the queue of the other end, or of `to`; how many were taken."""
        if flags & abi.MSG_OOB:
            raise Failure(Errno.EOPNOTSUPP)
        who = credentials or Credentials(process.pid, process.credentials.uid, process.credentials.gid)
        message = Message(data, self, 0, self.name, who, rights)
        if self.streams:
            return self._stream(process, message, flags)
        return self._datagram(process, message, to or self.peer, flags)

    def _stream(self, process: Process, message: Message, flags: int) -> int:
        self.require_write(len(message.data))
        assert self.peer is not None
        if self.shut & WRITE:
            raise BrokenPipeError(Errno.EPIPE, "shut down")
        done = 0
        for length, charge in pieces(len(message.data), self.options[abi.SO_SNDBUF]):
            if not self._has_room(process, flags, bool(done)):
                break
            if self.peer.dead or self.peer.shut & READ:
                raise BrokenPipeError(Errno.EPIPE, "no reader")
            part = message.data[done : done + length]
            rights = () if done else message.rights
            self._deliver(self.peer, Message(part, self, charge, self.name, message.credentials, rights))
            done += length
        return done

    def _datagram(self, process: Process, message: Message, other: Socket | None, flags: int) -> int:
        if other is None:
            raise Failure(Errno.ENOTCONN)
        if len(message.data) > self.options[abi.SO_SNDBUF] - 32:
            raise Failure(Errno.EMSGSIZE)
        if self.shut & WRITE:
            raise Failure(Errno.EPIPE)
        self._has_room(process, flags, False)
        if other.peer not in (None, self):
            raise Failure(Errno.EPERM)
        if other.dead and other is self.peer and self.kind == abi.SOCK_DGRAM:
            self.peer = None
            raise Failure(Errno.ECONNREFUSED)
        if other.dead or other.shut & READ:
            raise Failure(Errno.EPIPE)
        if other.peer is not self and other.crowded:
            self.require_wait(process, abi.SO_SNDTIMEO, flags, "it sends more than a socket has room for")
        message.charge = datagram_charge(len(message.data))
        self._deliver(other, message)
        return len(message.data)

    def _deliver(self, other: Socket, message: Message) -> None:
        self.charged += message.charge
        for file in message.rights:
            file.sent += 1
        other.inbox.append(message)
        other.queue.wake(_INPUT)

    def _has_room(self, process: Process, flags: int, begun: bool) -> bool:
        """Whether the buffer has room. If not, what was `begun` ends, and all else must wait."""
        if self.charged < self.options[abi.SO_SNDBUF]:
            return True
        if not begun or not self._nonblocking(flags):
            self.require_wait(process, abi.SO_SNDTIMEO, flags, "it writes more to a socket than is read")
        return False

    @property
    def crowded(self) -> bool:
        """Whether more wait for it than it asked for."""
        return len(self.callers if self.listens else self.inbox) > self.backlog

    @property
    def roomy(self) -> bool:
        """Whether poll says that it can be written to."""
        return not self.listens and 4 * self.charged <= self.options[abi.SO_SNDBUF]

    def require_wait(self, process: Process, limit: int, flags: int, reason: str) -> NoReturn:
        """EAGAIN, now or when the time limit of an option is over; the run ends if there is none."""
        if not self._nonblocking(flags):
            ns = self.limits[limit]
            wait_until(process, process.kernel.uptime + ns if ns else None, reason)
        raise Failure(Errno.EAGAIN)

    def _nonblocking(self, flags: int) -> bool:
        return bool(self.flags & abi.O_NONBLOCK or flags & abi.MSG_DONTWAIT)

    # Connections

    def pair_with(self, other: Socket, who: Credentials) -> None:
        """Be the two ends of a connection, which `who` made."""
        self.peer, other.peer = other, self
        self.credentials = other.credentials = who

    def listen(self, backlog: int, who: Credentials) -> None:
        """Take connections, of which `backlog` may wait."""
        self.listens, self.backlog, self.credentials = True, backlog, who

    def require_queue(self, process: Process, other: Socket) -> None:
        """Wait until a socket that listens has room for one more connection."""
        if other.crowded:
            self.require_wait(process, abi.SO_SNDTIMEO, 0, "it connects to a socket whose queue is full")

    def call(self, other: Socket, caller: Socket, who: Credentials) -> None:
        """Connect to a socket that listens; `caller` is its end of the connection."""
        caller.name, caller.unaccepted = other.name, True
        self.pair_with(caller, who)
        other.callers.append(caller)
        other.queue.wake(_INPUT)

    def accept(self, process: Process) -> Socket:
        """This end of the connection that waits longest."""
        if not self.callers:
            self.require_wait(process, abi.SO_RCVTIMEO, 0, "it accepts connections that nothing else makes")
        accepted = self.callers.pop(0)
        accepted.unaccepted = False
        return accepted

    def shut_down(self, directions: int) -> None:
        """End one direction or both, at the other end too."""
        self.shut |= directions
        if self.peer is not None and self.connects:
            self.peer.shut |= (directions & READ and WRITE) | (directions & WRITE and READ)
            self.peer.queue.wake()
        self.queue.wake()

    def closed(self, process: Process) -> None:
        self.dead, self.shut = True, READ | WRITE
        process.kernel.sockets.forget(self)
        if self.peer is not None and self.connects:
            self.peer.shut = READ | WRITE
            if self.inbox or self.unaccepted:
                self.peer.error = Errno.ECONNRESET
            self.peer.queue.wake()
        for caller in self.callers:
            caller.closed(process)
        while self.inbox:
            rights = self.inbox[0].rights
            self._remove(process)
            drop(process, rights, 0)

    # Events

    def available(self) -> int | None:
        if self.listens:
            raise Failure(Errno.EINVAL)
        sizes = [len(message.data) for message in self.inbox]
        return sum(sizes) if self.connects else sum(sizes[:1])

    def unsent(self) -> int | None:
        return self.charged

    def poll(self, process: Process) -> int:
        events = abi.POLLERR if self.error else 0
        if self.shut & READ:
            events |= abi.POLLRDHUP | abi.POLLIN | abi.POLLRDNORM
        if self.shut == READ | WRITE or (self.connects and self.peer is None and not self.listens):
            events |= abi.POLLHUP
        if self.inbox or self.callers:
            events |= abi.POLLIN | abi.POLLRDNORM
        to = None if self.streams else self.peer
        blocked = to is not None and to.peer is not self and to.crowded
        return events | (_OUTPUT if self.roomy and not blocked else 0)


def drop(process: Process, rights: tuple[OpenFile, ...], flags: int) -> None:
    """Open files came out of a message, unless it was only looked at: it no longer keeps them open."""
    if flags & abi.MSG_PEEK:
        return
    for file in rights:
        file.sent -= 1
        process.let_go(file)
