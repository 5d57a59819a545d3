"""What a name can stand for: directories, files, links, devices and files that are made on demand.

A node either comes from the host (`where`) and is what the host says, or it is the guest's own (`meta`).
Nodes of read-only trees become the guest's own when it changes them: they enter the overlay, which is the
`entries` of directories. Nodes of a writable tree never do; their changes go to the host.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from kvrm.linux.files.content import Budget
from kvrm.linux.files.host import Entry, Handle, Location
from kvrm.linux.files.stored import attributes
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.files.directory import Directory
    from kvrm.linux.files.paths import Name
    from kvrm.linux.process import Process


class Node:
    """Something that a name stands for. At least one of `meta` and `where` is set, and `meta` counts.

    `home` is the directory and name where `enter` will put the node; None if it is there, or has no name.
    """

    __slots__ = ("__weakref__", "home", "meta", "where")
    immutable: ClassVar[bool] = False

    def __init__(
        self,
        meta: Stat | None = None,
        where: Location | None = None,
        home: tuple[Directory, bytes] | None = None,
    ) -> None:
        self.meta = meta
        self.where = where
        self.home = home

    @property
    def on_host(self) -> bool:
        """Whether changes go to the host."""
        return self.where is not None and self.where.tree.writable

    def stat(self) -> Stat:
        """Status of the node itself. Raises OSError if it is gone from the host."""
        if self.meta is not None:
            return self.meta
        assert self.where is not None
        return Stat.of_host(self.where.lstat())

    def entry(self) -> Entry:
        """What a directory lists of it."""
        status = self.stat()
        return Entry(status.ino, stat.S_IFMT(status.mode) >> 12)

    def own(self) -> Stat:
        """Make the node the guest's own, and return its status."""
        if self.meta is None:
            self.meta = self.stat()
        self.enter()
        return self.meta

    def change(self, now: int, **fields: int) -> None:
        """Replace fields of the status, as a change at time `now`."""
        self.meta = self.own()._replace(ctime=now, **fields)

    def part(self, budget: Budget) -> None:
        """This is a shallow copy: part it from the original. `budget` counts the copy's contents already."""

    def stored(self) -> dict[str, Any]:
        """Its attributes for a pickle, without those that only mean something in this process of the host."""
        return attributes(self)

    def revived(self, process: Process) -> None:
        """All attributes that were stored are set again, of other nodes too: make those that were not."""

    def grip(self) -> Handle:
        """A handle of what is on the host."""
        assert self.where is not None
        return self.where.grip()

    def move(self, where: Location) -> None:
        """It was renamed on the host, with all that it holds."""
        self.where = where

    def enter(self) -> None:
        """Keep the node, and the directories that lead to it, in the overlay."""
        node: Node = self
        while node.home:
            directory, name = node.home
            node.home = None
            directory.entries[name] = node
            node = directory


class Symlink(Node):
    """A symbolic link."""

    __slots__ = ("_target",)

    def __init__(
        self,
        target: bytes,
        meta: Stat | None = None,
        where: Location | None = None,
        home: tuple[Directory, bytes] | None = None,
    ) -> None:
        super().__init__(meta, where, home)
        self._target = target

    def text(self, process: Process) -> bytes:
        """What readlink says."""
        return self._target

    def target(self, process: Process) -> Node | None:
        """The node that the link leads to without a path, or None if the text is to be resolved."""
        return None

    def called(self, process: Process) -> Name | bytes:
        """What that node is called."""
        return self.text(process)


class MagicLink(Symlink):
    """A link of /proc, which leads to an open file rather than to a path."""

    __slots__ = ("_find",)
    immutable = True

    def __init__(self, meta: Stat, find: Callable[[Process], tuple[Name | bytes, Node]]) -> None:
        super().__init__(b"", meta)
        self._find = find

    def text(self, process: Process) -> bytes:
        called = self.called(process)
        return called if isinstance(called, bytes) else called.path

    def called(self, process: Process) -> Name | bytes:
        return self._find(process)[0]

    def target(self, process: Process) -> Node | None:
        return self._find(process)[1]


class Device(Node):
    """A character device of /dev; `kind` is its name in `kvrm.linux.files.devices.DEVICES`."""

    __slots__ = ("kind",)
    immutable = True

    def __init__(self, meta: Stat, kind: str) -> None:
        super().__init__(meta)
        self.kind = kind


class Special(Node):
    """A FIFO, socket or device of the host, which can be seen but not opened."""

    __slots__ = ()
