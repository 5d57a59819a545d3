"""A regular file as a name stands for it: contents of the host or of the overlay."""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import MAX_SIZE, Budget, Content
from kvrm.linux.files.host import Handle, Location
from kvrm.linux.files.nodes import Node
from kvrm.linux.layout import Stat
from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.linux.files.directory import Directory
    from kvrm.linux.process import Process


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
        content = self._own_content(process.kernel.files.budget)
        written = content.write(data, offset, self.handle())
        self._changed(process, content)
        return written

    def truncate(self, process: Process, size: int) -> None:
        sealed = self.seals or 0
        old = self.stat().size
        if (size < old and sealed & abi.F_SEAL_SHRINK) or (size > old and sealed & abi.F_SEAL_GROW):
            raise Failure(Errno.EPERM)
        content = self._own_content(process.kernel.files.budget)
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
        content, under = self._own_content(process.kernel.files.budget), self.handle()
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
        now, mode = process.kernel.files.now, self.own().mode
        if mode & (stat.S_ISUID | stat.S_ISGID) and process.credentials.uid:
            mode = without_privileges(mode)
        self.change(now, size=content.size, blocks=content.blocks, mtime=now, mode=mode)


def without_privileges(mode: int) -> int:
    """The mode of a file after its contents or its owner changed: it runs as nobody else any more."""
    return mode & ~(stat.S_ISUID | (stat.S_ISGID if mode & stat.S_IXGRP else 0))


def _not_open() -> None:
    """No handle of a host file."""
