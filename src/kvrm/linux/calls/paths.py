"""Names: status, permissions, directories, links, renaming."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi, layout
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files import names
from kvrm.linux.files.nodes import Directory, File, Node, Symlink
from kvrm.linux.files.opening import open_node
from kvrm.linux.files.paths import Found, Name, resolve, resolve_name
from kvrm.linux.layout import BILLION, TIMESPEC, Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_NOBODY: Final = 0xFFFFFFFF
_DISK_BLOCKS: Final = 1 << 20


def newfstatat(process: Process, dirfd: int, path: int, buffer: int, flags: int) -> int:
    """Status of a path."""
    if flags & ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH | abi.AT_NO_AUTOMOUNT):
        raise Failure(Errno.EINVAL)
    process.memory.write(buffer, layout.stat(_status(process, dirfd, path, flags)))
    return 0


def fstat(process: Process, fd: int, buffer: int) -> int:
    """Status of an open file."""
    process.memory.write(buffer, layout.stat(process.file(fd).stat()))
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
    process.memory.write(buffer, layout.statx(_status(process, dirfd, path, flags)))
    return 0


def statfs(process: Process, path: int, buffer: int) -> int:
    """File system status: the same for all."""
    resolve(process, process.cwd, process.path(path)).existing()
    process.memory.write(buffer, layout.statfs(abi.EXT2_SUPER_MAGIC, _DISK_BLOCKS, _DISK_BLOCKS // 2))
    return 0


def fstatfs(process: Process, fd: int, buffer: int) -> int:
    """File system status: the same for all."""
    process.file(fd)
    process.memory.write(buffer, layout.statfs(abi.EXT2_SUPER_MAGIC, _DISK_BLOCKS, _DISK_BLOCKS // 2))
    return 0


def faccessat(process: Process, dirfd: int, path: int, mode: int) -> int:
    """Whether a path may be read, written or run."""
    return faccessat2(process, dirfd, path, mode, 0)


def faccessat2(process: Process, dirfd: int, path: int, mode: int, flags: int) -> int:
    """Whether a path may be read, written or run; AT_EACCESS makes no difference."""
    if mode & ~7 or flags & ~(abi.AT_EACCESS | abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH):
        raise Failure(Errno.EINVAL)
    if not process.credentials.allow(_status(process, dirfd, path, flags), mode):
        raise Failure(Errno.EACCES)
    return 0


def readlinkat(process: Process, dirfd: int, path: int, buffer: int, size: int) -> int:
    """Target of a symbolic link."""
    if size <= 0:
        raise Failure(Errno.EINVAL)
    name = process.path(path)
    node = _node(process, dirfd, path, abi.AT_EMPTY_PATH, follow=False)
    if not isinstance(node, Symlink):
        raise Failure(Errno.EINVAL if name else Errno.ENOENT)
    text = node.text(process)[:size]
    process.memory.write(buffer, text)
    return len(text)


def getcwd(process: Process, buffer: int, size: int) -> int:
    """Path of the current directory; the result counts its final zero byte."""
    if process.cwd.dead:
        raise Failure(Errno.ENOENT)
    path = process.cwd.path() + b"\0"
    if len(path) > size:
        raise Failure(Errno.ERANGE)
    if len(path) > abi.PATH_MAX:
        raise Failure(Errno.ENAMETOOLONG)
    process.memory.write(buffer, path)
    return len(path)


def chdir(process: Process, path: int) -> int:
    """Change the current directory."""
    return _enter(process, resolve(process, process.cwd, process.path(path)).existing())


def fchdir(process: Process, fd: int) -> int:
    """Change the current directory to an open one."""
    return _enter(process, process.file(fd).node)


def mkdirat(process: Process, dirfd: int, path: int, mode: int) -> int:
    """Make a directory."""
    names.mkdir(process, _name(process, dirfd, path), mode & 0o1777 & ~process.umask)
    return 0


def mknodat(process: Process, dirfd: int, path: int, mode: int, device: int) -> int:
    """Make a regular file; other kinds are not permitted."""
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise Failure(Errno.EPERM)
    names.mknod(process, _name(process, dirfd, path), mode & ~process.umask)
    return 0


def unlinkat(process: Process, dirfd: int, path: int, flags: int) -> int:
    """Remove a name, or an empty directory with AT_REMOVEDIR."""
    if flags & ~abi.AT_REMOVEDIR:
        raise Failure(Errno.EINVAL)
    remove = names.rmdir if flags else names.unlink
    remove(process, _name(process, dirfd, path))
    return 0


def renameat(process: Process, old_dirfd: int, old: int, new_dirfd: int, new: int) -> int:
    """Rename, replacing what has the new name."""
    return renameat2(process, old_dirfd, old, new_dirfd, new, 0)


def renameat2(process: Process, old_dirfd: int, old: int, new_dirfd: int, new: int, flags: int) -> int:
    """Rename, replacing what has the new name unless flags say otherwise; or exchange two names."""
    other = abi.RENAME_NOREPLACE | abi.RENAME_WHITEOUT
    if flags & ~(other | abi.RENAME_EXCHANGE) or (flags & abi.RENAME_EXCHANGE and flags & other):
        raise Failure(Errno.EINVAL)
    names.rename(process, _name(process, old_dirfd, old), _name(process, new_dirfd, new), flags)
    return 0


def symlinkat(process: Process, target: int, dirfd: int, path: int) -> int:
    """Make a symbolic link."""
    text = process.path(target)
    if not text:
        raise Failure(Errno.ENOENT)
    names.symlink(process, _name(process, dirfd, path), text)
    return 0


def linkat(process: Process, old_dirfd: int, old: int, new_dirfd: int, new: int, flags: int) -> int:
    """Give a file another name."""
    if flags & ~(abi.AT_SYMLINK_FOLLOW | abi.AT_EMPTY_PATH):
        raise Failure(Errno.EINVAL)
    node = _node(process, old_dirfd, old, flags, follow=bool(flags & abi.AT_SYMLINK_FOLLOW))
    names.link(process, node, _name(process, new_dirfd, new))
    return 0


def fchmodat(process: Process, dirfd: int, path: int, mode: int) -> int:
    """Change permission bits."""
    return _chmod(process, _at(process, dirfd, process.path(path)).existing(), mode)


def fchmod(process: Process, fd: int, mode: int) -> int:
    """Change permission bits of an open file."""
    return _chmod(process, process.file(fd).target(), mode)


def fchownat(process: Process, dirfd: int, path: int, uid: int, gid: int, flags: int) -> int:
    """Change owner and group."""
    if flags & ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH):
        raise Failure(Errno.EINVAL)
    node = _node(process, dirfd, path, flags, follow=not flags & abi.AT_SYMLINK_NOFOLLOW)
    return _chown(process, node, uid, gid)


def fchown(process: Process, fd: int, uid: int, gid: int) -> int:
    """Change owner and group of an open file."""
    return _chown(process, process.file(fd).target(), uid, gid)


def utimensat(process: Process, dirfd: int, path: int, times: int, flags: int) -> int:
    """Set the times of last access and modification."""
    if flags & ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_EMPTY_PATH):
        raise Failure(Errno.EINVAL)
    now = process.realtime
    wanted: list[int | None] = [now, now]
    if times:
        pairs = TIMESPEC.iter_unpack(process.memory.read(times, 2 * TIMESPEC.size))
        wanted = [_time(seconds, ns, now) for seconds, ns in pairs]
    if path:
        node = _node(process, dirfd, path, flags, follow=not flags & abi.AT_SYMLINK_NOFOLLOW)
    else:
        node = process.file(dirfd).target()
    if wanted == [None, None]:
        return 0
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
    return 0


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
    open_node(process, node, abi.O_WRONLY, b"").truncate(process, size)
    return 0


def getxattr(process: Process, path: int, name: int, value: int, size: int) -> int:
    """Extended attributes: there are none."""
    resolve(process, process.cwd, process.path(path)).existing()
    raise Failure(Errno.ENODATA)


def lgetxattr(process: Process, path: int, name: int, value: int, size: int) -> int:
    """Extended attributes: there are none."""
    resolve(process, process.cwd, process.path(path), follow=False).existing()
    raise Failure(Errno.ENODATA)


def fgetxattr(process: Process, fd: int, name: int, value: int, size: int) -> int:
    """Extended attributes: there are none."""
    process.file(fd)
    raise Failure(Errno.ENODATA)


def listxattr(process: Process, path: int, names: int, size: int) -> int:
    """Extended attributes: there are none."""
    resolve(process, process.cwd, process.path(path)).existing()
    return 0


def llistxattr(process: Process, path: int, names: int, size: int) -> int:
    """Extended attributes: there are none."""
    resolve(process, process.cwd, process.path(path), follow=False).existing()
    return 0


def flistxattr(process: Process, fd: int, names: int, size: int) -> int:
    """Extended attributes: there are none."""
    process.file(fd)
    return 0


def _at(process: Process, dirfd: int, path: bytes, follow: bool = True) -> Found:
    """Resolve a path that starts at a descriptor, if it is not absolute."""
    return resolve(process, process.base(dirfd, path), path, follow)


def _name(process: Process, dirfd: int, pointer: int) -> Name:
    """The name that a path ends in."""
    path = process.path(pointer)
    return resolve_name(process, process.base(dirfd, path), path)


def _node(process: Process, dirfd: int, pointer: int, flags: int, follow: bool) -> Node:
    """What a path (or, with AT_EMPTY_PATH, a descriptor) means."""
    path = process.path(pointer)
    if path or not flags & abi.AT_EMPTY_PATH:
        return _at(process, dirfd, path, follow).existing()
    return process.cwd if dirfd == abi.AT_FDCWD else process.file(dirfd).target()


def _status(process: Process, dirfd: int, pointer: int, flags: int) -> Stat:
    path = process.path(pointer)
    if path or not flags & abi.AT_EMPTY_PATH:
        return _at(process, dirfd, path, not flags & abi.AT_SYMLINK_NOFOLLOW).existing().stat()
    return process.cwd.stat() if dirfd == abi.AT_FDCWD else process.file(dirfd).stat()


def _enter(process: Process, node: Node | None) -> int:
    if not isinstance(node, Directory):
        raise Failure(Errno.ENOTDIR)
    process.credentials.require(node, abi.X_OK)
    process.cwd = node
    return 0


def _change(process: Process, node: Node) -> None:
    """Whether the guest may change permissions of a node."""
    if node.immutable or (isinstance(node, Directory) and node.sealed):
        raise Failure(Errno.EPERM)
    if process.credentials.uid not in (0, node.stat().uid):
        raise Failure(Errno.EPERM)


def _chmod(process: Process, node: Node, mode: int) -> int:
    _change(process, node)
    if isinstance(node, Symlink):
        raise Failure(Errno.EOPNOTSUPP)
    if _on_host(node):
        node.grip().chmod(mode)
    else:
        node.change(process.realtime, mode=stat.S_IFMT(node.stat().mode) | mode & 0o7777)
    return 0


def _chown(process: Process, node: Node, uid: int, gid: int) -> int:
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
        node.change(process.realtime, uid=owner, gid=group)
    return 0


def _on_host(node: Node) -> bool:
    """Whether a change to `node` goes to the host; EPERM for the writable directory itself."""
    if node.on_host and (node.where is None or not node.where.parts):
        raise Failure(Errno.EPERM)
    return node.on_host


def _time(seconds: int, ns: int, now: int) -> int | None:
    if ns == abi.UTIME_OMIT:
        return None
    if ns == abi.UTIME_NOW:
        return now
    if not 0 <= ns < BILLION:
        raise Failure(Errno.EINVAL)
    limit = (1 << 63) // BILLION
    return max(-limit, min(seconds, limit - 1)) * BILLION + ns
