"""Entries of directories: making, removing, linking, renaming."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.at import name_at, target_at
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files import names

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_KINDS: Final = (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
_DEVICES: Final = (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFDIR)


def mkdirat(process: Process, dirfd: int, path: int, mode: int) -> int:
    """Make a directory."""
    names.mkdir(process, name_at(process, dirfd, path), mode & 0o1777 & ~process.umask)
    return 0


def mknodat(process: Process, dirfd: int, path: int, mode: int, device: int) -> int:
    """Make a regular file, a FIFO or the name of a socket; devices are not permitted."""
    kind = stat.S_IFMT(mode) or stat.S_IFREG
    if kind not in _KINDS:
        raise Failure(Errno.EPERM if kind in _DEVICES else Errno.EINVAL)
    names.mknod(process, name_at(process, dirfd, path), kind | mode & 0o7777 & ~process.umask)
    return 0


def unlinkat(process: Process, dirfd: int, path: int, flags: int) -> int:
    """Remove a name, or an empty directory with AT_REMOVEDIR."""
    if flags & ~abi.AT_REMOVEDIR:
        raise Failure(Errno.EINVAL)
    remove = names.rmdir if flags else names.unlink
    remove(process, name_at(process, dirfd, path))
    return 0


def renameat(process: Process, old_dirfd: int, old: int, new_dirfd: int, new: int) -> int:
    """Rename, replacing what has the new name."""
    return renameat2(process, old_dirfd, old, new_dirfd, new, 0)


def renameat2(process: Process, old_dirfd: int, old: int, new_dirfd: int, new: int, flags: int) -> int:
    """Rename, replacing what has the new name unless flags say otherwise; or exchange two names."""
    other = abi.RENAME_NOREPLACE | abi.RENAME_WHITEOUT
    if flags & ~(other | abi.RENAME_EXCHANGE) or (flags & abi.RENAME_EXCHANGE and flags & other):
        raise Failure(Errno.EINVAL)
    names.rename(process, name_at(process, old_dirfd, old), name_at(process, new_dirfd, new), flags)
    return 0


def symlinkat(process: Process, target: int, dirfd: int, path: int) -> int:
    """Make a symbolic link."""
    text = process.path(target)
    if not text:
        raise Failure(Errno.ENOENT)
    names.symlink(process, name_at(process, dirfd, path), text)
    return 0


def linkat(process: Process, old_dirfd: int, old: int, new_dirfd: int, new: int, flags: int) -> int:
    """Give a file another name."""
    if flags & ~(abi.AT_SYMLINK_FOLLOW | abi.AT_EMPTY_PATH):
        raise Failure(Errno.EINVAL)
    target = target_at(process, old_dirfd, old, flags, follow=bool(flags & abi.AT_SYMLINK_FOLLOW))
    names.link(process, target.node, name_at(process, new_dirfd, new))
    return 0
