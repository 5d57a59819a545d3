"""What takes capabilities that the guest does not have, with the errors that come before that one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.paths import resolve

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_UMOUNT_FLAGS: Final = 0xF
_SWAP_FLAGS: Final = 0x7_FFFF
_QUOTA_TYPES: Final = 3
_Q_SYNC: Final = 0x80_0001
_LOG_SIZE: Final = 1 << 17
_SYSLOG_READ_ALL: Final = 3
_SYSLOG_SIZE: Final = 10


def not_permitted(process: Process) -> int:
    """The guest may not."""
    raise Failure(Errno.EPERM)


def chroot(process: Process, path: int) -> int:
    """Another root directory: the guest may not set one."""
    node = resolve(process, process.cwd, process.path(path)).existing()
    if not isinstance(node, Directory):
        raise Failure(Errno.ENOTDIR)
    process.credentials.require(node, abi.X_OK)
    raise Failure(Errno.EPERM)


def mount(process: Process, source: int, target: int, kind: int, flags: int, data: int) -> int:
    """Mount a file system: the guest may not."""
    for pointer in (kind, source):
        if pointer:
            process.path(pointer)
    _refuse_at(process, target)


def umount2(process: Process, target: int, flags: int) -> int:
    """Unmount a file system: the guest may not."""
    if flags & ~_UMOUNT_FLAGS:
        raise Failure(Errno.EINVAL)
    _refuse_at(process, target)


def swapon(process: Process, path: int, flags: int) -> int:
    """Swap to a file: the guest may not."""
    raise Failure(Errno.EINVAL if flags & ~_SWAP_FLAGS else Errno.EPERM)


def quotactl(process: Process, command: int, special: int, number: int, address: int) -> int:
    """Quotas: no file system has any."""
    if command & 0xFF >= _QUOTA_TYPES:
        raise Failure(Errno.EINVAL)
    if special:
        resolve(process, process.cwd, process.path(special)).existing()
        raise Failure(Errno.ENOTBLK)
    if command >> 8 != _Q_SYNC:
        raise Failure(Errno.ENODEV)
    return 0


def syslog(process: Process, action: int, buffer: int, size: int) -> int:
    """The kernel's log: an empty one."""
    if action not in (_SYSLOG_READ_ALL, _SYSLOG_SIZE):
        raise Failure(Errno.EPERM)
    if action == _SYSLOG_SIZE:
        return _LOG_SIZE
    if not buffer or size < 0:
        raise Failure(Errno.EINVAL)
    return 0


def unshare(process: Process, flags: int) -> int:
    """Part from what other processes share, which is nothing; name spaces of its own it may not have."""
    if flags & ~abi.CLONE_UNSHARED:
        raise Failure(Errno.EINVAL)
    if flags & abi.CLONE_NAMESPACES:
        raise Failure(Errno.EPERM)
    return 0


def setns(process: Process, fd: int, kind: int) -> int:
    """Enter a name space: no descriptor is of one."""
    process.file(fd)
    raise Failure(Errno.EINVAL)


def _refuse_at(process: Process, target: int) -> NoReturn:
    resolve(process, process.cwd, process.path(target)).existing()
    raise Failure(Errno.EPERM)
