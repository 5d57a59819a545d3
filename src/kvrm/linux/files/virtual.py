"""Files and directories whose contents are made when they are looked at, as in /proc and /sys.

Only the top of such a tree is a node that is kept (and copied for snapshots); what is below is made anew by
each lookup, from a table.
"""

from __future__ import annotations

import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.host import Entry
from kvrm.linux.files.nodes import MagicLink, Node, Symlink
from kvrm.linux.files.open_file import OpenFile, SeekableFile
from kvrm.linux.files.paths import Name
from kvrm.linux.layout import Stat
from kvrm.memory import GuestFault

if TYPE_CHECKING:
    from kvrm.linux.process import Process

Generate = Callable[["Process"], bytes]
Store = Callable[["Process", bytes], None]
Make = Callable[[Directory, bytes, Stat], Node]
"""Makes what a directory has by a name; the status says who owns it, and has an inode of its own."""
Numbers = Callable[["Process"], Iterable[int]]

_INODES: Final = 1 << 33


class Virtual(Node):
    """A file: what it says, and what is done with what is written to it, if it can be."""

    __slots__ = ("generate", "store")
    immutable = True

    def __init__(self, meta: Stat, generate: Generate, store: Store | None = None) -> None:
        super().__init__(meta)
        self.generate = generate
        self.store = store

    def open(self, process: Process, flags: int, name: Name | bytes) -> OpenFile:
        """The node, opened; EACCES to write what cannot be written."""
        if flags & abi.O_ACCMODE != abi.O_RDONLY and self.store is None:
            raise Failure(Errno.EACCES)
        return VirtualFile(flags, name, self)


class VirtualFile(SeekableFile):
    """Such a file. It is made anew whenever it is read from its beginning, as Linux does."""

    node: Virtual
    positioned_for_writing = False
    gives_pages = False

    def __init__(self, flags: int, name: Name | bytes, node: Virtual) -> None:
        super().__init__(flags, name, node)
        self._data = b""

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        if offset == 0:
            self._data = self.node.generate(process)
        return self._data[offset : offset + size]

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        assert self.node.store is not None
        self.node.store(process, data)
        return len(data)

    def seek(self, offset: int, whence: int) -> int:
        if whence == abi.SEEK_END:
            raise Failure(Errno.EINVAL)
        return super().seek(offset, whence)


class Memory(Virtual):
    """The memory of the process, by its addresses."""

    __slots__ = ()

    def open(self, process: Process, flags: int, name: Name | bytes) -> OpenFile:
        return MemoryFile(flags, name, self)


class MemoryFile(VirtualFile):
    """/proc/self/mem: reads and writes whatever the permissions, as a debugger does."""

    positioned_for_writing = True

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        try:
            return process.memory.peek(offset, size)
        except GuestFault as fault:
            if fault.address <= offset or not size:
                raise Failure(Errno.EIO) from None
            return process.memory.peek(offset, fault.address - offset)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        try:
            process.memory.poke(offset, data)
        except GuestFault as fault:
            if fault.address <= offset or not data:
                raise Failure(Errno.EIO) from None
            data = data[: fault.address - offset]
            process.memory.poke(offset, data)
        return len(data)


class Words(Virtual):
    """A file of 64-bit words, which are made where they are read (/proc/self/pagemap)."""

    __slots__ = ("words",)

    def __init__(self, meta: Stat, words: Callable[[Process, int, int], bytes]) -> None:
        super().__init__(meta, _nothing)
        self.words = words

    def open(self, process: Process, flags: int, name: Name | bytes) -> OpenFile:
        if flags & abi.O_ACCMODE != abi.O_RDONLY:
            raise Failure(Errno.EACCES)
        return WordsFile(flags, name, self)


class WordsFile(VirtualFile):
    """Such a file, opened."""

    node: Words

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        if size % 8 or offset % 8:
            raise Failure(Errno.EINVAL)
        return self.node.words(process, offset, size)


def _nothing(process: Process) -> bytes:
    return b""


class Folder(Directory):
    """A directory of them."""

    __slots__ = ("children",)
    made_from: ClassVar[tuple[str, ...]] = ("children",)
    """Attributes that come from the table of all such trees."""

    def __init__(
        self, name: bytes, parent: Directory | None, meta: Stat, children: Mapping[bytes, Make]
    ) -> None:
        super().__init__(name, parent, meta, sealed=True)
        self.children = children

    def stored(self) -> dict[str, Any]:
        return {name: value for name, value in super().stored().items() if name not in self.made_from}

    def revived(self, process: Process) -> None:
        super().revived(process)
        here: Node | None = process.kernel.files.root
        for name in self.path().split(b"/")[1:]:
            here = here.lookup(name) if isinstance(here, Directory) else None
        assert isinstance(here, Folder)
        for attribute in self.made_from:
            setattr(self, attribute, getattr(here, attribute))

    def lookup(self, name: bytes) -> Node | None:
        make = self.children.get(name)
        return None if make is None else self._child(make, name)

    def names(self, process: Process) -> dict[bytes, Entry]:
        return {name: self._child(self.children[name], name).entry() for name in sorted(self.children)}

    def _child(self, make: Make, name: bytes) -> Node:
        own = self.stat()
        inode = _INODES + zlib.crc32(b"%d/%s" % (own.ino, name))
        return make(self, name, own._replace(ino=inode, nlink=1, size=0))


class NumberedFolder(Folder):
    """A directory that has the same for each number of a changing set (/proc/self/fd)."""

    __slots__ = ("_make", "_numbers")
    made_from = ("_make", "_numbers", "children")

    def __init__(
        self,
        name: bytes,
        parent: Directory,
        meta: Stat,
        numbers: Numbers,
        make: Callable[[int, Directory, bytes, Stat], Node],
    ) -> None:
        super().__init__(name, parent, meta, {})
        self._numbers, self._make = numbers, make

    def lookup(self, name: bytes) -> Node | None:
        if not name.isdigit() or len(name) > 9 or (name[:1] == b"0" and len(name) > 1):
            return None
        return self._child(lambda *where: self._make(int(name), *where), name)

    def names(self, process: Process) -> dict[bytes, Entry]:
        nodes = {b"%d" % number: self.lookup(b"%d" % number) for number in sorted(self._numbers(process))}
        return {name: node.entry() for name, node in nodes.items() if node is not None}


def file(generate: Generate, mode: int = 0o444, store: Store | None = None) -> Make:
    return lambda parent, name, meta: Virtual(meta._replace(mode=stat.S_IFREG | mode), generate, store)


def memory(mode: int) -> Make:
    """/proc/self/mem."""
    return lambda parent, name, meta: Memory(meta._replace(mode=stat.S_IFREG | mode), _nothing)


def words(make: Callable[[Process, int, int], bytes], mode: int) -> Make:
    """A file of words: `make` gives some from an offset on, both in bytes."""
    return lambda parent, name, meta: Words(meta._replace(mode=stat.S_IFREG | mode), make)


def link(text: bytes) -> Make:
    return lambda parent, name, meta: Symlink(
        text, meta._replace(mode=stat.S_IFLNK | 0o777)._replace(size=len(text))
    )


def magic(find: Callable[[Process], tuple[Name | bytes, Node]]) -> Make:
    """A link that leads to what `find` gives."""
    return lambda parent, name, meta: MagicLink(meta._replace(mode=stat.S_IFLNK | 0o777), find)


def folder(children: Mapping[bytes, Make], mode: int = 0o555) -> Make:
    return lambda parent, name, meta: Folder(name, parent, folder_status(meta, mode), children)


def numbered(
    numbers: Numbers, make: Callable[[int, Directory, bytes, Stat], Node], mode: int = 0o555
) -> Make:
    return lambda parent, name, meta: NumberedFolder(name, parent, folder_status(meta, mode), numbers, make)


def tree(files: Mapping[str, Generate]) -> dict[bytes, Make]:
    """What a directory has, of files by their paths in it."""
    below: dict[str, dict[str, Generate]] = {}
    found: dict[bytes, Make] = {}
    for path, generate in files.items():
        first, slash, rest = path.partition("/")
        if slash:
            below.setdefault(first, {})[rest] = generate
        else:
            found[first.encode()] = file(generate)
    return found | {name.encode(): folder(tree(inside)) for name, inside in below.items()}


def folder_status(meta: Stat, mode: int) -> Stat:
    return meta._replace(mode=stat.S_IFDIR | mode, nlink=2)
