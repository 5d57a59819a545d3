"""The address space: mappings, the heap, protection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.segments import keep_segments, unmap
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.devices import DeviceFile
from kvrm.linux.files.file import File
from kvrm.linux.files.open_file import OpenFile, SeekableFile
from kvrm.linux.files.virtual import VirtualFile
from kvrm.linux.loader import MMAP_LOW
from kvrm.linux.mapped import Mapped, show_file
from kvrm.linux.page_ranges import (
    find_room,
    has_data_room,
    is_data,
    may_lock,
    page_range,
    parts,
    readable,
    require_few,
    require_growth,
    require_lockable,
    require_pages,
    require_room,
    size_of,
)
from kvrm.memory import PAGE, VA_END, Image, Mark, Prot, Region, page_up, untagged

if TYPE_CHECKING:
    from kvrm.linux.process import Process

HEAP: Final = "[heap]"
SHARED_MEMORY: Final = "/dev/zero (deleted)"
_LARGEST_FILE: Final = (1 << 63) - 1
_OTHER_FLAGS: Final = ~(abi.LEGACY_MAP_FLAGS | abi.MAP_TYPE)


def brk(process: Process, address: int) -> int:
    """Move the end of the heap; returns the end, moved or not."""
    old, limit = process.heap_end, process.limit(abi.RLIMIT_DATA)[0]
    if not process.heap_start <= address <= VA_END - PAGE or address - process.heap_start > limit:
        return old
    old_page, new_page = page_up(old), page_up(address)
    if new_page < old_page:
        unmap(process, new_page, old_page - new_page)
    elif new_page > old_page:
        try:
            _grow_heap(process, old_page, new_page)
        except Failure:
            return old
    process.heap_end = address
    return address


def _grow_heap(process: Process, start: int, end: int) -> None:
    prot, marks = readable(process, Prot.R | Prot.W), _locked(process, 0)
    if parts(process, start, end + PAGE):
        raise Failure(Errno.ENOMEM)
    require_growth(process, end - start, prot, marks)
    require_few(process)
    process.memory.map(start, end - start, prot, name=HEAP, marks=marks)


def mmap(process: Process, address: int, length: int, prot: int, flags: int, fd: int, offset: int) -> int:
    """Map memory or a file. Shared mappings of files are private copies: writes do not reach the file."""
    if offset % PAGE:
        raise Failure(Errno.EINVAL)
    file = None if flags & abi.MAP_ANONYMOUS else process.file(fd)
    if file is not None and file.flags & abi.O_PATH:
        raise Failure(Errno.EBADF)
    if flags & abi.MAP_HUGETLB:
        raise Failure(Errno.EINVAL if file else Errno.ENOMEM)
    if length == 0:
        raise Failure(Errno.EINVAL)
    size, allowed, marks = page_up(length), readable(process, prot), _locked(process, flags)
    require_few(process)
    start = _place(process, address, size, flags)
    if flags & abi.MAP_LOCKED and not may_lock(process):
        raise Failure(Errno.EPERM)
    if marks:
        require_lockable(process, size)
    marks |= _kind(file, prot, flags, offset, size)
    over = parts(process, start, start + size)
    require_room(process, size - size_of(over), allowed, marks)
    image = None
    if file is not None and not isinstance(file, DeviceFile):
        image = show_file(process, Mapped(file, offset, size, not file.writable or _is_sealed(file)))
    name = image.name if image else SHARED_MEMORY if marks & Mark.SHARED else ""
    keep_segments(process, start, start + size)
    process.memory.map(start, size, allowed, image, name=name, marks=marks)
    return start


def _locked(process: Process, flags: int) -> Mark:
    return Mark.LOCKED if process.locks_future or flags & abi.MAP_LOCKED else Mark.NONE


def _place(process: Process, address: int, size: int, flags: int) -> int:
    """Where a mapping goes."""
    if size > VA_END:
        raise Failure(Errno.ENOMEM)
    if not flags & (abi.MAP_FIXED | abi.MAP_FIXED_NOREPLACE):
        hint = address & -PAGE
        return find_room(process, size, max(hint, MMAP_LOW) if 0 < hint < VA_END else 0)
    if address > VA_END - size:
        raise Failure(Errno.ENOMEM)
    if address % PAGE:
        raise Failure(Errno.EINVAL)
    if address < MMAP_LOW:
        raise Failure(Errno.EPERM)
    if flags & abi.MAP_FIXED_NOREPLACE and parts(process, address, address + size):
        raise Failure(Errno.EEXIST)
    return address


def _kind(file: OpenFile | None, prot: int, flags: int, offset: int, size: int) -> Mark:
    """Whether a mapping is shared, and grows, once it is clear that what is mapped can be mapped so."""
    kind, grows = flags & abi.MAP_TYPE, bool(flags & abi.MAP_GROWSDOWN)
    if file is not None and offset + size > _LARGEST_FILE:
        raise Failure(Errno.EOVERFLOW)
    kinds = (abi.MAP_SHARED, abi.MAP_PRIVATE, *([abi.MAP_SHARED_VALIDATE] if file else []))
    if kind not in kinds:
        raise Failure(Errno.EINVAL)
    shared = kind != abi.MAP_PRIVATE
    if file is not None:
        if kind == abi.MAP_SHARED_VALIDATE and flags & _OTHER_FLAGS:
            raise Failure(Errno.EOPNOTSUPP)
        if not file.readable or (shared and prot & Prot.W and not file.writable):
            raise Failure(Errno.EACCES)
        if not _can_be_mapped(file):
            raise Failure(Errno.ENODEV)
        if shared and prot & Prot.W and _is_sealed(file):
            raise Failure(Errno.EPERM)
    if grows and (shared or file is not None):
        raise Failure(Errno.EINVAL)
    return (Mark.SHARED if shared else Mark.NONE) | (Mark.GROWSDOWN if grows else Mark.NONE)


def _is_sealed(file: OpenFile) -> bool:
    """Whether nothing may write to the file by a new mapping."""
    node = file.node
    return isinstance(node, File) and bool((node.seals or 0) & abi.F_SEALS_OF_WRITING)


def _can_be_mapped(file: OpenFile) -> bool:
    if isinstance(file, DeviceFile):
        return file.device.mapped
    return isinstance(file, SeekableFile) and not isinstance(file, VirtualFile) and not file.waits


def munmap(process: Process, address: int, length: int) -> int:
    """Remove mappings."""
    start, size = untagged(address), page_up(length)
    if start % PAGE or start > VA_END or length > VA_END - start or size == 0:
        raise Failure(Errno.EINVAL)
    unmap(process, start, size)
    return 0


def mprotect(process: Process, address: int, length: int, prot: int) -> int:
    """Change permissions."""
    grows, prot = prot & abi.PROT_GROWS, prot & ~abi.PROT_GROWS
    if grows == abi.PROT_GROWS or untagged(address) % PAGE:
        raise Failure(Errno.EINVAL)
    start, end = page_range(address, length, Errno.ENOMEM)
    if length == 0:
        return 0
    if prot & ~_valid_prot(process):
        raise Failure(Errno.EINVAL)
    regions = parts(process, start, end)
    if not regions or (not grows and regions[0].start != start):
        raise Failure(Errno.ENOMEM)
    if grows:
        whole = next(region for region in process.memory.regions() if region.end > regions[0].start)
        if grows != abi.PROT_GROWSDOWN or not whole.marks & Mark.GROWSDOWN:
            raise Failure(Errno.EINVAL)
        regions = parts(process, whole.start, end)
    return _protect(process, regions, end, readable(process, prot))


def _valid_prot(process: Process) -> int:
    """The permissions that the processor knows (arch_validate_prot of Linux on arm64)."""
    return abi.PROT_RWX | abi.PROT_SEM | (abi.PROT_BTI if "FEAT_BTI" in process.kernel.features else 0)


def _protect(process: Process, regions: list[Region], end: int, prot: Prot) -> int:
    """One mapping after the other, up to the first that cannot be changed, as Linux does."""
    reached = regions[0].start
    for region in regions:
        if region.start != reached:
            raise Failure(Errno.ENOMEM)
        if prot & Prot.W and region.marks & Mark.SHARED and _is_read_only(process, region.backing):
            raise Failure(Errno.EACCES)
        more = region.end - region.start
        becomes_data = is_data(prot, region.marks) and not is_data(region.prot, region.marks)
        if becomes_data and not has_data_room(process, more):
            raise Failure(Errno.ENOMEM)
        process.memory.protect(region.start, more, prot)
        reached = region.end
    if reached != end:
        raise Failure(Errno.ENOMEM)
    return 0


def _is_read_only(process: Process, image: Image | None) -> bool:
    return image in process.mapped and process.mapped[image].read_only


def mincore(process: Process, address: int, length: int, vector: int) -> int:
    """Which pages are in memory: those of files, and those that were written."""
    start, end = page_range(address, length, Errno.ENOMEM)
    if end > VA_END:
        raise Failure(Errno.ENOMEM)
    memory, at = process.memory, start
    for region in parts(process, start, end):
        if region.start != at:
            break
        for first in range(region.start, region.end, PAGE * PAGE):
            last = min(first + PAGE * PAGE, region.end)
            filled = region.limit if region.backing else first
            resident = bytearray(b"\1" * (max(min(filled, last) - first, 0) // PAGE))
            resident = resident.ljust((last - first) // PAGE, b"\0")
            for page in memory.private(first, last):
                resident[(page - first) // PAGE] = 1
            memory.write(vector + (first - start) // PAGE, resident)
        at = region.end
    if at != end:
        raise Failure(Errno.ENOMEM)
    return 0


def msync(process: Process, address: int, length: int, flags: int) -> int:
    """Nothing to do: no mapping is written back."""
    both = abi.MS_ASYNC | abi.MS_SYNC
    start, end = page_range(address, length, Errno.ENOMEM)
    if flags & ~(both | abi.MS_INVALIDATE) or flags & both == both:
        raise Failure(Errno.EINVAL)
    for region in parts(process, start, end):
        if flags & abi.MS_INVALIDATE and region.marks & Mark.LOCKED:
            raise Failure(Errno.EBUSY)
    require_pages(process, start, end)
    return 0
