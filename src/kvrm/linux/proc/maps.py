"""The files of /proc/self that tell about memory: maps, smaps, statm, and the numbers of status and stat.

Memory in use (RSS) are the pages that the process has written. Whether it has read others depends on the
engine, and is not told.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.linux.page_ranges import is_data, locked_bytes, size_of
from kvrm.memory import PAGE, VA_END, Mark, Prot, Region

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_NAME_COLUMN: Final = 73
_PTE_SPAN: Final = 512 * PAGE
"""Bytes of addresses that a page of the page table spans."""
_PRESENT: Final = 1 << 63
_EXCLUSIVE: Final = 1 << 56
_SOFT_DIRTY: Final = 1 << 55
_VM_FLAGS: Final = {
    Mark.GROWSDOWN: "gd",
    Mark.LOCKED: "lo",
    Mark.SEQUENTIAL: "sr",
    Mark.RANDOM: "rr",
    Mark.DONTFORK: "dc",
    Mark.WIPEONFORK: "wf",
    Mark.DONTDUMP: "dd",
    Mark.HUGEPAGE: "hg",
    Mark.NOHUGEPAGE: "nh",
    Mark.MERGEABLE: "mg",
}


_KINDS: Final = (
    "Rss Pss Pss_Dirty Shared_Clean Shared_Dirty Private_Clean Private_Dirty Referenced Anonymous LazyFree "
    "AnonHugePages ShmemPmdMapped FilePmdMapped Shared_Hugetlb Private_Hugetlb Swap SwapPss Locked"
)


class Use(NamedTuple):
    """Bytes of memory: mapped, in use, and of which kinds."""

    size: int
    resident: int
    anonymous: int
    of_files: int
    shared: int
    data: int
    stack: int
    text: int
    library: int
    locked: int
    tables: int


def use(process: Process) -> Use:
    """What the process has in memory."""
    regions, memory = process.memory.regions(), process.memory
    owned = {region.start: len(memory.private(region.start, region.end)) * PAGE for region in regions}
    shared = sum(owned[region.start] for region in regions if region.marks & Mark.SHARED)
    resident = sum(owned.values())
    text = size_of(region for region in regions if region.prot & Prot.X and _is_program(process, region))
    code = size_of(region for region in regions if region.prot & Prot.X and region.backing)
    return Use(
        size=size_of(regions),
        resident=resident,
        anonymous=resident - shared,
        of_files=0,
        shared=shared,
        data=size_of(region for region in regions if is_data(region.prot, region.marks)),
        stack=size_of(region for region in regions if region.marks & Mark.GROWSDOWN),
        text=text,
        library=code - text,
        locked=locked_bytes(process),
        tables=len({page // _PTE_SPAN for page in memory.private(0, VA_END)}) * PAGE,
    )


def statm(process: Process) -> bytes:
    """Size, resident, shared, text, 0, data and stack, 0: pages."""
    used = use(process)
    numbers = (used.size, used.resident, used.of_files + used.shared, used.text)
    rest = used.data + used.stack
    pages = [number // PAGE for number in (*numbers, 0, rest, 0)]
    return (" ".join(map(str, pages)) + "\n").encode()


def maps(process: Process) -> bytes:
    """A line for each mapping."""
    return b"".join(_header(process, region) for region in process.memory.regions())


def smaps(process: Process) -> bytes:
    """What each mapping has in memory."""
    parts = []
    for region in process.memory.regions():
        sizes = _sizes(process, [region])
        details = {"Size": region.end - region.start, "KernelPageSize": PAGE, "MMUPageSize": PAGE, **sizes}
        parts += [_header(process, region), _lines(details)]
        parts.append(f"THPeligible:    {0:8}\nVmFlags: {_flags(region)} \n".encode())
    return b"".join(parts)


def smaps_rollup(process: Process) -> bytes:
    """The same of all of them together."""
    regions = process.memory.regions()
    if not regions:
        return b""
    span = f"{regions[0].start:08x}-{regions[-1].end:08x} ---p 00000000 00:00 0 "
    sizes = _sizes(process, regions)
    shared = _sizes(process, [region for region in regions if region.marks & Mark.SHARED])["Rss"]
    kinds = {"Pss_Anon": sizes["Anonymous"], "Pss_File": 0, "Pss_Shmem": shared}
    first = {name: sizes.pop(name) for name in ("Rss", "Pss", "Pss_Dirty")}
    return f"{span.ljust(_NAME_COLUMN)}[rollup]\n".encode() + _lines({**first, **kinds, **sizes})


def pagemap(process: Process, offset: int, size: int) -> bytes:
    """Words of 64 bits for pages, at byte `offset` of all of them: whether a page is in memory, not where."""
    first, count = offset // 8, min(size // 8, VA_END // PAGE - offset // 8)
    if count <= 0:
        return b""
    words = bytearray(8 * count)
    for page in process.memory.private(first * PAGE, (first + count) * PAGE):
        struct.pack_into("<Q", words, 8 * (page // PAGE - first), _PRESENT | _EXCLUSIVE | _SOFT_DIRTY)
    return bytes(words)


def _header(process: Process, region: Region) -> bytes:
    letters = "".join(c if region.prot & bit else "-" for c, bit in zip("rwx", Prot(7), strict=True))
    letters += "s" if region.marks & Mark.SHARED else "p"
    offset, device, inode, name = region.offset, 0, 0, os.fsencode(region.name)
    mapped = process.mapped.get(region.backing) if region.backing else None
    if mapped is not None:
        status = mapped.file.stat()
        offset, device, inode, name = offset + mapped.offset, status.dev, status.ino, mapped.file.path
    elif _is_program(process, region):
        status = process.program.node.stat()
        device, inode = status.dev, status.ino
    place = f"{os.major(device):02x}:{os.minor(device):02x} {inode}"
    line = f"{region.start:08x}-{region.end:08x} {letters} {offset:08x} {place} ".encode()
    return (line.ljust(_NAME_COLUMN) + name.replace(b"\n", b"\\012") if name else line) + b"\n"


def _is_program(process: Process, region: Region) -> bool:
    return region.backing is not None and os.fsencode(region.name) == process.program_path


def _sizes(process: Process, regions: Iterable[Region]) -> dict[str, int]:
    """Bytes of regions in memory, by the names of smaps."""
    resident = anonymous = locked = 0
    for region in regions:
        own = len(process.memory.private(region.start, region.end)) * PAGE
        resident += own
        anonymous += 0 if region.marks & Mark.SHARED else own
        locked += own if region.marks & Mark.LOCKED else 0
    sizes = dict.fromkeys(_KINDS.split(), 0)
    sizes |= dict.fromkeys(["Rss", "Pss", "Pss_Dirty", "Private_Dirty", "Referenced"], resident)
    return sizes | {"Anonymous": anonymous, "Locked": locked}


def _lines(sizes: dict[str, int]) -> bytes:
    return "".join(f"{name + ':':16}{size >> 10:8} kB\n" for name, size in sizes.items()).encode()


def _flags(region: Region) -> str:
    """VmFlags: what is allowed, what may be, and marks."""
    shared = region.marks & Mark.SHARED
    names = [name for name, bit in zip(("rd", "wr", "ex"), Prot(7), strict=True) if region.prot & bit]
    names += ["sh"] if shared else []
    names += ["mr", "mw", "me", *(["ms"] if shared else [])]
    names += [name for mark, name in _VM_FLAGS.items() if region.marks & mark]
    return " ".join([*names, *(["ac"] if is_data(region.prot, region.marks) else [])])
