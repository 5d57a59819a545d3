"""Messages of sockets, with the names, open files and credentials that come along."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.sockets import (
    LARGEST_ADDRESS,
    address_name,
    bind_anywhere,
    credentials,
    find,
    packed_name,
    socket_of,
    write_address,
)
from kvrm.linux.delivery import send_own
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.socket_queue import NOBODY, Credentials
from kvrm.linux.files.sockets import Received, Socket, drop
from kvrm.linux.layout import CMSGHDR, DOUBLEWORD, INT, IOVEC, MSGHDR, UCRED, WORD
from kvrm.memory import GuestFault

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_MOST_RIGHTS: Final = 253
_MOST_CONTROL: Final = 1 << 17
_MOST_MESSAGES: Final = 1024
_AT_ONCE: Final = 1 << 20
"""Bytes that are taken from the guest: more than any socket has room for."""
_NAME_LENGTH, _CONTROL_LENGTH, _FLAGS = 8, 40, 48
"""Offsets in a `struct msghdr`."""
_MESSAGE: Final = 64
"""Bytes of a `struct mmsghdr`, whose last word is the length."""
_INTERNAL: Final = 1 << 31
"""A flag that only the kernel uses."""

Part = tuple[int, int]
"""An address and a length."""
Pieces = Sequence[Part]


def sendto(process: Process, fd: int, buffer: int, size: int, flags: int, address: int, length: int) -> int:
    """Send a message, to a name if one is given."""
    sender = socket_of(process, fd)
    name = (address, length) if address else (0, 0)
    return _send(process, sender, [(buffer, size)], flags, name, (0, 0))


def recvfrom(process: Process, fd: int, buffer: int, size: int, flags: int, address: int, length: int) -> int:
    """Receive a message, and who sent it."""
    receiver = socket_of(process, fd)
    received = receiver.receive(process, min(size, abi.MAX_RW_COUNT), flags)
    drop(process, received.rights, flags)
    _store(process, receiver, [(buffer, size)], received.data)
    if address:
        write_address(process, packed_name(received.sender) if received.sender else b"", address, length)
    return _result(receiver, received, flags)


def sendmsg(process: Process, fd: int, message: int, flags: int) -> int:
    """Send a message in pieces, with what comes along."""
    sender = socket_of(process, fd)
    if flags & _INTERNAL:
        raise Failure(Errno.EINVAL)
    return _send_message(process, sender, message, flags)


def recvmsg(process: Process, fd: int, message: int, flags: int) -> int:
    """Receive a message in pieces, with what comes along."""
    receiver = socket_of(process, fd)
    if flags & _INTERNAL:
        raise Failure(Errno.EINVAL)
    return _receive_message(process, receiver, message, flags)


def sendmmsg(process: Process, fd: int, messages: int, count: int, flags: int) -> int:
    """Send several messages; how many were sent."""
    sender = socket_of(process, fd)
    return _several(process, messages, count, lambda at, nth: _send_message(process, sender, at, flags))


def recvmmsg(process: Process, fd: int, messages: int, count: int, flags: int, timeout: int) -> int:
    """Receive several messages; how many came. The time limit is looked at after each."""
    receiver = socket_of(process, fd)
    limit = process.kernel.uptime + process.timespec(timeout) if timeout else None

    def one(at: int, nth: int) -> int:
        if nth and limit is not None and process.kernel.uptime >= limit:
            raise Failure(Errno.EAGAIN)
        later = abi.MSG_DONTWAIT if nth and flags & abi.MSG_WAITFORONE else 0
        return _receive_message(process, receiver, at, flags & ~abi.MSG_WAITFORONE | later)

    return _several(process, messages, count, one)


# Sending


def _send_message(process: Process, sender: Socket, at: int, flags: int) -> int:
    name, length, vector, count, control, size, _ = MSGHDR.unpack(process.memory.read(at, MSGHDR.size))
    named = (name, length) if name else (0, 0)
    return _send(process, sender, _pieces(process, vector, count), flags, named, (control, size))


def _send(process: Process, sender: Socket, pieces: Pieces, flags: int, name: Part, control: Part) -> int:
    if not 0 <= name[1] <= LARGEST_ADDRESS:
        raise Failure(Errno.EINVAL)
    rights, who = _brought(process, *control)
    if name[1] and sender.streams:
        raise Failure(Errno.EOPNOTSUPP if sender.peer is None else Errno.EISCONN)
    to = None
    if name[1] and not sender.connects:
        to = find(process, address_name(process, *name), sender.kind)
    if sender.options.get(abi.SO_PASSCRED):
        bind_anywhere(process, sender)
    data = b"".join(process.memory.read(address, size) for address, size in _cut(pieces, _AT_ONCE))
    try:
        return sender.send(process, data, to, flags, rights, who)
    except BrokenPipeError:
        if not flags & abi.MSG_NOSIGNAL:
            send_own(process, abi.SIGPIPE)
        raise


def _brought(process: Process, control: int, size: int) -> tuple[tuple[OpenFile, ...], Credentials | None]:
    """The open files and the credentials in control messages of the guest."""
    if size > _MOST_CONTROL:
        raise Failure(Errno.ENOBUFS)
    data = process.memory.read(control, size) if control else b""
    rights: list[OpenFile] = []
    who = None
    at = 0
    while at + CMSGHDR.size <= len(data):
        length, level, kind = CMSGHDR.unpack_from(data, at)
        if not CMSGHDR.size <= length <= len(data) - at:
            raise Failure(Errno.EINVAL)
        body = data[at + CMSGHDR.size : at + length]
        at += (length + 7) & -8
        if level != abi.SOL_SOCKET:
            continue
        if kind == abi.SCM_RIGHTS:
            numbers = [number for (number,) in INT.iter_unpack(body[: len(body) & -4])]
            if len(rights) + len(numbers) > _MOST_RIGHTS:
                raise Failure(Errno.EINVAL)
            rights += [process.any_file(number) for number in numbers]
        elif kind == abi.SCM_CREDENTIALS and len(body) == UCRED.size:
            who = Credentials(*UCRED.unpack(body))
            _require_own(process, who)
        else:
            raise Failure(Errno.EINVAL)
    return tuple(rights), who


def _require_own(process: Process, who: Credentials) -> None:
    own = credentials(process)
    if who.pid != own.pid:
        raise Failure(Errno.EPERM if own.uid else Errno.ESRCH)
    if who != own and own.uid:
        raise Failure(Errno.EPERM)


# Receiving


def _receive_message(process: Process, receiver: Socket, at: int, flags: int) -> int:
    name, length, vector, count, control, room, _ = MSGHDR.unpack(process.memory.read(at, MSGHDR.size))
    if length < 0:
        raise Failure(Errno.EINVAL)
    pieces = _pieces(process, vector, count)
    total = min(sum(size for _, size in pieces), abi.MAX_RW_COUNT)
    received = receiver.receive(process, total, flags)
    told = flags & abi.MSG_CMSG_CLOEXEC
    if not receiver.streams and received.length > total:
        told |= abi.MSG_TRUNC
    _store(process, receiver, pieces, received.data)
    if name:
        address = packed_name(received.sender) if received.sender else b""
        process.memory.write(name, address[: min(length, LARGEST_ADDRESS)])
        process.memory.write(at + _NAME_LENGTH, INT.pack(len(address)))
    used = 0
    if receiver.options.get(abi.SO_PASSCRED):
        who = UCRED.pack(*(received.credentials or NOBODY))
        used, cut = _tell(process, control, room, abi.SCM_CREDENTIALS, who)
        told |= cut
    if received.rights:
        more, cut = _hand_over(process, received, control + used, room - used, flags)
        used, told = used + more, told | cut
    process.memory.write(at + _FLAGS, WORD.pack(told))
    process.memory.write(at + _CONTROL_LENGTH, DOUBLEWORD.pack(used))
    return _result(receiver, received, flags)


def _hand_over(process: Process, received: Received, control: int, room: int, flags: int) -> tuple[int, int]:
    """Give the guest descriptors of the files that came along, as far as there is room for their numbers."""
    fitting = max(0, room - CMSGHDR.size) // INT.size if control else 0
    numbers = []
    with suppress(Failure):
        for file in received.rights[:fitting]:
            numbers.append(process.open(file, bool(flags & abi.MSG_CMSG_CLOEXEC)))
    drop(process, received.rights, flags)
    body = b"".join(map(INT.pack, numbers))
    used = _tell(process, control, room, abi.SCM_RIGHTS, body)[0] if numbers else 0
    return used, abi.MSG_CTRUNC if len(numbers) < len(received.rights) else 0


def _tell(process: Process, control: int, room: int, kind: int, body: bytes) -> tuple[int, int]:
    """Write a control message; the bytes that it takes, and MSG_CTRUNC if it was cut."""
    length = CMSGHDR.size + len(body)
    if not control or room < CMSGHDR.size:
        return 0, abi.MSG_CTRUNC
    cut = min(length, room)
    data = CMSGHDR.pack(cut, abi.SOL_SOCKET, kind) + body
    process.memory.write(control, data[:cut])
    return min((length + 7) & -8, room), 0 if cut == length else abi.MSG_CTRUNC


def _store(process: Process, receiver: Socket, pieces: Pieces, data: bytes) -> None:
    """Fill the guest's buffers. EFAULT where it may not write; a stream then keeps what it had."""
    done = 0
    try:
        for address, size in _cut(pieces, len(data)):
            process.memory.write(address, data[done : done + size])
            done += size
    except GuestFault:
        receiver.unread(data, done)
        raise


def _result(receiver: Socket, received: Received, flags: int) -> int:
    return received.length if flags & abi.MSG_TRUNC and not receiver.streams else len(received.data)


# Both


def _pieces(process: Process, vector: int, count: int) -> Pieces:
    if count > abi.IOV_MAX:
        raise Failure(Errno.EMSGSIZE)
    pieces = list(IOVEC.iter_unpack(process.memory.read(vector, count * IOVEC.size)))
    if any(size >> 63 for _, size in pieces):
        raise Failure(Errno.EINVAL)
    return pieces


def _cut(pieces: Pieces, most: int) -> Iterator[tuple[int, int]]:
    """The pieces up to so many bytes in all."""
    for address, size in pieces:
        size = min(size, most)
        most -= size
        if size:
            yield address, size


def _several(process: Process, messages: int, count: int, one: Callable[[int, int], int]) -> int:
    """Do something with each `struct mmsghdr`, up to the first that fails; how many succeeded."""
    done = 0
    for nth in range(min(count, _MOST_MESSAGES)):
        at = messages + nth * _MESSAGE
        try:
            size = one(at, nth)
            process.memory.write(at + MSGHDR.size, WORD.pack(size))
        except (Failure, GuestFault, BrokenPipeError):
            if not done:
                raise
            break
        done += 1
    return done
