"""Regular files: of the overlay and of read-only trees, of a writable tree, and of /proc."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import MAX_SIZE
from kvrm.linux.files.host import Handle
from kvrm.linux.files.nodes import File, Node
from kvrm.linux.files.open_file import SeekableFile
from kvrm.linux.files.paths import Name
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process


class GuestFile(SeekableFile):
    """A regular file of a read-only tree or of the overlay."""

    node: File
    largest = MAX_SIZE

    def __init__(self, flags: int, name: Name | bytes, node: File) -> None:
        super().__init__(flags, name, node)
        # While a file is open, its handle is, so that the file can be read even if the host removes its name.
        self._handle = node.handle()

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        return self.node.read(size, offset)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        if not data:
            return 0
        if self.flags & abi.O_APPEND:
            offset = self.node.stat().size
        return self.node.write(process, data, offset)

    def truncate(self, process: Process, size: int) -> None:
        self.node.truncate(process, size)

    def allocate(self, process: Process, mode: int, offset: int, size: int) -> None:
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

    def target(self) -> Node:
        self.node.keep(self._handle)
        return self.node

    def stat(self) -> Stat:
        return Stat.of_host(os.fstat(self._handle.fd))

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        return os.pread(self._handle.fd, size, offset)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        # the host appends, so that no other writer of the file comes between its size and the write
        flags = os.RWF_APPEND if self.flags & abi.O_APPEND else 0
        return os.pwritev(self._handle.fd, [data], offset, flags)

    def truncate(self, process: Process, size: int) -> None:
        os.ftruncate(self._handle.fd, size)

    def allocate(self, process: Process, mode: int, offset: int, size: int) -> None:
        self._handle.allocate(mode, offset, size)

    def seek_content(self, offset: int, whence: int) -> int:
        # the host's offset moves with it, but nothing uses that
        return os.lseek(self._handle.fd, offset, whence)

    def sync(self) -> None:
        os.fsync(self._handle.fd)


class BytesFile(SeekableFile):
    """A file of /proc, as it was when it was opened."""

    def __init__(self, flags: int, name: Name | bytes, node: Node, data: bytes) -> None:
        super().__init__(flags, name, node)
        self._data = data

    @property
    def positioned_for_writing(self) -> bool:
        return False

    @property
    def gives_pages(self) -> bool:
        return False

    def seek(self, offset: int, whence: int) -> int:
        if whence == abi.SEEK_END:
            raise Failure(Errno.EINVAL)
        return super().seek(offset, whence)

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        return self._data[offset : offset + size]
