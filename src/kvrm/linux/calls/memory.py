"""The address space: mappings, the heap, protection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.nodes import Directory
from kvrm.linux.files.open_file import DeviceFile, OpenFile, SeekableFile
from kvrm.linux.loader import MMAP_LOW, MMAP_TOP
from kvrm.memory import PAGE, VA_BITS, Image, Prot, Region

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_VA_END: Final = 1 << VA_BITS
_REGIONS_LIMIT: Final = 65530
_FILE_LIMIT: Final = 1 << 30
"""Most bytes of files that a guest may have mapped: the host holds a copy of each mapping."""
_MOVE_BLOCK: Final = 1 << 20
_HEAP: Final = "[heap]"


def brk(process: Process, address: int) -> int:
    """Move the end of the heap; returns the end, moved or not."""
    memory, old = process.memory, process.heap_end
    if not process.heap_start <= address <= _VA_END - PAGE:
        return old
    old_page, new_page = page_up(old), page_up(address)
    if new_page < old_page:
        memory.unmap(new_page, old_page - new_page)
    elif new_page > old_page:
        if _parts(process, old_page, new_page) or _crowded(process):
            return old
        memory.map(old_page, new_page - old_page, Prot.R | Prot.W, name=_HEAP)
    process.heap_end = address
    return address


def mmap(process: Process, address: int, length: int, prot: int, flags: int, fd: int, offset: int) -> int:
    """Map memory or a file. Shared mappings of files are private copies: writes do not reach the file."""
    if flags & abi.MAP_TYPE not in (abi.MAP_SHARED, abi.MAP_PRIVATE, abi.MAP_SHARED_VALIDATE):
        raise Failure(Errno.EINVAL)
    if length == 0 or offset % PAGE:
        raise Failure(Errno.EINVAL)
    length = page_up(length)
    file = None if flags & abi.MAP_ANONYMOUS else _mappable(process, fd, prot, flags)
    if length > _VA_END or _crowded(process):
        raise Failure(Errno.ENOMEM)
    start = _place(process, address, length, flags)
    backing = image_of(process, file, length, offset) if file is not None else None
    name = file.path.decode(errors="surrogateescape") if file is not None else ""
    process.memory.map(start, length, _prot(prot), backing, name=name)
    return start


def munmap(process: Process, address: int, length: int) -> int:
    """Remove mappings."""
    start, end = _range(address, length)
    if start == end:
        raise Failure(Errno.EINVAL)
    process.memory.unmap(start, end - start)
    return 0


def mprotect(process: Process, address: int, length: int, prot: int) -> int:
    """Change permissions."""
    start, end = _range(address, length, Errno.ENOMEM)
    if start < end and not process.memory.protect(start, end - start, _prot(prot)):
        raise Failure(Errno.ENOMEM)
    return 0


def mremap(process: Process, old: int, old_length: int, new_length: int, flags: int, new: int) -> int:
    """Resize or move one mapping."""
    known = abi.MREMAP_MAYMOVE | abi.MREMAP_FIXED
    if flags & ~known or (flags & abi.MREMAP_FIXED and not flags & abi.MREMAP_MAYMOVE):
        raise Failure(Errno.EINVAL)
    if old % PAGE or new_length == 0 or old_length == 0:
        raise Failure(Errno.EINVAL)
    start, end = _range(old, old_length, Errno.EFAULT)
    new_length = page_up(new_length)
    if new_length > _VA_END:
        raise Failure(Errno.ENOMEM)
    if flags & abi.MREMAP_FIXED:
        target, target_end = _range(new, new_length)
        if target < MMAP_LOW or (target < end and start < target_end):
            raise Failure(Errno.EINVAL)
        return _move(process, start, end, target, new_length)
    if new_length <= end - start:
        if new_length < end - start:
            process.memory.unmap(start + new_length, end - start - new_length)
        return start
    grown = _whole(process, start, end)
    if start + new_length <= _VA_END and not _parts(process, end, start + new_length):
        _map_like(process, grown, end, new_length - (end - start), end - start)
        return start
    if not flags & abi.MREMAP_MAYMOVE:
        raise Failure(Errno.ENOMEM)
    found = process.memory.find_free(new_length, low=MMAP_LOW, high=MMAP_TOP)
    if found is None:
        raise Failure(Errno.ENOMEM)
    return _move(process, start, end, found, new_length)


def madvise(process: Process, address: int, length: int, advice: int) -> int:
    """MADV_DONTNEED throws private changes away; other advice is ignored."""
    start, end = _range(address, length)
    if advice != abi.MADV_DONTNEED:
        if advice not in abi.MADV_KNOWN:
            raise Failure(Errno.EINVAL)
        return 0
    parts = _parts(process, start, end)
    for part in parts:
        size = part.end - part.start
        process.memory.map(part.start, size, part.prot, part.backing, part.offset, part.name)
    if sum(part.end - part.start for part in parts) != end - start:
        raise Failure(Errno.ENOMEM)
    return 0


def mincore(process: Process, address: int, length: int, vector: int) -> int:
    """Which pages are in memory: all that are mapped."""
    start, end = _range(address, length, Errno.ENOMEM)
    if sum(part.end - part.start for part in _parts(process, start, end)) != end - start:
        raise Failure(Errno.ENOMEM)
    pages = (end - start) // PAGE
    for done in range(0, pages, PAGE):
        process.memory.write(vector + done, b"\1" * min(PAGE, pages - done))
    return 0


def msync(process: Process, address: int, length: int, flags: int) -> int:
    """Nothing to do: no mapping is written back."""
    if flags & ~7 or flags & 5 == 5:
        raise Failure(Errno.EINVAL)
    start, end = _range(address, length, Errno.ENOMEM)
    if sum(part.end - part.start for part in _parts(process, start, end)) != end - start:
        raise Failure(Errno.ENOMEM)
    return 0


def page_up(address: int) -> int:
    """The address, or that of the next page if it is inside one."""
    return (address + PAGE - 1) & -PAGE


def _prot(prot: int) -> Prot:
    return Prot(prot & abi.PROT_RWX)


def _range(address: int, length: int, beyond: Errno = Errno.EINVAL) -> tuple[int, int]:
    """The pages of a range: EINVAL if it starts inside a page, `beyond` if it leaves the address space."""
    if address % PAGE:
        raise Failure(Errno.EINVAL)
    end = address + page_up(length)
    if end > _VA_END:
        raise Failure(beyond)
    return address, end


def _parts(process: Process, start: int, end: int) -> list[Region]:
    """What is mapped between two addresses, clipped to them."""
    if start == end:
        return []
    regions = process.memory.regions()
    return [region.part(start, end) for region in regions if region.start < end and start < region.end]


def _crowded(process: Process) -> bool:
    return len(process.memory.regions()) >= _REGIONS_LIMIT


def _place(process: Process, address: int, length: int, flags: int) -> int:
    """Where a mapping goes."""
    if flags & (abi.MAP_FIXED | abi.MAP_FIXED_NOREPLACE):
        start, end = _range(address, length, Errno.ENOMEM)
        if start < MMAP_LOW:
            raise Failure(Errno.EPERM)
        if flags & abi.MAP_FIXED_NOREPLACE and _parts(process, start, end):
            raise Failure(Errno.EEXIST)
        return start
    hint = address & -PAGE if address < _VA_END else 0
    start_or_none = process.memory.find_free(length, hint, low=MMAP_LOW, high=MMAP_TOP)
    if start_or_none is None:
        raise Failure(Errno.ENOMEM)
    return start_or_none


def _mappable(process: Process, fd: int, prot: int, flags: int) -> OpenFile | None:
    """The file to map; None for /dev/zero, which is anonymous memory."""
    file = process.file(fd)
    shared = flags & abi.MAP_TYPE != abi.MAP_PRIVATE
    if not file.readable or (shared and prot & Prot.W and not file.writable):
        raise Failure(Errno.EACCES)
    if isinstance(file, DeviceFile) and file.node.kind == "zero":
        return None
    if not isinstance(file, SeekableFile) or isinstance(file.node, Directory) or file.waits:
        raise Failure(Errno.ENODEV)
    return file


def file_room(process: Process) -> int:
    """How many more bytes of files it may map."""
    backings = (region.backing for region in process.memory.regions() if region.backing)
    return _FILE_LIMIT - sum({id(backing): backing.size for backing in backings}.values())


def image_of(process: Process, file: OpenFile, length: int, offset: int) -> Image:
    """A copy of the part of a file that is mapped; ENOMEM if that is too much."""
    size = max(0, min(length, file.stat().size - offset))
    if size > file_room(process):
        raise Failure(Errno.ENOMEM)
    return Image(
        file.pread(process, size, offset) if size else b"", file.path.decode(errors="surrogateescape")
    )


def _whole(process: Process, start: int, end: int) -> Region:
    """The one region that covers the pages; EFAULT if there is none."""
    parts = _parts(process, start, end)
    if len(parts) != 1 or (parts[0].start, parts[0].end) != (start, end):
        raise Failure(Errno.EFAULT)
    return parts[0]


def _map_like(process: Process, region: Region, start: int, length: int, skip: int) -> None:
    """Map `length` bytes with what `region` shows from byte `skip` on."""
    offset = region.offset + skip if region.backing else 0
    process.memory.map(start, length, region.prot, region.backing, offset, region.name)


def _move(process: Process, start: int, end: int, target: int, length: int) -> int:
    """Move the pages of one region, block by block, so that the copy never holds all of them twice."""
    memory = process.memory
    region = _whole(process, start, end)
    _map_like(process, region, target, length, 0)
    kept = min(end - start, length)
    for done in range(0, kept, _MOVE_BLOCK):
        block = min(_MOVE_BLOCK, kept - done)
        _copy_changed(process, start + done, target + done, block)
        memory.unmap(start + done, block)
    if kept < end - start:
        memory.unmap(start + kept, end - start - kept)
    return target


def _copy_changed(process: Process, source: int, target: int, length: int) -> None:
    """Copy the pages that differ, so that untouched memory stays untouched."""
    memory = process.memory
    new, old = memory.peek(source, length), memory.peek(target, length)
    if new == old:
        return
    for at in range(0, length, PAGE):
        if new[at : at + PAGE] != old[at : at + PAGE]:
            memory.poke(target + at, new[at : at + PAGE])
