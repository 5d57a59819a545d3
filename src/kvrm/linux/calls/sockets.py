"""Sockets: making, naming and connecting them. There is no network: all are of the Unix domain."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files import names
from kvrm.linux.files.mounts import SOCKETS
from kvrm.linux.files.nodes import Special
from kvrm.linux.files.paths import resolve, resolve_name
from kvrm.linux.files.socket_names import place_of
from kvrm.linux.files.socket_queue import Credentials
from kvrm.linux.files.sockets import Socket
from kvrm.linux.layout import INT, SOCKADDR_FAMILY

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_FLAGS: Final = abi.O_CLOEXEC | abi.O_NONBLOCK
_KIND: Final = 0xF
_KINDS: Final = 11
LARGEST_ADDRESS: Final = 128
_LARGEST_NAME: Final = 110
_FAMILY: Final = 2
_MOST_CALLERS: Final = 4096
"""What a backlog is at most (net.core.somaxconn)."""
_MODE: Final = stat.S_IFSOCK | 0o777


def socket(process: Process, family: int, kind: int, protocol: int) -> int:
    """A socket of the Unix domain; there is no other family."""
    made = _new(process, *_checked(family, kind, protocol))
    return process.open(made, bool(kind & abi.O_CLOEXEC))


def socketpair(process: Process, family: int, kind: int, protocol: int, pointer: int) -> int:
    """Two sockets that are connected to each other."""
    checked = _checked(family, kind, protocol)
    process.memory.write(pointer, process.memory.read(pointer, 8))
    ends = [_new(process, *checked) for _ in range(2)]
    ends[0].pair_with(ends[1], credentials(process))
    first = process.open(ends[0], bool(kind & abi.O_CLOEXEC))
    try:
        second = process.open(ends[1], bool(kind & abi.O_CLOEXEC))
    except Failure:
        process.close(first)
        raise
    process.memory.write(pointer, INT.pack(first) + INT.pack(second))
    return 0


def bind(process: Process, fd: int, address: int, length: int) -> int:
    """Give a socket a name: a path, or one that is in no directory."""
    bound = socket_of(process, fd)
    data = _read_address(process, address, length)
    if len(data) == _FAMILY and SOCKADDR_FAMILY.unpack(data)[0] == abi.AF_UNIX:
        return bind_anywhere(process, bound)
    name = _name(data)
    sockets = process.kernel.sockets
    if name.startswith(b"\0"):
        if bound.name is not None:
            raise Failure(Errno.EINVAL)
        place = bound.kind, name
        if sockets.find(place) is not None:
            raise Failure(Errno.EADDRINUSE)
        sockets.bind(place, bound)
    else:
        path = resolve_name(process, process.cwd, name[:-1])
        try:
            names.mknod(process, path, _MODE & ~process.umask)
        except Failure as failure:
            raise Failure(Errno.EADDRINUSE if failure.errno == Errno.EEXIST else failure.errno) from None
        if bound.name is not None:
            names.unlink(process, path)
            raise Failure(Errno.EINVAL)
        sockets.bind(place_of(path.lookup().existing().stat()), bound)
    bound.name = name
    return 0


def listen(process: Process, fd: int, backlog: int) -> int:
    """Take connections."""
    listener = socket_of(process, fd)
    if not listener.connects:
        raise Failure(Errno.EOPNOTSUPP)
    if listener.name is None or listener.peer is not None:
        raise Failure(Errno.EINVAL)
    listener.listen(min(backlog & 0xFFFFFFFF, _MOST_CALLERS), credentials(process))
    return 0


def accept(process: Process, fd: int, address: int, length: int) -> int:
    """The next connection to a socket that listens."""
    return accept4(process, fd, address, length, 0)


def accept4(process: Process, fd: int, address: int, length: int, flags: int) -> int:
    """The next connection to a socket that listens."""
    if flags & ~_FLAGS:
        raise Failure(Errno.EINVAL)
    listener = socket_of(process, fd)
    if not listener.connects:
        raise Failure(Errno.EOPNOTSUPP)
    if not listener.listens:
        raise Failure(Errno.EINVAL)
    accepted = listener.accept(process)
    accepted.flags |= flags & abi.O_NONBLOCK
    if address:
        assert accepted.peer is not None
        write_address(process, packed_name(accepted.peer.name), address, length)
    return process.open(accepted, bool(flags & abi.O_CLOEXEC))


def connect(process: Process, fd: int, address: int, length: int) -> int:
    """Connect to the socket with a name."""
    client = socket_of(process, fd)
    data = _read_address(process, address, length)
    if not client.connects and data[:_FAMILY] == SOCKADDR_FAMILY.pack(abi.AF_UNSPEC):
        client.peer = None
        return 0
    name = _name(data)
    other = find(process, name, client.kind)
    if not client.connects:
        if other.peer not in (None, client):
            raise Failure(Errno.EPERM)
        client.peer = other
        return 0
    if not other.listens or other.shut:
        raise Failure(Errno.ECONNREFUSED)
    client.require_queue(process, other)
    if client.peer is not None:
        raise Failure(Errno.EISCONN)
    if client.listens:
        raise Failure(Errno.EINVAL)
    client.call(other, _new(process, client.kind, 0), credentials(process))
    return 0


def getsockname(process: Process, fd: int, address: int, length: int) -> int:
    """The name of a socket."""
    write_address(process, packed_name(socket_of(process, fd).name), address, length)
    return 0


def getpeername(process: Process, fd: int, address: int, length: int) -> int:
    """The name of the other end."""
    peer = socket_of(process, fd).peer
    if peer is None:
        raise Failure(Errno.ENOTCONN)
    write_address(process, packed_name(peer.name), address, length)
    return 0


def shutdown(process: Process, fd: int, how: int) -> int:
    """End one direction of a connection, or both."""
    ended = socket_of(process, fd)
    if not 0 <= how <= 2:
        raise Failure(Errno.EINVAL)
    ended.shut_down(how + 1)
    return 0


# What calls share


def socket_of(process: Process, fd: int) -> Socket:
    """The socket of a descriptor, or ENOTSOCK."""
    file = process.file(fd)
    if not isinstance(file, Socket):
        raise Failure(Errno.ENOTSOCK)
    return file


def credentials(process: Process) -> Credentials:
    """Those of the process."""
    return Credentials(process.pid, process.credentials.uid, process.credentials.gid)


def find(process: Process, name: bytes, kind: int) -> Socket:
    """The socket that is bound to a name."""
    if name.startswith(b"\0"):
        found = process.kernel.sockets.find((kind, name))
    else:
        node = resolve(process, process.cwd, name[:-1]).existing()
        process.credentials.require(node, abi.W_OK)
        found = process.kernel.sockets.find(place_of(node.stat()))
    if found is None:
        raise Failure(Errno.ECONNREFUSED)
    if found.kind != kind:
        raise Failure(Errno.EPROTOTYPE)
    return found


def address_name(process: Process, pointer: int, length: int) -> bytes:
    """The name in a guest's `struct sockaddr_un`."""
    return _name(_read_address(process, pointer, length))


def write_address(process: Process, data: bytes, pointer: int, length: int) -> None:
    """Give the guest a `struct sockaddr_un`, cut to the room that it has, and its true length."""
    room = INT.unpack(process.memory.read(length, 4))[0]
    if room < 0:
        raise Failure(Errno.EINVAL)
    process.memory.write(pointer, data[:room])
    process.memory.write(length, INT.pack(len(data)))


def packed_name(name: bytes | None) -> bytes:
    """A name as `struct sockaddr_un`."""
    return SOCKADDR_FAMILY.pack(abi.AF_UNIX) + (name or b"")


def bind_anywhere(process: Process, bound: Socket) -> int:
    """Bind a socket that has no name yet to an abstract one."""
    if bound.name is None:
        bound.name = process.kernel.sockets.new_name(bound.kind)
        process.kernel.sockets.bind((bound.kind, bound.name), bound)
    return 0


def _checked(family: int, kind: int, protocol: int) -> tuple[int, int]:
    """Kind and status flags of a socket that can be made."""
    flags = kind & ~_KIND
    if flags & ~_FLAGS:
        raise Failure(Errno.EINVAL)
    if kind & _KIND >= _KINDS:
        raise Failure(Errno.EINVAL)
    if family != abi.AF_UNIX:
        raise Failure(Errno.EAFNOSUPPORT)
    if protocol not in (0, abi.AF_UNIX):
        raise Failure(Errno.EPROTONOSUPPORT)
    made = abi.SOCK_DGRAM if kind & _KIND == abi.SOCK_RAW else kind & _KIND
    if made not in (abi.SOCK_STREAM, abi.SOCK_DGRAM, abi.SOCK_SEQPACKET):
        raise Failure(Errno.ESOCKTNOSUPPORT)
    return made, flags & abi.O_NONBLOCK


def _new(process: Process, kind: int, flags: int) -> Socket:
    return Socket(kind, flags, Special(process.kernel.files.status(_MODE, SOCKETS)))


def _read_address(process: Process, pointer: int, length: int) -> bytes:
    if not 0 <= length <= LARGEST_ADDRESS:
        raise Failure(Errno.EINVAL)
    return process.memory.read(pointer, length)


def _name(address: bytes) -> bytes:
    """The name in a `struct sockaddr_un`: a path with a zero at its end, or an abstract name after a zero."""
    if not _FAMILY < len(address) <= _LARGEST_NAME or SOCKADDR_FAMILY.unpack_from(address)[0] != abi.AF_UNIX:
        raise Failure(Errno.EINVAL)
    name = address[_FAMILY:]
    return name if name.startswith(b"\0") else name.split(b"\0")[0] + b"\0"
