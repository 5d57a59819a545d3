"""A lane's memory in native code on the host: which page an address leads to, and what pages become.

Three flat tables know it. The page table (`kvrm.memory.page_table`) is what handlers read. ORIGINS has a word
for each page of guest addresses: the address of what the page shows until the lane writes to it, its
permissions (bits of `Prot`), and marks. ARENAS has for each GiB where the lanes' own copies lie, at the same
offset as in the guest, so neighbours there are neighbours here. An entry of the page table is filled from the
other two when it is missed. What a lane changes is noted (OWNED, CHANGED), and `reset` undoes that and
nothing else.
"""

from __future__ import annotations

from typing import Final

from kvrm.backend.cpu.table import Field
from kvrm.linux.resident.layout import (
    FILE,
    KEEP,
    MAP,
    SOME_BEYOND,
    SOME_CODE,
    SOME_FILE,
    SOME_FIXED,
    SOME_HOLE,
    SOME_MAPPED,
)
from kvrm.memory.page_table import R_BIT, VA_BITS, W_BIT, X_BIT
from kvrm.memory.pages import PAGE, PAGE_SHIFT
from kvrm.staging.host import load, move, store
from kvrm.staging.kernel import Array

MAPPED: Final = 8
OF_FILE: Final = 16
"""Marks of an origin: something is mapped, and that is a file which the lane or the snapshot has mapped and
whose end counts: where such a page shows the page of zeros, it lies past the end."""
PRIVATE: Final = 32
"""The lane began with a private page there, so an own copy of it does not count against its limit."""
OWN: Final = 64
"""The lane has its own copy."""
ALTERED: Final = 128
"""The origin is in CHANGED as it was before."""
ADDRESS: Final = -PAGE
RWX: Final = R_BIT | W_BIT | X_BIT
RX: Final = R_BIT | X_BIT
RW: Final = R_BIT | W_BIT
ARENA_SHIFT: Final = 30 - PAGE_SHIFT
"""Pages of an arena, as a power of two."""
ARENA_MASK: Final = (1 << ARENA_SHIFT) - 1
PAGES: Final = 1 << (VA_BITS - PAGE_SHIFT)
"""Pages of the address space."""
PAGE_BITS: Final = (1 << 44) - 1
"""Of an address without its tag and its offset."""
OFFSET: Final = PAGE - 1
ROOM_FOR_ONE: Final = 64
"""Places in CHANGED that are kept for ranges of one page."""


def page_of(address: int) -> int:
    """The number of an address's page, its tag ignored; `PAGES` or more if it is out of range."""
    return (address >> PAGE_SHIFT) & PAGE_BITS


def own(t: Array, index: int) -> int:
    """The host address of the lane's own copy of a page, which it gets if need be; 0 if that takes Python.

    That is so where the lane's limit is reached or the tables have no room.
    """
    origin = load(t[Field.ORIGINS] + 8 * index)
    arena = load(t[Field.ARENAS] + 8 * (index >> ARENA_SHIFT))
    page = arena + PAGE * (index & ARENA_MASK)
    if origin & OWN:
        return page
    if arena == 0 or t[Field.OWNED_COUNT] == t[Field.OWNED_ROOM]:
        return 0
    if not origin & PRIVATE:
        if t[Field.PAGES_LEFT] == 0:
            return 0
        t[Field.PAGES_LEFT] -= 1
    move(t[Field.MOVE], page, origin & ADDRESS, PAGE)
    store(t[Field.OWNED] + 8 * t[Field.OWNED_COUNT], index)
    t[Field.OWNED_COUNT] += 1
    store(t[Field.ORIGINS] + 8 * index, origin | OWN)
    store(t[Field.ENTRIES] + 8 * index, page | (origin & RWX))
    return page


def fill(t: Array, index: int, kind: int) -> int:
    """The host address of a page for an access of this kind, which the page table allows from now on.

    0 if the access is not allowed, or takes Python, as a write to code does.
    """
    origin = load(t[Field.ORIGINS] + 8 * index)
    if not origin & kind:
        return 0
    if kind == W_BIT:
        if origin & X_BIT:
            return 0
        page = own(t, index)
        if page:
            store(t[Field.ENTRIES] + 8 * index, page | (origin & RWX))
        return page
    if origin & OWN:
        mine = own(t, index)
        store(t[Field.ENTRIES] + 8 * index, mine | (origin & RWX))
        return mine
    store(t[Field.ENTRIES] + 8 * index, (origin & ADDRESS) | (origin & RX))
    return origin & ADDRESS


def reach(t: Array, address: int, kind: int) -> int:
    """The host address of the page that an address lies in; 0 if `fill` says so."""
    index = page_of(address)
    if index >= PAGES:
        return 0
    entry = load(t[Field.ENTRIES] + 8 * index)
    if entry & kind:
        return entry & ADDRESS
    return fill(t, index, kind)


def peek(t: Array, address: int) -> int:
    """The host address of the page that an address lies in, whatever its permissions; 0 if there is none."""
    origin = load(t[Field.ORIGINS] + 8 * page_of(address))
    if origin & OWN:
        return own(t, page_of(address))
    return origin & ADDRESS if origin & MAPPED else 0


def read_guest(t: Array, address: int, size: int, to: int) -> int:
    """Copy 1 to `PAGE` bytes from the guest; not 0 if that takes Python."""
    return _transfer(t, address, size, to, R_BIT)


def write_guest(t: Array, address: int, size: int, source: int) -> int:
    """Copy 1 to `PAGE` bytes to the guest, all or nothing; not 0 if that takes Python."""
    return _transfer(t, address, size, source, W_BIT)


def _transfer(t: Array, address: int, size: int, data: int, kind: int) -> int:
    offset = address & OFFSET
    head = min(size, PAGE - offset)
    first = reach(t, address, kind)
    if first == 0:
        return 1
    last = first
    if head < size:
        last = reach(t, address + head, kind)
        if last == 0:
            return 1
    if kind == W_BIT:
        move(t[Field.MOVE], first + offset, data, head)
        if head < size:
            move(t[Field.MOVE], last, data + head, size - head)
    else:
        move(t[Field.MOVE], data, first + offset, head)
        if head < size:
            move(t[Field.MOVE], data + head, last, size - head)
    return 0


def examine(t: Array, start: int, end: int) -> int:
    """What the pages of a range are: SOME_... of `kvrm.linux.resident.layout`; -1 if CHANGED may overflow.

    Never SOME_OTHER: whatever a page shows, it can be removed, for `reset` puts it back.
    """
    first = start >> PAGE_SHIFT
    last = end >> PAGE_SHIFT
    count = last - first
    spare = ROOM_FOR_ONE if count > 1 else 0
    if t[Field.CHANGED_COUNT] + count > t[Field.CHANGED_ROOM] - spare:
        return -1
    found = 0
    for index in range(first, last):
        found |= _kinds(t, load(t[Field.ORIGINS] + 8 * index))
    return found


def _kinds(t: Array, origin: int) -> int:
    shown = origin & ADDRESS
    found = SOME_MAPPED if origin & MAPPED else SOME_HOLE
    if origin & OF_FILE:
        found |= SOME_FILE
        if shown == t[Field.ZEROS]:
            found |= SOME_BEYOND
    if origin & X_BIT:
        found |= SOME_CODE
    if not origin & W_BIT:
        found |= SOME_FIXED
    return found


def change(t: Array, start: int, end: int, become: int) -> int:
    """Set what the pages of a range are: bits of `Prot`, MAP and KEEP; without KEEP own copies are lost."""
    bits = become & RW
    if become & MAP:
        bits |= MAPPED
    for index in range(start >> PAGE_SHIFT, end >> PAGE_SHIFT):
        origin = load(t[Field.ORIGINS] + 8 * index)
        shown = origin & (ADDRESS | OF_FILE | PRIVATE)
        if become & KEEP:
            shown |= origin & OWN
        elif origin & (OWN | PRIVATE):
            t[Field.PAGES_LEFT] += 1
        if not become & MAP:
            shown = 0
        elif origin & ADDRESS == 0:
            shown |= t[Field.ZEROS]
        _alter(t, index, shown | bits)
    return 0


def show(t: Array, start: int, end: int, become: int, content: int, size: int, rest: int) -> int:
    """Map pages that are not mapped, to show `size` bytes from an address on and then zeros.

    With FILE as `rest` those after the file's last page lie past its end, where nothing is allowed.
    """
    bits = MAPPED | (become & RW)
    done = 0
    for index in range(start >> PAGE_SHIFT, end >> PAGE_SHIFT):
        if done < size:
            _alter(t, index, (content + done) | OF_FILE | bits)
        elif rest & FILE:
            _alter(t, index, t[Field.ZEROS] | OF_FILE | MAPPED)
        else:
            _alter(t, index, t[Field.ZEROS] | bits)
        done += PAGE
    return 1


def _alter(t: Array, index: int, origin: int) -> int:
    at = t[Field.ORIGINS] + 8 * index
    before = load(at)
    if not before & ALTERED:
        row = t[Field.CHANGED] + 16 * t[Field.CHANGED_COUNT]
        store(row, index)
        store(row + 8, before & ~OWN)
        t[Field.CHANGED_COUNT] += 1
    store(at, origin | ALTERED)
    store(t[Field.ENTRIES] + 8 * index, 0)
    return 0


def reset(t: Array) -> int:
    """Memory as lanes begin with it; the cost is that of what the last one changed."""
    for i in range(t[Field.OWNED_COUNT]):
        index = load(t[Field.OWNED] + 8 * i)
        at = t[Field.ORIGINS] + 8 * index
        origin = load(at) & ~OWN
        store(at, origin)
        bits = origin & RX
        store(t[Field.ENTRIES] + 8 * index, (origin & ADDRESS) | bits if bits else 0)
    for i in range(t[Field.CHANGED_COUNT]):
        row = t[Field.CHANGED] + 16 * i
        index = load(row)
        store(t[Field.ORIGINS] + 8 * index, load(row + 8))
        store(t[Field.ENTRIES] + 8 * index, 0)
    t[Field.OWNED_COUNT] = 0
    t[Field.CHANGED_COUNT] = 0
    t[Field.PAGES_LEFT] = t[Field.PAGES_MOST]
    return 0
