"""Advice on memory, and memory that is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.page_ranges import (
    locked_bytes,
    may_lock,
    page_range,
    parts,
    require_pages,
    size_of,
)
from kvrm.memory import PAGE, VA_END, Mark, Prot, Region, page_up, untagged

if TYPE_CHECKING:
    from kvrm.linux.process import Process

NOTED: Final = {
    abi.MADV_NORMAL: (Mark.NONE, Mark.SEQUENTIAL | Mark.RANDOM),
    abi.MADV_RANDOM: (Mark.RANDOM, Mark.SEQUENTIAL),
    abi.MADV_SEQUENTIAL: (Mark.SEQUENTIAL, Mark.RANDOM),
    abi.MADV_WILLNEED: (Mark.NONE, Mark.NONE),
    abi.MADV_DONTFORK: (Mark.DONTFORK, Mark.NONE),
    abi.MADV_DOFORK: (Mark.NONE, Mark.DONTFORK),
    abi.MADV_MERGEABLE: (Mark.MERGEABLE, Mark.NONE),
    abi.MADV_UNMERGEABLE: (Mark.NONE, Mark.MERGEABLE),
    abi.MADV_HUGEPAGE: (Mark.HUGEPAGE, Mark.NOHUGEPAGE),
    abi.MADV_NOHUGEPAGE: (Mark.NOHUGEPAGE, Mark.HUGEPAGE),
    abi.MADV_DONTDUMP: (Mark.DONTDUMP, Mark.NONE),
    abi.MADV_DODUMP: (Mark.NONE, Mark.DONTDUMP),
    abi.MADV_WIPEONFORK: (Mark.WIPEONFORK, Mark.NONE),
    abi.MADV_KEEPONFORK: (Mark.NONE, Mark.WIPEONFORK),
}
"""Advice that only changes the marks of mappings: which it adds and removes."""
HARMLESS: Final = frozenset(NOTED) - {abi.MADV_WIPEONFORK}
"""Advice that every mapping takes."""
_OTHER: Final = frozenset(
    {
        abi.MADV_DONTNEED,
        abi.MADV_FREE,
        abi.MADV_REMOVE,
        abi.MADV_COLD,
        abi.MADV_PAGEOUT,
        abi.MADV_POPULATE_READ,
        abi.MADV_POPULATE_WRITE,
        abi.MADV_DONTNEED_LOCKED,
        abi.MADV_COLLAPSE,
    }
)
_NOT_LOCKED: Final = _OTHER - {
    abi.MADV_POPULATE_READ,
    abi.MADV_POPULATE_WRITE,
    abi.MADV_DONTNEED_LOCKED,
}


def madvise(process: Process, address: int, length: int, advice: int) -> int:
    """Drop or remove pages, or note advice, which makes no difference to a program."""
    if advice not in NOTED and advice not in _OTHER:
        raise Failure(Errno.EINVAL)
    start, end = page_range(address, length)
    regions = parts(process, start, end)
    populates = advice in (abi.MADV_POPULATE_READ, abi.MADV_POPULATE_WRITE)
    reached = start
    for region in regions:
        if populates and region.start != reached:
            break
        _advise(process, region, advice)
        reached = region.end
    if size_of(regions) != end - start:
        raise Failure(Errno.ENOMEM)
    return 0


def _advise(process: Process, region: Region, advice: int) -> None:
    """Advice on one mapping; what was done to those before it stays done if it fails."""
    memory, size = process.memory, region.end - region.start
    anonymous = not region.backing and not region.marks & Mark.SHARED
    if advice in _NOT_LOCKED and region.marks & Mark.LOCKED:
        raise Failure(Errno.EINVAL)
    if advice in (abi.MADV_FREE, abi.MADV_WIPEONFORK) and not anonymous:
        raise Failure(Errno.EINVAL)
    match advice:
        case abi.MADV_DONTNEED | abi.MADV_DONTNEED_LOCKED:
            if not region.marks & Mark.SHARED:
                memory.drop(region.start, size)
        case abi.MADV_REMOVE:
            _remove(process, region)
        case abi.MADV_COLLAPSE:
            # no page is ever a huge one
            raise Failure(Errno.EINVAL)
        case abi.MADV_POPULATE_READ | abi.MADV_POPULATE_WRITE:
            needed = Prot.R if advice == abi.MADV_POPULATE_READ else Prot.W
            if not region.prot & needed:
                raise Failure(Errno.EINVAL)
            if region.limit < region.end:
                raise Failure(Errno.EFAULT)
        case _ if advice in NOTED:
            memory.mark(region.start, size, *NOTED[advice])


def _remove(process: Process, region: Region) -> None:
    """Throw shared memory away. Files keep what they have: what is mapped of them is a copy."""
    if not region.backing and not region.marks & Mark.SHARED:
        raise Failure(Errno.EINVAL)
    if not region.marks & Mark.SHARED or not region.prot & Prot.W:
        raise Failure(Errno.EACCES)
    if region.backing:
        raise Failure(Errno.EOPNOTSUPP)
    process.memory.drop(region.start, region.end - region.start)


# Locked memory: it is counted, and advice that would drop it is refused. No memory is ever swapped.


def mlock(process: Process, address: int, length: int) -> int:
    """Lock memory, which is never swapped anyhow."""
    return _lock(process, address, length, populate=True)


def mlock2(process: Process, address: int, length: int, flags: int) -> int:
    """Lock memory, on request (MLOCK_ONFAULT) only once it is touched."""
    if flags & ~abi.MLOCK_ONFAULT:
        raise Failure(Errno.EINVAL)
    return _lock(process, address, length, populate=not flags)


def munlock(process: Process, address: int, length: int) -> int:
    """Unlock memory."""
    start, end = _whole_pages(address, length)
    return _mark(process, start, end, Mark.NONE, Mark.LOCKED)


def mlockall(process: Process, flags: int) -> int:
    """Lock all memory: what is mapped, what will be, or both."""
    known = abi.MCL_CURRENT | abi.MCL_FUTURE | abi.MCL_ONFAULT
    if not flags or flags & ~known or flags == abi.MCL_ONFAULT:
        raise Failure(Errno.EINVAL)
    if not may_lock(process):
        raise Failure(Errno.EPERM)
    regions = process.memory.regions()
    if flags & abi.MCL_CURRENT:
        if size_of(regions) > process.limit(abi.RLIMIT_MEMLOCK)[0]:
            raise Failure(Errno.ENOMEM)
        for region in regions:
            process.memory.mark(region.start, region.end - region.start, Mark.LOCKED)
    process.locks_future = bool(flags & abi.MCL_FUTURE)
    return 0


def munlockall(process: Process) -> int:
    """Unlock all memory."""
    for region in process.memory.regions():
        process.memory.mark(region.start, region.end - region.start, Mark.NONE, Mark.LOCKED)
    process.locks_future = False
    return 0


def _lock(process: Process, address: int, length: int, populate: bool) -> int:
    if not may_lock(process):
        raise Failure(Errno.EPERM)
    first, limit = untagged(address) & -PAGE, process.limit(abi.RLIMIT_MEMLOCK)[0]
    size = page_up(length + untagged(address) % PAGE)
    already = size_of(r for r in parts(process, first, first + size) if r.marks & Mark.LOCKED)
    if size + locked_bytes(process) - already > limit:
        raise Failure(Errno.ENOMEM)
    start, end = _whole_pages(address, length)
    _mark(process, start, end, Mark.LOCKED, Mark.NONE)
    regions = parts(process, start, end)
    if populate and any(not region.prot or region.limit < region.end for region in regions):
        raise Failure(Errno.ENOMEM)
    return 0


def _mark(process: Process, start: int, end: int, add: Mark, remove: Mark) -> int:
    """Mark pages up to the first hole; ENOMEM if there is one."""
    if start < end <= VA_END:
        process.memory.mark(start, end - start, add, remove)
    require_pages(process, start, end)
    return 0


def _whole_pages(address: int, length: int) -> tuple[int, int]:
    """The pages that a range touches; EINVAL if it passes 2^64."""
    start = untagged(address) & -PAGE
    return page_range(start, length + untagged(address) - start)
