"""inotify: being told of what happens to files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.inotify import Inotify
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.paths import resolve

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_HOW: Final = (
    abi.IN_ONLYDIR
    | abi.IN_DONT_FOLLOW
    | abi.IN_EXCL_UNLINK
    | abi.IN_MASK_CREATE
    | abi.IN_MASK_ADD
    | abi.IN_ISDIR
    | abi.IN_ONESHOT
)
_KNOWN: Final = abi.IN_ALL_EVENTS | abi.IN_UNMOUNT | abi.IN_Q_OVERFLOW | abi.IN_IGNORED | _HOW


def inotify_init1(process: Process, flags: int) -> int:
    """A queue of what happens to files."""
    if flags & ~(abi.O_CLOEXEC | abi.O_NONBLOCK):
        raise Failure(Errno.EINVAL)
    process.free_descriptor()
    instance = Inotify(flags & abi.O_NONBLOCK)
    process.kernel.watches.join(instance)
    return process.open(instance, bool(flags & abi.O_CLOEXEC))


def inotify_add_watch(process: Process, fd: int, path: int, mask: int) -> int:
    """Have such a queue told of a file, or of other events than before."""
    if mask & ~_KNOWN or not mask:
        raise Failure(Errno.EINVAL)
    file = process.file(fd)
    if mask & abi.IN_MASK_ADD and mask & abi.IN_MASK_CREATE:
        raise Failure(Errno.EINVAL)
    instance = _instance(file)
    node = resolve(process, process.cwd, process.path(path), not mask & abi.IN_DONT_FOLLOW).existing()
    if mask & abi.IN_ONLYDIR and not isinstance(node, Directory):
        raise Failure(Errno.ENOTDIR)
    process.credentials.require(node, abi.R_OK)
    return instance.watch(node.stat().identity, mask)


def inotify_rm_watch(process: Process, fd: int, number: int) -> int:
    """Have such a queue told of a file no more."""
    _instance(process.file(fd)).forget(number)
    return 0


def _instance(file: OpenFile) -> Inotify:
    if not isinstance(file, Inotify):
        raise Failure(Errno.EINVAL)
    return file
