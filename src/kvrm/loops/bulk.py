"""The effects of many iterations at once that store: fills and copies, as kernels for any target.

Each has the effect of at most `count` iterations, and says of how many; where that is 0 nothing has happened.
Streams have their addresses and steps, and are permitted for all these iterations and one more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvrm.loops import plan
from kvrm.loops.guest_pages import (
    carry,
    highest,
    lacking,
    lowest,
    page,
    pages_left,
    put,
    register,
    repeat_block,
)
from kvrm.loops.plan import BLOCK, WORD, row_at, rows, word
from kvrm.memory import PAGE
from kvrm.memory.space import room, within
from kvrm.staging.host import below, load, load_byte, store

Many = Callable[[int, int, int, int, int], int]

SIZES: Final = (1, 2, 4, 8)
INSIDE: Final = WORD - 1


def address_of(stream: int) -> int:
    """Where a stream begins."""
    return load(stream + plan.STREAM_ADDRESS)


def step_of(stream: int) -> int:
    """How far a stream goes in an iteration."""
    return load(stream + plan.STREAM_STEP)


def on_page(at: int, step: int, size: int) -> int:
    """How many accesses, one after another, are wholly on the page of the first; 0 if it is not."""
    offset = within(at)
    last = PAGE - size
    if offset > last:
        return 0
    if step == 0:
        return 1 << 32
    return (offset if step < 0 else last - offset) // abs(step) + 1


def claimed(state: int, site: int, count: int) -> int:
    """Have the lane own what parts will store to; whether it does.

    It gets pages that plain execution would store to as well, and only if it may have all of them.
    """
    for take in range(2):
        wanted = 0
        for i in range(rows(site, plan.PARTS)):
            row = row_at(site, plan.PARTS, plan.FILL_ROW, i)
            stream = site + word(row, 0)
            start = address_of(stream) + word(row, 1)
            more = lacking(state, start, step_of(stream), word(row, 2), count, take)
            if more < 0:
                return 0
            wanted += more
        if below(pages_left(state), wanted):
            return 0
    return 1


def moved(site: int, to: int, source: int, size: int) -> int:
    """Copy bytes between host addresses."""
    return carry(site, to & ~INSIDE, to & INSIDE, source & ~INSIDE, source & INSIDE, size, 0)


def gathered(state: int, site: int, to: int, address: int, size: int) -> int:
    """Copy guest bytes, which may lie on two pages, to a host address."""
    head = min(size, room(address))
    carry(site, to, 0, page(state, address), within(address), head, 0)
    if head < size:
        carry(site, to, head, page(state, address + head), 0, size - head, 0)
    return to


# -- fills ---------------------------------------------------------------------------------------------------
def fill(state: int, site: int, count: int) -> int:
    """Store what does not change."""
    for i in range(rows(site, plan.PAIRS)):
        row = row_at(site, plan.PAIRS, plan.PAIR_ROW, i)
        if meet(site + word(row, 0), site + word(row, 1), count):
            return 0
    for i in range(rows(site, plan.PARTS)):
        row = row_at(site, plan.PARTS, plan.FILL_ROW, i)
        if abs(step_of(site + word(row, 0))) < word(row, 4):
            return 0
    if not claimed(state, site, count):
        return 0
    for i in range(rows(site, plan.MORE)):
        row = row_at(site, plan.MORE, plan.GATHER_ROW, i)
        moved(site, site + word(row, 0), register(state, word(row, 1)), word(row, 2))
    if load(site + plan.PERIOD):
        return pattern(state, site, count)
    for i in range(rows(site, plan.PARTS)):
        strided(state, site, count, row_at(site, plan.PARTS, plan.FILL_ROW, i))
    return count


def meet(one: int, other: int, count: int) -> int:
    """Whether two streams access the same byte in iterations 0 to `count`."""
    return first_of(one, count) < end_of(other, count) and first_of(other, count) < end_of(one, count)


def first_of(stream: int, count: int) -> int:
    """The first byte of a stream in iterations 0 to `count`."""
    return lowest(address_of(stream), step_of(stream), count)


def end_of(stream: int, count: int) -> int:
    """The byte after the last."""
    return highest(address_of(stream), step_of(stream), count) + word(stream, 2)


def pattern(state: int, site: int, count: int) -> int:
    """Bytes that repeat, without gaps: what an iteration stores is spread over two periods first."""
    period = load(site + plan.PERIOD)
    buffer = site + load(site + plan.BUFFER)
    stream = site + word(site + load(site + plan.PARTS), 0)
    size = abs(step_of(stream))
    spread = size
    while spread < 2 * period:
        moved(site, buffer + spread, buffer, size)
        spread += size
    start = first_of(stream, count - 1)
    end = start + count * size
    at = start
    while at < end:
        most = min(room(at), end - at)
        tile(site, page(state, at), within(at), most, buffer, (at - start) % period, period)
        at += most
    return count


def tile(site: int, to: int, at: int, size: int, buffer: int, first: int, period: int) -> int:
    """Fill part of a page with a period that a buffer has twice, from its byte `first` on."""
    done = min(-at & INSIDE, size)
    carry(site, to, at, buffer, first, done, 0)
    phase = (first + done) % period
    if period == BLOCK:
        blocks = (size - done) // BLOCK
        repeat_block(to, at + done, buffer, phase, blocks)
        done += BLOCK * blocks
    while done < size:
        most = min(period, size - done)
        carry(site, to, at + done, buffer, phase, most, 0)
        done += most
    return to


def strided(state: int, site: int, count: int, row: int) -> int:
    """One store, iteration by iteration."""
    stream = site + word(row, 0)
    at = address_of(stream) + word(row, 1)
    step = step_of(stream)
    size = word(row, 2)
    source = site + word(row, 3)
    while count:
        here = min(count, on_page(at, step, size))
        if here:
            where = page(state, at)
            STORES[size](where, within(at), step, here, source)
        else:
            for i in range(size):
                put(page(state, at + i), within(at + i), load_byte(source + i), 1)
            here = 1
        at += here * step
        count -= here
    return 0


def storing(size: int) -> Many:
    """Store that many bytes again and again."""

    def store_each(where: int, offset: int, step: int, count: int, source: int) -> int:
        value = load(source)
        for i in range(count):
            put(where, offset + i * step, value, size)
        return 0

    return store_each


def store_pairs(where: int, offset: int, step: int, count: int, source: int) -> int:
    """Store 16 bytes again and again."""
    low = load(source)
    high = load(source + WORD)
    for i in range(count):
        put(where, offset + i * step, low, WORD)
        put(where, offset + i * step + WORD, high, WORD)
    return 0


STORES: Final[dict[int, Many]] = {size: storing(size) for size in SIZES} | {2 * WORD: store_pairs}


# -- copies --------------------------------------------------------------------------------------------------
def copy(state: int, site: int, count: int) -> int:
    """Store what is loaded."""
    row = site + load(site + plan.PARTS)
    source = site + word(row, 3)
    step = step_of(source)
    block = word(row, 2)
    base = address_of(source)
    if not all_held(state, site, base):
        return 0
    size = count * block
    back = size - block if step < 0 else 0
    of = base + word(row, 4) - back
    to = address_of(site + word(row, 0)) - back
    first = of - block if step < 0 else of
    if to < first + size + block and to + size > first:
        allowed = word(row, 5) & (2 if step < 0 else 1)
        if not allowed or (to < of if step < 0 else to > of):
            return 0
    if not claimed(state, site, count):
        return 0
    copy_range(state, site, of, to, size, step < 0)
    for i in range(rows(site, plan.MORE)):
        held = row_at(site, plan.MORE, plan.HELD_ROW, i)
        hold(state, site, register(state, word(held, 0)), held, base + count * step)
    return count


def all_held(state: int, site: int, base: int) -> int:
    """Whether registers hold what the iteration before would have loaded."""
    buffer = site + load(site + plan.BUFFER)
    for i in range(rows(site, plan.MORE)):
        held = row_at(site, plan.MORE, plan.HELD_ROW, i)
        hold(state, site, buffer, held, base)
        for at in range(word(held, 1) // WORD):
            if word(buffer, at) != word(register(state, word(held, 0)), at):
                return 0
    return 1


def hold(state: int, site: int, to: int, held: int, base: int) -> int:
    """Load what a register holds, zeros above, to the host address `to`."""
    for at in range(word(held, 1) // WORD):
        store(to + WORD * at, 0)
    return gathered(state, site, to, base + word(held, 3), word(held, 2))


def copy_range(state: int, site: int, source: int, target: int, size: int, down: int) -> int:
    """Copy guest bytes, from the last on if it goes down."""
    left = size
    while left:
        a = source + (left if down else size - left)
        b = target + (left if down else size - left)
        most = min(within(a - 1), within(b - 1)) + 1 if down else min(room(a), room(b))
        most = min(most, left)
        a -= most if down else 0
        b -= most if down else 0
        carry(site, page(state, b), within(b), page(state, a), within(a), most, down)
        left -= most
    return 0
