"""Names of files: how they are made, changed and removed (path_resolution(7), rename(2), unlink(2), ...).

Checks come in the order of Linux (fs/namei.c): what has the name, whether the directory may be changed, and
whether what is there may go.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import Content
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.file import File
from kvrm.linux.files.host import Location, rename_on_host
from kvrm.linux.files.mounts import SHM, Mount, mount_of
from kvrm.linux.files.nodes import Node, Special, Symlink
from kvrm.linux.files.paths import Found, Name
from kvrm.linux.files.pipes import Fifo
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_ENTRY_COST: Final = 512


def create(process: Process, name: Name, mode: int) -> File:
    """An empty regular file in memory."""
    directory = require_free(process, name)
    files = process.kernel.files
    node = File(files.status(stat.S_IFREG | mode & 0o7777, _mount(directory)), content=Content(files.budget))
    if _mount(directory) is SHM:
        node.seals = abi.F_SEAL_SEAL  # files of tmpfs have seals, and take no others
    _put(process, name, node)
    process.kernel.watches.made(name)
    return node


def mknod(process: Process, name: Name, mode: int) -> None:
    """Make a regular file, a FIFO or the name of a socket, as the type in `mode` says."""
    if stat.S_ISREG(mode) and not name.directory.on_host:
        create(process, name, mode)
        return
    directory = require_free(process, name)
    if directory.on_host:
        if not stat.S_ISREG(mode):
            raise Failure(Errno.EPERM)
        where = location(name)
        where.tree.create(where.parts, os.O_RDONLY, mode & 0o7777)
    else:
        meta = process.kernel.files.status(mode, _mount(directory))
        _put(process, name, Fifo(meta) if stat.S_ISFIFO(mode) else Special(meta))
    process.kernel.watches.made(name)


def mkdir(process: Process, name: Name, mode: int) -> None:
    directory = require_free(process, name, for_directory=True)
    if directory.on_host:
        where = location(name)
        where.apply(os.mkdir)
        where.grip().chmod(mode)
    else:
        mode = stat.S_IFDIR | mode & 0o7777
        meta = process.kernel.files.status(mode, _mount(directory), nlink=2, size=4096)
        _put(process, name, Directory(name.name, directory, meta))
        directory.change(process.kernel.files.now, nlink=directory.own().nlink + 1)
    process.kernel.watches.made(name)


def symlink(process: Process, name: Name, target: bytes) -> None:
    directory = require_free(process, name)
    if directory.on_host:
        where = location(name)
        parent = where.parent()
        os.symlink(target, where.name, dir_fd=parent.fd)
    else:
        meta = process.kernel.files.status(stat.S_IFLNK | 0o777, _mount(directory), size=len(target))
        _put(process, name, Symlink(target, meta))
    process.kernel.watches.made(name)


def link(process: Process, node: Node, name: Name) -> None:
    """Give `node` another name."""
    directory = require_free(process, name)
    if not same_mount(node, directory):
        raise Failure(Errno.EXDEV)
    if isinstance(node, Directory) or node.immutable:
        raise Failure(Errno.EPERM)
    if directory.on_host:
        _link_on_host(node, location(name))
    else:
        links = node.own().nlink
        if not links and not (isinstance(node, File) and node.linkable):
            raise Failure(Errno.ENOENT)
        _put(process, name, node)
        node.change(process.kernel.files.now, nlink=links + 1)
        if isinstance(node, File):
            node.linkable = False
    process.kernel.watches.made(name, linked=True)


def unlink(process: Process, name: Name) -> None:
    """Remove a name that is no directory's."""
    if not name.ordinary:
        raise Failure(Errno.EISDIR)
    node = name.lookup().existing()
    if name.slash:
        raise Failure(Errno.EISDIR if isinstance(node, Directory) else Errno.ENOTDIR)
    _require_removable(process, name.directory, node, as_directory=False)
    before = node.stat()
    if name.directory.on_host:
        location(name).apply(os.unlink)
        _forget(process, before)
    else:
        _drop(process, name, node)
    process.kernel.watches.removed(process, name, before)
    _tell(process, (name, None))


def rmdir(process: Process, name: Name) -> None:
    """Remove an empty directory."""
    if not name.ordinary:
        raise Failure({b"..": Errno.ENOTEMPTY, b".": Errno.EINVAL}.get(name.name, Errno.EBUSY))
    node = name.lookup().existing()
    _require_removable(process, name.directory, node, as_directory=True)
    before = node.stat()
    if name.directory.on_host:
        where = location(name)
        where.apply(os.rmdir)
        where.tree.forget()
        name.directory.cache.pop(name.name, None)
        node.meta = before._replace(nlink=0, size=0)
        _forget(process, before)
    else:
        _drop(process, name, node)
    process.kernel.watches.removed(process, name, before)
    assert isinstance(node, Directory)
    node.dead = True


def rename(process: Process, old: Name, new: Name, flags: int) -> None:
    """Give what is called `old` the name of `new`, replacing what has it, or exchanging both."""
    exchange = flags & abi.RENAME_EXCHANGE
    if not same_mount(old.directory, new.directory):
        raise Failure(Errno.EXDEV)
    if not old.ordinary:
        raise Failure(Errno.EBUSY)
    if not new.ordinary:
        raise Failure(Errno.EEXIST if flags & abi.RENAME_NOREPLACE else Errno.EBUSY)
    node, there = old.lookup().existing(), new.lookup().node
    if there is None:
        _require_growing(new.directory)
        if exchange:
            raise Failure(Errno.ENOENT)
    elif flags & abi.RENAME_NOREPLACE:
        raise Failure(Errno.EEXIST)
    if exchange and new.slash and not isinstance(there, Directory):
        raise Failure(Errno.ENOTDIR)
    if not isinstance(node, Directory) and (old.slash or (new.slash and not exchange)):
        raise Failure(Errno.ENOTDIR)
    if isinstance(node, Directory) and new.directory.within(node):
        raise Failure(Errno.EINVAL)
    if isinstance(there, Directory) and old.directory.within(there):
        raise Failure(Errno.EINVAL if exchange else Errno.ENOTEMPTY)
    if there is not None and _same_file(node, there):
        return
    _require_removable(process, old.directory, node, isinstance(node, Directory))
    if there is None:
        _require_writable(process, new.directory)
    else:
        _require_removable(process, new.directory, there, isinstance(there if exchange else node, Directory))
    if old.directory is not new.directory:
        for moved in (node, there) if exchange else (node,):
            if isinstance(moved, Directory):
                process.credentials.require(moved, abi.W_OK)
    before = node.stat()
    there_before = None if there is None else there.stat()
    if old.directory.on_host:
        if flags & abi.RENAME_WHITEOUT:
            raise Failure(Errno.EINVAL)
        replaced = there.stat() if there is not None and not exchange else None
        rename_on_host(location(old), location(new), flags)
        if there is not None and replaced is not None:
            _forget(process, replaced)
            if isinstance(there, Directory):
                there.meta = replaced._replace(nlink=0, size=0)
        _move_on_host(old, node, new, there if exchange else None)
    elif exchange:
        assert there is not None
        _exchange(process, old, node, new, there)
    else:
        _rename(process, old, node, new, there)
        if flags & abi.RENAME_WHITEOUT:
            _put(process, old, Special(process.kernel.files.status(stat.S_IFCHR, _mount(old.directory))))
    process.kernel.watches.moved(process, old, new, before, None if exchange else there_before)
    if exchange and there_before:
        process.kernel.watches.moved(process, new, old, there_before, None)
    if isinstance(there, Directory) and not exchange:
        there.dead = True
    _tell(process, (old, new), (new, old if exchange else None))


# -- checks ----------------------------------------------------------------------------------------------
def same_mount(node: Node, directory: Directory) -> bool:
    """Whether a node of one can have a name in the other."""
    if directory.on_host or node.on_host:
        return directory.on_host and node.on_host
    return _mount(node) is _mount(directory)


def _mount(node: Node) -> Mount:
    return mount_of(node.stat().dev)


def require_free(process: Process, name: Name, *, for_directory: bool = False) -> Directory:
    """The directory, where the name can be made."""
    if name.lookup().node is not None:
        raise Failure(Errno.EEXIST)
    if name.slash and not for_directory:
        raise Failure(Errno.ENOENT)
    _require_growing(name.directory)
    _require_writable(process, name.directory)
    return name.directory


def _require_growing(directory: Directory) -> None:
    if directory.dead or directory.sealed:  # what /proc does not have cannot be made either
        raise Failure(Errno.ENOENT)


def _require_writable(process: Process, directory: Directory) -> None:
    process.credentials.require(directory, abi.W_OK | abi.X_OK)


def _require_removable(process: Process, directory: Directory, node: Node, as_directory: bool) -> None:
    _require_writable(process, directory)
    own, status = directory.stat(), node.stat()
    sealed = directory.sealed or node.immutable or (isinstance(node, Directory) and node.sealed)
    if sealed or (own.mode & stat.S_ISVTX and process.credentials.uid not in (0, own.uid, status.uid)):
        raise Failure(Errno.EPERM)
    if as_directory != isinstance(node, Directory):
        raise Failure(Errno.ENOTDIR if as_directory else Errno.EISDIR)
    if node.on_host and not directory.on_host:  # where a writable directory is shown
        raise Failure(Errno.EBUSY)


def _tell(process: Process, *changes: tuple[Name, Name | None]) -> None:
    """Let open files know what they are called now, if they still are."""
    for file in process.open_files:
        for old, new in changes:
            if file.is_called(old):
                file.rename(new)
                break


def _same_file(node: Node, other: Node) -> bool:
    if node is other:
        return True
    return node.stat().identity == other.stat().identity


# -- on the host -----------------------------------------------------------------------------------------
def location(name: Name | Found) -> Location:
    """Where an entry of a writable directory is."""
    assert name.directory.where is not None
    return name.directory.where.child(name.name)


def _link_on_host(node: Node, to: Location) -> None:
    target = to.parent()
    if isinstance(node, File) and (handle := node.opened()):  # its name may be gone
        os.link(handle.path, to.name, dst_dir_fd=target.fd, follow_symlinks=True)
        return
    assert node.where is not None
    source = node.where.parent()
    os.link(node.where.name, to.name, src_dir_fd=source.fd, dst_dir_fd=target.fd, follow_symlinks=False)


def _move_on_host(old: Name, node: Node, new: Name, other: Node | None) -> None:
    """After a rename on the host: what is in use finds its file again. `other` got the old name."""
    for name in (old, new):
        name.directory.cache.pop(name.name, None)
    for moved, name in ((node, new), (other, old)):
        if moved is not None:
            moved.move(location(name))
            name.directory.remember(name.name, moved)
            if isinstance(moved, Directory):
                moved.name, moved.parent = name.name, name.directory


# -- in memory -------------------------------------------------------------------------------------------
def _rename(process: Process, old: Name, node: Node, new: Name, there: Node | None) -> None:
    if there is not None:
        _drop(process, new, there)
    node.own()
    _remove(process, old)
    _put(process, new, node)
    _moved(process, node, old, new)


def _exchange(process: Process, old: Name, node: Node, new: Name, there: Node) -> None:
    for moved, name in ((node, new), (there, old)):
        moved.own()
        name.directory.own()
        name.directory.entries[name.name] = moved
        name.directory.change(process.kernel.files.now, mtime=process.kernel.files.now)
    _moved(process, node, old, new)
    _moved(process, there, new, old)


def _moved(process: Process, node: Node, old: Name, new: Name) -> None:
    """After a node came to another name: the links that `..` is."""
    now = process.kernel.files.now
    if isinstance(node, Directory):
        node.name, node.parent = new.name, new.directory
        old.directory.change(now, nlink=max(2, old.directory.own().nlink - 1))
        new.directory.change(now, nlink=new.directory.own().nlink + 1)
    node.change(now)


def _drop(process: Process, name: Name, node: Node) -> None:
    """Remove a name, and with it a directory that must be empty, or one link of a file."""
    now, directory = process.kernel.files.now, name.directory
    if isinstance(node, Directory):
        if node.names(process):
            raise Failure(Errno.ENOTEMPTY)
        _forget(process, node.own())
        node.change(now, nlink=0, size=0)
        directory.change(now, nlink=max(2, directory.own().nlink - 1))
    else:
        _forget(process, node.own())
        node.change(now, nlink=max(0, node.own().nlink - 1))
    _remove(process, name)


def _forget(process: Process, last: Stat) -> None:
    """Drop the extended attributes of a file whose last name went; `last` is its status before."""
    if last.nlink <= 1 or stat.S_ISDIR(last.mode):
        process.kernel.files.xattrs.drop((last.dev, last.ino))


def _put(process: Process, name: Name, node: Node) -> None:
    process.kernel.files.budget.change(_cost(node))
    directory = name.directory
    directory.own()
    directory.entries[name.name] = node
    node.home = None
    directory.change(process.kernel.files.now, mtime=process.kernel.files.now)


def _remove(process: Process, name: Name) -> None:
    directory, budget = name.directory, process.kernel.files.budget
    directory.own()
    removed = directory.entries.pop(name.name, None)
    if removed is not None:
        budget.used -= min(budget.used, _cost(removed))
    if directory.lookup(name.name) is not None:
        directory.entries[name.name] = None
    directory.change(process.kernel.files.now, mtime=process.kernel.files.now)


def _cost(node: Node) -> int:
    return _ENTRY_COST + (node.stat().size if isinstance(node, Symlink) else 0)
