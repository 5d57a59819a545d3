"""Moving bytes between open files and guest memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.ahead import LARGEST_READ
from kvrm.linux.delivery import send_own
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.open_file import GuestFile, OpenFile, SeekableFile
from kvrm.linux.layout import DOUBLEWORD, IOVEC
from kvrm.memory import GuestFault

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_BLOCK: Final = 1 << 20
"""Bytes moved at a time, so that no count makes the host allocate more."""
_MAX_OFFSET: Final = (1 << 63) - 1

Pieces = list[tuple[int, int]]


def read(process: Process, fd: int, buffer: int, count: int) -> int:
    """Read from the current offset."""
    file = _readable(process, fd)
    done = _into_guest(process, file, [(buffer, count)])
    ahead = None if process.seccomp else process.ahead  # a filter sees each call
    if ahead is not None and 0 < done == count <= LARGEST_READ and isinstance(file, GuestFile):
        ahead.begin(process, fd, file)
    return done


def readv(process: Process, fd: int, vector: int, count: int) -> int:
    """Read into several buffers."""
    return _into_guest(process, _readable(process, fd), _vector(process, vector, count))


def pread64(process: Process, fd: int, buffer: int, count: int, offset: int) -> int:
    """Read at an offset; the current one stays."""
    return _into_guest(process, _readable(process, fd), [(buffer, count)], _checked(offset))


def preadv(process: Process, fd: int, vector: int, count: int, low: int, high: int) -> int:
    """Read at an offset into several buffers. On 64-bit systems the low half is the whole offset."""
    pieces = _vector(process, vector, count)
    return _into_guest(process, _readable(process, fd), pieces, _checked(low))


def write(process: Process, fd: int, buffer: int, count: int) -> int:
    """Write at the current offset."""
    return _from_guest(process, _writable(process, fd), [(buffer, count)])


def writev(process: Process, fd: int, vector: int, count: int) -> int:
    """Write several buffers."""
    return _from_guest(process, _writable(process, fd), _vector(process, vector, count))


def pwrite64(process: Process, fd: int, buffer: int, count: int, offset: int) -> int:
    """Write at an offset; the current one stays."""
    return _from_guest(process, _writable(process, fd), [(buffer, count)], _checked(offset))


def pwritev(process: Process, fd: int, vector: int, count: int, low: int, high: int) -> int:
    """Write several buffers at an offset."""
    pieces = _vector(process, vector, count)
    return _from_guest(process, _writable(process, fd), pieces, _checked(low))


def lseek(process: Process, fd: int, offset: int, whence: int) -> int:
    """Move the current offset."""
    return process.file(fd).seek(offset, whence)


def sendfile(process: Process, out_fd: int, in_fd: int, offset: int, count: int) -> int:
    """Copy from one file to another."""
    source, sink = _readable(process, in_fd), _writable(process, out_fd)
    if not isinstance(source, SeekableFile):
        raise Failure(Errno.EINVAL)
    start = _offset_at(process, offset) if offset else source.seek(0, abi.SEEK_CUR)
    done = _between(process, source, start, sink, count)
    if offset:
        process.memory.write(offset, DOUBLEWORD.pack(start + done))
    else:
        source.seek(start + done, abi.SEEK_SET)
    return done


def copy_file_range(
    process: Process, in_fd: int, in_offset: int, out_fd: int, out_offset: int, count: int, flags: int
) -> int:
    """Copy between files at their current offsets; given offsets are refused, and callers then read."""
    if flags or in_offset or out_offset:
        raise Failure(Errno.EINVAL)
    if not isinstance(process.file(out_fd), SeekableFile):
        raise Failure(Errno.EINVAL)
    return sendfile(process, out_fd, in_fd, 0, count)


def _offset_at(process: Process, pointer: int) -> int:
    offset: int = DOUBLEWORD.unpack(process.memory.read(pointer, 8))[0]
    if offset > _MAX_OFFSET:
        raise Failure(Errno.EINVAL)
    return offset


def _checked(offset: int) -> int:
    if not 0 <= offset <= _MAX_OFFSET:
        raise Failure(Errno.EINVAL)
    return offset


def _readable(process: Process, fd: int) -> OpenFile:
    file = process.file(fd)
    if not file.readable:
        raise Failure(Errno.EBADF)
    return file


def _writable(process: Process, fd: int) -> OpenFile:
    file = process.file(fd)
    if not file.writable:
        raise Failure(Errno.EBADF)
    return file


def _vector(process: Process, vector: int, count: int) -> Pieces:
    """The buffers of an iovec array."""
    if count > abi.IOV_MAX:
        raise Failure(Errno.EINVAL)
    pieces: Pieces = list(IOVEC.iter_unpack(process.memory.read(vector, count * IOVEC.size)))
    if any(size >> 63 for _, size in pieces):
        raise Failure(Errno.EINVAL)
    return pieces


def _blocks(pieces: Pieces) -> Iterator[tuple[int, int]]:
    """Cut buffers into blocks; no more than MAX_RW_COUNT bytes in all."""
    left = abi.MAX_RW_COUNT
    for address, size in pieces:
        size = min(size, left)
        left -= size
        for start in range(0, size, _BLOCK):
            yield address + start, min(_BLOCK, size - start)


def _into_guest(process: Process, file: OpenFile, pieces: Pieces, offset: int | None = None) -> int:
    """Read until the buffers are full, or there is no more for now; without `offset` the file's own moves.

    A file whose reads may wait is read once, whatever the number of buffers.
    """
    total = min(sum([size for _, size in pieces]), abi.MAX_RW_COUNT)
    done = 0
    while True:
        size = min(_BLOCK, total - done)
        data = b""
        try:
            data = file.read(process, size) if offset is None else file.pread(process, size, offset + done)
            _scatter(process, pieces, done, data)
        except (GuestFault, Failure, OSError):
            if offset is None:
                file.unread(data)
            if done:
                return done
            raise
        done += len(data)
        if len(data) < size or done == total or file.waits:
            return done


def _scatter(process: Process, pieces: Pieces, skip: int, data: bytes) -> None:
    """Fill buffers with `data`, from their byte `skip` on; GuestFault where the guest may not write."""
    done = 0
    for address, size in pieces:
        if size <= skip:
            skip -= size
            continue
        part = data[done : done + size - skip]
        process.memory.write(address + skip, part)
        done += len(part)
        if done == len(data):
            return
        skip = 0


def _from_guest(process: Process, file: OpenFile, pieces: Pieces, offset: int | None = None) -> int:
    """Write until all is taken, or a write is short; without `offset` at the file's own, which moves.

    A pipe without a reader sends SIGPIPE.
    """
    done = 0
    for address, size in _blocks(pieces):
        try:
            data = process.memory.read(address, size)
            taken = file.write(process, data) if offset is None else file.pwrite(process, data, offset + done)
        except BrokenPipeError:
            if done:
                break
            send_own(process, abi.SIGPIPE)
            raise
        except (GuestFault, Failure, OSError):
            if done:
                break
            raise
        done += taken
        if taken < size:
            break
    return done


def _between(process: Process, source: OpenFile, start: int, sink: OpenFile, count: int) -> int:
    """Copy from offset `start` on: `count` bytes, or until the source ends or the sink takes no more."""
    count = min(count, abi.MAX_RW_COUNT)
    done = 0
    while done < count:
        size = min(_BLOCK, count - done)
        data = source.pread(process, size, start + done)
        try:
            taken = sink.write(process, data) if data else 0
        except (Failure, OSError) as error:
            if done:
                break
            if isinstance(error, BrokenPipeError):
                send_own(process, abi.SIGPIPE)
            raise
        done += taken
        if taken < size:
            break
    return done
