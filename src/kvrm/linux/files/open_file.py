"""Open file descriptions: what a descriptor refers to, with its offset and status flags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.copying import FileCopies
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.locks import Ranges
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.paths import Name, name_of
from kvrm.linux.files.stored import attributes
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.layout import Stat, dirent

if TYPE_CHECKING:
    from kvrm.linux.process import Process

MAX_OFFSET: Final = (1 << 63) - 1


class OpenFile:
    """What open(2) makes. Descriptors made by dup share it.

    `flags` are the access mode and the status flags of the guest, `name` is the name that it was opened
    by, or the text that stands for it. A method that does not apply fails as Linux would. Callers check
    `readable` and `writable`: what the file was opened for. `whole_lock` (F_RDLCK, F_WRLCK or F_UNLCK) is
    its flock, `locked` are the ranges that it has locked. `sent` counts messages of sockets that bring it.
    In `queue` those wait that are told when `poll` changes; it is None if that never happens.
    """

    can_be_read = True
    can_be_written = True
    """Whether anything of its kind can be read, and written."""
    by_piece = False
    """Whether each buffer of writev is a write of its own, as where a driver has no write_iter."""
    discards = False
    """Whether what is written to it is not looked at."""
    gives_pages = True
    takes_pages = True
    """Whether splice can read from it, and write to it."""
    refusal = Errno.ENOTTY
    """What ioctl fails with for requests that the file does not know."""

    def __init__(self, flags: int, name: Name | bytes, node: Node | None = None) -> None:
        self.flags = flags
        self.node = node
        self.sent = 0
        self.queue: WaitQueue | None = None
        self._called = name
        self.whole_lock = abi.F_UNLCK
        self.locked: Ranges = ()
        access = flags & (abi.O_ACCMODE | abi.O_PATH)
        self.readable = access in (abi.O_RDONLY, abi.O_RDWR)
        self.writable = access in (abi.O_WRONLY, abi.O_RDWR)

    @property
    def called(self) -> Name | bytes:
        """The name that it was opened by, wherever that is now, or the text that stands for it."""
        return name_of(self.node) if isinstance(self.node, Directory) else self._called

    @property
    def path(self) -> bytes:
        """What /proc/self/fd shows."""
        called = self.called
        return called if isinstance(called, bytes) else called.path

    def is_called(self, name: Name) -> bool:
        """Whether it was opened by this name, and still has it."""
        called = self.called
        return isinstance(called, Name) and not called.removed and called[:2] == name[:2]

    def rename(self, name: Name | None) -> None:
        """It has another name now, or none."""
        if isinstance(self._called, Name):
            self._called = name or self._called._replace(removed=True)

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes that it refers to."""
        if self.node is not None:
            yield self.node
        if isinstance(self._called, Name):
            yield self._called.directory

    @property
    def waits(self) -> bool:
        """Whether a read may have to wait."""
        return False

    @property
    def positioned(self) -> bool:
        """Whether it is read and written at offsets."""
        return False

    @property
    def positioned_for_writing(self) -> bool:
        """The same of writing alone."""
        return self.positioned

    def relink(self, copies: FileCopies) -> None:
        self.node = self.node and copies.nodes.of(self.node)
        self.queue = self.queue and copies.of(self.queue)
        if isinstance(self._called, Name):
            self._called = self._called._replace(directory=copies.nodes.directory(self._called.directory))

    def stored(self) -> dict[str, Any]:
        """As `Node.stored`. Raises UsageError for what cannot be found again on the host."""
        return attributes(self)

    def revived(self, process: Process) -> None:
        """As `Node.revived`, after all nodes. Raises UsageError or OSError for what is not on the host."""

    def target(self) -> Node:
        """The node that calls on the descriptor change; EPERM if there is none."""
        if self.node is None:
            raise Failure(Errno.EPERM)
        return self.node

    def stat(self) -> Stat:
        if self.node is None:
            raise Failure(Errno.EBADF)
        return self.node.stat()

    def read(self, process: Process, size: int) -> bytes:
        """Up to `size` bytes from the current offset, which moves; b"" is the end."""
        raise Failure(Errno.EINVAL)

    def unread(self, data: bytes, kept: int) -> int:
        """The guest could store only the first bytes that the last `read` gave: take back what it can.

        How many bytes stay read.
        """
        return kept

    def require_write(self, size: int) -> None:
        """Fail as a write of so many bytes does before it looks at them."""

    def write(self, process: Process, data: bytes) -> int:
        """Write at the current offset, which moves; how many bytes were taken."""
        raise Failure(Errno.EINVAL)

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`."""
        raise Failure(Errno.ESPIPE)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        """Write at `offset`; how many bytes were taken."""
        raise Failure(Errno.ESPIPE)

    def seek(self, offset: int, whence: int) -> int:
        """Move the current offset and return it."""
        raise Failure(Errno.ESPIPE)

    def tell(self) -> int:
        """The current offset; 0 where there is none."""
        return self.seek(0, abi.SEEK_CUR) if self.positioned else 0

    def truncate(self, process: Process, size: int) -> None:
        """Cut or extend the file."""
        raise Failure(Errno.EINVAL)

    def allocate(self, process: Process, mode: int, offset: int, size: int) -> None:
        """Change what is allocated in a range (fallocate)."""
        raise Failure(Errno.ENODEV)

    def sync(self) -> None:
        """Wait until the host has stored what was written. EINVAL for what is never stored."""
        raise Failure(Errno.EINVAL)

    def available(self) -> int | None:
        """Bytes that can be read without waiting, or None if there is no such number (FIONREAD)."""
        return None

    def unsent(self) -> int | None:
        """Bytes of its buffer that unread messages take, or None if there is no such number (SIOCOUTQ)."""
        return None

    def poll(self, process: Process) -> int:
        """The POLL* events that hold now."""
        return abi.POLLIN | abi.POLLOUT | abi.POLLRDNORM | abi.POLLWRNORM

    def closed(self, process: Process) -> None:
        """The last descriptor that referred to it was closed."""


class SeekableFile(OpenFile):
    """A file with an offset, of `largest` at most."""

    largest: ClassVar[int] = MAX_OFFSET

    @property
    def positioned(self) -> bool:
        return True

    def __init__(self, flags: int, name: Name | bytes, node: Node | None = None) -> None:
        super().__init__(flags, name, node)
        self.offset = 0

    def size(self) -> int:
        """Size in bytes."""
        return self.stat().size

    def available(self) -> int | None:
        return self.stat().size - self.offset

    def read(self, process: Process, size: int) -> bytes:
        data = self.pread(process, size, self.offset)
        self.offset += len(data)
        return data

    def unread(self, data: bytes, kept: int) -> int:
        self.offset -= len(data) - kept
        return kept

    def write(self, process: Process, data: bytes) -> int:
        if not data:
            return 0
        written = self.pwrite(process, data, self.offset)
        self.offset = self.size() if self.flags & abi.O_APPEND else self.offset + written
        return written

    def seek(self, offset: int, whence: int) -> int:
        size = self.size() if whence == abi.SEEK_END else 0
        match whence:
            case abi.SEEK_SET:
                new = offset
            case abi.SEEK_CUR:
                new = self.offset + offset
            case abi.SEEK_END:
                new = size + offset
            case abi.SEEK_DATA | abi.SEEK_HOLE:
                new = self.seek_content(offset, whence)
            case _:
                raise Failure(Errno.EINVAL)
        if not 0 <= new <= self.largest:
            raise Failure(Errno.EINVAL)
        self.offset = new
        return new

    def seek_content(self, offset: int, whence: int) -> int:
        """Where data or a hole is next (SEEK_DATA, SEEK_HOLE)."""
        raise Failure(Errno.EINVAL)


class DirectoryFile(OpenFile):
    """A directory that is being listed: the names are those of the first call, or of that after a rewind."""

    node: Directory
    positioned = True
    gives_pages = False

    def __init__(self, flags: int, name: Name | bytes, node: Directory) -> None:
        super().__init__(flags, name, node)
        self._entries: list[tuple[bytes, int, int]] | None = None
        self._position = 0

    def read(self, process: Process, size: int) -> bytes:
        raise Failure(Errno.EISDIR)

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        raise Failure(Errno.EISDIR)

    def seek(self, offset: int, whence: int) -> int:
        if whence == abi.SEEK_CUR:
            offset += self._position
        elif whence == abi.SEEK_END:
            offset += MAX_OFFSET  # as on ext4, where the offset is a hash of the name
        elif whence in (abi.SEEK_DATA, abi.SEEK_HOLE):
            size = self.node.stat().size
            if not 0 <= offset < size:
                raise Failure(Errno.ENXIO)
            offset = offset if whence == abi.SEEK_DATA else size
        if not 0 <= offset <= MAX_OFFSET:
            raise Failure(Errno.EINVAL)
        self._position = offset
        if offset == 0:
            self._entries = None
        return offset

    def sync(self) -> None:
        pass

    def list(self, process: Process, room: int) -> tuple[bytes, int]:
        """The next entries as linux_dirent64 records, at most `room` bytes, and the offset after them.

        b"" is the end. EINVAL if the next one does not fit.
        """
        if self.node.dead:
            raise Failure(Errno.ENOENT)
        if self._entries is None:
            own, up = self.node.stat(), self.node.parent.stat()
            self._entries = [(b".", own.ino, 4), (b"..", up.ino, 4)]
            self._entries += [
                (name, entry.ino, entry.kind) for name, entry in self.node.names(process).items()
            ]
        records, position = b"", self._position
        for name, ino, kind in self._entries[position:]:
            record = dirent(ino, position + 1, kind, name)
            if len(records) + len(record) > room:
                if not records:
                    raise Failure(Errno.EINVAL)
                break
            records += record
            position += 1
        return records, position


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a number refers to; `cloexec` is its only flag."""

    file: OpenFile
    cloexec: bool = False
