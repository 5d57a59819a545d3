"""What is known of a file: status, access, file system; the target of a link; the current directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvrm.linux import abi, layout
from kvrm.linux.calls.at import found_at, status_at
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.mounts import mount_of
from kvrm.linux.files.nodes import Node, Symlink
from kvrm.linux.files.paths import resolve
from kvrm.linux.layout import Stat
from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.linux.process import Process


def newfstatat(process: Process, dirfd: int, path: int, buffer: int, flags: int) -> int:
    """Status of a path."""
    if flags & ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH | abi.AT_NO_AUTOMOUNT):
        raise Failure(Errno.EINVAL)
    process.memory.write(buffer, layout.stat(status_at(process, dirfd, path, flags)))
    return 0


def fstat(process: Process, fd: int, buffer: int) -> int:
    """Status of an open file."""
    process.memory.write(buffer, layout.stat(process.any_file(fd).stat()))
    return 0


def statx(process: Process, dirfd: int, path: int, flags: int, mask: int, buffer: int) -> int:
    """Status of a path or open file; the time of birth is not known."""
    known = abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH | abi.AT_NO_AUTOMOUNT | abi.AT_STATX_SYNC_TYPE
    if (
        flags & ~known
        or flags & abi.AT_STATX_SYNC_TYPE == abi.AT_STATX_SYNC_TYPE
        or mask & abi.STATX_RESERVED
    ):
        raise Failure(Errno.EINVAL)
    process.memory.write(buffer, layout.statx(status_at(process, dirfd, path, flags)))
    return 0


def statfs(process: Process, path: int, buffer: int) -> int:
    """Status of the file system of a path."""
    return _tell(process, resolve(process, process.cwd, process.path(path)).existing().stat(), buffer)


def fstatfs(process: Process, fd: int, buffer: int) -> int:
    """Status of the file system of an open file."""
    return _tell(process, process.any_file(fd).stat(), buffer)


def _tell(process: Process, status: Stat, buffer: int) -> int:
    budget = process.kernel.files.budget
    blocks, free = budget.limit // PAGE, max(0, budget.limit - budget.used) // PAGE
    process.memory.write(buffer, layout.statfs(mount_of(status.dev).magic, blocks, free))
    return 0


def faccessat(process: Process, dirfd: int, path: int, mode: int) -> int:
    """Whether a path may be read, written or run."""
    return faccessat2(process, dirfd, path, mode, 0)


def faccessat2(process: Process, dirfd: int, path: int, mode: int, flags: int) -> int:
    """Whether a path may be read, written or run; AT_EACCESS makes no difference."""
    if mode & ~7 or flags & ~(abi.AT_EACCESS | abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH):
        raise Failure(Errno.EINVAL)
    if not process.credentials.allow(status_at(process, dirfd, path, flags), mode):
        raise Failure(Errno.EACCES)
    return 0


def readlinkat(process: Process, dirfd: int, path: int, buffer: int, size: int) -> int:
    """Target of a symbolic link."""
    if size <= 0:
        raise Failure(Errno.EINVAL)
    name = process.path(path)
    if name or dirfd == abi.AT_FDCWD:
        node: Node | None = found_at(process, dirfd, name, follow=False).existing()
    else:
        node = process.any_file(dirfd).node
    if not isinstance(node, Symlink):
        raise Failure(Errno.EINVAL if name else Errno.ENOENT)
    text = node.text(process)[:size]
    process.memory.write(buffer, text)
    return len(text)


def chdir(process: Process, path: int) -> int:
    """Change the current directory."""
    return _enter(process, resolve(process, process.cwd, process.path(path)).existing())


def fchdir(process: Process, fd: int) -> int:
    """Change the current directory to an open one."""
    return _enter(process, process.any_file(fd).node)


def _enter(process: Process, node: Node | None) -> int:
    if not isinstance(node, Directory):
        raise Failure(Errno.ENOTDIR)
    process.credentials.require(node, abi.X_OK)
    process.cwd = node
    return 0
