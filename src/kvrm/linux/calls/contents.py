"""What a file holds: its size, its holes, and the entries of a directory."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import MAX_SIZE
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.file import File
from kvrm.linux.files.mounts import OVERLAY, mount_of
from kvrm.linux.files.open_file import DirectoryFile
from kvrm.linux.files.opening import open_node
from kvrm.linux.files.paths import resolve

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_KEEP: Final = abi.FALLOC_FL_KEEP_SIZE
_MODES: Final = frozenset(
    [
        0,
        _KEEP,
        abi.FALLOC_FL_ZERO_RANGE,
        abi.FALLOC_FL_ZERO_RANGE | _KEEP,
        abi.FALLOC_FL_PUNCH_HOLE | _KEEP,
        abi.FALLOC_FL_COLLAPSE_RANGE,
        abi.FALLOC_FL_INSERT_RANGE,
    ]
)
_IN_MEMORY: Final = frozenset([0, _KEEP, abi.FALLOC_FL_PUNCH_HOLE | _KEEP])
"""What tmpfs knows."""


def truncate(process: Process, path: int, size: int) -> int:
    """Cut or extend a file."""
    if size < 0:
        raise Failure(Errno.EINVAL)
    found = resolve(process, process.cwd, process.path(path))
    node = found.existing()
    if isinstance(node, Directory):
        raise Failure(Errno.EISDIR)
    if not isinstance(node, File):
        raise Failure(Errno.EINVAL)
    file = open_node(process, node, abi.O_WRONLY, found.called)
    file.truncate(process, size)
    process.kernel.watches.changed(file, file.called, abi.IN_MODIFY)
    return 0


def ftruncate(process: Process, fd: int, size: int) -> int:
    """Cut or extend an open file."""
    if size < 0:
        raise Failure(Errno.EINVAL)
    file = process.file(fd)
    if not file.writable:
        raise Failure(Errno.EINVAL)
    file.truncate(process, size)
    process.kernel.watches.changed(file, file.called, abi.IN_MODIFY)
    return 0


def fallocate(process: Process, fd: int, mode: int, offset: int, size: int) -> int:
    """Reserve room for a range of a file, make it a hole or zeros, or take it out or put it in."""
    file = process.file(fd)
    if offset < 0 or size <= 0:
        raise Failure(Errno.EINVAL)
    if mode not in _MODES:
        raise Failure(Errno.EOPNOTSUPP)
    if not file.writable:
        raise Failure(Errno.EBADF)
    status = file.stat()
    if stat.S_ISFIFO(status.mode):
        raise Failure(Errno.ESPIPE)
    if stat.S_ISREG(status.mode) and offset + size > MAX_SIZE:
        raise Failure(Errno.EFBIG)
    if mount_of(status.dev) is not OVERLAY and mode not in _IN_MEMORY:
        raise Failure(Errno.EOPNOTSUPP)
    file.allocate(process, mode, offset, size)
    process.kernel.watches.used(file, abi.IN_MODIFY)
    return 0


def getdents64(process: Process, fd: int, buffer: int, count: int) -> int:
    """List a directory, sorted by name."""
    file = process.file(fd)
    if not isinstance(file, DirectoryFile):
        raise Failure(Errno.ENOTDIR)
    process.kernel.watches.used(file, abi.IN_ACCESS)
    records, position = file.list(process, count)
    process.memory.write(buffer, records)
    file.seek(position, abi.SEEK_SET)
    return len(records)
