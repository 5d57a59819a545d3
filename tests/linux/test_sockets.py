"""Sockets within the process: snapshots and copies, waits in virtual time, signals, files in messages."""

from __future__ import annotations

import errno as E
import struct
from pathlib import Path

import pytest

from kvrm.linux import Killed, Stopped
from linux_tools import BUFFER, Guest

UNIX, STREAM, DATAGRAM, NONBLOCK = 1, 1, 2, 0o4000
SOCKET_LEVEL, SEND_BUFFER, RECEIVE_LIMIT = 1, 7, 20
RIGHTS = 1
SECOND = 10**9


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def pair(guest: Guest, kind: int = STREAM | NONBLOCK) -> tuple[int, int]:
    assert guest.call("socketpair", UNIX, kind, 0, BUFFER) == 0
    return guest.unpack("<ii")  # type: ignore[return-value]


def named(name: str) -> bytes:
    return struct.pack("<H", UNIX) + name.encode()


def send(guest: Guest, fd: int, data: bytes) -> int:
    return guest.call("sendto", fd, data, len(data), 0, 0, 0)


def get(guest: Guest, fd: int, size: int = 100) -> bytes | int:
    result = guest.call("recvfrom", fd, BUFFER, size, 0, 0, 0)
    return guest.bytes(result) if result >= 0 else result


def message(guest: Guest, data: bytes, *files: int) -> int:
    """A `struct msghdr` in guest memory, with bytes and open files."""
    place = BUFFER + 4096
    control = (
        struct.pack(f"<Qii{len(files)}i", 16 + 4 * len(files), SOCKET_LEVEL, RIGHTS, *files) if files else b""
    )
    guest.memory.write(place + 256, data)
    guest.memory.write(place + 128, control.ljust(64, b"\0"))
    guest.memory.write(place + 64, struct.pack("<QQ", place + 256, len(data)))
    header = struct.pack("<QixxxxQQQQixxxx", 0, 0, place + 64, 1, place + 128, len(control), 0)
    guest.memory.write(place, header)
    return place


def test_the_call_of_no_network(guest: Guest) -> None:
    for family in (2, 10, 16, 17):
        assert guest.call("socket", family, STREAM, 0) == -E.EAFNOSUPPORT
    assert guest.call("socketpair", 2, STREAM, 0, BUFFER) == -E.EAFNOSUPPORT


def test_waiting_for_ever_ends_the_run(guest: Guest) -> None:
    one, other = pair(guest, STREAM)
    assert isinstance(guest.attempt("recvfrom", one, BUFFER, 1, 0, 0, 0), Stopped)
    guest.call("setsockopt", one, SOCKET_LEVEL, RECEIVE_LIMIT, struct.pack("<qq", 2, 0), 16)
    assert get(guest, one) == -E.EAGAIN and guest.process.kernel.uptime == 2 * SECOND
    guest.memory.write(BUFFER, bytes(1 << 18))
    assert isinstance(guest.attempt("write", other, BUFFER, 1 << 18), Stopped)
    listener = guest.call("socket", UNIX, STREAM, 0)
    guest.call("bind", listener, named("\0x"), 4)
    guest.call("listen", listener, 0)
    assert isinstance(guest.attempt("accept", listener, 0, 0), Stopped)
    assert guest.call("connect", guest.call("socket", UNIX, STREAM, 0), named("\0x"), 4) == 0
    second = guest.call("socket", UNIX, STREAM, 0)
    assert isinstance(guest.attempt("connect", second, named("\0x"), 4), Stopped)


def test_a_reader_that_has_gone_is_a_signal(guest: Guest) -> None:
    one, other = pair(guest)
    guest.call("close", other)
    assert guest.call("sendto", one, b"x", 1, 0x4000, 0, 0) == -E.EPIPE
    assert guest.attempt("sendto", one, b"x", 1, 0, 0, 0) == Killed(13)
    assert guest.attempt("write", one, b"x", 1) == Killed(13)


def test_snapshots_and_copies_are_independent(guest: Guest) -> None:
    """What is in queues, who is connected, what is bound, and files that only messages hold."""
    one, other = pair(guest)
    pipe = guest.call("pipe2", BUFFER, NONBLOCK) or guest.unpack("<ii")
    listener, client = (guest.call("socket", UNIX, STREAM | NONBLOCK, 0) for _ in range(2))
    guest.call("bind", listener, named("\0name"), 7)
    guest.call("listen", listener, 1)
    assert guest.call("connect", client, named("\0name"), 7) == 0
    send(guest, client, b"early")
    assert guest.call("sendmsg", one, message(guest, b"file", pipe[1]), 0) == 4
    guest.call("close", pipe[1])
    snapshot = guest.process.snapshot()
    for _ in range(2):
        server = guest.call("accept4", listener, 0, 0, NONBLOCK)
        assert get(guest, server) == b"early"
        assert guest.call("recvmsg", other, message(guest, b"....", 0), 0) == 4
        received = guest.unpack("<i", BUFFER + 4096 + 128 + 16)[0]
        assert guest.call("write", received, b"through", 7) == 7
        assert guest.call("read", pipe[0], BUFFER, 9) == 7
        guest.call("close", received)
        assert guest.call("read", pipe[0], BUFFER, 9) == 0
        for fd in (one, client, server, listener):
            guest.call("close", fd)
        assert get(guest, other) == b""
        assert (
            guest.call("connect", guest.call("socket", UNIX, STREAM, 0), named("\0name"), 7)
            == -E.ECONNREFUSED
        )
        guest.process.restore(snapshot)


def test_a_file_that_only_an_unread_message_holds_is_closed_with_it(guest: Guest) -> None:
    one, other = pair(guest, DATAGRAM | NONBLOCK)
    guest.call("pipe2", BUFFER, NONBLOCK)
    read, write = guest.unpack("<ii")
    assert guest.call("sendmsg", one, message(guest, b"x", write), 0) == 1
    guest.call("close", write)
    assert guest.call("read", read, BUFFER, 1) == -E.EAGAIN
    guest.call("close", other)
    assert guest.call("read", read, BUFFER, 1) == 0


def test_as_many_descriptors_as_there_is_room_for(guest: Guest) -> None:
    one, other = pair(guest)
    assert guest.call("sendmsg", one, message(guest, b"x", one, one, one), 0) == 1
    assert guest.call("prlimit64", 0, 7, struct.pack("<QQ", 6, 4096), 0) == 0
    place = message(guest, b".", 0, 0, 0)
    assert guest.call("recvmsg", other, place, 0) == 1
    assert guest.unpack("<QQi", place + 32)[1:] == (24, 8)  # with padding; MSG_CTRUNC
    assert guest.unpack("<Qiii", place + 128) == (20, SOCKET_LEVEL, RIGHTS, 5)


def test_a_smaller_buffer_holds_less(guest: Guest) -> None:
    one, _ = pair(guest)
    assert guest.call("setsockopt", one, SOCKET_LEVEL, SEND_BUFFER, struct.pack("<i", 1), 4) == 0
    guest.memory.write(BUFFER, bytes(100))
    sent = 0
    while (result := guest.call("write", one, BUFFER, 100)) > 0:
        sent += result
    assert (sent, result) == (600, -E.EAGAIN)
