"""Extended attributes (xattr(7)): kept in memory, also those of files in a writable directory."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.mounts import PIPE, PROC, mount_of
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.paths import resolve
from kvrm.linux.layout import FileId, Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_LARGEST: Final = 65536
_USER, _TRUSTED, _SECURITY, _SYSTEM = b"user.", b"trusted.", b"security.", b"system."
_ACLS: Final = (b"system.posix_acl_access", b"system.posix_acl_default")

Target = tuple[Stat, Node | None]
"""A file, open or not: its status and its node."""


def setxattr(process: Process, path: int, name: int, value: int, size: int, flags: int) -> int:
    """Set an extended attribute."""
    known, data = _given(process, name, value, size, flags)
    return _set(process, _at(process, path), known, data, flags)


def lsetxattr(process: Process, path: int, name: int, value: int, size: int, flags: int) -> int:
    """Set an extended attribute, of a link itself."""
    known, data = _given(process, name, value, size, flags)
    return _set(process, _at(process, path, follow=False), known, data, flags)


def fsetxattr(process: Process, fd: int, name: int, value: int, size: int, flags: int) -> int:
    """Set an extended attribute of an open file."""
    known, data = _given(process, name, value, size, flags)
    return _set(process, _open(process, fd), known, data, flags)


def getxattr(process: Process, path: int, name: int, value: int, size: int) -> int:
    """Value of an extended attribute."""
    known = _name(process, name)
    return _get(process, _at(process, path), known, value, size)


def lgetxattr(process: Process, path: int, name: int, value: int, size: int) -> int:
    """Value of an extended attribute, of a link itself."""
    known = _name(process, name)
    return _get(process, _at(process, path, follow=False), known, value, size)


def fgetxattr(process: Process, fd: int, name: int, value: int, size: int) -> int:
    """Value of an extended attribute of an open file."""
    known = _name(process, name)
    return _get(process, _open(process, fd), known, value, size)


def listxattr(process: Process, path: int, names: int, size: int) -> int:
    """Names of extended attributes."""
    return _list(process, _at(process, path), names, size)


def llistxattr(process: Process, path: int, names: int, size: int) -> int:
    """Names of extended attributes, of a link itself."""
    return _list(process, _at(process, path, follow=False), names, size)


def flistxattr(process: Process, fd: int, names: int, size: int) -> int:
    """Names of extended attributes of an open file."""
    return _list(process, _open(process, fd), names, size)


def removexattr(process: Process, path: int, name: int) -> int:
    """Remove an extended attribute."""
    known = _name(process, name)
    return _remove(process, _at(process, path), known)


def lremovexattr(process: Process, path: int, name: int) -> int:
    """Remove an extended attribute, of a link itself."""
    known = _name(process, name)
    return _remove(process, _at(process, path, follow=False), known)


def fremovexattr(process: Process, fd: int, name: int) -> int:
    """Remove an extended attribute of an open file."""
    known = _name(process, name)
    return _remove(process, _open(process, fd), known)


def _at(process: Process, path: int, follow: bool = True) -> Target:
    node = resolve(process, process.cwd, process.path(path), follow).existing()
    return node.stat(), node


def _open(process: Process, fd: int) -> Target:
    file = process.file(fd)
    return file.stat(), file.node


def _name(process: Process, pointer: int) -> bytes:
    name = process.memory.read_cstring(pointer, abi.NAME_MAX + 1)
    if not 0 < len(name) <= abi.NAME_MAX:
        raise Failure(Errno.ERANGE)
    return name


def _given(process: Process, name: int, value: int, size: int, flags: int) -> tuple[bytes, bytes]:
    """The name and value that are to be set."""
    if flags & ~(abi.XATTR_CREATE | abi.XATTR_REPLACE):
        raise Failure(Errno.EINVAL)
    known = _name(process, name)
    if size > _LARGEST:
        raise Failure(Errno.E2BIG)
    return known, process.memory.read(value, size)


def _set(process: Process, target: Target, name: bytes, value: bytes, flags: int) -> int:
    file = _require(process, target, name, abi.W_OK)
    there = name in process.kernel.files.xattrs.of(file)
    if there and flags & abi.XATTR_CREATE:
        raise Failure(Errno.EEXIST)
    if not there and flags & abi.XATTR_REPLACE:
        raise Failure(Errno.ENODATA)
    process.kernel.files.xattrs.set(file, name, value)
    _touch(process, target)
    return 0


def _get(process: Process, target: Target, name: bytes, pointer: int, size: int) -> int:
    value = process.kernel.files.xattrs.of(_require(process, target, name, abi.R_OK)).get(name)
    if value is None:
        raise Failure(Errno.ENODATA)
    return _give(process, value, pointer, size)


def _list(process: Process, target: Target, pointer: int, size: int) -> int:
    names = process.kernel.files.xattrs.of((target[0].dev, target[0].ino))
    hidden = () if process.credentials.uid == 0 else (_TRUSTED,)
    seen = [name for name in sorted(names) if not name.startswith(hidden)]
    return _give(process, b"".join(name + b"\0" for name in seen), pointer, size)


def _remove(process: Process, target: Target, name: bytes) -> int:
    process.kernel.files.xattrs.remove(_require(process, target, name, abi.W_OK), name)
    _touch(process, target)
    return 0


def _give(process: Process, data: bytes, pointer: int, size: int) -> int:
    """Write data to a buffer; size 0 asks how large it must be."""
    if size:
        if len(data) > size:
            raise Failure(Errno.ERANGE)
        process.memory.write(pointer, data)
    return len(data)


def _touch(process: Process, target: Target) -> None:
    node = target[1]
    if node is not None and not node.on_host and not node.immutable:
        node.change(process.kernel.files.now)


def _require(process: Process, target: Target, name: bytes, want: int) -> FileId:
    """The file, once it is clear that it can have an attribute of this name (xattr_permission of Linux)."""
    status, missing = target[0], Errno.EPERM if want == abi.W_OK else Errno.ENODATA
    uid, own_rules = process.credentials.uid, name.startswith((_SECURITY, _SYSTEM))
    if name.startswith(_TRUSTED) and uid:
        raise Failure(missing)
    if name.startswith(_USER):
        if not (stat.S_ISREG(status.mode) or stat.S_ISDIR(status.mode)):
            raise Failure(missing)
        sticky = stat.S_ISDIR(status.mode) and status.mode & stat.S_ISVTX
        if want == abi.W_OK and sticky and uid not in (0, status.uid):
            raise Failure(Errno.EPERM)
    if not own_rules and not process.credentials.allow(status, want):
        raise Failure(Errno.EACCES)
    if mount_of(status.dev) in (PROC, PIPE):
        raise Failure(Errno.EOPNOTSUPP)
    if name in (_USER, _TRUSTED, _SECURITY):
        raise Failure(Errno.EINVAL)
    if not name.startswith((_USER, _TRUSTED, _SECURITY)) and not (name in _ACLS and want == abi.R_OK):
        raise Failure(Errno.EOPNOTSUPP)
    if name.startswith(_SECURITY) and want == abi.W_OK and uid:
        raise Failure(Errno.EPERM)
    return status.dev, status.ino
