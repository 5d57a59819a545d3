"""Standard streams."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOBase
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from kvrm.arguments import data as checked_data
from kvrm.arguments import shown
from kvrm.errors import UsageError
from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.mounts import PIPE
from kvrm.linux.files.open_file import OpenFile, SeekableFile
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.layout import Stat
from kvrm.linux.outcome import Finish, Stopped
from kvrm.streams import CLOSED, Closed

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_S = TypeVar("_S")
_T = TypeVar("_T")
OUTPUT_LIMIT: Final = 1 << 30
"""Most bytes that one stream captures."""
_STREAM_INODE = 1
_NAMES = ("stdin", "stdout", "stderr")


class _Piped(OpenFile):
    """What is a pipe to the guest, as descriptor `number`."""

    def __init__(self, flags: int, number: int) -> None:
        self.number = number
        super().__init__(flags, b"pipe:[%d]" % self._inode)
        self.queue = WaitQueue()

    @property
    def _inode(self) -> int:
        return _STREAM_INODE + self.number

    def stat(self) -> Stat:
        return Stat(PIPE.device, self._inode, stat.S_IFIFO | 0o600, uid=os.getuid(), gid=os.getgid())


class BytesInput(_Piped):
    """Standard input from given bytes. To the guest it is a pipe whose writer has gone."""

    def __init__(self, data: bytes) -> None:
        super().__init__(abi.O_RDONLY, 0)
        self._data = data
        self._offset = 0

    def read(self, process: Process, size: int) -> bytes:
        data = self._data[self._offset : self._offset + size]
        self._offset += len(data)
        return data

    def unread(self, data: bytes, kept: int) -> int:
        self._offset -= len(data) - kept
        return kept

    def refill(self, data: bytes) -> None:
        """Replace what was not read yet by `data`."""
        self._data, self._offset = data, 0

    def available(self) -> int | None:
        return len(self._data) - self._offset

    def poll(self, process: Process) -> int:
        return abi.POLLHUP | (abi.POLLIN | abi.POLLRDNORM if self.available() else 0)


class Capture(_Piped):
    """Standard output or error into the process's bytearray of that name. To the guest it is a pipe.

    More than OUTPUT_LIMIT bytes end the run: they would fill the host's memory.
    """

    def __init__(self, number: int) -> None:
        super().__init__(abi.O_WRONLY, number)

    def write(self, process: Process, data: bytes) -> int:
        captured = process.kernel.stdout if self.number == 1 else process.kernel.stderr
        if len(captured) + len(data) > OUTPUT_LIMIT:
            reason = f"more than {OUTPUT_LIMIT} bytes of output to capture; pass a file as stdout or stderr"
            raise Finish(Stopped(reason))
        captured += data
        return len(data)

    def poll(self, process: Process) -> int:
        return abi.POLLOUT | abi.POLLWRNORM


class ObjectStream(_Piped):
    """A Python file object without a descriptor, such as io.BytesIO.

    Its OSErrors are the guest's. What else it raises, or gives that is not what was asked for, is a mistake
    of the caller who passed it: a UsageError.
    """

    waits = True

    def __init__(self, stream: BinaryIO, flags: int, number: int) -> None:
        super().__init__(flags, number)
        self._stream = stream

    def stored(self) -> dict[str, Any]:
        return super().stored() | {"_stream": None}

    def revived(self, process: Process) -> None:
        own = process.kernel.streams[self.number]
        assert isinstance(own, ObjectStream)
        self._stream = own._stream

    def read(self, process: Process, size: int) -> bytes:
        found = self._do(self._stream.read, size)
        data = checked_data(f"what {self._stream_name} read", found or b"")
        if len(data) > size:
            raise UsageError(f"{self._stream_name} was asked for {size} bytes and gave {len(data)}")
        return data

    def write(self, process: Process, data: bytes) -> int:
        self._do(self._stream.write, data)
        return len(data)

    @property
    def _stream_name(self) -> str:
        return _NAMES[self.number]

    def _do(self, method: Callable[[_S], _T], argument: _S) -> _T:
        try:
            return method(argument)
        except OSError:
            raise
        except Exception as error:
            raise UsageError(f"{self._stream_name} raised {type(error).__name__}: {error}") from error


class HostStream(SeekableFile):
    """A descriptor of the host, used as it is: offset, status and contents are the host's.

    A terminal is still none to the guest's ioctl, so that programs behave the same everywhere.
    """

    def __init__(self, stream: BinaryIO | None, fd: int, flags: int, number: int) -> None:
        super().__init__(flags, b"/dev/fd/%d" % fd)
        # The caller may have kept no reference to the stream, and the descriptor would close with it.
        self._stream, self._fd, self._number = stream, fd, number
        self.queue = WaitQueue() if self.waits else None

    def stored(self) -> dict[str, Any]:
        offset = 0 if self.waits else os.lseek(self._fd, 0, os.SEEK_CUR)
        return super().stored() | {"_stream": None, "_fd": -1, "offset": offset}

    def revived(self, process: Process) -> None:
        own = process.kernel.streams[self._number]
        assert isinstance(own, HostStream)
        self._stream, self._fd = own._stream, own._fd
        if self.offset > self.size():
            where = f"the snapshot is at byte {self.offset} of {_NAMES[self._number]}"
            raise UsageError(f"{where}, and the file has {self.size()}; open it without emptying it")

    def move(self) -> None:
        """After a pickle: put the host's file to the offset that it had."""
        if not self.waits:
            os.lseek(self._fd, self.offset, os.SEEK_SET)

    @property
    def waits(self) -> bool:
        return not stat.S_ISREG(self.stat().mode)

    @property
    def positioned(self) -> bool:
        try:
            os.lseek(self._fd, 0, os.SEEK_CUR)
        except OSError:
            return False
        return True

    def stat(self) -> Stat:
        return Stat.of_host(os.fstat(self._fd))

    def read(self, process: Process, size: int) -> bytes:
        return self._wait(select.POLLIN, lambda: os.read(self._fd, size))

    def unread(self, data: bytes, kept: int) -> int:
        if not self.waits:
            os.lseek(self._fd, kept - len(data), os.SEEK_CUR)
        return kept

    def write(self, process: Process, data: bytes) -> int:
        return self._wait(select.POLLOUT, lambda: os.write(self._fd, data))

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        return os.pwrite(self._fd, data, offset)

    def seek(self, offset: int, whence: int) -> int:
        if whence > abi.SEEK_HOLE or abs(offset) >> 63:
            raise Failure(Errno.EINVAL)
        return os.lseek(self._fd, offset, whence)

    def truncate(self, process: Process, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fsync(self._fd)

    def available(self) -> int | None:
        status = self.stat()
        if not stat.S_ISREG(status.mode):
            return None
        return max(0, status.size - os.lseek(self._fd, 0, os.SEEK_CUR))

    def _wait(self, event: int, action: Callable[[], _T]) -> _T:
        """Do `action`, which may block the host even if the descriptor is set not to."""
        while True:
            try:
                return action()
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._fd, event)
                poll.poll()


def input_stream(source: bytes | BinaryIO | Closed | None) -> OpenFile | None:
    """Standard input: given bytes (None: empty), or a stream to read from; None if it is closed."""
    if source is CLOSED:
        return None
    if source is None or isinstance(source, bytes | bytearray | memoryview):
        return BytesInput(bytes(source or b""))
    return _stream(source, abi.O_RDONLY, 0)


def output_stream(sink: BinaryIO | Closed | None, number: int) -> OpenFile | None:
    """Standard output or error (descriptor `number`): to a stream, or captured; None if it is closed."""
    if sink is CLOSED:
        return None
    if sink is None:
        return Capture(number)
    return _stream(sink, abi.O_WRONLY, number)


def _stream(stream: Any, flags: int, number: int) -> OpenFile:
    name, reads = _NAMES[number], flags == abi.O_RDONLY
    if not hasattr(stream, "read" if reads else "write"):
        kinds = "bytes, a binary file" if reads else "a binary file"
        raise UsageError(f"{name} is {shown(stream)}; it takes {kinds}, kvrm.CLOSED or None")
    if getattr(stream, "closed", False):
        raise UsageError(f"{name} is a closed file; kvrm.CLOSED is what gives the guest none")
    able = getattr(stream, "readable" if reads else "writable", None)
    if able is not None and not able():
        raise UsageError(f"{name} is a file that is not open for {'reading' if reads else 'writing'}")
    try:
        fd = stream.fileno()
    except (AttributeError, OSError):
        if isinstance(stream, TextIOBase):
            raise UsageError(f"{name} is a text stream, {shown(stream)}; it takes a binary one") from None
        return ObjectStream(stream, flags, number)
    if flags == abi.O_WRONLY:
        stream.flush()
    return HostStream(stream, fd, flags, number)


@dataclass(frozen=True, slots=True)
class StreamFile:
    """What a pickle says of a stream of the host: the file's path, or None for an output that has none."""

    path: str | None


def stream_file(name: str, stream: Any) -> StreamFile:
    """What a pickle says of a stream; UsageError for an input that is no file with a name."""
    if isinstance(stream, StreamFile):
        return stream
    with suppress(AttributeError, OSError):
        status, path = os.fstat(stream.fileno()), os.readlink(f"/proc/self/fd/{stream.fileno()}")
        if stat.S_ISREG(status.st_mode) and os.path.samestat(status, os.stat(path)):
            return StreamFile(path)
    if name == _NAMES[0]:
        raise UsageError(
            "the snapshot cannot be pickled: stdin is a stream of the host; pass bytes, or a file with a name"
        )
    return StreamFile(None)
