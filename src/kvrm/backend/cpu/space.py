"""The space of a lane in native code on the host, and what its pages become.

It has the flat format (`kvrm.memory.space`): entries are those of the page table, which handlers read. When
one is missed, it is filled from two other tables. ORIGINS has a word for each page of guest addresses: the
address of what the page shows until the lane writes to it, its permissions (bits of `Prot`), and marks.
ARENAS has for each GiB where the lanes' own copies lie, at the same offset as in the guest, so neighbours
there are neighbours here. What a lane changes is noted (OWNED, CHANGED), and `reset` undoes that and nothing
else.
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
from kvrm.memory import flat
from kvrm.memory.flat import ADDRESS, page_of
from kvrm.memory.page_table import ENTRIES, R_BIT, W_BIT, X_BIT
from kvrm.memory.pages import PAGE, PAGE_SHIFT
from kvrm.memory.space import Space
from kvrm.staging.host import load, move, store
from kvrm.staging.kernel import Array
from kvrm.staging.operations import Operations, standing_for

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
RWX: Final = R_BIT | W_BIT | X_BIT
RX: Final = R_BIT | X_BIT
RW: Final = R_BIT | W_BIT
ARENA_SHIFT: Final = 30 - PAGE_SHIFT
"""Pages of an arena, as a power of two."""
ARENA_MASK: Final = (1 << ARENA_SHIFT) - 1
ROOM_FOR_ONE: Final = 64
"""Places in CHANGED that are kept for ranges of one page."""


def entry(t: Array, address: int) -> int:
    """From the page table."""
    return flat.entry(t[Field.ENTRIES], address)


def allows(t: Array, entry: int, kind: int) -> int:
    """By the entry's bits."""
    return flat.allows(entry, kind)


def resolve(t: Array, address: int, kind: int) -> int:
    """By the page's origin; 0 also if that takes Python, as a write to code does."""
    index = page_of(address)
    if index >= ENTRIES:
        return 0
    origin = load(t[Field.ORIGINS] + 8 * index)
    if not origin & kind or (kind == W_BIT and origin & X_BIT):
        return 0
    if kind == W_BIT or origin & OWN:
        return own(t, address)
    return note(t, index, (origin & ADDRESS) | (origin & RX))


def own(t: Array, address: int) -> int:
    """The entry of the lane's own copy of a page, which it gets if need be; 0 if that takes Python.

    That is so where nothing is mapped, the lane's limit is reached or the tables have no room.
    """
    index = page_of(address)
    origin = load(t[Field.ORIGINS] + 8 * index)
    mine = place(t, index)
    if not origin & OWN:
        if not origin & MAPPED or mine == 0 or t[Field.OWNED_COUNT] == t[Field.OWNED_ROOM]:
            return 0
        if not origin & PRIVATE:
            if left(t) == 0:
                return 0
            t[Field.PAGES_LEFT] -= 1
        move(t[Field.MOVE], mine, origin & ADDRESS, PAGE)
        store(t[Field.OWNED] + 8 * t[Field.OWNED_COUNT], index)
        t[Field.OWNED_COUNT] += 1
        store(t[Field.ORIGINS] + 8 * index, origin | OWN)
    return note(t, index, mine | (origin & RWX))


def take(t: Array, entry: int, offset: int, to: int, size: int) -> int:
    """By the C library."""
    return move(t[Field.MOVE], to, flat.page(entry) + offset, size)


def give(t: Array, entry: int, offset: int, source: int, size: int) -> int:
    """By the C library."""
    return move(t[Field.MOVE], flat.page(entry) + offset, source, size)


def left(t: Array) -> int:
    """As the table has it."""
    return t[Field.PAGES_LEFT]  # type: ignore[no-any-return]


OPERATIONS: Operations = standing_for(Space, entry, allows, resolve, own, take, give, left)
"""What stands for the operations of a space."""


def place(t: Array, index: int) -> int:
    """Where the lane's own copy of a page is, or would be; 0 if there is no room for one."""
    arena = load(t[Field.ARENAS] + 8 * (index >> ARENA_SHIFT))
    return arena + PAGE * (index & ARENA_MASK) if arena else 0


def note(t: Array, index: int, entry: int) -> int:
    """Have the page table say that; the same."""
    return store(t[Field.ENTRIES] + 8 * index, entry)


def peek(t: Array, address: int) -> int:
    """The host address of the page that an address lies in, whatever its permissions; 0 if there is none."""
    origin = load(t[Field.ORIGINS] + 8 * page_of(address))
    if origin & OWN:
        return place(t, page_of(address))
    return origin & ADDRESS if origin & MAPPED else 0


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
