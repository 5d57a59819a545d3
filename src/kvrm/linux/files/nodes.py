"""What a name can stand for: directories, files, links, devices and files that are made on demand.

A node either comes from the host (`where`) and is what the host says, or it is the guest's own (`meta`).
Nodes of read-only trees become the guest's own when it changes them: they enter the overlay, which is the
`entries` of directories. Nodes of a writable tree never do; their changes go to the host.
"""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import MAX_SIZE, Budget, Content
from kvrm.linux.files.host import Entry, Handle, Location
from kvrm.linux.files.stored import attributes
from kvrm.linux.layout import Stat
from kvrm.memory import PAGE

if TYPE_CHECKING:
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


class File(Node):
    """A regular file: of the host until `content` is set.

    `linkable`: it never had a name, and may get one (O_TMPFILE). `seals` are those of
    memfd_create (F_SEAL_...), None where Linux knows none.
    """

    __slots__ = ("_handle", "content", "linkable", "seals")

    def __init__(
        self,
        meta: Stat | None = None,
        where: Location | None = None,
        home: tuple[Directory, bytes] | None = None,
        content: Content | None = None,
    ) -> None:
        super().__init__(meta, where, home)
        self.content = content
        self.linkable = False
        self.seals: int | None = None
        self._handle: Callable[[], Handle | None] = _not_open

    def part(self, budget: Budget) -> None:
        if self.content is not None:
            self.content = self.content.copy(budget)

    def stored(self) -> dict[str, Any]:
        return super().stored() | {"_handle": _not_open}

    def handle(self) -> Handle | None:
        """The host file, opened for reading; None if the file is only the guest's."""
        handle = self._handle()
        if handle is None and self.where is not None:
            handle = self.where.tree.open(self.where.parts)
            self.keep(handle)
        return handle

    def keep(self, handle: Handle) -> None:
        """Use this handle for as long as something else does."""
        self._handle = weakref.ref(handle)

    def opened(self) -> Handle | None:
        """A handle of the host file, if it is open."""
        return self._handle()

    def grip(self) -> Handle:
        return self.opened() or super().grip()

    def stat(self) -> Stat:
        handle = self._handle()
        if self.meta is None and handle is not None:
            return Stat.of_host(os.fstat(handle.fd))
        return super().stat()

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`."""
        handle = self.handle()
        if self.content is not None:
            return self.content.read(size, offset, handle)
        assert handle is not None
        return handle.read(size, offset)

    def write(self, process: Process, data: bytes, offset: int) -> int:
        """Write `data`; how many bytes there was room for, as `Content.write`."""
        if self.seals:
            data = data[: self._unsealed(len(data), offset)]
        content = self._own_content(process.files.budget)
        written = content.write(data, offset, self.handle())
        self._changed(process, content)
        return written

    def truncate(self, process: Process, size: int) -> None:
        """Cut or extend."""
        sealed = self.seals or 0
        old = self.stat().size
        if (size < old and sealed & abi.F_SEAL_SHRINK) or (size > old and sealed & abi.F_SEAL_GROW):
            raise Failure(Errno.EPERM)
        content = self._own_content(process.files.budget)
        content.truncate(size)
        self._changed(process, content)

    def allocate(self, process: Process, mode: int, offset: int, size: int) -> None:
        """Reserve room, or make holes, zeros, or another order of pages, as fallocate(2) says."""
        sealed, old = self.seals or 0, self.stat().size
        shrinks, grows = mode & abi.FALLOC_FL_COLLAPSE_RANGE, mode & abi.FALLOC_FL_INSERT_RANGE
        punches = mode & abi.FALLOC_FL_PUNCH_HOLE
        if punches and sealed & abi.F_SEALS_OF_WRITING:
            raise Failure(Errno.EPERM)
        if not punches and offset + size > old and sealed & abi.F_SEAL_GROW:  # even if the size is to stay
            raise Failure(Errno.EPERM)
        extends = not mode & (abi.FALLOC_FL_KEEP_SIZE | shrinks) and offset + size > old
        if (shrinks or grows) and (offset % PAGE or size % PAGE):
            raise Failure(Errno.EINVAL)
        if (shrinks and offset + size >= old) or (grows and offset >= old):
            raise Failure(Errno.EINVAL)
        if grows and old + size > MAX_SIZE:
            raise Failure(Errno.EFBIG)
        content, under = self._own_content(process.files.budget), self.handle()
        if shrinks:
            content.shift(offset + size, -size, under)
        elif grows:
            content.shift(offset, size, under)
        elif punches:
            # a hole that passes the end takes the last page whole
            content.clear(
                offset, size if offset + size <= old else max(0, -(-old // PAGE) * PAGE - offset), under
            )
        else:
            if mode & abi.FALLOC_FL_ZERO_RANGE:
                content.clear(offset, size, under)
            content.reserve(offset, size)
            if extends:
                content.size = offset + size
        self._changed(process, content)

    def seek(self, offset: int, whence: int) -> int:
        """Where the next data or hole is from `offset` on; ENXIO after the end."""
        size = self.stat().size
        if not 0 <= offset < size:
            raise Failure(Errno.ENXIO)
        if self.content is None:  # a file of the host has no holes, so that it is the same everywhere
            return offset if whence == abi.SEEK_DATA else size
        return self.content.data(offset) if whence == abi.SEEK_DATA else self.content.hole(offset)

    def _unsealed(self, size: int, offset: int) -> int:
        """How many bytes may be written in spite of seals; EPERM if none."""
        assert self.seals is not None
        if self.seals & abi.F_SEALS_OF_WRITING:
            raise Failure(Errno.EPERM)
        old = self.stat().size
        if not self.seals & abi.F_SEAL_GROW or offset + size <= old:
            return size
        inside = (old & -PAGE) - offset  # Linux checks page by page, and refuses the page that would grow
        if inside <= 0:
            raise Failure(Errno.EPERM)
        return inside

    def _own_content(self, budget: Budget) -> Content:
        meta = self.own()
        if self.content is None:
            self.content = Content(budget, meta.size)
        return self.content

    def _changed(self, process: Process, content: Content) -> None:
        now, mode = process.files.now, self.own().mode
        if mode & (stat.S_ISUID | stat.S_ISGID) and process.credentials.uid:
            mode = without_privileges(mode)
        self.change(now, size=content.size, blocks=content.blocks, mtime=now, mode=mode)


def without_privileges(mode: int) -> int:
    """The mode of a file after its contents or its owner changed: it runs as nobody else any more."""
    return mode & ~(stat.S_ISUID | (stat.S_ISGID if mode & stat.S_IXGRP else 0))


def _not_open() -> None:
    """No handle of a host file."""


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
    """A character device of /dev; `kind` is null, zero, full, random or tty."""

    __slots__ = ("kind",)
    immutable = True

    def __init__(self, meta: Stat, kind: str) -> None:
        super().__init__(meta)
        self.kind = kind


class Special(Node):
    """A FIFO, socket or device of the host, which can be seen but not opened."""

    __slots__ = ()


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
                status = node.stat()
                merged[name] = Entry(status.ino, stat.S_IFMT(status.mode) >> 12)
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
