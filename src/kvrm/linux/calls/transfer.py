"""Moving bytes between open files and guest memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.delivery import send_own
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.open_file import MAX_OFFSET, OpenFile
from kvrm.linux.files.regular import GuestFile
from kvrm.linux.layout import IOVEC
from kvrm.memory import PAGE, VA_END, GuestFault, untagged

if TYPE_CHECKING:
    from kvrm.linux.process import Process

BLOCK: Final = 1 << 20
"""Bytes moved at a time, so that no count makes the host allocate more."""
_KNOWN_RWF: Final = (
    abi.RWF_HIPRI | abi.RWF_DSYNC | abi.RWF_SYNC | abi.RWF_NOWAIT | abi.RWF_APPEND | abi.RWF_NOAPPEND
)

Pieces = list[tuple[int, int]]
"""Addresses and sizes of buffers in guest memory."""


def read(process: Process, fd: int, buffer: int, count: int) -> int:
    """Read from the current offset."""
    file = readable(process, fd)
    done = into_guest(process, file, _one(buffer, count))
    # what watches the file is told of each read
    if 0 < done == count <= PAGE and isinstance(file, GuestFile) and not process.kernel.watches:
        process.lent.reads(fd, file)
    return done


def readv(process: Process, fd: int, vector: int, count: int) -> int:
    """Read into several buffers."""
    return preadv2(process, fd, vector, count, -1, 0, 0)


def pread64(process: Process, fd: int, buffer: int, count: int, offset: int) -> int:
    """Read at an offset; the current one stays."""
    file = _positioned(process, fd, offset)
    require_readable(file)
    return into_guest(process, file, _one(buffer, count), offset)


def preadv(process: Process, fd: int, vector: int, count: int, low: int, high: int) -> int:
    """Read at an offset into several buffers. On 64-bit systems the low half is the whole offset."""
    require_offset(low)
    return preadv2(process, fd, vector, count, low, high, 0)


def preadv2(process: Process, fd: int, vector: int, count: int, low: int, high: int, flags: int) -> int:
    """Read into several buffers at an offset (-1: the current one), with RWF_* flags."""
    file = process.file(fd) if low == -1 else _positioned(process, fd, low)
    require_readable(file)
    pieces = vector_of(process, vector, count)
    if not any(size for _, size in pieces):
        return 0
    with _flagged(file, flags):
        return into_guest(process, file, pieces, None if low == -1 else low)


def write(process: Process, fd: int, buffer: int, count: int) -> int:
    """Write at the current offset."""
    return from_guest(process, writable(process, fd), _one(buffer, count))


def writev(process: Process, fd: int, vector: int, count: int) -> int:
    """Write several buffers."""
    return pwritev2(process, fd, vector, count, -1, 0, 0)


def pwrite64(process: Process, fd: int, buffer: int, count: int, offset: int) -> int:
    """Write at an offset; the current one stays."""
    file = _positioned(process, fd, offset, for_writing=True)
    require_writable(file)
    return from_guest(process, file, _one(buffer, count), offset)


def pwritev(process: Process, fd: int, vector: int, count: int, low: int, high: int) -> int:
    """Write several buffers at an offset."""
    require_offset(low)
    return pwritev2(process, fd, vector, count, low, high, 0)


def pwritev2(process: Process, fd: int, vector: int, count: int, low: int, high: int, flags: int) -> int:
    """Write several buffers at an offset (-1: the current one), with RWF_* flags."""
    file = process.file(fd) if low == -1 else _positioned(process, fd, low, for_writing=True)
    require_writable(file)
    pieces = vector_of(process, vector, count)
    if not any(size for _, size in pieces):
        return 0
    if file.by_piece and flags & ~abi.RWF_HIPRI:
        raise Failure(Errno.EOPNOTSUPP)
    with _flagged(file, flags):
        done = from_guest(process, file, pieces, None if low == -1 else low)
    if flags & (abi.RWF_DSYNC | abi.RWF_SYNC):
        file.sync()
    return done


def lseek(process: Process, fd: int, offset: int, whence: int) -> int:
    """Move the current offset."""
    file = process.file(fd)
    if whence > abi.SEEK_HOLE:
        raise Failure(Errno.EINVAL)
    return file.seek(offset, whence)


# -- what other calls move bytes with ----------------------------------------------------------------------
def readable(process: Process, fd: int) -> OpenFile:
    """The open file of a descriptor that can be read."""
    file = process.file(fd)
    require_readable(file)
    return file


def writable(process: Process, fd: int) -> OpenFile:
    """The open file of a descriptor that can be written."""
    file = process.file(fd)
    require_writable(file)
    return file


def require_readable(file: OpenFile) -> None:
    """EBADF unless it was opened for reading, EINVAL if nothing of its kind can be read."""
    if not file.readable:
        raise Failure(Errno.EBADF)
    if not file.can_be_read:
        raise Failure(Errno.EINVAL)


def require_writable(file: OpenFile) -> None:
    """EBADF unless it was opened for writing, EINVAL if nothing of its kind can be written."""
    if not file.writable:
        raise Failure(Errno.EBADF)
    if not file.can_be_written:
        raise Failure(Errno.EINVAL)


def vector_of(process: Process, vector: int, count: int) -> Pieces:
    """The buffers of an iovec array."""
    if count > abi.IOV_MAX:
        raise Failure(Errno.EINVAL)
    pieces: Pieces = list(IOVEC.iter_unpack(process.memory.read(vector, count * IOVEC.size)))
    if any(size >> 63 for _, size in pieces):
        raise Failure(Errno.EINVAL)
    for address, size in pieces:
        _require_user(address, size)
    return pieces


def into_guest(process: Process, file: OpenFile, pieces: Pieces, offset: int | None = None) -> int:
    """Read until the buffers are full, or there is no more for now; without `offset` the file's own moves.

    A file whose reads may wait is read once, whatever the number of buffers.
    """
    done = _into_guest(process, file, pieces, offset)
    if done:
        process.kernel.watches.used(file, abi.IN_ACCESS)
    return done


def _into_guest(process: Process, file: OpenFile, pieces: Pieces, offset: int | None) -> int:
    total, done = _total(pieces, offset), 0
    while True:
        size = min(BLOCK, total - done)
        try:
            data = file.read(process, size) if offset is None else file.pread(process, size, offset + done)
        except (Failure, OSError):
            if done:
                return done
            raise
        stored = _scatter(process, pieces, done, data)
        if stored < len(data):
            stored = file.unread(data, stored) if offset is None else stored
            if not done + stored:
                raise Failure(Errno.EFAULT)
            return done + stored
        done += stored
        if len(data) < size or done == total or file.waits:
            return done


def from_guest(process: Process, file: OpenFile, pieces: Pieces, offset: int | None = None) -> int:
    """Write until all is taken, or a write is short; without `offset` at the file's own, which moves.

    A pipe without readers sends SIGPIPE.
    """
    done = _from_guest(process, file, pieces, offset)
    if done:
        process.kernel.watches.used(file, abi.IN_MODIFY)
    return done


def _from_guest(process: Process, file: OpenFile, pieces: Pieces, offset: int | None) -> int:
    total, done = _total(pieces, offset), 0
    while True:
        size = min(BLOCK, total - done)
        if file.by_piece:
            size = _rest_of_piece(pieces, done)
        try:
            file.require_write(size)
            data = bytes(size) if file.discards else gather(process, pieces, done, size)
            if len(data) < size and file.waits:  # a pipe takes only pages that could be read whole
                data = data[: len(data) & -PAGE]
            if not data and size:
                raise Failure(Errno.EFAULT)
            taken = file.write(process, data) if offset is None else file.pwrite(process, data, offset + done)
        except (Failure, OSError) as error:
            if done:
                return done
            if isinstance(error, BrokenPipeError):
                send_own(process, abi.SIGPIPE)
            raise
        done += taken
        if taken < size or done == total:
            return done


def _rest_of_piece(pieces: Pieces, done: int) -> int:
    """How much of the buffer that byte `done` lies in is left."""
    end = 0
    for _, length in pieces:
        end += length
        if end > done:
            return end - done
    return 0


def gather(process: Process, pieces: Pieces, skip: int, size: int) -> bytes:
    """`size` bytes of buffers, after `skip` of them; fewer where the guest may not read on."""
    parts = []
    for address, length in pieces:
        if length <= skip:
            skip -= length
            continue
        wanted = min(length - skip, size)
        try:
            parts.append(process.memory.read(address + skip, wanted))
        except GuestFault as fault:
            reached = fault.address - untagged(address + skip)
            parts.append(process.memory.read(address + skip, reached))
            break
        size -= wanted
        skip = 0
        if not size:
            break
    return b"".join(parts)


def _scatter(process: Process, pieces: Pieces, skip: int, data: bytes) -> int:
    """Fill buffers with `data`, from their byte `skip` on; how many bytes went there before a fault."""
    done = 0
    for address, size in pieces:
        if done == len(data):
            break
        if size <= skip:
            skip -= size
            continue
        part = data[done : done + size - skip]
        try:
            process.memory.write(address + skip, part)
        except GuestFault as fault:
            reached = fault.address - untagged(address + skip)
            process.memory.write(address + skip, part[:reached])
            return done + reached
        done += len(part)
        skip = 0
    return done


def _one(address: int, size: int) -> Pieces:
    _require_user(address, size)
    return [(address, size)]


def _total(pieces: Pieces, offset: int | None) -> int:
    """How many bytes to move at most; EINVAL if they would pass the last offset that there is."""
    total = sum(size for _, size in pieces)
    if offset is not None and offset + total > MAX_OFFSET:
        raise Failure(Errno.EINVAL)
    return min(total, abi.MAX_RW_COUNT)


def _require_user(address: int, size: int) -> None:
    """EFAULT for a buffer that leaves the address space, which Linux sees before it looks at the file."""
    if untagged(address) + size > VA_END:
        raise Failure(Errno.EFAULT)


def require_offset(offset: int) -> None:
    """EINVAL for what is no offset."""
    if not 0 <= offset <= MAX_OFFSET:
        raise Failure(Errno.EINVAL)


def _positioned(process: Process, fd: int, offset: int, for_writing: bool = False) -> OpenFile:
    """The open file of a descriptor that has offsets; ESPIPE for pipes and their like."""
    require_offset(offset)
    file = process.file(fd)
    if not (file.positioned_for_writing if for_writing else file.positioned):
        raise Failure(Errno.ESPIPE)
    return file


@contextmanager
def _flagged(file: OpenFile, flags: int) -> Iterator[None]:
    """The file as RWF_* flags have it for one call."""
    if flags & ~_KNOWN_RWF:
        raise Failure(Errno.EOPNOTSUPP)
    if flags & abi.RWF_APPEND and flags & abi.RWF_NOAPPEND:
        raise Failure(Errno.EINVAL)
    before = file.flags
    if flags & abi.RWF_NOWAIT:
        file.flags |= abi.O_NONBLOCK
    if flags & abi.RWF_APPEND:
        file.flags |= abi.O_APPEND
    if flags & abi.RWF_NOAPPEND:
        file.flags &= ~abi.O_APPEND
    try:
        yield
    finally:
        file.flags = before
