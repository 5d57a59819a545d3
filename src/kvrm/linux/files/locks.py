"""Advisory locks: of a whole file (flock), and of bytes, by a process or an open file description (fcntl)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import FLOCK

if TYPE_CHECKING:
    from kvrm.linux.files.open_file import OpenFile
    from kvrm.linux.process import Process

LAST: Final = (1 << 63) - 1
"""The last byte that a range can have, where the length 0 of a lock means."""


class Range(NamedTuple):
    """A lock (F_RDLCK or F_WRLCK) of the bytes `start` to `end`, both included."""

    kind: int
    start: int
    end: int

    def meets(self, other: Range) -> bool:
        """Whether they have a byte in common."""
        return self.start <= other.end and other.start <= self.end

    def bars(self, other: Range) -> bool:
        """Whether another owner cannot have both."""
        return self.meets(other) and abi.F_WRLCK in (self.kind, other.kind)


Ranges = tuple[Range, ...]
"""What one owner has locked, in order; ranges of one kind neither meet nor touch."""


def with_range(held: Ranges, new: Range) -> Ranges:
    """After `new` (F_UNLCK: nothing) has replaced what is held of its bytes."""
    found: list[Range] = []
    for old in held:
        if not old.meets(new):
            found.append(old)
            continue
        if old.start < new.start:
            found.append(old._replace(end=new.start - 1))
        if old.end > new.end:
            found.append(old._replace(start=new.end + 1))
    if new.kind != abi.F_UNLCK:
        found.append(new)
    joined: list[Range] = []
    for one in sorted(found, key=lambda one: one.start):
        if joined and joined[-1].kind == one.kind and joined[-1].end + 1 == one.start:
            joined[-1] = joined[-1]._replace(end=one.end)
        else:
            joined.append(one)
    return tuple(joined)


def others(process: Process, file: OpenFile) -> Iterator[OpenFile]:
    """The other open files of the same file."""
    which = file.stat().identity
    for other in process.open_files:
        if other is not file and not other.flags & abi.O_PATH and other.stat().identity == which:
            yield other


def in_the_way(process: Process, file: OpenFile, wanted: Range, of_description: bool) -> Range | None:
    """The first lock of another owner that bars a range for the process, or for an open file description."""
    held: list[Iterable[Range]] = [other.locked for other in others(process, file)]
    held.append(process.locked.get(file.stat().identity, ()) if of_description else file.locked)
    return min(
        (one for locks in held for one in locks if one.bars(wanted)), key=lambda one: one.start, default=None
    )


def range_at(process: Process, file: OpenFile, pointer: int) -> tuple[Range, int]:
    """The struct flock at a guest address, as a range from the start of the file, and its l_pid."""
    kind, whence, start, length, pid = FLOCK.unpack(process.memory.read(pointer, FLOCK.size))
    match whence:
        case abi.SEEK_SET:
            base = 0
        case abi.SEEK_CUR:
            base = file.tell()
        case abi.SEEK_END:
            base = file.stat().size
        case _:
            raise Failure(Errno.EINVAL)
    start += base
    if start > LAST:
        raise Failure(Errno.EOVERFLOW)
    if start < 0:
        raise Failure(Errno.EINVAL)
    end = LAST
    if length > 0:
        end = start + length - 1
        if end > LAST:
            raise Failure(Errno.EOVERFLOW)
    elif length < 0:
        start, end = start + length, start - 1
        if start < 0:
            raise Failure(Errno.EINVAL)
    if kind not in (abi.F_RDLCK, abi.F_WRLCK, abi.F_UNLCK):
        raise Failure(Errno.EINVAL)
    return Range(kind, start, end), pid


def packed(found: Range, pid: int) -> bytes:
    """The struct flock that says who has a lock."""
    length = 0 if found.end == LAST else found.end - found.start + 1
    return FLOCK.pack(found.kind, abi.SEEK_SET, found.start, length, pid)
