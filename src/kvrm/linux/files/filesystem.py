"""The guest's files: how the name space is put together."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from kvrm.linux.files.content import Budget, Content
from kvrm.linux.files.copying import NodeCopies
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.file import File
from kvrm.linux.files.host import HostTree, Location, Parts
from kvrm.linux.files.mounts import OVERLAY, Mount
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.xattrs import Xattrs
from kvrm.linux.layout import Stat

_FIRST_INODE: Final = 1 << 40


@dataclass
class Shown:
    """What a guest sees of the host: directories by what they are for, and where its program is."""

    trees: dict[str, HostTree] = field(default_factory=dict)
    program: Location | None = None


class FileSystem:
    """All names that the guest can see, from `root` down, and what it may hold in memory (`budget`).

    `now` is the guest's time in nanoseconds, set before each system call.
    """

    def __init__(self, limit: int, uid: int, gid: int, now: int) -> None:
        self.budget = Budget(limit)
        self.xattrs = Xattrs(self.budget)
        self.shown = Shown()
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
        other.xattrs = self.xattrs.copy(nodes.budget)
        other.root = nodes.directory(self.root)
        return other

    def status(
        self, mode: int, mount: Mount = OVERLAY, *, nlink: int = 1, size: int = 0, rdev: int = 0
    ) -> Stat:
        """Status of a new node of the guest's own."""
        times = (self.now,) * 3
        return Stat(
            mount.device,
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
        self.shown.trees["root"] = tree = HostTree.at(path)
        self.root.lowers = (Location(tree, ()),)
        self.root.where = self.root.lowers[0]
        self.root.meta = None

    def show_directory(self, path: bytes, host: str, writable: bool) -> None:
        """Make the host directory `host` visible as `path`, under what is there already."""
        self.shown.trees["rw" if writable else "the current directory"] = tree = HostTree.at(host, writable)
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

    def show_file(self, path: bytes, node: Node) -> None:
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

    def unnamed_file(self, mode: int, mount: Mount) -> File:
        """A regular file without a name."""
        return File(self.status(stat.S_IFREG | mode & 0o7777, mount, nlink=0), content=Content(self.budget))


def _parts(path: bytes) -> Parts:
    return tuple(part for part in path.split(b"/") if part)
