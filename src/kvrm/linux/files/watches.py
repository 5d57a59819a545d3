"""Who is told when files are used or changed: the inotify instances of a process (fs/notify)."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.file import File
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.paths import Name
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.files.copying import FileCopies
    from kvrm.linux.files.inotify import Inotify
    from kvrm.linux.files.open_file import OpenFile
    from kvrm.linux.process import Process

_MOST: Final = 128
_CONTENTS: Final = abi.IN_ACCESS | abi.IN_MODIFY
_SPECIAL: Final = (stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK)


class Watches:
    """All instances that are open. It is false if nothing is watched, so that nothing needs to be told.

    A directory is told of what happens to what it has before that is told itself, as on Linux.
    """

    def __init__(self) -> None:
        self._instances: tuple[Inotify, ...] = ()
        self._cookie = 0

    def relink(self, copies: FileCopies) -> None:
        self._instances = tuple(copies.of(instance) for instance in self._instances)

    def __bool__(self) -> bool:
        return any(instance.watches for instance in self._instances)

    def join(self, instance: Inotify) -> None:
        """An instance was made; EMFILE if there are too many."""
        if len(self._instances) >= _MOST:
            raise Failure(Errno.EMFILE)
        self._instances += (instance,)

    def leave(self, instance: Inotify) -> None:
        """An instance was closed."""
        self._instances = tuple(other for other in self._instances if other is not instance)

    # -- files -------------------------------------------------------------------------------------------
    def used(self, file: OpenFile, events: int) -> None:
        """Something was done through an open file."""
        if not self or file.node is None:
            return
        if isinstance(file.node, File) and isinstance(file.called, bytes):
            return  # what is done through a descriptor of memfd_create is never told
        self._tell(file.stat(), file.called, events, used=True)

    def changed(self, what: Node | OpenFile, called: Name | bytes, events: int) -> None:
        """Something was changed, by a name or through an open file."""
        if self:
            self._tell(what.stat(), called, events)

    def closed(self, process: Process, file: OpenFile) -> None:
        """The last descriptor of an open file was closed."""
        if not self or file.node is None:
            return
        if not file.flags & abi.O_PATH:
            self.used(file, abi.IN_CLOSE_WRITE if file.writable else abi.IN_CLOSE_NOWRITE)
            status = file.stat()
            if not status.nlink and not any(
                other.node is file.node and other.called == file.called for other in process.open_files
            ):
                self._end(status)

    # -- names -------------------------------------------------------------------------------------------
    def made(self, name: Name, *, linked: bool = False) -> None:
        """Something has a new name; `linked`: it was there before."""
        if self:
            status = name.lookup().existing().stat()
            if linked:
                self._tell(status, b"", abi.IN_ATTRIB)
            self._tell_of(name, status, abi.IN_CREATE)

    def removed(self, process: Process, name: Name, before: Stat) -> None:
        """A name was removed of what had this status before."""
        if self:
            if not stat.S_ISDIR(before.mode):
                self._tell(before, b"", abi.IN_ATTRIB)
            self._lost(process, name, before)
            self._tell_of(name, before, abi.IN_DELETE)

    def moved(self, process: Process, old: Name, new: Name, status: Stat, replaced: Stat | None) -> None:
        """A name was changed, to one that something else had before."""
        if self:
            self._cookie += 1
            self._tell_of(old, status, abi.IN_MOVED_FROM, self._cookie)
            self._tell_of(new, status, abi.IN_MOVED_TO, self._cookie)
            if replaced is not None:
                self._tell(replaced, b"", abi.IN_ATTRIB)
            self._tell(status, b"", abi.IN_MOVE_SELF)
            if replaced is not None:
                self._lost(process, new, replaced)

    # -- telling -----------------------------------------------------------------------------------------
    def _tell(self, status: Stat, called: Name | bytes, events: int, *, used: bool = False) -> None:
        """Tell the directory and the file; only the file if it is not called by a name."""
        by_name = isinstance(called, Name) and called.name
        if stat.S_IFMT(status.mode) in _SPECIAL and events & _CONTENTS:
            by_name = False
        for instance in self._instances:
            unlinked = used and isinstance(called, Name) and called.removed
            if isinstance(called, Name) and by_name:
                directory = called.directory.stat().identity
                instance.saw(directory, events, status.mode, called.name, unlinked=unlinked)
            instance.saw(status.identity, events, status.mode, unlinked=unlinked)

    def _tell_of(self, name: Name, status: Stat, events: int, cookie: int = 0) -> None:
        """Tell the directory of one of its names."""
        directory = name.directory.stat().identity
        for instance in self._instances:
            instance.saw(directory, events, status.mode, name.name, cookie)

    def _lost(self, process: Process, name: Name, before: Stat) -> None:
        """What had this status has lost a name: that was its end, unless it is open by that name."""
        last = stat.S_ISDIR(before.mode) or before.nlink == 1
        if last and not any(file.is_called(name) for file in process.open_files):
            self._end(before)

    def _end(self, status: Stat) -> None:
        """A file is no more."""
        for instance in self._instances:
            instance.saw(status.identity, abi.IN_DELETE_SELF, status.mode)
            instance.ignore(status.identity)
