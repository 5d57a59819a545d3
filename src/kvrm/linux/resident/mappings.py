"""The staged system calls that change a lane's mappings: its pages, its words, and its areas."""

from __future__ import annotations

from kvrm.linux import abi
from kvrm.linux.errno import Errno
from kvrm.linux.loader import MMAP_TOP
from kvrm.linux.resident.areas import become, have_room, join, mark, protect, replace
from kvrm.linux.resident.descriptors import answer_of, open_file, stream
from kvrm.linux.resident.files import bytes_left, content_at
from kvrm.linux.resident.lane_view import LARGEST, U32, Lane, examine
from kvrm.linux.resident.layout import (
    ADVICE,
    ADVICES,
    FILE,
    KEEP,
    LEAVE,
    MAP,
    MARKS,
    OTHER_ADVICE,
    SOME_BEYOND,
    SOME_CODE,
    SOME_FILE,
    SOME_HOLE,
    SOME_MAPPED,
    SOME_OTHER,
    Area,
    Fixed,
    Stream,
    What,
    Word,
)
from kvrm.memory import PAGE, VA_END, Mark, Prot, page_up
from kvrm.staging.host import below, store

UNUSUAL = abi.MAP_FIXED | abi.MAP_GROWSDOWN | abi.MAP_LOCKED | abi.MAP_HUGETLB
UNUSUAL |= ~(abi.LEGACY_MAP_FLAGS | abi.MAP_TYPE)
"""Flags of mmap that are for the CPU."""
MAPPED = What.NEW | What.PROT


def brk(lane: Lane, address: int) -> int:
    """Move the end of the heap, over pages that nothing else has."""
    old = lane.word(Word.HEAP_END)
    if below(address, lane.fixed(Fixed.HEAP_START)) or below(VA_END - PAGE, address):
        return old
    before = page_up(old)
    after = page_up(address)
    start = min(before, after)
    end = max(before, after)
    if not have_room(lane, start, end) or (before < after and lane.fixed(Fixed.LIMITED)):
        return LEAVE
    found = examine(lane, start, end)
    if found & (SOME_OTHER | SOME_CODE):
        return LEAVE
    if before < after:
        # a page stays free between the heap and what follows it
        if (found | examine(lane, end, end + PAGE)) & SOME_MAPPED:
            return old
        if not lane.show(start, end, Prot.R | Prot.W | MAP, 0, 0, 0):
            return LEAVE
        become(lane, start, end, MAPPED | What.HEAP | Prot.R | Prot.W)
    elif after < before:
        lane.change(start, end, 0)
        become(lane, start, end, What.HOLE)
    lane.put(Word.HEAP_END, address)
    return address


def mmap(lane: Lane, address: int, length: int, prot: int, flags: int, fd: int, offset: int) -> int:
    """New memory or a file below all other: where it goes unless there is a hole that is large enough."""
    if offset & (PAGE - 1):
        return -Errno.EINVAL
    kind = 0
    if not flags & abi.MAP_ANONYMOUS and (kind := stream(lane, fd)) < 0:
        return kind
    if length == 0:
        return -Errno.EINVAL
    if address or flags & UNUSUAL or lane.fixed(Fixed.LIMITED):
        return LEAVE
    if offset < 0 or not below(length - 1, LARGEST):
        return LEAVE
    sharing = flags & abi.MAP_TYPE
    if sharing < abi.MAP_SHARED or sharing > abi.MAP_SHARED_VALIDATE:
        return -Errno.EINVAL
    if flags & abi.MAP_ANONYMOUS and sharing == abi.MAP_SHARED_VALIDATE:
        return -Errno.EINVAL
    size = page_up(length)
    file = 0
    content = 0
    bytes_of_file = 0
    if not flags & abi.MAP_ANONYMOUS:
        if refused := cannot_map(kind, prot, sharing):
            return refused
        file = open_file(lane, fd)
        answer = answer_of(lane, file)
        if answer == 0 or offset >> 62:
            return LEAVE
        file = lane.word(Word.OPENED + file)
        content = content_at(answer, offset)
        bytes_of_file = min(bytes_left(answer, offset), size)
    end = lane.word(Word.LOWEST)
    start = end - size
    if lane.word(Word.FILE_ROOM) < bytes_of_file or lane.word(Word.HOLES) >= size:
        return LEAVE
    if not have_room(lane, start, end) or examine(lane, start, end) & (SOME_MAPPED | SOME_OTHER | SOME_CODE):
        return LEAVE
    rest = 0 if flags & abi.MAP_ANONYMOUS else FILE
    if not lane.show(start, end, allowed(prot) | MAP, content, bytes_of_file, rest):
        return LEAVE
    shared = 0 if sharing == abi.MAP_PRIVATE else Mark.SHARED << MARKS
    area = replace(lane, start, end, MAPPED | shared | (prot & abi.PROT_RWX))
    if file:
        store(area + 8 * Area.FILE, file)
        store(area + 8 * Area.BASE, start)
        store(area + 8 * Area.LENGTH, size)
        store(area + 8 * Area.OFFSET, offset)
    join(lane, start)
    join(lane, end)
    lane.put(Word.HAS_CODE, lane.word(Word.HAS_CODE) | prot & Prot.X)
    lane.put(Word.LOWEST, start)
    lane.put(Word.FILE_ROOM, lane.word(Word.FILE_ROOM) - bytes_of_file)
    return start


def cannot_map(kind: int, prot: int, sharing: int) -> int:
    """Why what a descriptor refers to cannot be mapped so; 0 if it can be."""
    if kind == Stream.RANDOM:
        return LEAVE
    if (sharing != abi.MAP_PRIVATE and prot & Prot.W) or kind >= Stream.STDOUT:
        return -Errno.EACCES
    return -Errno.ENODEV if kind == Stream.INPUT else 0


def allowed(prot: int) -> int:
    """What pages allow with these permissions: what may be written or executed can be read."""
    return prot & Prot.W | (Prot.R if prot & abi.PROT_RWX else 0)


def munmap(lane: Lane, address: int, length: int) -> int:
    """Remove mappings that can be put back: memory that was zeros or a file before it was written."""
    end = address + page_up(length)
    lowest = lane.word(Word.LOWEST)
    if not is_range(address, length) or address < lowest or end > MMAP_TOP or lane.fixed(Fixed.LIMITED):
        return LEAVE
    if not have_room(lane, address, end) or examine(lane, address, end) & (SOME_OTHER | SOME_CODE):
        return LEAVE
    lane.change(address, end, 0)
    become(lane, address, end, What.HOLE)
    lane.put(Word.HOLES, lane.word(Word.HOLES) + end - address)
    if address == lowest:
        raise_lowest(lane)
    return 0


def raise_lowest(lane: Lane) -> int:
    """LOWEST to the first page that is mapped."""
    at = lane.word(Word.LOWEST)
    while at < MMAP_TOP and not examine(lane, at, at + PAGE) & SOME_MAPPED:
        at += PAGE
        lane.put(Word.HOLES, lane.word(Word.HOLES) - PAGE)
    return lane.put(Word.LOWEST, at)


def mprotect(lane: Lane, address: int, length: int, prot: int) -> int:
    """Change permissions, but not those of code."""
    end = address + page_up(length)
    if not is_range(address, length) or prot & ~abi.PROT_RWX or lane.fixed(Fixed.LIMITED):
        return LEAVE
    found = examine(lane, address, end)
    if found & (SOME_HOLE | SOME_CODE | SOME_BEYOND) or not have_room(lane, address, end):
        return LEAVE
    # files that are mapped here were opened for reading, so shared ones cannot be made writable
    if prot & Prot.W and found & SOME_FILE:
        return LEAVE
    lane.change(address, end, allowed(prot) | MAP | KEEP)
    protect(lane, address, end, prot)
    # what is executable now can only be read here: a lane that jumps there goes to the CPU
    lane.put(Word.HAS_CODE, lane.word(Word.HAS_CODE) | prot & Prot.X)
    return 0


def madvise(lane: Lane, address: int, length: int, advice: int) -> int:
    """Advice that changes nothing but marks, which no program can tell."""
    end = address + page_up(length)
    if not is_range(address, length) or not below(advice, ADVICES):
        return LEAVE
    marks = lane.fixed(ADVICE + advice)
    if marks == OTHER_ADVICE or examine(lane, address, end) & SOME_HOLE or not have_room(lane, address, end):
        return LEAVE
    if marks:
        mark(lane, address, end, marks & U32, marks >> 32)
    return 0


def is_range(start: int, length: int) -> int:
    """Whether a range has pages, and neither starts inside one nor is too large."""
    return below(start, VA_END) and not start & (PAGE - 1) and below(length - 1, LARGEST)
