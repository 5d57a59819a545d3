"""System V shared memory. A segment is attached once at a time: two places cannot show the same bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.ipc import READ, WRITE, Permissions
from kvrm.linux.layout import BILLION
from kvrm.linux.page_ranges import find_room, parts, require_few, require_room
from kvrm.linux.sysv import Segment
from kvrm.memory import PAGE, VA_END, Mark, Prot, Region, page_up, untagged

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_DESTROYED: Final = 0o1000
_LOCKED: Final = 0o2000


def shmget(process: Process, key: int, size: int, flags: int) -> int:
    """The segment of memory with a key, or a new one."""

    def make(permissions: Permissions) -> Segment:
        if not size:
            raise Failure(Errno.EINVAL)
        process.kernel.files.budget.change(page_up(size))
        name = f"/SYSV{permissions.key & 0xFFFFFFFF:08x} (deleted)"
        return Segment(permissions, size, process.pid, name, changed=process.kernel.realtime // BILLION)

    return process.kernel.ipc.segments.get(process, key, flags, make, lambda known: size <= known.size)


def shmat(process: Process, number: int, address: int, flags: int) -> int:
    """Map a segment. ENOMEM if it is mapped already."""
    if number < 0:
        raise Failure(Errno.EINVAL)
    if address % PAGE:
        if not flags & abi.SHM_RND:
            raise Failure(Errno.EINVAL)
        address &= -PAGE
    if not address and flags & abi.SHM_REMAP:
        raise Failure(Errno.EINVAL)
    segment = process.kernel.ipc.segments.find(number)
    reads = bool(flags & abi.SHM_RDONLY)
    segment.permissions.require(process, READ if reads else READ | WRITE)
    if number in process.kernel.ipc.attached.values():
        raise Failure(Errno.ENOMEM)
    size, prot = page_up(segment.size), Prot.R if reads else Prot.R | Prot.W
    require_few(process)
    require_room(process, size, prot, Mark.SHARED)
    start = _place(process, address, size, bool(flags & abi.SHM_REMAP))
    keep_segments(process, start, start + size)
    process.memory.map(start, size, prot, name=segment.name, marks=Mark.SHARED)
    for index, data in segment.pages.items():
        process.memory.poke(start + index * PAGE, data)
    segment.pages = {}
    segment.last, segment.attached_at = process.pid, process.kernel.realtime // BILLION
    process.kernel.ipc.attached[start] = number
    return start


def shmdt(process: Process, address: int) -> int:
    """Unmap a segment."""
    start = untagged(address)
    number = process.kernel.ipc.attached.get(start)
    if number is None:
        raise Failure(Errno.EINVAL)
    segment = process.kernel.ipc.segments.find(number)
    end = start + page_up(segment.size)
    shown = _shown(process, segment, start, end)
    keep_segments(process, start, end)
    for region in shown:
        process.memory.unmap(region.start, region.end - region.start)
    return 0


def shmctl(process: Process, number: int, command: int, pointer: int) -> int:
    """Look at a segment, set, lock or remove it."""
    if number < 0 or command < 0:
        raise Failure(Errno.EINVAL)
    segment = process.kernel.ipc.segments.find(number)
    attached = number in process.kernel.ipc.attached.values()
    match command:
        case abi.IPC_STAT:
            segment.permissions.require(process, READ)
            process.memory.write(pointer, segment.packed(int(attached)))
        case abi.IPC_SET:
            data = process.memory.read(pointer, len(segment.packed(0)))
            segment.permissions = segment.permissions.changed(process, data)
            segment.changed = process.kernel.realtime // BILLION
        case abi.SHM_LOCK | abi.SHM_UNLOCK:
            segment.permissions.require_owner(process)
            _mark(segment, _LOCKED, command == abi.SHM_LOCK)
        case abi.IPC_RMID:
            segment.permissions.require_owner(process)
            segment.permissions = replace(segment.permissions, key=abi.IPC_PRIVATE)
            _mark(segment, _DESTROYED, True)
            if not attached:
                _remove(process, number)
        case _:
            raise Failure(Errno.EINVAL)
    return 0


def unmap(process: Process, start: int, size: int) -> None:
    """Unmap memory, which may be that of segments."""
    keep_segments(process, start, start + size)
    process.memory.unmap(start, size)


def move_segment(process: Process, start: int, end: int, target: int) -> None:
    """Before these addresses are moved: a whole segment stays attached, a part of one leaves it."""
    attached = process.kernel.ipc.attached
    if start in attached and page_up(process.kernel.ipc.segments.find(attached[start]).size) == end - start:
        attached[target] = attached.pop(start)
    else:
        keep_segments(process, start, end)


def keep_segments(process: Process, start: int, end: int) -> None:
    """Before these addresses become something else: segments that are attached there keep what they hold."""
    for address, number in list(process.kernel.ipc.attached.items()):
        segment = process.kernel.ipc.segments.find(number)
        size = page_up(segment.size)
        if not start < address + size or not address < end:
            continue
        for region in _shown(process, segment, max(start, address), min(end, address + size)):
            for at in range(region.start, region.start + process.memory.filled(region), PAGE):
                if any(data := process.memory.peek(at, PAGE)):
                    segment.pages[(at - address) // PAGE] = data
        segment.last, segment.detached_at = process.pid, process.kernel.realtime // BILLION
        if start <= address and address + size <= end:
            del process.kernel.ipc.attached[address]
            if segment.permissions.mode & _DESTROYED:
                _remove(process, number)


def _shown(process: Process, segment: Segment, start: int, end: int) -> list[Region]:
    """What still shows a segment between two addresses: other memory may have been mapped over it."""
    return [region for region in parts(process, start, end) if region.name == segment.name]


def _place(process: Process, address: int, size: int, replaces: bool) -> int:
    if not address:
        return find_room(process, size)
    if address + size > VA_END or (not replaces and parts(process, address, address + size)):
        raise Failure(Errno.EINVAL)
    return address


def _mark(segment: Segment, bit: int, on: bool) -> None:
    mode = segment.permissions.mode
    segment.permissions = replace(segment.permissions, mode=mode | bit if on else mode & ~bit)


def _remove(process: Process, number: int) -> None:
    process.kernel.files.budget.change(-page_up(process.kernel.ipc.segments.find(number).size))
    process.kernel.ipc.segments.remove(number)
