"""Open file descriptions: what a descriptor refers to, with its offset and status flags."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.copying import FileCopies
from kvrm.linux.files.host import Handle
from kvrm.linux.files.nodes import Device, Directory, File, Node
from kvrm.linux.files.paths import Name
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.layout import Stat, dirent

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_MAX_OFFSET = (1 << 63) - 1


class OpenFile:
    """What open(2) makes. Descriptors made by dup share it.

    `flags` are the access mode and the status flags of the guest, `name` is the name that it was opened
    by, or the text that stands for it, `sent` counts messages of sockets that bring it. A method that does
    not apply fails as Linux would. Callers check `readable` and `writable`: what the file was opened for.
    """

    def __init__(self, flags: int, name: Name | bytes, node: Node | None = None) -> None:
        self.flags = flags
        self.node = node
        self.sent = 0
        self._name = name
        access = flags & (abi.O_ACCMODE | abi.O_PATH)
        self.readable = access in (abi.O_RDONLY, abi.O_RDWR)
        self.writable = access in (abi.O_WRONLY, abi.O_RDWR)

    @property
    def path(self) -> bytes:
        """What /proc/self/fd shows."""
        if isinstance(self.node, Directory):
            return self.node.shown()
        if isinstance(self._name, bytes):
            return self._name
        return self._name.directory.path().rstrip(b"/") + b"/" + self._name.name

    def called(self, name: Name) -> bool:
        """Whether it was opened by this name, and still has it."""
        return isinstance(self._name, Name) and self._name[:2] == name[:2]

    def rename(self, name: Name | None) -> None:
        """It has another name now, or none."""
        self._name = name or self.path + b" (deleted)"

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes that it refers to."""
        if self.node is not None:
            yield self.node
        if isinstance(self._name, Name):
            yield self._name.directory

    @property
    def waits(self) -> bool:
        """Whether a read may have to wait."""
        return False

    def relink(self, copies: FileCopies) -> None:
        """This is a shallow copy for a snapshot: part it from the original."""
        self.node = self.node and copies.nodes.of(self.node)
        if isinstance(self._name, Name):
            self._name = self._name._replace(directory=copies.nodes.directory(self._name.directory))

    def target(self) -> Node:
        """The node that calls on the descriptor change; EPERM if there is none."""
        if self.node is None:
            raise Failure(Errno.EPERM)
        return self.node

    def stat(self) -> Stat:
        """Status of the file."""
        if self.node is None:
            raise Failure(Errno.EBADF)
        return self.node.stat()

    def read(self, process: Process, size: int) -> bytes:
        """Up to `size` bytes from the current offset, which moves; b"" is the end."""
        raise Failure(Errno.EINVAL)

    def unread(self, data: bytes) -> None:
        """Take back what the last `read` gave, because the guest could not."""

    def write(self, process: Process, data: bytes) -> int:
        """Write at the current offset, which moves; how many bytes were taken."""
        raise Failure(Errno.EINVAL)

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`."""
        raise Failure(Errno.ESPIPE)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        """Write at `offset`; how many bytes were taken."""
        raise Failure(Errno.ESPIPE)

    def seek(self, offset: int, whence: int) -> int:
        """Move the current offset and return it."""
        raise Failure(Errno.ESPIPE)

    def truncate(self, process: Process, size: int) -> None:
        """Cut or extend the file."""
        raise Failure(Errno.EINVAL)

    def sync(self) -> None:
        """Wait until the host has stored what was written."""

    def available(self) -> int | None:
        """Bytes that can be read without waiting, or None if there is no such number (FIONREAD)."""
        return None

    @property
    def queue(self) -> WaitQueue | None:
        """Where those wait that are told when `poll` changes; None if it never does."""
        return None

    def poll(self, process: Process) -> int:
        """The POLL* events that hold now."""
        return abi.POLLIN | abi.POLLOUT | abi.POLLRDNORM | abi.POLLWRNORM

    def closed(self, process: Process) -> None:
        """The last descriptor that referred to it was closed."""


class SeekableFile(OpenFile):
    """A file with an offset."""

    def __init__(self, flags: int, name: Name | bytes, node: Node | None = None) -> None:
        super().__init__(flags, name, node)
        self.offset = 0

    def size(self) -> int:
        """Size in bytes."""
        return self.stat().size

    def available(self) -> int | None:
        return max(0, self.size() - self.offset)

    def read(self, process: Process, size: int) -> bytes:
        data = self.pread(size, self.offset)
        self.offset += len(data)
        return data

    def unread(self, data: bytes) -> None:
        self.offset -= len(data)

    def write(self, process: Process, data: bytes) -> int:
        written = self.pwrite(process, data, self.offset)
        self.offset = self.size() if self.flags & abi.O_APPEND else self.offset + written
        return written

    def seek(self, offset: int, whence: int) -> int:
        size = self.size() if whence >= abi.SEEK_END else 0
        match whence:
            case abi.SEEK_SET:
                new = offset
            case abi.SEEK_CUR:
                new = self.offset + offset
            case abi.SEEK_END:
                new = size + offset
            case abi.SEEK_DATA | abi.SEEK_HOLE:
                if not 0 <= offset < size:
                    raise Failure(Errno.ENXIO)
                new = offset if whence == abi.SEEK_DATA else size
            case _:
                raise Failure(Errno.EINVAL)
        if not 0 <= new <= _MAX_OFFSET:
            raise Failure(Errno.EINVAL)
        self.offset = new
        return new


class GuestFile(SeekableFile):
    """A regular file of a read-only tree or of the overlay."""

    node: File

    def __init__(self, flags: int, name: Name | bytes, node: File) -> None:
        super().__init__(flags, name, node)
        # While a file is open, its handle is, so that the file can be read even if the host removes its name.
        self._handle = node.handle()

    def pread(self, size: int, offset: int) -> bytes:
        return self.node.read(size, offset)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        if self.flags & abi.O_APPEND:
            offset = self.node.stat().size
        return self.node.write(data, offset, process.files.budget, process.files.now)

    def truncate(self, process: Process, size: int) -> None:
        self.node.truncate(size, process.files.budget, process.files.now)


class HostFile(SeekableFile):
    """A regular file of a writable tree: everything goes to the host."""

    node: File

    def __init__(self, flags: int, name: Name | bytes, node: File, handle: Handle) -> None:
        super().__init__(flags, name, node)
        self._handle = handle

    def target(self) -> Node:
        self.node.keep(self._handle)
        return self.node

    def stat(self) -> Stat:
        return Stat.of_host(os.fstat(self._handle.fd))

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self._handle.fd, size, offset)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        # the host appends, so that no other writer of the file comes between its size and the write
        flags = os.RWF_APPEND if self.flags & abi.O_APPEND else 0
        return os.pwritev(self._handle.fd, [data], offset, flags)

    def truncate(self, process: Process, size: int) -> None:
        os.ftruncate(self._handle.fd, size)

    def sync(self) -> None:
        os.fsync(self._handle.fd)


class BytesFile(SeekableFile):
    """A file of /proc, as it was when it was opened."""

    def __init__(self, flags: int, name: Name | bytes, node: Node, data: bytes) -> None:
        super().__init__(flags, name, node)
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def pread(self, size: int, offset: int) -> bytes:
        return self._data[offset : offset + size]


class DirectoryFile(OpenFile):
    """A directory that is being listed: the names are those of the first call, or of that after a rewind."""

    node: Directory

    def __init__(self, flags: int, name: Name | bytes, node: Directory) -> None:
        super().__init__(flags, name, node)
        self._entries: list[tuple[bytes, int, int]] | None = None
        self._position = 0

    def read(self, process: Process, size: int) -> bytes:
        raise Failure(Errno.EISDIR)

    def pread(self, size: int, offset: int) -> bytes:
        raise Failure(Errno.EISDIR)

    def seek(self, offset: int, whence: int) -> int:
        if whence == abi.SEEK_CUR:
            offset += self._position
        if whence not in (abi.SEEK_SET, abi.SEEK_CUR) or not 0 <= offset <= _MAX_OFFSET:
            raise Failure(Errno.EINVAL)
        self._position = offset
        if offset == 0:
            self._entries = None
        return offset

    def list(self, process: Process, room: int) -> bytes:
        """The next entries as linux_dirent64 records, at most `room` bytes; b"" is the end.

        EINVAL if the next one does not fit.
        """
        if self._entries is None:
            if self.node.dead:
                raise Failure(Errno.ENOENT)
            own, up = self.node.stat(), self.node.parent.stat()
            self._entries = [(b".", own.ino, 4), (b"..", up.ino, 4)]
            self._entries += [
                (name, entry.ino, entry.kind) for name, entry in self.node.names(process).items()
            ]
        records = b""
        for name, ino, kind in self._entries[self._position :]:
            record = dirent(ino, self._position + 1, kind, name)
            if len(records) + len(record) > room:
                if not records:
                    raise Failure(Errno.EINVAL)
                break
            records += record
            self._position += 1
        return records


class DeviceFile(OpenFile):
    """A character device of /dev."""

    node: Device

    def read(self, process: Process, size: int) -> bytes:
        match self.node.kind:
            case "null":
                return b""
            case "random":
                return process.random_bytes(size)
            case _:
                return bytes(size)

    def write(self, process: Process, data: bytes) -> int:
        if self.node.kind == "full":
            raise Failure(Errno.ENOSPC)
        return len(data)

    def pread(self, size: int, offset: int) -> bytes:
        return bytes(size) if self.node.kind in ("zero", "full") else b""

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        return self.write(process, data)

    def seek(self, offset: int, whence: int) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a number refers to; `cloexec` is its only flag."""

    file: OpenFile
    cloexec: bool = False
