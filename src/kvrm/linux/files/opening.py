"""openat: from a path and flags to an open file description."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files import names
from kvrm.linux.files.devices import DEVICES, DeviceFile
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.file import File
from kvrm.linux.files.mounts import mount_of
from kvrm.linux.files.nodes import Device, Node, Special, Symlink
from kvrm.linux.files.open_file import DirectoryFile, OpenFile
from kvrm.linux.files.paths import Found, Name, resolve
from kvrm.linux.files.pipes import Fifo, open_fifo
from kvrm.linux.files.regular import HOST_ACCESS, GuestFile, HostFile
from kvrm.linux.files.virtual import Virtual
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_WANTED = (abi.R_OK, abi.W_OK, abi.R_OK | abi.W_OK, abi.R_OK | abi.W_OK)
_FOR_PATH = abi.O_PATH | abi.O_DIRECTORY | abi.O_NOFOLLOW | abi.O_CLOEXEC


class Opened(Node):
    """Where a link in /proc/self/fd leads if that is no file with a name: to the open file itself."""

    __slots__ = ("file",)
    immutable = True

    def __init__(self, file: OpenFile) -> None:
        super().__init__()
        self.file = file

    def stat(self) -> Stat:
        return self.file.stat()


def check_flags(flags: int) -> None:
    """EINVAL for flags of open that contradict each other."""
    if flags & abi.O_PATH:
        return
    temporary = flags & abi.O_TMPFILE_ALONE
    if temporary and (flags & abi.O_TMPFILE != abi.O_TMPFILE or not flags & abi.O_ACCMODE):
        raise Failure(Errno.EINVAL)
    if flags & abi.O_CREAT and flags & abi.O_DIRECTORY:
        raise Failure(Errno.EINVAL)


def open_path(process: Process, base: Directory, path: bytes, flags: int, mode: int) -> OpenFile:
    """Open `path`, or create it with `mode` (from which the umask was taken) if `flags` say so."""
    if flags & abi.O_PATH:
        flags &= _FOR_PATH
    create = bool(flags & abi.O_CREAT)
    exclusive = create and bool(flags & abi.O_EXCL)
    follow = not (flags & abi.O_NOFOLLOW or exclusive)
    found = resolve(process, base, path, follow, create)
    if flags & abi.O_TMPFILE_ALONE:
        file = _unnamed(process, found.existing(), flags, mode)
    elif found.node is None and create:
        file = _create(process, found, flags, mode)
    elif exclusive and found.node is not None:
        raise Failure(Errno.EEXIST)
    else:
        file = open_node(process, found.existing(), flags, found.called)
    watches = process.kernel.watches
    if not flags & abi.O_PATH:
        watches.used(file, abi.IN_OPEN)
    if found.node is file.node and isinstance(file.node, File) and flags & abi.O_TRUNC:
        watches.changed(file, file.called, abi.IN_MODIFY)
    return file


def open_node(process: Process, node: Node, flags: int, name: Name | bytes) -> OpenFile:
    """Open what is there."""
    access = flags & abi.O_ACCMODE
    truncate = bool(flags & abi.O_TRUNC)
    is_directory = isinstance(node, Directory)
    if is_directory and flags & abi.O_CREAT:
        raise Failure(Errno.EISDIR)
    if flags & abi.O_DIRECTORY and not is_directory:
        raise Failure(Errno.ENOTDIR)
    kept = _kept(flags)
    if flags & abi.O_PATH:
        return OpenFile(kept, name, node)
    if isinstance(node, Symlink):
        raise Failure(Errno.ELOOP)
    if is_directory and (access != abi.O_RDONLY or truncate):
        raise Failure(Errno.EISDIR)
    if not isinstance(node, Opened):
        process.credentials.require(node, _WANTED[access] | (abi.W_OK if truncate else 0))
    match node:
        case Opened():
            return node.file
        case Directory():
            return DirectoryFile(kept, name, node)
        case File():
            return _open_file(process, node, kept, name, truncate)
        case Virtual():
            return node.open(process, kept, name)
        case Device() if DEVICES[node.kind].read is not None:
            return DeviceFile(kept, name, node)
        case Device():
            raise Failure(Errno.ENXIO)
        case Fifo():
            return open_fifo(process, node, kept, name, named=isinstance(name, Name))
        case Special() if node.where is None:  # a socket, or what a rename left
            raise Failure(Errno.ENXIO)
        case _:
            raise Failure(Errno.EACCES)


def _open_file(process: Process, node: File, flags: int, name: Name | bytes, truncate: bool) -> OpenFile:
    file: OpenFile
    if node.on_host:
        assert node.where is not None
        access = HOST_ACCESS[abi.O_RDWR if truncate else flags & abi.O_ACCMODE]
        there = node.opened()  # which also leads to a file that has no name any more
        handle = there.reopen(access) if there else node.where.tree.open(node.where.parts, access)
        file = HostFile(flags, name, node, handle)
    else:
        file = GuestFile(flags, name, node)
    if truncate:
        file.truncate(process, 0)
    return file


def _create(process: Process, found: Found, flags: int, mode: int) -> OpenFile:
    name = Name(found.directory, found.name, False)
    if not found.directory.on_host:
        return open_created(names.create(process, name, mode), flags, name)
    names.require_free(process, name)
    where = names.location(name)
    handle = where.tree.create(where.parts, HOST_ACCESS[flags & abi.O_ACCMODE], mode & 0o7777)
    process.kernel.watches.made(name)
    return HostFile(_kept(flags), name, File(None, where), handle)


def open_created(node: File, flags: int, name: Name | bytes) -> OpenFile:
    """Open a file that was just made, whatever its mode."""
    return GuestFile(_kept(flags), name, node)


def _unnamed(process: Process, directory: Node, flags: int, mode: int) -> OpenFile:
    """A file without a name, which may get one in the directory's file system unless O_EXCL."""
    if not isinstance(directory, Directory):
        raise Failure(Errno.ENOTDIR)
    process.credentials.require(directory, abi.W_OK | abi.X_OK)
    if directory.dead:
        raise Failure(Errno.EPERM)  # of all calls only this one, on ext4
    if directory.on_host:
        assert directory.where is not None
        where = directory.where
        handle = where.tree.create_unnamed(where.parts, flags & (abi.O_ACCMODE | abi.O_EXCL), mode & 0o7777)
        host_node = File(None, where.child(b"#"))  # no name that anything has: only its handle leads there
        name = Name(directory, b"#%d" % os.fstat(handle.fd).st_ino, False, removed=True)
        return HostFile(_kept(flags), name, host_node, handle)
    node = process.kernel.files.unnamed_file(mode, mount_of(directory.stat().dev))
    node.linkable = not flags & abi.O_EXCL
    name = Name(directory, b"#%d" % node.stat().ino, False, removed=True)
    return open_created(node, flags, name)


def _kept(flags: int) -> int:
    """What F_GETFL says. Linux opens every file as a large one, but not those that only name a file."""
    large = 0 if flags & abi.O_PATH else abi.O_LARGEFILE
    return large | flags & ~(abi.O_CREAT | abi.O_EXCL | abi.O_NOCTTY | abi.O_TRUNC | abi.O_CLOEXEC)
