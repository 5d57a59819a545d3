"""Descriptors: open, close, duplicate, flags, pipes, and waiting for events."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import MAX_SIZE
from kvrm.linux.files.mounts import MEMFD
from kvrm.linux.files.open_file import Descriptor, DirectoryFile
from kvrm.linux.files.opening import check_flags, open_created, open_path
from kvrm.linux.files.streams import Pipe, PipeEnd
from kvrm.linux.layout import DOUBLEWORD, FLOCK, INT, WORD

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_OPEN_HOW: Final = 24
_HANGUPS: Final = abi.POLLERR | abi.POLLHUP | abi.POLLNVAL


def openat(process: Process, dirfd: int, path: int, flags: int, mode: int) -> int:
    """Open or create a file."""
    check_flags(flags)
    return _open(process, dirfd, process.path(path), flags, mode)


def openat2(process: Process, dirfd: int, path: int, how: int, size: int) -> int:
    """Open or create a file; RESOLVE_* restrictions are not supported."""
    if size < _OPEN_HOW:
        raise Failure(Errno.EINVAL)
    flags, mode, resolve = (
        DOUBLEWORD.unpack(process.memory.read(how + offset, 8))[0] for offset in (0, 8, 16)
    )
    if size > _OPEN_HOW or resolve or flags >> 32 or mode >> 12:
        raise Failure(Errno.E2BIG if size > _OPEN_HOW else Errno.EINVAL)
    check_flags(flags)
    return _open(process, dirfd, process.path(path), flags, mode)


def _open(process: Process, dirfd: int, path: bytes, flags: int, mode: int) -> int:
    process.free_descriptor()
    file = open_path(process, process.base(dirfd, path), path, flags, mode & 0o7777 & ~process.umask)
    return process.open(file, bool(flags & abi.O_CLOEXEC))


def close(process: Process, fd: int) -> int:
    """Close a descriptor."""
    process.close(fd)
    return 0


def close_range(process: Process, first: int, last: int, flags: int) -> int:
    """Close all descriptors of a range, or mark them (CLOSE_RANGE_CLOEXEC)."""
    if first > last or flags & ~6:
        raise Failure(Errno.EINVAL)
    for fd in [fd for fd in process.descriptors if first <= fd <= last]:
        if flags & 4:
            process.descriptors[fd] = Descriptor(process.file(fd), True)
        else:
            process.close(fd)
    return 0


def dup(process: Process, fd: int) -> int:
    """Another descriptor of the same open file."""
    return process.open(process.file(fd))


def dup3(process: Process, old: int, new: int, flags: int) -> int:
    """Make `new` a descriptor of the open file of `old`."""
    file = process.file(old)
    if flags & ~abi.O_CLOEXEC or old == new:
        raise Failure(Errno.EINVAL)
    if not 0 <= new < process.limit(abi.RLIMIT_NOFILE)[0]:
        raise Failure(Errno.EBADF)
    if new in process.descriptors:
        process.close(new)
    process.descriptors[new] = Descriptor(file, bool(flags))
    return new


def fcntl(process: Process, fd: int, command: int, argument: int) -> int:
    """Descriptor and status flags; locks always succeed, as no other process holds any."""
    file = process.file(fd)
    match command:
        case abi.F_DUPFD | abi.F_DUPFD_CLOEXEC:
            if argument >= process.limit(abi.RLIMIT_NOFILE)[0]:
                raise Failure(Errno.EINVAL)
            return process.open(file, command == abi.F_DUPFD_CLOEXEC, argument)
        case abi.F_GETFD:
            return abi.FD_CLOEXEC if process.descriptors[fd].cloexec else 0
        case abi.F_SETFD:
            process.descriptors[fd] = Descriptor(file, bool(argument & abi.FD_CLOEXEC))
        case abi.F_GETFL:
            return file.flags | abi.O_LARGEFILE
        case abi.F_SETFL:
            file.flags = file.flags & ~abi.SETTABLE_FLAGS | argument & abi.SETTABLE_FLAGS
        case abi.F_GETLK | abi.F_OFD_GETLK:
            _, *rest = FLOCK.unpack(process.memory.read(argument, FLOCK.size))
            process.memory.write(argument, FLOCK.pack(abi.F_UNLCK, *rest))
        case abi.F_SETLK | abi.F_SETLKW | abi.F_OFD_SETLK | abi.F_OFD_SETLKW:
            process.memory.read(argument, FLOCK.size)
        case abi.F_SETOWN | abi.F_GETOWN:
            return 0
        case abi.F_GETPIPE_SZ if isinstance(file, PipeEnd):
            return abi.PIPE_SIZE
        case _:
            raise Failure(Errno.EINVAL)
    return 0


def flock(process: Process, fd: int, operation: int) -> int:
    """Lock a file: always granted."""
    process.file(fd)
    return 0


def ioctl(process: Process, fd: int, request: int, argument: int) -> int:
    """The requests that all files know. No file is a terminal."""
    file = process.file(fd)
    match request:
        case abi.FIOCLEX | abi.FIONCLEX:
            process.descriptors[fd] = Descriptor(file, request == abi.FIOCLEX)
        case abi.FIONBIO:
            on = WORD.unpack(process.memory.read(argument, 4))[0]
            file.flags = file.flags | abi.O_NONBLOCK if on else file.flags & ~abi.O_NONBLOCK
        case abi.FIONREAD:
            available = file.available()
            if available is None:
                raise Failure(Errno.ENOTTY)
            process.memory.write(argument, WORD.pack(min(available, 0x7FFFFFFF)))
        case _:
            raise Failure(Errno.ENOTTY)
    return 0


def pipe2(process: Process, pointer: int, flags: int) -> int:
    """A pipe from this process to itself."""
    if flags & ~(abi.O_CLOEXEC | abi.O_NONBLOCK | abi.O_DIRECT):
        raise Failure(Errno.EINVAL)
    cloexec, status = bool(flags & abi.O_CLOEXEC), flags & ~abi.O_CLOEXEC
    pipe = Pipe(process.files.new_inode())
    ends: list[int] = []
    try:
        for access in (abi.O_RDONLY, abi.O_WRONLY):
            ends.append(process.open(PipeEnd(pipe, access | status), cloexec))
        process.memory.write(pointer, INT.pack(ends[0]) + INT.pack(ends[1]))
    except Exception:
        for fd in ends:
            process.close(fd)
        raise
    return 0


def memfd_create(process: Process, name: int, flags: int) -> int:
    """A file without a name."""
    text = process.path(name)
    if flags & ~3 or len(text) > abi.NAME_MAX - 6:
        raise Failure(Errno.EINVAL)
    node = process.files.unnamed_file(0o777, MEMFD)
    file = open_created(node, abi.O_RDWR, b"/memfd:" + text + b" (deleted)")
    return process.open(file, bool(flags & 1))


def getdents64(process: Process, fd: int, buffer: int, count: int) -> int:
    """List a directory, sorted by name."""
    file = process.file(fd)
    if not isinstance(file, DirectoryFile):
        raise Failure(Errno.ENOTDIR)
    records = file.list(process, count)
    process.memory.write(buffer, records)
    return len(records)


def ftruncate(process: Process, fd: int, size: int) -> int:
    """Cut or extend an open file."""
    file = process.file(fd)
    if size < 0 or not file.writable:
        raise Failure(Errno.EINVAL)
    file.truncate(process, size)
    return 0


def fallocate(process: Process, fd: int, mode: int, offset: int, size: int) -> int:
    """Make a file at least as large as the range; room is not reserved."""
    file = process.file(fd)
    if not file.writable:
        raise Failure(Errno.EBADF)
    if offset < 0 or size <= 0:
        raise Failure(Errno.EINVAL)
    if mode & ~1:
        raise Failure(Errno.EOPNOTSUPP)
    if offset + size > MAX_SIZE:
        raise Failure(Errno.EFBIG)
    if not mode and file.stat().size < offset + size:
        file.truncate(process, offset + size)
    return 0


def fsync(process: Process, fd: int) -> int:
    """Wait until what was written is stored."""
    process.file(fd).sync()
    return 0


def readahead(process: Process, fd: int, offset: int, count: int) -> int:
    """Read a file ahead: nothing to do."""
    file = process.file(fd)
    if not file.readable:
        raise Failure(Errno.EBADF)
    if not stat.S_ISREG(file.stat().mode):
        raise Failure(Errno.EINVAL)
    return 0


def sync_file_range(process: Process, fd: int, offset: int, size: int, flags: int) -> int:
    """Have a part of a file written to its disk: it is in memory, or the host's."""
    mode = process.file(fd).stat().mode
    if flags & ~abi.SYNC_FILE_RANGE_FLAGS or offset < 0 or not offset <= offset + size < 1 << 63:
        raise Failure(Errno.EINVAL)
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise Failure(Errno.ESPIPE)
    return 0


def fadvise64(process: Process, fd: int, offset: int, size: int, advice: int) -> int:
    """Advice is ignored."""
    process.file(fd)
    return 0
