"""The system calls on descriptors: standard streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from kvrm.engine.emitter import I64
from kvrm.linux import abi
from kvrm.linux.errno import Errno
from kvrm.target.cuda.abi import Word, pointer
from kvrm.target.cuda.layout import CLOEXEC, FLAGS, STAT_BYTES, STATS, Fixed, Stream
from kvrm.target.cuda.resident import Call, const

PIECES = 16
"""Buffers of a readv or writev."""


def read(c: Call) -> None:
    """Read what standard input has next."""
    with _reading(c) as at:
        _take(c, at, c.x(1), c.x(2))


def readv(c: Call) -> None:
    """Read into several buffers."""
    with _reading(c) as at:
        _each_buffer(c, lambda address, size: _take(c, at, address, size))


@contextmanager
def _reading(c: Call) -> Iterator[ir.Value]:
    """Yields where it is kept how far the input has been read; the result is how much that is further."""
    e = c.e
    c.fail_if(e.not_(c.equal(c.stream(c.x(0, "i")), Stream.INPUT)), Errno.EBADF)
    at, before = c.local(1), c.get(Word.INPUT)
    e.store(before, at)
    yield at
    after = e.load(at, typ=I64)
    c.put(Word.INPUT, after)
    c.ret(e.sub(after, before))


def _take(c: Call, at: ir.Value, address: ir.Value, size: ir.Value) -> None:
    """Read into one buffer."""
    e, source = c.e, c.e.load(at, typ=I64)
    left = e.sub(c.get(Word.INPUT_END), source)
    count = e.select(c.below(left, size), left, size)
    c.require_writable(address, count)
    with c.pieces(address, count) as (to, done, length):
        c.write(to, length, pointer(e, e.add(source, done)))
    e.store(e.add(source, count), at)


def write(c: Call) -> None:
    """Write to the lane's buffer of a stream."""
    with _writing(c) as (kind, at):
        _append(c, kind, at, c.x(1), c.x(2))


def writev(c: Call) -> None:
    """Write several buffers."""
    with _writing(c) as (kind, at):
        _each_buffer(c, lambda address, size: _append(c, kind, at, address, size))


@contextmanager
def _writing(c: Call) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yields which stream it is and where its length is kept; the result is how much that grows."""
    e, kind = c.e, c.stream(c.x(0, "i"))
    c.fail_if(c.equal(kind, Stream.INPUT), Errno.EBADF)
    which = e.sub(kind, const(Stream.STDOUT))
    at, before = c.local(1), c.get(Word.STDOUT, which)
    e.store(before, at)
    yield which, at
    after = e.load(at, typ=I64)
    c.put(Word.STDOUT, after, which)
    c.ret(e.sub(after, before))


def _append(c: Call, which: ir.Value, at: ir.Value, address: ir.Value, size: ir.Value) -> None:
    """Write one buffer."""
    e, used, room = c.e, c.e.load(at, typ=I64), c.fixed(Fixed.OUTPUT_BYTES)
    c.refuse_if(c.below(e.sub(room, used), size))
    base = c.fixed(Fixed.OUTPUTS, which)
    with c.pieces(address, size) as (source, done, length):
        c.read(source, length, c.buffer(base, room, e.add(used, done)))
    e.store(e.add(used, size), at)


def _each_buffer(c: Call, use: Callable[[ir.Value, ir.Value], None]) -> None:
    """For each buffer of an iovec array, which is read before any of them is touched."""
    e, count, vector = c.e, c.x(2), c.local(2 * PIECES)
    c.refuse_unless(c.below(e.sub(count, const(1)), PIECES))
    c.read(c.x(1), e.shl(count, const(4)), vector)
    with e.repeat(count) as i:
        piece = e.at(vector, e.shl(i, const(4)))
        use(e.load_at(piece, 0, I64), e.load_at(piece, 8, I64))


def fstat(c: Call) -> None:
    """Status of an open file."""
    _status(c, c.x(0, "i"), c.x(1))


def newfstatat(c: Call) -> None:
    """Status of an open file, by an empty path."""
    e, name = c.e, c.local(1)
    c.refuse_unless(c.equal(c.x(3, "u"), abi.AT_EMPTY_PATH))
    e.store(const(0), name)
    c.read(c.x(1), 1, name)
    c.refuse_unless(c.equal(e.load(name, typ=I64), 0))
    _status(c, c.x(0, "i"), c.x(2))


def _status(c: Call, fd: ir.Value, to: ir.Value) -> None:
    e, kind = c.e, c.stream(fd)
    index = e.mul(e.sub(kind, const(Stream.INPUT)), const(STAT_BYTES // 8))
    c.write(to, STAT_BYTES, c.place(STATS, index))
    c.ret(0)


def ioctl(c: Call) -> None:
    """No file is a terminal."""
    request = c.x(1, "u")
    c.stream(c.x(0, "i"))
    for known in (abi.FIOCLEX, abi.FIONCLEX, abi.FIONBIO, abi.FIONREAD):
        c.refuse_if(c.equal(request, known))
    c.ret(-Errno.ENOTTY)


def fcntl(c: Call) -> None:
    """Flags, which do not change here."""
    fd, command = c.x(0, "i"), c.x(1, "u")
    c.stream(fd)
    c.ret_if(c.equal(command, abi.F_GETFD), c.fixed(CLOEXEC, fd))
    c.ret_if(c.equal(command, abi.F_GETFL), c.e.or_(c.fixed(FLAGS, fd), const(abi.O_LARGEFILE)))
    c.refuse()


def lseek(c: Call) -> None:
    """Streams have no offset."""
    c.stream(c.x(0, "i"))
    c.ret(-Errno.ESPIPE)


def close(c: Call) -> None:
    """Close a descriptor."""
    fd = c.x(0, "i")
    c.stream(fd)
    c.put(Word.CLOSED, c.e.or_(c.get(Word.CLOSED), c.e.shl(const(1), fd)))
    c.ret(0)


def sendfile(c: Call) -> None:
    """Never from standard input, which is no file with offsets."""
    source, sink = c.stream(c.x(1, "i")), c.stream(c.x(0, "i"))
    bad = c.e.or_(c.e.not_(c.equal(source, Stream.INPUT)), c.equal(sink, Stream.INPUT))
    c.fail_if(bad, Errno.EBADF)
    c.ret(-Errno.EINVAL)
