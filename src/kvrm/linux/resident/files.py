"""The staged system calls on descriptors: standard streams, and files whose contents the host has told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from kvrm.linux import abi
from kvrm.linux.errno import Errno
from kvrm.linux.files.content import MAX_SIZE
from kvrm.linux.resident.asking import answer_to
from kvrm.linux.resident.call import Call, const
from kvrm.linux.resident.layout import (
    DESCRIPTORS,
    FLAGS,
    RANDOM,
    RANDOM_MOST,
    STAT_BYTES,
    STATS,
    Answer,
    Ask,
    Fixed,
    Stream,
    Word,
)
from kvrm.memory import VA_BITS, Prot
from kvrm.staging.emitter import I1, I8, I32, I64

PIECES = 16
"""Buffers of a readv or writev."""
CHANGES = abi.O_CREAT | abi.O_TRUNC
"""Flags of open that change files."""
INDIFFERENT = abi.O_LARGEFILE | abi.O_CLOEXEC | abi.O_NOCTTY
"""Flags that make no difference to what is opened."""


# -- opening and closing ---------------------------------------------------------------------------------
def _opened(c: Call, file: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The answer that an open file was made by, number 0 if there is none, and the flags.

    Refused if the file has become too large since.
    """
    e, word = c.e, c.get(Word.OPENED, file)
    answer = c.answer(e.and_(word, const(0xFFFFFFFF)))
    c.refuse_unless(c.equal(e.load_at(answer, 8 * Answer.RESULT, I64), 0))
    return answer, e.lshr(word, const(32))


def openat(c: Call) -> None:
    """Open a file for reading, or fail to open one."""
    e, flags = c.e, c.x(2, "u")
    both = c.equal(e.and_(flags, const(abi.O_ACCMODE)), abi.O_ACCMODE)
    c.refuse_if(e.or_(c.has(flags, CHANGES), both))
    c.refuse_if(c.equal(c.fixed(Fixed.MAY_OPEN), 0))
    ask = e.or_(e.shl(e.and_(flags, const(~INDIFFERENT)), const(32)), const(Ask.OPEN))
    number = answer_to(c, ask, c.x(0, "i"), c.x(1))
    used = c.local(1)
    e.store(const(1), used)
    with e.repeat(DESCRIPTORS) as i:
        e.store(e.or_(e.load(used, typ=I64), e.shl(const(1), c.open_file(i))), used)
    file = _lowest(c, e.not_(e.load(used, typ=I64)))
    fd = _refer(c, const(0), file, c.has(flags, abi.O_CLOEXEC))
    kept = e.and_(flags, const(~(abi.O_NOCTTY | abi.O_EXCL | abi.O_CLOEXEC)))
    kept = e.or_(kept, const(abi.O_LARGEFILE))
    c.put(Word.OPENED, e.or_(number, e.shl(kept, const(32))), file)
    c.put(Word.OFFSET, const(0), file)
    c.ret(fd)


def dup(c: Call) -> None:
    """Another descriptor of the same open file."""
    fd = c.x(0, "i")
    c.stream(fd)
    c.ret(_refer(c, const(0), c.open_file(fd), ir.Constant(I1, 0)))


def dup3(c: Call) -> None:
    """Make a descriptor one of another's open file."""
    e, old, new, flags = c.e, c.x(0, "i"), c.x(1, "i"), c.x(2, "u")
    c.fail_if(e.or_(c.has(flags, ~abi.O_CLOEXEC), c.equal(old, new)), Errno.EINVAL)
    c.refuse_if(c.equal(c.fixed(Fixed.MAY_OPEN), 0))
    c.refuse_unless(c.below(new, DESCRIPTORS))
    c.stream(old)
    c.refuse_if(c.equal(c.kind(new), Stream.OTHER))
    _set(c, new, c.open_file(old), c.has(flags, abi.O_CLOEXEC))
    c.ret(new)


def close(c: Call) -> None:
    """Close a descriptor."""
    fd = c.x(0, "i")
    c.stream(fd)
    c.put(Word.DESCRIPTOR, const(0), fd)
    c.ret(0)


def _refer(c: Call, least: ir.Value, file: ir.Value, cloexec: ir.Value) -> ir.Value:
    """The lowest descriptor from `least` on that is free, which then refers to the open file."""
    e, free = c.e, c.local(1)
    c.refuse_if(c.equal(c.fixed(Fixed.MAY_OPEN), 0))
    e.store(const(0), free)
    with e.repeat(DESCRIPTORS) as i:
        is_free = e.zext(c.equal(c.open_file(i), 0), I64)
        e.store(e.or_(e.load(free, typ=I64), e.shl(is_free, i)), free)
    c.refuse_unless(c.below(least, DESCRIPTORS))
    candidates = e.and_(e.load(free, typ=I64), e.shl(const(-1), least))
    c.refuse_if(c.equal(candidates, 0))
    fd = _lowest(c, candidates)
    _set(c, fd, file, cloexec)
    return fd


def _set(c: Call, fd: ir.Value, file: ir.Value, cloexec: ir.Value) -> None:
    c.put(Word.DESCRIPTOR, c.e.or_(file, c.e.shl(c.e.zext(cloexec, I64), const(32))), fd)


def _lowest(c: Call, bits: ir.Value) -> ir.Value:
    """The number of the lowest bit that is set."""
    return c.e.intrinsic("cttz", I64, bits, ir.Constant(I1, 1))


# -- reading ---------------------------------------------------------------------------------------------
def random_bytes(c: Call, address: ir.Value, count: ir.Value) -> ir.Value:
    """Write the bytes of `Random.randbytes`, whole words and the high bytes of another one; how many."""
    e = c.e
    c.refuse_unless(c.below(count, 4 * RANDOM_MOST))
    words, taken = e.lshr(e.add(count, const(3)), const(2)), c.get(Word.RANDOM)
    c.refuse_unless(c.below(e.add(words, taken), RANDOM_MOST + 1))
    c.require_writable(address, count)
    data = c.local(1)
    with e.repeat(words) as i:
        word = e.load_at(c.place(RANDOM), e.shl(e.add(taken, i), const(2)), I32)
        left = e.sub(count, e.shl(i, const(2)))
        size = e.select(c.below(left, 4), left, const(4))
        unused = e.trunc(e.shl(e.sub(const(4), size), const(3)), I32)
        e.store(e.lshr(word, unused), data)
        c.write(e.add(address, e.shl(i, const(2))), size, data)
    c.put(Word.RANDOM, e.add(taken, words))
    return count


def read(c: Call) -> None:
    """Read what a stream or file has next."""
    with c.e.if_then(c.equal(c.stream(c.x(0, "i")), Stream.RANDOM)):
        c.ret(random_bytes(c, c.x(1), c.x(2)))
    with _reading(c) as (at, end):
        _take(c, at, end, c.x(1), c.x(2))


def readv(c: Call) -> None:
    """Read into several buffers."""
    with _reading(c) as (at, end):
        _each_buffer(c, lambda address, size: _take(c, at, end, address, size))


def pread64(c: Call) -> None:
    """Read from a file at an offset."""
    e, fd, offset = c.e, c.x(0, "i"), c.x(3)
    c.fail_if(c.has(offset, 1 << 63), Errno.EINVAL)
    c.refuse_unless(c.equal(c.stream(fd), Stream.FILE))
    start, end = _rest(c, c.open_file(fd), offset)
    at = c.local(1)
    e.store(start, at)
    _take(c, at, end, c.x(1), c.x(2))
    c.ret(e.sub(e.load(at, typ=I64), start))


@contextmanager
def _reading(c: Call) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yields where it is kept what comes next, and the end; the result is how much further that is then."""
    e, fd = c.e, c.x(0, "i")
    kind = c.stream(fd)
    c.fail_if(e.not_(c.below(kind, Stream.STDOUT)), Errno.EBADF)
    c.refuse_if(c.equal(kind, Stream.RANDOM))
    file, is_file, at = c.open_file(fd), c.equal(kind, Stream.FILE), c.local(1)
    offset = c.get(Word.OFFSET, file)
    start, end = _rest(c, file, offset)
    start = e.select(is_file, start, c.get(Word.INPUT))
    e.store(start, at)
    yield at, e.select(is_file, end, c.get(Word.INPUT_END))
    after = e.load(at, typ=I64)
    done = e.sub(after, start)
    with e.if_else(is_file) as (of_file, of_input):
        with of_file:
            c.put(Word.OFFSET, e.add(offset, done), file)
        with of_input:
            c.put(Word.INPUT, after)
    c.ret(done)


def _rest(c: Call, file: ir.Value, offset: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where on the device a file's bytes from an offset on are, and where they end."""
    # near the end of its range the host's own kernel has a say
    c.refuse_if(c.has(offset, 1 << 62))
    e, (answer, _) = c.e, _opened(c, file)
    content, size = (e.load_at(answer, 8 * word, I64) for word in (Answer.CONTENT, Answer.SIZE))
    inside = e.select(c.below(offset, size), offset, size)
    return e.add(content, inside), e.add(content, size)


def mappable(
    c: Call, fd: ir.Value, offset: ir.Value, length: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """For mmap a file's word, where its bytes from an offset on are, and how many there are in a length."""
    e, kind, flags = c.e, c.stream(fd), c.x(3, "u")
    shared = e.not_(c.equal(e.and_(flags, const(abi.MAP_TYPE)), abi.MAP_PRIVATE))
    to_write = e.and_(shared, c.has(c.x(2), Prot.W))
    c.refuse_if(c.equal(kind, Stream.RANDOM))
    c.fail_if(e.or_(to_write, e.not_(c.below(kind, Stream.STDOUT))), Errno.EACCES)
    c.fail_if(c.equal(kind, Stream.INPUT), Errno.ENODEV)
    file = c.open_file(fd)
    start, end = _rest(c, file, offset)
    left = e.sub(end, start)
    return c.get(Word.OPENED, file), start, e.select(c.below(left, length), left, length)


def _take(c: Call, at: ir.Value, end: ir.Value, address: ir.Value, size: ir.Value) -> None:
    """Read into one buffer."""
    e, source = c.e, c.e.load(at, typ=I64)
    c.refuse_unless(e.and_(c.below(address, 1 << VA_BITS), c.below(size, 1 << VA_BITS)))
    c.refuse_if(c.below(const(1 << VA_BITS), e.add(address, size)))
    left = e.sub(end, source)
    count = e.select(c.below(left, size), left, size)
    c.require_writable(address, count)
    with c.pieces(address, count) as (to, done, length):
        c.write(to, length, c.lane.pointer(e.add(source, done)))
    e.store(e.add(source, count), at)


def lseek(c: Call) -> None:
    """Move a file's offset; streams have none."""
    e, fd, offset, whence = c.e, c.x(0, "i"), c.x(1), c.x(2, "u")
    kind = c.stream(fd)
    c.refuse_if(c.equal(kind, Stream.RANDOM))
    c.fail_if(e.not_(c.equal(kind, Stream.FILE)), Errno.ESPIPE)
    c.refuse_unless(c.below(whence, abi.SEEK_END + 1))
    file = c.open_file(fd)
    answer, _ = _opened(c, file)
    size, current = e.load_at(answer, 8 * Answer.SIZE, I64), c.get(Word.OFFSET, file)
    base = e.select(c.equal(whence, abi.SEEK_CUR), current, const(0))
    new = e.add(e.select(c.equal(whence, abi.SEEK_END), size, base), offset)
    c.fail_if(c.below(const(MAX_SIZE), new), Errno.EINVAL)
    c.put(Word.OFFSET, new, file)
    c.ret(new)


# -- writing ---------------------------------------------------------------------------------------------
def write(c: Call) -> None:
    """Write to the lane's buffer of a stream."""
    with _writing(c, c.x(0, "i")) as (which, at):
        _append(c, which, at, c.x(1), c.x(2))


def writev(c: Call) -> None:
    """Write several buffers."""
    with _writing(c, c.x(0, "i")) as (which, at):
        _each_buffer(c, lambda address, size: _append(c, which, at, address, size))


@contextmanager
def _writing(c: Call, fd: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yields which stream it is and where its length is kept; the result is how much that grows."""
    e, kind = c.e, c.stream(fd)
    c.fail_if(c.below(kind, Stream.STDOUT), Errno.EBADF)
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
        c.read(source, length, c.lane.part(base, room, e.add(used, done)))
    e.store(e.add(used, size), at)


def sendfile(c: Call) -> None:
    """Copy from a file to a stream. Standard input is no file with offsets."""
    e, fd, count = c.e, c.x(1, "i"), c.x(3)
    c.refuse_unless(c.equal(c.x(2), 0))
    c.refuse_if(c.has(count, 1 << 63))
    kind = c.stream(fd)
    with _writing(c, c.x(0, "i")) as (which, at):
        c.fail_if(e.not_(c.below(kind, Stream.STDOUT)), Errno.EBADF)
        c.fail_if(c.equal(kind, Stream.INPUT), Errno.EINVAL)
        c.refuse_if(c.equal(kind, Stream.RANDOM))
        file = c.open_file(fd)
        offset = c.get(Word.OFFSET, file)
        start, end = _rest(c, file, offset)
        left = e.sub(end, start)
        size = e.select(c.below(left, count), left, count)
        used, room = e.load(at, typ=I64), c.fixed(Fixed.OUTPUT_BYTES)
        c.refuse_if(c.below(e.sub(room, used), size))
        source, to = c.lane.pointer(start), c.lane.part(c.fixed(Fixed.OUTPUTS, which), room, used)
        with e.repeat(size) as i:
            e.store(e.load_at(source, i, I8), e.at(to, i))
        c.put(Word.OFFSET, e.add(offset, size), file)
        e.store(e.add(used, size), at)


def _each_buffer(c: Call, use: Callable[[ir.Value, ir.Value], None]) -> None:
    """For each buffer of an iovec array, which is read and checked before any of them is touched."""
    e, count, vector = c.e, c.x(2), c.local(2 * PIECES)
    c.refuse_unless(c.below(e.sub(count, const(1)), PIECES))
    c.read(c.x(1), e.shl(count, const(4)), vector)
    with e.repeat(count) as i:
        c.refuse_if(c.has(e.load_at(vector, e.or_(e.shl(i, const(4)), const(8)), I64), 1 << 63))
    with e.repeat(count) as i:
        piece = e.at(vector, e.shl(i, const(4)))
        use(e.load_at(piece, 0, I64), e.load_at(piece, 8, I64))


# -- status ----------------------------------------------------------------------------------------------
def fstat(c: Call) -> None:
    """Status of an open file."""
    _status(c, c.x(0, "i"), c.x(1))


def newfstatat(c: Call) -> None:
    """Status of a path, or of an open file by an empty one."""
    e, flags, to = c.e, c.x(3, "u"), c.x(2)
    with e.if_then(c.equal(flags, abi.AT_EMPTY_PATH)):
        name = c.local(1)
        e.store(const(0), name)
        c.read(c.x(1), 1, name)
        c.refuse_unless(c.equal(e.load(name, typ=I64), 0))
        c.refuse_if(c.equal(c.x(0, "i"), abi.AT_FDCWD))
        _status(c, c.x(0, "i"), to)
    c.refuse_if(c.has(flags, ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_NO_AUTOMOUNT)))
    of_link = c.has(flags, abi.AT_SYMLINK_NOFOLLOW)
    ask = e.select(of_link, const(Ask.LINK_STATUS), const(Ask.STATUS))
    answer = c.answer(answer_to(c, ask, c.x(0, "i"), c.x(1)))
    c.write(to, STAT_BYTES, e.at(answer, 8 * Answer.STATUS))
    c.ret(0)


def _status(c: Call, fd: ir.Value, to: ir.Value) -> None:
    e, kind = c.e, c.stream(fd)
    answer, _ = _opened(c, c.open_file(fd))
    index = e.mul(e.sub(kind, const(Stream.INPUT)), const(STAT_BYTES // 8))
    of_file, of_stream = e.at(answer, 8 * Answer.STATUS), c.place(STATS, index)
    c.write(to, STAT_BYTES, e.select(c.below(kind, Stream.INPUT), of_file, of_stream))
    c.ret(0)


def ioctl(c: Call) -> None:
    """No file is a terminal."""
    request = c.x(1, "u")
    c.refuse_if(c.equal(c.stream(c.x(0, "i")), Stream.RANDOM))
    for known in (abi.FIOCLEX, abi.FIONCLEX, abi.FIONBIO, abi.FIONREAD):
        c.refuse_if(c.equal(request, known))
    c.ret(-Errno.ENOTTY)


def fcntl(c: Call) -> None:
    """Duplicate a descriptor; its flags, and the status flags as they are."""
    e, fd, command, argument = c.e, c.x(0, "i"), c.x(1, "u"), c.x(2)
    kind = c.stream(fd)
    file = c.open_file(fd)
    _, flags = _opened(c, file)
    c.ret_if(c.equal(command, abi.F_GETFD), e.lshr(c.get(Word.DESCRIPTOR, fd), const(32)))
    status = e.select(c.below(kind, Stream.INPUT), flags, c.fixed(FLAGS, file))
    c.ret_if(c.equal(command, abi.F_GETFL), status)
    with e.if_then(c.equal(command, abi.F_SETFD)):
        _set(c, fd, file, c.has(argument, abi.FD_CLOEXEC))
        c.ret(0)
    cloexec = c.equal(command, abi.F_DUPFD_CLOEXEC)
    c.refuse_unless(e.or_(cloexec, c.equal(command, abi.F_DUPFD)))
    c.ret(_refer(c, argument, file, cloexec))
