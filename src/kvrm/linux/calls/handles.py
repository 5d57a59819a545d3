"""What else Linux tells of files: handles, the page cache, mounts by number."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NoReturn

from kvrm.linux import abi
from kvrm.linux.calls.at import target_at
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.mounts import PIPE, PROC, mount_of
from kvrm.linux.layout import INT, WORD
from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_HANDLE_FLAGS: Final = abi.AT_SYMLINK_FOLLOW | abi.AT_EMPTY_PATH | abi.AT_HANDLE_FID
_MOST_HANDLE_BYTES: Final = 128
_HANDLE: Final = struct.Struct("<IiQI")
"""struct file_handle: size and type of what follows, which is an inode number and its generation."""
_BY_INODE: Final = 0x81
"""FILEID_INO64_GEN."""
_RANGE: Final = struct.Struct("<QQ")
_CACHESTAT: Final = struct.Struct("<5Q")
_MOUNT_REQUEST: Final = struct.Struct("<IIQQ")
_FIRST_MOUNT: Final = 1 << 31


def name_to_handle_at(process: Process, dirfd: int, path: int, handle: int, mount: int, flags: int) -> int:
    """A handle of a file, which names it for as long as it exists."""
    if flags & ~_HANDLE_FLAGS:
        raise Failure(Errno.EINVAL)
    node = target_at(process, dirfd, path, flags, follow=bool(flags & abi.AT_SYMLINK_FOLLOW)).node
    status = node.stat()
    if mount_of(status.dev) in (PROC, PIPE):
        raise Failure(Errno.EOPNOTSUPP)
    room = WORD.unpack(process.memory.read(handle, WORD.size))[0]
    if room > _MOST_HANDLE_BYTES:
        raise Failure(Errno.EINVAL)
    size = _HANDLE.size - 2 * WORD.size
    process.memory.write(mount, INT.pack(mount_of(status.dev).number))
    if room < size:
        process.memory.write(handle, WORD.pack(size))
        raise Failure(Errno.EOVERFLOW)
    process.memory.write(handle, _HANDLE.pack(size, _BY_INODE, status.ino, 0))
    return 0


def cachestat(process: Process, fd: int, part: int, result: int, flags: int) -> int:
    """How much of a file is in memory: all of it."""
    file = process.file(fd)
    offset, length = _RANGE.unpack(process.memory.read(part, _RANGE.size))
    if flags:
        raise Failure(Errno.EINVAL)
    pages = -(-file.stat().size // PAGE)
    end = pages if not length else min(pages, (offset + length - 1) // PAGE + 1)
    process.memory.write(result, _CACHESTAT.pack(max(0, end - offset // PAGE), 0, 0, 0, 0))
    return 0


def statmount(process: Process, request: int, buffer: int, size: int, flags: int) -> NoReturn:
    """Status of a mount by its unique number: no call tells one."""
    if flags:
        raise Failure(Errno.EINVAL)
    given = WORD.unpack(process.memory.read(request, WORD.size))[0]
    if given > PAGE:
        raise Failure(Errno.E2BIG)
    if given < _MOUNT_REQUEST.size:
        raise Failure(Errno.EINVAL)
    _, spare, number, _ = _MOUNT_REQUEST.unpack(process.memory.read(request, _MOUNT_REQUEST.size))
    raise Failure(Errno.EINVAL if spare or number <= _FIRST_MOUNT else Errno.ENOENT)
