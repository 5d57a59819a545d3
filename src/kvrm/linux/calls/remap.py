"""mremap: resize and move mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.segments import move_segment, unmap
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.loader import MMAP_LOW
from kvrm.linux.mapped import widen
from kvrm.linux.page_ranges import (
    find_room,
    parts,
    require_few,
    require_growth,
)
from kvrm.memory import PAGE, VA_END, Mark, Region, page_up, untagged

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_KNOWN: Final = abi.MREMAP_MAYMOVE | abi.MREMAP_FIXED | abi.MREMAP_DONTUNMAP
_MOVED_AT_ONCE: Final = 256
"""Pages: a move never holds more of them twice."""


def mremap(process: Process, old: int, old_length: int, new_length: int, flags: int, new: int) -> int:
    """Resize or move one mapping; shared memory cannot be mapped twice."""
    start, moves, fixed = untagged(old), bool(flags & abi.MREMAP_MAYMOVE), bool(flags & abi.MREMAP_FIXED)
    keeps, same = bool(flags & abi.MREMAP_DONTUNMAP), old_length == new_length
    if flags & ~_KNOWN or ((fixed or keeps) and not moves) or (keeps and not same):
        raise Failure(Errno.EINVAL)
    size, new_size = page_up(old_length), page_up(new_length)
    if start % PAGE or not 0 < new_size <= VA_END:
        raise Failure(Errno.EINVAL)
    if fixed or keeps:
        _require_target(start, size, new_size, new)
    if not parts(process, start, start + PAGE):
        raise Failure(Errno.EFAULT)
    if size > VA_END - start:
        raise Failure(Errno.EINVAL)
    if not fixed and not keeps and size >= new_size:
        if size > new_size:
            unmap(process, start + new_size, size - new_size)
        return start
    if fixed:
        require_few(process)
        if new < MMAP_LOW:
            raise Failure(Errno.EPERM)
        unmap(process, new, new_size)
    if size > new_size:
        unmap(process, start + new_size, size - new_size)
        size = new_size
    region = _movable(process, start, size)
    if keeps and region.marks & Mark.SHARED:
        raise Failure(Errno.EINVAL)
    more = new_size if keeps else new_size - size
    if more:
        require_growth(process, more, region.prot, region.marks)
    if not fixed and not keeps and not _in_the_way(process, start + size, start + new_size):
        _show_more(process, region, start + size, more, size)
        return start
    if not moves:
        raise Failure(Errno.ENOMEM)
    target = new if fixed else find_room(process, new_size, new if keeps else 0)
    _move(process, region, target, new_size, keeps)
    return target


def _require_target(start: int, size: int, new_size: int, target: int) -> None:
    """EINVAL if nothing can be moved to an address."""
    if target % PAGE or target > VA_END - new_size:
        raise Failure(Errno.EINVAL)
    if start < target + new_size and target < start + size:
        raise Failure(Errno.EINVAL)


def _movable(process: Process, start: int, size: int) -> Region:
    """The part of the one mapping that is to be resized or moved."""
    found = parts(process, start, start + (size or PAGE))
    if size == 0:
        raise Failure(Errno.ENOMEM if found[0].marks & Mark.SHARED else Errno.EINVAL)
    if len(found) != 1 or (found[0].start, found[0].end) != (start, start + size):
        raise Failure(Errno.EFAULT)
    return found[0]


def _in_the_way(process: Process, start: int, end: int) -> bool:
    return end > VA_END or bool(parts(process, start, end))


def _show_more(process: Process, region: Region, start: int, length: int, skip: int) -> None:
    """Map `length` bytes with what `region` shows from byte `skip` on."""
    image, offset = region.backing, 0
    if image is not None:
        offset = region.offset + skip
        image = widen(process, image, offset + length)
    process.memory.map(start, length, region.prot, image, offset, region.name, region.marks)


def _move(process: Process, region: Region, target: int, length: int, keeps: bool) -> None:
    """Move what a region holds, and unmap it unless it `keeps` its addresses."""
    memory, start = process.memory, region.start
    if not keeps:
        move_segment(process, start, region.end, target)
    _show_more(process, region, target, length, 0)
    private = memory.private(start, min(region.end, start + length))
    for first in range(0, len(private), _MOVED_AT_ONCE):
        some = private[first : first + _MOVED_AT_ONCE]
        for page in some:
            memory.poke(target + page - start, memory.peek(page, PAGE))
        memory.drop(some[0], some[-1] + PAGE - some[0])
    if keeps:
        memory.mark(start, region.end - start, Mark.NONE, Mark.LOCKED)
    else:
        unmap(process, start, region.end - start)
