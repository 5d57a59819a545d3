"""openat: from a path and flags to an open file description."""

# ruff: noqa: D102 - methods that override are documented where they are first defined

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.nodes import Device, Directory, File, Node, Symlink, Virtual
from kvrm.linux.files.open_file import BytesFile, DeviceFile, DirectoryFile, GuestFile, HostFile, OpenFile
from kvrm.linux.files.paths import Found, resolve
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_HOST_ACCESS = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR)
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


def open_path(process: Process, base: Directory, path: bytes, flags: int, mode: int) -> OpenFile:
    """Open `path`, or create it with `mode` (from which the umask was taken) if `flags` say so."""
    if flags & abi.O_PATH:
        flags &= _FOR_PATH
    if flags & abi.O_TMPFILE == abi.O_TMPFILE:
        return _unnamed(process, base, path, flags, mode)
    exclusive = flags & abi.O_CREAT and flags & abi.O_EXCL
    found = resolve(process, base, path, follow=not (flags & abi.O_NOFOLLOW or exclusive))
    if found.node is None and flags & abi.O_CREAT:
        if found.slash:
            raise Failure(Errno.EISDIR)
        return _create(process, found, flags, mode)
    node = found.existing()
    if exclusive:
        raise Failure(Errno.EEXIST)
    return open_node(process, node, flags, _path(found))


def open_node(process: Process, node: Node, flags: int, path: bytes) -> OpenFile:
    """Open what is there."""
    access = flags & abi.O_ACCMODE
    is_directory = isinstance(node, Directory)
    if flags & abi.O_DIRECTORY and not is_directory:
        raise Failure(Errno.ENOTDIR)
    kept = _kept(flags)
    if flags & abi.O_PATH:
        return OpenFile(kept, path, node)
    if isinstance(node, Symlink):
        raise Failure(Errno.ELOOP)
    if is_directory and (access != abi.O_RDONLY or flags & abi.O_CREAT):
        raise Failure(Errno.EISDIR)
    if not isinstance(node, Opened):
        process.credentials.require(node, (abi.R_OK, abi.W_OK, abi.R_OK | abi.W_OK, 6)[access])
    match node:
        case Opened():
            return node.file
        case Directory():
            return DirectoryFile(kept, path, node)
        case File():
            return _open_file(process, node, kept, path, truncate=bool(flags & abi.O_TRUNC))
        case Virtual() if access == abi.O_RDONLY:
            return BytesFile(kept, path, node, node.generate(process))
        case Device() if node.kind != "tty":
            return DeviceFile(kept, path, node)
        case Device():
            raise Failure(Errno.ENXIO)
        case _:
            raise Failure(Errno.EACCES)


def _open_file(process: Process, node: File, flags: int, path: bytes, truncate: bool) -> OpenFile:
    file: OpenFile
    if node.on_host:
        assert node.where is not None
        append = os.O_APPEND if flags & abi.O_APPEND else 0
        access = _HOST_ACCESS[flags & abi.O_ACCMODE]
        file = HostFile(flags, path, node, node.where.tree.open(node.where.parts, access | append))
    else:
        file = GuestFile(flags, path, node)
    if truncate and file.writable:
        file.truncate(process, 0)
    return file


def _create(process: Process, found: Found, flags: int, mode: int) -> OpenFile:
    path = _path(found)
    if not found.directory.on_host:
        return open_created(process.files.create(process, found, mode), flags, path)
    assert found.directory.where is not None
    where = found.directory.where.child(found.name)
    access = _HOST_ACCESS[flags & abi.O_ACCMODE] | (os.O_APPEND if flags & abi.O_APPEND else 0)
    handle = where.tree.create(where.parts, access, mode & 0o7777)
    return HostFile(_kept(flags), path, File(None, where), handle)


def open_created(node: File, flags: int, path: bytes) -> OpenFile:
    """Open a file that was just made, whatever its mode."""
    return GuestFile(_kept(flags), path, node)


def _unnamed(process: Process, base: Directory, path: bytes, flags: int, mode: int) -> OpenFile:
    node = resolve(process, base, path).existing()
    if not isinstance(node, Directory):
        raise Failure(Errno.ENOTDIR)
    if flags & abi.O_ACCMODE == abi.O_RDONLY:
        raise Failure(Errno.EINVAL)
    process.credentials.require(node, abi.W_OK | abi.X_OK)
    return open_created(process.files.unnamed_file(mode), flags & ~abi.O_TMPFILE, node.path() + b"/#unnamed")


def _kept(flags: int) -> int:
    return flags & ~(abi.O_CREAT | abi.O_EXCL | abi.O_NOCTTY | abi.O_TRUNC | abi.O_CLOEXEC)


def _path(found: Found) -> bytes:
    directory = found.directory.path()
    return directory if found.name == b"." else directory.rstrip(b"/") + b"/" + found.name
