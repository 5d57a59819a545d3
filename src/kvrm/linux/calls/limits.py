"""Resource limits, and what was used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi, layout
from kvrm.linux.calls.sched import require_process
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import RLIMIT
from kvrm.linux.loader import MMAP_TOP, STACK_GAP, STACK_TOP
from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_MOST_DESCRIPTORS: Final = 1 << 20
_USES: Final = (abi.RUSAGE_SELF, abi.RUSAGE_CHILDREN, abi.RUSAGE_THREAD)

Limit = tuple[int, int]
"""Soft and hard."""


def setrlimit(process: Process, resource: int, pointer: int) -> int:
    """Set a resource limit."""
    _set(process, resource, _read(process, pointer))
    return 0


def prlimit64(process: Process, pid: int, resource: int, new: int, old: int) -> int:
    """Get and set a resource limit of this process."""
    wanted = _read(process, new)
    require_process(process, pid, change=True)
    before = process.limit(resource)
    _set(process, resource, wanted)
    if old:
        process.memory.write(old, RLIMIT.pack(*before))
    return 0


def getrusage(process: Process, who: int, buffer: int) -> int:
    """Time and memory used: a nanosecond for each instruction."""
    if who not in _USES:
        raise Failure(Errno.EINVAL)
    used, memory = (process.cpu_time, process.memory.private_bytes >> 10) if who >= 0 else (0, 0)
    process.memory.write(buffer, layout.rusage(used, memory))
    return 0


def _read(process: Process, pointer: int) -> Limit:
    soft, hard = RLIMIT.unpack(process.memory.read(pointer, RLIMIT.size))
    return soft, hard


def _set(process: Process, resource: int, limit: Limit) -> None:
    soft, hard = limit
    if resource >= abi.RLIM_NLIMITS or soft > hard:
        raise Failure(Errno.EINVAL)
    if hard > process.limit(resource)[1] or (resource == abi.RLIMIT_NOFILE and hard > _MOST_DESCRIPTORS):
        raise Failure(Errno.EPERM)
    process.limits[resource] = limit
    if resource == abi.RLIMIT_STACK:
        _fit_stack(process, soft)
    elif resource == abi.RLIMIT_CPU:
        process.timers.limit.follow(process)


def _fit_stack(process: Process, most: int) -> None:
    """Map the stack down to where it may grow to; pages in use stay.

    Linux maps a page of the stack once it is touched, down to the limit of that moment.
    """
    memory = process.memory
    stack = [region for region in memory.regions() if region.name == "[stack]"]
    if not stack:
        return
    first, end = stack[0], stack[-1].end
    lowest = max(STACK_TOP - (most & -PAGE), MMAP_TOP + STACK_GAP)
    if lowest < first.start:
        in_the_way = memory.between(lowest - STACK_GAP, first.start)
        lowest = in_the_way[-1].end + STACK_GAP if in_the_way else lowest
        if lowest < first.start:
            memory.map(lowest, first.start - lowest, first.prot, name=first.name, marks=first.marks)
        return
    kept = min([lowest, *memory.private(first.start, end)])
    if first.start < kept:
        memory.unmap(first.start, kept - first.start)
