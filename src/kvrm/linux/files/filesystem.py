"""The guest's files: how the name space is put together, and how it changes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import Budget, Content
from kvrm.linux.files.copying import NodeCopies
from kvrm.linux.files.host import HOST_MODE, Handle, HostTree, Location, Parts
from kvrm.linux.files.nodes import Directory, File, Node, Symlink
from kvrm.linux.files.paths import Found
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_DEVICE: Final = os.makedev(0, 77)
_FIRST_INODE: Final = 1 << 40
_ENTRY_COST: Final = 512


class FileSystem:
    """All names that the guest can see, from `root` down, and what it may hold in memory (`budget`).

    `now` is the guest's time in nanoseconds, set before each system call.
    """

    def __init__(self, limit: int, uid: int, gid: int, now: int) -> None:
        self.budget = Budget(limit)
        self.now = now
        self.uid = uid
        self.gid = gid
        self._next_inode = _FIRST_INODE
        self.root = Directory(b"", meta=self.status(stat.S_IFDIR | 0o755, nlink=2, size=4096))

    def copy(self, nodes: NodeCopies) -> FileSystem:
        """An independent file system, made of copied nodes."""
        other = object.__new__(FileSystem)
        other.__dict__.update(self.__dict__)
        other.budget = nodes.budget
        other.root = nodes.directory(self.root)
        return other

    def status(self, mode: int, *, nlink: int = 1, size: int = 0, rdev: int = 0) -> Stat:
        """Status of a new node of the guest's own."""
        times = (self.now,) * 3
        return Stat(
            _DEVICE,
            self.new_inode(),
            mode,
            nlink,
            self.uid,
            self.gid,
            rdev,
            size,
            4096,
            (size + 511) // 512,
            *times,
        )

    def new_inode(self) -> int:
        """An inode number that nothing has."""
        self._next_inode += 1
        return self._next_inode

    # Putting the name space together

    def show_root(self, path: str) -> None:
        """Make the host directory `path` the lowest layer of everything."""
        self.root.lowers = (Location(HostTree.at(path), ()),)
        self.root.where = self.root.lowers[0]
        self.root.meta = None

    def show_directory(self, path: bytes, host: str, writable: bool) -> None:
        """Make the host directory `host` visible as `path`, under what is there already."""
        tree = HostTree.at(host, writable)
        location = Location(tree, ())
        parts = _parts(path)
        there: Node | None = self.root
        if parts:
            parent = self._directory(parts[:-1])
            there = None if writable else parent.lookup(parts[-1])
        if not isinstance(there, Directory):
            parent.entries[parts[-1]] = Directory(parts[-1], parent, None, (location,))
        elif not there.on_host:
            there.enter()
            there.lowers += (location,)
            there.where = there.lowers[0]
            there.meta = None

    def show_file(self, path: bytes, node: File) -> None:
        """Make `node` visible as `path`, unless something is there already or in the way."""
        *above, name = _parts(path)
        here: Node | None = self.root
        for part in above:
            here = here.lookup(part) if isinstance(here, Directory) else here
        if here is None or isinstance(here, Directory):
            parent = self._directory(tuple(above))
            if not parent.on_host and parent.lookup(name) is None:
                parent.entries[name] = node

    def ensure_directory(self, path: bytes, mode: int) -> None:
        """Make a directory of the guest's own, unless something has that path."""
        *above, name = _parts(path)
        parent = self._directory(tuple(above))
        if parent.lookup(name) is None:
            parent.entries[name] = Directory(
                name, parent, self.status(stat.S_IFDIR | mode, nlink=2, size=4096)
            )

    def ancestor(self, path: bytes) -> Directory:
        """The directory at `path`, where something was shown."""
        return self._directory(_parts(path))

    def _directory(self, parts: Parts) -> Directory:
        """The directory at `parts`; where there is none, one that shows only what is put into it."""
        here = self.root
        for depth, name in enumerate(parts):
            child = here.lookup(name)
            if not isinstance(child, Directory):
                child = Directory(name, here, self._ancestor_status(b"/" + b"/".join(parts[: depth + 1])))
                here.entries[name] = child
            child.enter()
            here = child
        return here

    def _ancestor_status(self, path: bytes) -> Stat:
        try:
            status = Stat.of_host(os.stat(path))
        except OSError:
            status = self.status(0)
        return status._replace(mode=stat.S_IFDIR | 0o755) if not stat.S_ISDIR(status.mode) else status

    # Changes. `found` is where the new or old name is.

    def create(self, process: Process, found: Found, mode: int) -> File:
        """An empty regular file where `found` has nothing. Not for writable trees of the host."""
        self._new_name(process, found)
        meta = self.status(stat.S_IFREG | mode & 0o7777)
        node = File(meta, content=Content(self.budget))
        self._put(found, node)
        return node

    def unnamed_file(self, mode: int) -> File:
        """A regular file without a name."""
        return File(self.status(stat.S_IFREG | mode & 0o7777, nlink=0), content=Content(self.budget))

    def mkdir(self, process: Process, found: Found, mode: int) -> None:
        """Make a directory."""
        directory = self._new_name(process, found)
        if directory.on_host:
            where = _location(directory, found.name)
            where.apply(os.mkdir)
            change_mode(where, mode)
            return
        meta = self.status(stat.S_IFDIR | mode & 0o7777, nlink=2, size=4096)
        self._put(found, Directory(found.name, directory, meta))
        directory.change(self.now, nlink=directory.own().nlink + 1)

    def symlink(self, process: Process, found: Found, target: bytes) -> None:
        """Make a symbolic link."""
        directory = self._new_name(process, found)
        if directory.on_host:
            where = _location(directory, found.name)
            parent = where.parent()
            os.symlink(target, where.name, dir_fd=parent.fd)
            return
        self._put(found, Symlink(target, self.status(stat.S_IFLNK | 0o777, size=len(target))))

    def link(self, process: Process, node: Node, found: Found) -> None:
        """Give `node` another name."""
        if isinstance(node, Directory) or node.immutable:
            raise Failure(Errno.EPERM)
        directory = self._new_name(process, found)
        if directory.on_host != node.on_host:
            raise Failure(Errno.EXDEV)
        if directory.on_host:
            new, old = _location(directory, found.name), node.where
            assert old is not None
            source, target = old.parent(), new.parent()
            os.link(old.name, new.name, src_dir_fd=source.fd, dst_dir_fd=target.fd, follow_symlinks=False)
            return
        links = node.own().nlink
        self._put(found, node)
        node.change(self.now, nlink=links + 1)

    def unlink(self, process: Process, found: Found) -> None:
        """Remove a name that is no directory's."""
        node = found.existing()
        if isinstance(node, Directory):
            raise Failure(Errno.EISDIR)
        directory = self._old_name(process, found)
        if directory.on_host:
            _location(directory, found.name).apply(os.unlink)
            return
        node.change(self.now, nlink=max(0, node.own().nlink - 1))
        self._remove(found)

    def rmdir(self, process: Process, found: Found) -> None:
        """Remove an empty directory."""
        node = found.existing()
        if not isinstance(node, Directory):
            raise Failure(Errno.ENOTDIR)
        if found.name == b".":
            raise Failure(Errno.EBUSY if node is self.root else Errno.EINVAL)
        directory = self._old_name(process, found)
        if directory.on_host:
            where = _location(directory, found.name)
            where.apply(os.rmdir)
            where.tree.forget()
        else:
            self._drop_directory(process, found, node)
        node.dead = True

    def rename(self, process: Process, old: Found, new: Found, no_replace: bool) -> None:
        """Give the node at `old` the name of `new`, replacing what has it."""
        node = old.existing()
        if b"." in (old.name, new.name):
            raise Failure(Errno.EBUSY)
        if new.node is not None and no_replace:
            raise Failure(Errno.EEXIST)
        source = self._old_name(process, old)
        change = self._writable if new.node is None else self._old_name
        target = change(process, new)
        if source.on_host != target.on_host:
            raise Failure(Errno.EXDEV)
        if isinstance(node, Directory):
            if target.within(node):
                raise Failure(Errno.EINVAL)
        elif old.slash or new.slash:
            raise Failure(Errno.ENOTDIR)
        if source.on_host:
            _rename_on_host(_location(source, old.name), _location(target, new.name))
        elif new.node is not node:
            self._rename(process, node, old, new)

    # Inside

    def _rename(self, process: Process, node: Node, old: Found, new: Found) -> None:
        if new.node is not None:
            self._replace(process, node, new)
        node.own()
        self._remove(old)
        self._put(new, node)
        if isinstance(node, Directory):
            node.name, node.parent = new.name, new.directory
            old.directory.change(self.now, nlink=max(2, old.directory.own().nlink - 1))
            new.directory.change(self.now, nlink=new.directory.own().nlink + 1)
        node.change(self.now)

    def _replace(self, process: Process, node: Node, new: Found) -> None:
        """Remove what has the new name of `node`."""
        victim = new.existing()
        if isinstance(victim, Directory):
            if not isinstance(node, Directory):
                raise Failure(Errno.EISDIR)
            self._drop_directory(process, new, victim)
            victim.dead = True
        elif isinstance(node, Directory):
            raise Failure(Errno.ENOTDIR)
        else:
            victim.change(self.now, nlink=max(0, victim.own().nlink - 1))
            self._remove(new)

    def _drop_directory(self, process: Process, found: Found, node: Directory) -> None:
        if node.names(process):
            raise Failure(Errno.ENOTEMPTY)
        self._remove(found)
        found.directory.change(self.now, nlink=max(2, found.directory.own().nlink - 1))

    def _new_name(self, process: Process, found: Found) -> Directory:
        if found.node is not None:
            raise Failure(Errno.EEXIST)
        return self._writable(process, found)

    def _old_name(self, process: Process, found: Found) -> Directory:
        directory = self._writable(process, found)
        node = found.existing()
        if node.immutable or (isinstance(node, Directory) and node.sealed):
            raise Failure(Errno.EPERM)
        if node.on_host and not directory.on_host:
            raise Failure(Errno.EBUSY)
        sticky = directory.stat()
        if sticky.mode & stat.S_ISVTX and self.uid not in (0, sticky.uid, node.stat().uid):
            raise Failure(Errno.EPERM)
        return directory

    def _writable(self, process: Process, found: Found) -> Directory:
        directory = found.directory
        if directory.dead:
            raise Failure(Errno.ENOENT)
        process.credentials.require(directory, abi.W_OK | abi.X_OK)
        if directory.sealed:
            raise Failure(Errno.EACCES)
        return directory

    def _put(self, found: Found, node: Node) -> None:
        self.budget.change(_cost(node))
        directory = found.directory
        directory.own()
        directory.entries[found.name] = node
        node.home = None
        directory.change(self.now, mtime=self.now)

    def _remove(self, found: Found) -> None:
        directory, name = found.directory, found.name
        directory.own()
        removed = directory.entries.pop(name, None)
        if removed is not None:
            self.budget.used -= min(self.budget.used, _cost(removed))
        if directory.lookup(name) is not None:
            directory.entries[name] = None
        directory.change(self.now, mtime=self.now)


def _parts(path: bytes) -> Parts:
    return tuple(part for part in path.split(b"/") if part)


def _cost(node: Node) -> int:
    return _ENTRY_COST + (node.stat().size if isinstance(node, Symlink) else 0)


def change_mode(where: Location, mode: int) -> None:
    """chmod of a host file or directory, never of what a link leads to, and never to setuid or setgid."""
    handle = Handle(where.apply(os.open, os.O_PATH | os.O_NOFOLLOW))
    os.chmod(f"/proc/self/fd/{handle.fd}", mode & HOST_MODE)


def _location(directory: Directory, name: bytes) -> Location:
    assert directory.where is not None
    return directory.where.child(name)


def _rename_on_host(old: Location, new: Location) -> None:
    source, target = old.parent(), new.parent()
    os.rename(old.name, new.name, src_dir_fd=source.fd, dst_dir_fd=target.fd)
    old.tree.forget()
    new.tree.forget()
