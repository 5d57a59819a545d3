"""Directories: what is on the host, and over it what the guest has made or removed."""

from __future__ import annotations

import os
import stat
import weakref
from typing import TYPE_CHECKING, Any

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import Budget
from kvrm.linux.files.file import File
from kvrm.linux.files.host import Entry, Location
from kvrm.linux.files.nodes import Node, Special, Symlink
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process


class Directory(Node):
    """A directory: `entries` (None is a name that was removed) over the host directories `lowers`.

    `parent` of the root is the root itself. A `sealed` directory takes no new names. `cache` finds nodes of
    the host that is still in use.
    """

    __slots__ = ("cache", "dead", "entries", "lowers", "name", "parent", "sealed")

    def __init__(
        self,
        name: bytes,
        parent: Directory | None = None,
        meta: Stat | None = None,
        lowers: tuple[Location, ...] = (),
        home: tuple[Directory, bytes] | None = None,
        sealed: bool = False,
    ) -> None:
        super().__init__(meta, lowers[0] if lowers else None, home)
        self.name = name
        self.parent: Directory = parent or self
        self.lowers = lowers
        self.entries: dict[bytes, Node | None] = {}
        self.sealed = sealed
        self.dead = False
        self.cache: weakref.WeakValueDictionary[bytes, Node] = weakref.WeakValueDictionary()

    def part(self, budget: Budget) -> None:
        self.cache = weakref.WeakValueDictionary()

    def stored(self) -> dict[str, Any]:
        return {name: value for name, value in super().stored().items() if name != "cache"}

    def revived(self, process: Process) -> None:
        self.cache = weakref.WeakValueDictionary()

    def find(self, name: bytes) -> Node | None:
        """What `lookup` gives to a path: nothing in a removed directory, ENAMETOOLONG for a name too long."""
        if len(name) > abi.NAME_MAX:
            raise Failure(Errno.ENAMETOOLONG)
        return None if self.dead else self.lookup(name)

    def move(self, where: Location) -> None:
        pending: list[tuple[Node, Location]] = [(self, where)]
        while pending:
            node, where = pending.pop()
            node.where = where
            if isinstance(node, Directory):
                node.lowers = (where,)
                pending += [(child, where.child(name)) for name, child in node.cache.items()]

    def lookup(self, name: bytes) -> Node | None:
        """The node called `name` (not `.` or `..`), or None. Raises OSError if the host does."""
        if name in self.entries:
            return self.entries[name]
        found: list[Location] = []
        first: os.stat_result | None = None
        for lower in self.lowers:
            child = lower.child(name)
            try:
                st = child.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            if first is None:
                first = st
            elif not (stat.S_ISDIR(first.st_mode) and stat.S_ISDIR(st.st_mode)):
                continue
            found.append(child)
        return self._node(name, first, tuple(found)) if first else None

    def names(self, process: Process) -> dict[bytes, Entry]:
        """All names but `.` and `..`, sorted."""
        merged: dict[bytes, Entry] = {}
        for lower in reversed(self.lowers):
            merged.update(lower.tree.names(lower.parts))
        for name, node in self.entries.items():
            if node is None:
                merged.pop(name, None)
            else:
                merged[name] = node.entry()
        return dict(sorted(merged.items()))

    def path(self) -> bytes:
        """Absolute path of the directory, or the one that it had."""
        names: list[bytes] = []
        directory = self
        while directory.parent is not directory:
            names.append(directory.name)
            directory = directory.parent
        return b"/" + b"/".join(reversed(names))

    def within(self, other: Directory) -> bool:
        """Whether this is `other` or below it."""
        directory = self
        while directory is not other and directory.parent is not directory:
            directory = directory.parent
        return directory is other

    def remember(self, name: bytes, node: Node) -> None:
        """Let `lookup` give this very node for as long as it is in use."""
        self.cache[name] = node

    def _node(self, name: bytes, st: os.stat_result, found: tuple[Location, ...]) -> Node:
        cached = self.cache.get(name)
        if cached is not None and (cached.home or cached.on_host) and _same_file(cached, st):
            return cached
        where = found[0]
        home = None if where.tree.writable else (self, name)
        node: Node
        if stat.S_ISDIR(st.st_mode):
            node = Directory(name, self, None, found, home)
        elif stat.S_ISREG(st.st_mode):
            node = File(None, where, home)
        elif stat.S_ISLNK(st.st_mode):
            node = Symlink(where.tree.readlink(where.parts), None, where, home)
        else:
            node = Special(None, where, home)
        self.cache[name] = node
        return node


def _same_file(node: Node, st: os.stat_result) -> bool:
    try:
        status = node.stat()
    except OSError:
        return False
    return (status.dev, status.ino, stat.S_IFMT(status.mode)) == (
        st.st_dev,
        st.st_ino,
        stat.S_IFMT(st.st_mode),
    )
