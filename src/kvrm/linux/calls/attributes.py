"""What can be changed of a file besides what it holds: mode, owner, times."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.at import Target, found_at, target_at, target_of
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.file import File
from kvrm.linux.files.nodes import Node, Symlink
from kvrm.linux.layout import BILLION, TIMESPEC

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_NOBODY: Final = 0xFFFFFFFF
_TIMES: Final = {
    (True, True): abi.IN_ATTRIB,
    (True, False): abi.IN_ACCESS,
    (False, True): abi.IN_MODIFY,
}
"""What is told when the time of access, that of modification, or both are set."""
_RUNNABLE: Final = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


def fchmodat(process: Process, dirfd: int, path: int, mode: int) -> int:
    """Change permission bits."""
    found = found_at(process, dirfd, process.path(path))
    return _chmod(process, Target(found.existing(), found.called), mode)


def fchmodat2(process: Process, dirfd: int, path: int, mode: int, flags: int) -> int:
    """Change permission bits, of a link itself with AT_SYMLINK_NOFOLLOW (which no file system allows)."""
    if flags & ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH):
        raise Failure(Errno.EINVAL)
    target = target_at(process, dirfd, path, flags, follow=not flags & abi.AT_SYMLINK_NOFOLLOW)
    return _chmod(process, target, mode)


def fchmod(process: Process, fd: int, mode: int) -> int:
    """Change permission bits of an open file."""
    return _chmod(process, target_of(process.file(fd)), mode)


def fchownat(process: Process, dirfd: int, path: int, uid: int, gid: int, flags: int) -> int:
    """Change owner and group."""
    if flags & ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH):
        raise Failure(Errno.EINVAL)
    target = target_at(process, dirfd, path, flags, follow=not flags & abi.AT_SYMLINK_NOFOLLOW)
    return _chown(process, target, uid, gid)


def fchown(process: Process, fd: int, uid: int, gid: int) -> int:
    """Change owner and group of an open file."""
    return _chown(process, target_of(process.file(fd)), uid, gid)


def utimensat(process: Process, dirfd: int, path: int, times: int, flags: int) -> int:
    """Set the times of last access and modification."""
    now = process.kernel.realtime
    wanted: list[int | None] = [now, now]
    if times:
        pairs = list(TIMESPEC.iter_unpack(process.memory.read(times, 2 * TIMESPEC.size)))
        if all(ns == abi.UTIME_OMIT for _, ns in pairs):
            return 0
        wanted = [_time(seconds, ns, now) for seconds, ns in pairs]
    if flags & ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH) or (flags and not path):
        raise Failure(Errno.EINVAL)
    if path:
        target = target_at(process, dirfd, path, flags, follow=not flags & abi.AT_SYMLINK_NOFOLLOW)
    else:
        target = target_of(process.file(dirfd))
    node = target.node
    if node.immutable:
        raise Failure(Errno.EPERM)
    status = node.stat()
    if process.credentials.uid not in (0, status.uid) and (
        times or not process.credentials.allow(status, abi.W_OK)
    ):
        raise Failure(Errno.EPERM if times else Errno.EACCES)
    atime, mtime = (
        old if new is None else new for new, old in zip(wanted, (status.atime, status.mtime), strict=True)
    )
    if _on_host(node):
        node.grip().utime(atime, mtime)
    else:
        node.change(now, atime=atime, mtime=mtime)
    process.kernel.watches.changed(node, target.called, _TIMES[wanted[0] is not None, wanted[1] is not None])
    return 0


def _change(process: Process, node: Node) -> None:
    """Whether the guest may change permissions of a node."""
    if node.immutable or (isinstance(node, Directory) and node.sealed):
        raise Failure(Errno.EPERM)
    if process.credentials.uid not in (0, node.stat().uid):
        raise Failure(Errno.EPERM)


def _chmod(process: Process, target: Target, mode: int) -> int:
    node = target.node
    _change(process, node)
    if isinstance(node, Symlink):
        raise Failure(Errno.EOPNOTSUPP)
    sealed = isinstance(node, File) and node.seals is not None and node.seals & abi.F_SEAL_EXEC
    if sealed and (node.stat().mode ^ mode) & _RUNNABLE:
        raise Failure(Errno.EPERM)
    if _on_host(node):
        node.grip().chmod(mode)
    else:
        node.change(process.kernel.realtime, mode=stat.S_IFMT(node.stat().mode) | mode & 0o7777)
    process.kernel.watches.changed(node, target.called, abi.IN_ATTRIB)
    return 0


def _chown(process: Process, target: Target, uid: int, gid: int) -> int:
    node = target.node
    _change(process, node)
    status = node.stat()
    owner = status.uid if uid == _NOBODY else uid
    group = status.gid if gid == _NOBODY else gid
    who = process.credentials
    if who.uid and (owner != status.uid or group not in (status.gid, who.gid, *who.groups)):
        raise Failure(Errno.EPERM)
    if _on_host(node):
        node.grip().chown(owner, group)
    else:
        node.change(process.kernel.realtime, uid=owner, gid=group)
    if (uid, gid) != (_NOBODY, _NOBODY):
        process.kernel.watches.changed(node, target.called, abi.IN_ATTRIB)
    return 0


def _on_host(node: Node) -> bool:
    """Whether a change to `node` goes to the host; EPERM for the writable directory itself."""
    if not node.on_host or (isinstance(node, Directory) and node.dead):
        return False
    if node.where is None or not node.where.parts:
        raise Failure(Errno.EPERM)
    return True


def _time(seconds: int, ns: int, now: int) -> int | None:
    if ns == abi.UTIME_OMIT:
        return None
    if ns == abi.UTIME_NOW:
        return now
    if not 0 <= ns < BILLION:
        raise Failure(Errno.EINVAL)
    limit = (1 << 63) // BILLION
    return max(-limit, min(seconds, limit - 1)) * BILLION + ns
