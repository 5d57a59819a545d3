"""What makes descriptors, and ioctl and advice on them."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.mounts import MEMFD, PIPE
from kvrm.linux.files.open_file import Descriptor
from kvrm.linux.files.opening import check_flags, open_created, open_path
from kvrm.linux.files.pipes import Fifo, PipeEnd
from kvrm.linux.layout import DOUBLEWORD, INT, WORD

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_OPEN_HOW: Final = 24
_MFD_FLAGS: Final = abi.MFD_CLOEXEC | abi.MFD_ALLOW_SEALING | abi.MFD_NOEXEC_SEAL | abi.MFD_EXEC
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


def close_range(process: Process, first: int, last: int, flags: int) -> int:
    """Close all descriptors of a range, or mark them (CLOSE_RANGE_CLOEXEC)."""
    if first > last or flags & ~6:
        raise Failure(Errno.EINVAL)
    for fd in [fd for fd in process.descriptors if first <= fd <= last]:
        if flags & 4:
            process.descriptors[fd] = Descriptor(process.any_file(fd), True)
        else:
            process.close(fd)
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
        case abi.FIONREAD | abi.SIOCOUTQ:
            number = file.available() if request == abi.FIONREAD else file.unsent()
            if number is None:
                raise Failure(file.refusal)
            process.memory.write(argument, WORD.pack(number & 0xFFFFFFFF))
        case _:
            raise Failure(file.refusal)
    return 0


def pipe2(process: Process, pointer: int, flags: int) -> int:
    """A pipe from this process to itself."""
    if flags & ~(abi.O_CLOEXEC | abi.O_NONBLOCK | abi.O_DIRECT):
        raise Failure(Errno.EINVAL)
    cloexec, status = bool(flags & abi.O_CLOEXEC), flags & ~abi.O_CLOEXEC
    meta = process.kernel.files.status(stat.S_IFIFO | 0o600, PIPE)
    node, ends = Fifo(meta), list[int]()
    try:
        for access in (abi.O_RDONLY, abi.O_WRONLY):
            process.free_descriptor()
            ends.append(process.open(PipeEnd(access | status, b"pipe:[%d]" % meta.ino, node), cloexec))
        process.memory.write(pointer, INT.pack(ends[0]) + INT.pack(ends[1]))
    except Exception:
        for fd in ends:
            process.close(fd)
        raise
    return 0


def memfd_create(process: Process, name: int, flags: int) -> int:
    """A file in memory without a name, which may be sealed (F_ADD_SEALS)."""
    sealing, executable = flags & abi.MFD_ALLOW_SEALING, not flags & abi.MFD_NOEXEC_SEAL
    if (
        flags & ~_MFD_FLAGS
        or flags & (abi.MFD_EXEC | abi.MFD_NOEXEC_SEAL) == abi.MFD_EXEC | abi.MFD_NOEXEC_SEAL
    ):
        raise Failure(Errno.EINVAL)
    text = process.memory.read_cstring(name, abi.MFD_NAME_MAX + 1)
    if len(text) > abi.MFD_NAME_MAX:
        raise Failure(Errno.EINVAL)
    node = process.kernel.files.unnamed_file(0o777 if executable else 0o666, MEMFD)
    if not executable:
        node.seals = abi.F_SEAL_EXEC
    else:
        node.seals = 0 if sealing else abi.F_SEAL_SEAL
    file = open_created(node, abi.O_RDWR, b"/memfd:" + text + b" (deleted)")
    return process.open(file, bool(flags & abi.MFD_CLOEXEC))


def fsync(process: Process, fd: int) -> int:
    """Wait until what was written is stored."""
    process.file(fd).sync()
    return 0


def syncfs(process: Process, fd: int) -> int:
    """Wait until a file system has stored what was written: the host's own affair."""
    process.file(fd)
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
    if stat.S_ISFIFO(process.file(fd).stat().mode):
        raise Failure(Errno.ESPIPE)
    if size < 0 or not 0 <= advice <= abi.POSIX_FADV_NOREUSE:
        raise Failure(Errno.EINVAL)
    return 0
