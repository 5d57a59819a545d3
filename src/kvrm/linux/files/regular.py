"""Regular files: of the overlay and of read-only trees, and of a writable tree."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kvrm.errors import UsageError
from kvrm.linux import abi
from kvrm.linux.file_limit import require_size, within_limit
from kvrm.linux.files.content import MAX_SIZE
from kvrm.linux.files.file import File
from kvrm.linux.files.host import Handle
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.open_file import SeekableFile
from kvrm.linux.files.paths import Name
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process


HOST_ACCESS = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR)
"""How the host opens a file, by the access mode of the guest."""


class GuestFile(SeekableFile):
    """A regular file of a read-only tree or of the overlay."""

    node: File
    largest = MAX_SIZE

    def __init__(self, flags: int, name: Name | bytes, node: File) -> None:
        super().__init__(flags, name, node)
        # While a file is open, its handle is, so that the file can be read even if the host removes its name.
        self._handle = node.handle()

    def stored(self) -> dict[str, Any]:
        _require_named(self, self._handle)
        return super().stored() | {"_handle": None}

    def revived(self, process: Process) -> None:
        self._handle = self.node.handle()

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        return self.node.read(size, offset)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        if not data:
            return 0
        if self.flags & abi.O_APPEND:
            offset = self.node.stat().size
        return self.node.write(process, within_limit(process, data, offset), offset)

    def truncate(self, process: Process, size: int) -> None:
        require_size(process, self.size(), size)
        self.node.truncate(process, size)

    def allocate(self, process: Process, mode: int, offset: int, size: int) -> None:
        require_size(process, self.size(), _allocated(mode, offset, size))
        self.node.allocate(process, mode, offset, size)

    def seek_content(self, offset: int, whence: int) -> int:
        return self.node.seek(offset, whence)

    def sync(self) -> None:
        pass


class HostFile(SeekableFile):
    """A regular file of a writable tree: everything goes to the host."""

    node: File
    largest = MAX_SIZE

    def __init__(self, flags: int, name: Name | bytes, node: File, handle: Handle) -> None:
        super().__init__(flags, name, node)
        self._handle = handle

    def stored(self) -> dict[str, Any]:
        _require_named(self, self._handle)
        return super().stored() | {"_handle": None}

    def revived(self, process: Process) -> None:
        where, access = self.node.where, HOST_ACCESS[self.flags & abi.O_ACCMODE]
        assert where is not None
        self._handle = where.tree.open(where.parts, access)

    def target(self) -> Node:
        self.node.keep(self._handle)
        return self.node

    def stat(self) -> Stat:
        return Stat.of_host(os.fstat(self._handle.fd))

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        return os.pread(self._handle.fd, size, offset)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        # the host appends, so that no other writer of the file comes between its size and the write
        appends = self.flags & abi.O_APPEND
        data = within_limit(process, data, self.size() if appends else offset)
        return os.pwritev(self._handle.fd, [data], offset, os.RWF_APPEND if appends else 0)

    def truncate(self, process: Process, size: int) -> None:
        require_size(process, self.size(), size)
        os.ftruncate(self._handle.fd, size)

    def allocate(self, process: Process, mode: int, offset: int, size: int) -> None:
        require_size(process, self.size(), _allocated(mode, offset, size))
        self._handle.allocate(mode, offset, size)

    def seek_content(self, offset: int, whence: int) -> int:
        # the host's offset moves with it, but nothing uses that
        return os.lseek(self._handle.fd, offset, whence)

    def sync(self) -> None:
        os.fsync(self._handle.fd)


def _require_named(file: SeekableFile, handle: Handle | None) -> None:
    """Raise UsageError unless the host file that is open is still found by its name."""
    node = file.node
    if handle is None or node is None or node.where is None:
        return
    st = os.fstat(handle.fd)
    try:
        there = node.where.lstat()
        found = (there.st_dev, there.st_ino) == (st.st_dev, st.st_ino)
    except OSError:
        found = False
    if not found:
        path = os.fsdecode(file.path)
        why = f"the guest has {path} open, and the host has no such file by that name any more"
        raise UsageError(f"the snapshot cannot be pickled: {why}; take one before the file is removed")


def _allocated(mode: int, offset: int, size: int) -> int:
    """The size that fallocate asks for."""
    return 0 if mode & (abi.FALLOC_FL_KEEP_SIZE | abi.FALLOC_FL_COLLAPSE_RANGE) else offset + size
