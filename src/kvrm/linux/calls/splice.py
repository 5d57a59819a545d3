"""Moving bytes between open files: sendfile, copy_file_range, splice, tee and vmsplice (fs/splice.c)."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.transfer import (
    BLOCK,
    Pieces,
    from_guest,
    gather,
    into_guest,
    require_offset,
    vector_of,
    writable,
)
from kvrm.linux.delivery import send_own
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.mounts import mount_of
from kvrm.linux.files.open_file import MAX_OFFSET, OpenFile
from kvrm.linux.files.pipes import Buffer, PipeEnd
from kvrm.linux.layout import DOUBLEWORD
from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_FLAGS: Final = 0xF
_NONBLOCK: Final = 2


def sendfile(process: Process, out_fd: int, in_fd: int, offset: int, count: int) -> int:
    """Copy from a file to another, or to a pipe."""
    given = _offset_at(process, offset)
    source = process.file(in_fd)
    if not source.readable:
        raise Failure(Errno.EBADF)
    if given is not None and not source.positioned:
        raise Failure(Errno.ESPIPE)
    start = source.tell() if given is None else given
    require_offset(start)
    if count > MAX_OFFSET:
        raise Failure(Errno.EINVAL)
    sink = writable(process, out_fd)
    if not _is_pipe(sink) and sink.flags & abi.O_APPEND:
        raise Failure(Errno.EINVAL)
    if not source.positioned and not (_is_socket(source) and isinstance(sink, PipeEnd)):
        raise Failure(Errno.EINVAL)
    if not count:
        return 0
    _require_spliced(source, sink)
    if isinstance(sink, PipeEnd):
        done = _file_to_pipe(process, source, start, sink, count, _nonblocking(sink))
    else:
        done = _copy(process, source, start, sink, None, count)
    _put_offset(process, source, offset, start + done)
    return _told(process, source, sink, done)


def copy_file_range(
    process: Process, in_fd: int, in_offset: int, out_fd: int, out_offset: int, count: int, flags: int
) -> int:
    """Copy a range of a file to another."""
    source, sink = process.file(in_fd), process.file(out_fd)
    start, at = _offset_at(process, in_offset), _offset_at(process, out_offset)
    start, at = source.tell() if start is None else start, sink.tell() if at is None else at
    if flags:
        raise Failure(Errno.EINVAL)
    status, other = source.stat(), sink.stat()
    if stat.S_ISDIR(status.mode) or stat.S_ISDIR(other.mode):
        raise Failure(Errno.EISDIR)
    if not (stat.S_ISREG(status.mode) and stat.S_ISREG(other.mode)):
        raise Failure(Errno.EINVAL)
    if not source.readable or not sink.writable or sink.flags & abi.O_APPEND:
        raise Failure(Errno.EBADF)
    if start < 0 or at < 0 or count > MAX_OFFSET:
        raise Failure(Errno.EINVAL)
    if start + count > MAX_OFFSET or at + count > MAX_OFFSET:
        raise Failure(Errno.EOVERFLOW)
    count = min(count, max(0, status.size - start), abi.MAX_RW_COUNT)
    if source.stat().identity == sink.stat().identity and start < at + count and at < start + count:
        raise Failure(Errno.EINVAL)
    if not _one_mount(source, sink):
        raise Failure(Errno.EXDEV)
    done = _copy(process, source, start, sink, at, count)
    _put_offset(process, source, in_offset, start + done)
    _put_offset(process, sink, out_offset, at + done)
    return _told(process, source, sink, done)


def splice(
    process: Process, in_fd: int, in_offset: int, out_fd: int, out_offset: int, count: int, flags: int
) -> int:
    """Move bytes from or to a pipe."""
    if not count:
        return 0
    if flags & ~_FLAGS:
        raise Failure(Errno.EINVAL)
    source, sink = process.file(in_fd), process.file(out_fd)
    from_pipe, to_pipe = _is_pipe(source), _is_pipe(sink)
    if (from_pipe and in_offset) or (to_pipe and out_offset):
        raise Failure(Errno.ESPIPE)
    at, start = _offset_at(process, out_offset), _offset_at(process, in_offset)
    if not source.readable or not sink.writable:
        raise Failure(Errno.EBADF)
    if from_pipe and to_pipe:
        nonblocking = _nonblocking(source, sink, flags=flags)
        return _told(process, source, sink, _pipe_to_pipe(process, source, sink, count, nonblocking))
    if from_pipe:
        if at is not None and not sink.positioned:
            raise Failure(Errno.EINVAL)
        if sink.flags & abi.O_APPEND:
            raise Failure(Errno.EINVAL)
        at = sink.tell() if at is None else at
        require_offset(at)
        _require_spliced(source, sink)
        done = _pipe_to_file(process, source, sink, at, count, _nonblocking(source, flags=flags))
        _put_offset(process, sink, out_offset, at + done)
        return _told(process, source, sink, done)
    if not to_pipe or (start is not None and not source.positioned):
        raise Failure(Errno.EINVAL)
    start = source.tell() if start is None else start
    require_offset(start)
    _require_spliced(source, sink)
    done = _file_to_pipe(process, source, start, sink, count, _nonblocking(sink, flags=flags))
    _put_offset(process, source, in_offset, start + done)
    return _told(process, source, sink, done)


def tee(process: Process, in_fd: int, out_fd: int, count: int, flags: int) -> int:
    """Copy what is in a pipe to another, where it also stays."""
    if flags & ~_FLAGS:
        raise Failure(Errno.EINVAL)
    if not count:
        return 0
    source, sink = process.file(in_fd), process.file(out_fd)
    if not source.readable or not sink.writable:
        raise Failure(Errno.EBADF)
    if not (_is_pipe(source) and _is_pipe(sink)):
        raise Failure(Errno.EINVAL)
    nonblocking = _nonblocking(source, sink, flags=flags)
    return _told(process, source, sink, _pipe_to_pipe(process, source, sink, count, nonblocking, keep=True))


def vmsplice(process: Process, fd: int, vector: int, count: int, flags: int) -> int:
    """Move bytes from guest memory to a pipe, or from a pipe to guest memory."""
    if flags & ~_FLAGS:
        raise Failure(Errno.EINVAL)
    file = process.file(fd)
    if not (file.readable or file.writable):
        raise Failure(Errno.EBADF)
    pieces = vector_of(process, vector, count)
    if not any(size for _, size in pieces):
        return 0
    if not _is_pipe(file):
        raise Failure(Errno.EBADF)
    if not isinstance(file, PipeEnd):
        return (from_guest if file.writable else into_guest)(process, file, pieces)
    nonblocking = bool(flags & _NONBLOCK)  # O_NONBLOCK makes no difference
    if not file.writable:
        return into_guest(process, file, pieces) if file.readable_now(process, nonblocking) else 0
    _require_room(process, file, nonblocking)
    done = file.pipe.append(_pages_of(process, pieces, file.pipe.slots))
    process.kernel.watches.used(file, abi.IN_MODIFY)
    return done


def _told(process: Process, source: OpenFile, sink: OpenFile, done: int) -> int:
    """That many bytes were moved: those who watch the files are told."""
    if done:
        process.kernel.watches.used(source, abi.IN_ACCESS)
        process.kernel.watches.used(sink, abi.IN_MODIFY)
    return done


# -- between two ---------------------------------------------------------------------------------------------
def _copy(process: Process, source: OpenFile, start: int, sink: OpenFile, at: int | None, count: int) -> int:
    """`count` bytes from an offset on, to an offset or the sink's own; fewer where either ends."""
    count, done = min(count, abi.MAX_RW_COUNT), 0
    while done < count:
        size = min(BLOCK, count - done)
        data = source.pread(process, size, start + done)
        try:
            if not data:
                break
            taken = sink.write(process, data) if at is None else sink.pwrite(process, data, at + done)
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


def _file_to_pipe(
    process: Process, source: OpenFile, start: int, sink: OpenFile, count: int, nonblocking: bool
) -> int:
    """As many pages of a file as the pipe has slots for."""
    if not isinstance(sink, PipeEnd):
        return _copy(process, source, start, sink, None, count)
    _require_room(process, sink, nonblocking)
    pages = sink.pipe.slots - len(sink.pipe.buffers)
    size = min(count, pages * PAGE - start % PAGE)
    data = source.pread(process, size, start) if source.positioned else source.read(process, size)
    return sink.pipe.append(_cut(data, start % PAGE))


def _pipe_to_file(
    process: Process, source: OpenFile, sink: OpenFile, at: int, count: int, nonblocking: bool
) -> int:
    """All that is in the pipe, up to `count` bytes."""
    data = b"".join(buffer.data for buffer in _front(process, source, count, nonblocking))
    done = 0
    try:
        if data:
            done = sink.pwrite(process, data, at) if sink.positioned else sink.write(process, data)
    finally:
        _take(source, data, done)
    return done


def _pipe_to_pipe(
    process: Process, source: OpenFile, sink: OpenFile, count: int, nonblocking: bool, keep: bool = False
) -> int:
    if isinstance(source, PipeEnd) and isinstance(sink, PipeEnd) and source.pipe is sink.pipe:
        raise Failure(Errno.EINVAL)
    buffers = _front(process, source, count, nonblocking)
    data, done = b"".join(buffer.data for buffer in buffers), 0
    try:
        if data and isinstance(sink, PipeEnd):
            _require_room(process, sink, nonblocking)
            done = sink.pipe.append(buffer._replace(room=0) if keep else buffer for buffer in buffers)
        elif data:
            done = sink.write(process, data)
    finally:
        _take(source, data, 0 if keep else done)
    return done


# -- pipes ---------------------------------------------------------------------------------------------------
def _is_pipe(file: OpenFile) -> bool:
    return stat.S_ISFIFO(file.stat().mode)


def _is_socket(file: OpenFile) -> bool:
    return stat.S_ISSOCK(file.stat().mode)


def _nonblocking(*files: OpenFile, flags: int = 0) -> bool:
    return bool(flags & _NONBLOCK) or any(file.flags & abi.O_NONBLOCK for file in files)


def _front(process: Process, source: OpenFile, size: int, nonblocking: bool) -> list[Buffer]:
    """What is in a pipe now, up to `size` bytes; nothing at its end."""
    size = min(size, abi.MAX_RW_COUNT)
    if isinstance(source, PipeEnd):
        return source.pipe.front(size) if source.readable_now(process, nonblocking) else []
    return _cut(source.read(process, min(size, BLOCK)), 0)


def _take(source: OpenFile, data: bytes, count: int) -> None:
    """Remove from a pipe the first `count` bytes of what `_front` gave."""
    if not isinstance(source, PipeEnd):
        source.unread(data, count)
    while count and isinstance(source, PipeEnd):
        count -= len(source.pipe.take(count))


def _require_room(process: Process, sink: PipeEnd, nonblocking: bool) -> None:
    try:
        sink.writable_now(process, nonblocking)
    except BrokenPipeError:
        send_own(process, abi.SIGPIPE)
        raise


def _cut(data: bytes, start: int) -> list[Buffer]:
    """Data that begins at byte `start` of a page, as a pipe holds pages that it shares with a file."""
    ends = [*range(PAGE - start, len(data), PAGE), len(data)]
    return [Buffer(data[begin:end]) for begin, end in zip([0, *ends], ends, strict=False) if end > begin]


def _pages_of(process: Process, pieces: Pieces, most: int) -> list[Buffer]:
    """The first pages of buffers of the guest, each of which takes a slot; EFAULT if it may read none."""
    found: list[Buffer] = []
    for address, size in pieces:
        wanted = min(size, most * PAGE)
        data = gather(process, [(address, wanted)], 0, wanted)
        found += _cut(data, address % PAGE)
        if len(data) < wanted:
            break
    if not found:
        raise Failure(Errno.EFAULT)
    return found


# -- checks and offsets --------------------------------------------------------------------------------------
def _require_spliced(source: OpenFile, sink: OpenFile) -> None:
    if not source.gives_pages or not sink.takes_pages:
        raise Failure(Errno.EINVAL)


def _one_mount(source: OpenFile, sink: OpenFile) -> bool:
    on_host = [file.node is not None and file.node.on_host for file in (source, sink)]
    return on_host[0] == on_host[1] and mount_of(source.stat().dev) is mount_of(sink.stat().dev)


def _offset_at(process: Process, pointer: int) -> int | None:
    if not pointer:
        return None
    offset: int = DOUBLEWORD.unpack(process.memory.read(pointer, 8))[0]
    return offset - (1 << 64) if offset >> 63 else offset


def _put_offset(process: Process, file: OpenFile, pointer: int, offset: int) -> None:
    """Where the next call goes on: in guest memory, if the offset came from there."""
    if pointer:
        process.memory.write(pointer, DOUBLEWORD.pack(offset))
    elif file.positioned:
        file.seek(offset, abi.SEEK_SET)
