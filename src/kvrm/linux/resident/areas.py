"""The areas of a lane: what it has mapped otherwise than lanes begin, kept as the kernel keeps mappings.

Pages say what may be accessed; areas say the rest, which only Python looks at (`Area`): files, marks, what is
executable. There is no order among them, and neighbours that are alike are one. What several calls use is
compiled on its own: in line, it makes code for a GPU larger by a third.
"""

from __future__ import annotations

from kvrm.linux import abi
from kvrm.linux.resident.lane_view import Lane
from kvrm.linux.resident.layout import AREA_BYTES, AREA_WORDS, MARKS, UNMARKS, Area, Fixed, What, Word
from kvrm.staging.host import apart, load, store

MORE = 3
"""Areas that `replace` adds, at most: what is left before and after, and the new one."""


def area(lane: Lane, index: int) -> int:
    """The address of an area."""
    size = AREA_BYTES * lane.fixed(Fixed.MOST_AREAS)
    return lane.part(lane.fixed(Fixed.AREAS), size, AREA_BYTES * index)


@apart
def area_at(lane: Lane, address: int) -> int:
    """The address of the area that has an address; 0 if there is none."""
    for i in range(lane.word(Word.AREAS)):
        here = area(lane, i)
        if load(here + 8 * Area.START) <= address and address < load(here + 8 * Area.END):
            return here
    return 0


def next_start(lane: Lane, address: int, end: int) -> int:
    """Where the first area after an address begins, or `end` if that comes before."""
    for i in range(lane.word(Word.AREAS)):
        start = load(area(lane, i) + 8 * Area.START)
        if address < start and start < end:
            end = start
    return end


@apart
def have_room(lane: Lane, start: int, end: int) -> int:
    """Whether there is room for what a call can make of a range."""
    more = MORE
    at = start
    while at < end:
        here = area_at(lane, at)
        if here:
            at = load(here + 8 * Area.END)
        else:
            at = next_start(lane, at, end)
            more += 1
    return lane.word(Word.AREAS) + more <= lane.fixed(Fixed.MOST_AREAS)


@apart
def append(lane: Lane, start: int, end: int, what: int) -> int:
    """The address of a new area, of memory."""
    index = lane.word(Word.AREAS)
    lane.put(Word.AREAS, index + 1)
    here = area(lane, index)
    for i in range(AREA_WORDS):
        store(here + 8 * i, 0)
    store(here + 8 * Area.START, start)
    store(here + 8 * Area.END, end)
    store(here + 8 * Area.WHAT, what)
    return here


def copy(source: int, to: int) -> int:
    """Have an area say what another does."""
    for i in range(AREA_WORDS):
        store(to + 8 * i, load(source + 8 * i))
    return to


@apart
def cut(lane: Lane, address: int) -> int:
    """Have no area that is before an address and after it."""
    here = area_at(lane, address)
    if here and load(here + 8 * Area.START) < address:
        rest = copy(here, append(lane, 0, 0, 0))
        store(rest + 8 * Area.START, address)
        store(here + 8 * Area.END, address)
    return 0


@apart
def replace(lane: Lane, start: int, end: int, what: int) -> int:
    """Have one area for a range, of memory; its address, until areas are joined."""
    cut(lane, start)
    cut(lane, end)
    i = 0
    while i < lane.word(Word.AREAS):
        here = area(lane, i)
        if start <= load(here + 8 * Area.START) and load(here + 8 * Area.END) <= end:
            lane.put(Word.AREAS, lane.word(Word.AREAS) - 1)
            copy(area(lane, lane.word(Word.AREAS)), here)
        else:
            i += 1
    return append(lane, start, end, what)


@apart
def join(lane: Lane, address: int) -> int:
    """Have one area where one ends at an address, and another that is like it begins."""
    before = area_at(lane, address - 1)
    after = area_at(lane, address)
    if before == 0 or after == 0 or before == after:
        return 0
    for i in range(Area.WHAT, AREA_WORDS):
        if load(before + 8 * i) != load(after + 8 * i):
            return 0
    store(before + 8 * Area.END, load(after + 8 * Area.END))
    lane.put(Word.AREAS, lane.word(Word.AREAS) - 1)
    copy(area(lane, lane.word(Word.AREAS)), after)
    return 0


def become(lane: Lane, start: int, end: int, what: int) -> int:
    """Have a range be memory that was mapped, or a hole."""
    replace(lane, start, end, what)
    join(lane, start)
    join(lane, end)
    return 0


def protect(lane: Lane, start: int, end: int, prot: int) -> int:
    """Note the permissions of a range."""
    return alter(lane, start, end, abi.PROT_RWX, What.PROT | prot)


def mark(lane: Lane, start: int, end: int, marks: int, unmarks: int) -> int:
    """Note marks that are added to a range's, and those that are removed."""
    both = marks | unmarks
    return alter(lane, start, end, both << MARKS | both << UNMARKS, marks << MARKS | unmarks << UNMARKS)


@apart
def alter(lane: Lane, start: int, end: int, clear: int, add: int) -> int:
    """Change what the areas of a range are, and have some for all of it."""
    cut(lane, start)
    cut(lane, end)
    at = start
    while at < end:
        here = area_at(lane, at)
        if here == 0:
            here = append(lane, at, next_start(lane, at, end), 0)
        store(here + 8 * Area.WHAT, load(here + 8 * Area.WHAT) & ~clear | add)
        after = load(here + 8 * Area.END)
        join(lane, at)
        at = after
    join(lane, end)
    return 0
