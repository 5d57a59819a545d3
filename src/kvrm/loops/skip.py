"""The function that skips iterations: kernels (`kvrm.staging.kernel`) over what a target has of its own.

It decides from registers, budget and permissions how many iterations can be skipped at this entry, and has
the effect of these iterations. The words of a site are in `kvrm.loops.plan`, the operations of targets in
`kvrm.loops.guest_pages`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvrm.loops import plan
from kvrm.loops.bulk import copy, fill
from kvrm.loops.guest_pages import pages_for, pages_left, untagged
from kvrm.loops.plan import ALL, form, row_at, rows, signed, word
from kvrm.loops.scans import reduction, search
from kvrm.loops.structure import Effect
from kvrm.memory import PAGE, VA_END
from kvrm.staging.host import below, load, store

MOST_ITERATIONS: Final = 1 << 24
"""Iterations that are skipped at once, at most: no product with a step that is allowed overflows."""
MOST_STEP: Final = 1 << 38


def pure(state: int, site: int, count: int) -> int:
    return count


EFFECTS: Final[dict[int, Callable[[int, int, int], int]]] = {
    Effect.PURE: pure,
    Effect.FILL: fill,
    Effect.COPY: copy,
    Effect.REDUCTION: reduction,
    Effect.SEARCH: search,
}


def skipped(state: int, site: int, budget: int) -> int:
    """Skip iterations; how many, 0 if that is not worth it or not allowed."""
    fewest = load(site + plan.LEAST)
    affordable = budget // load(site + plan.COST)
    if affordable <= fewest:
        return 0
    count = min(affordable - 1, MOST_ITERATIONS)
    if load(site + plan.EXIT):
        count = min(count, iterations(state, site, site + load(site + plan.EXIT)))
    for i in range(rows(site, plan.GUARDS)):
        count = min(count, iterations(state, site, row_at(site, plan.GUARDS, plan.INTERVAL_ROW, i)) - 1)
    for i in range(rows(site, plan.STREAMS)):
        if count < fewest:
            return 0
        count = min(count, followed(state, site, row_at(site, plan.STREAMS, plan.STREAM_ROW, i), count))
    if count < fewest:
        return 0
    done = EFFECTS[load(site + plan.EFFECT)](state, site, count)
    if done < 1:
        return 0
    for i in range(rows(site, plan.MOVING)):
        row = row_at(site, plan.MOVING, plan.MOVING_ROW, i)
        place = state + word(row, 0)
        store(place, (load(place) + form(state, site, word(row, 2)) * done) & word(row, 1))
    return done


def iterations(state: int, site: int, row: int) -> int:
    """How many iterations the distance surely stays in an interval."""
    mask = word(row, 3)
    shift = word(row, 4)
    distance = form(state, site, word(row, 0)) & mask
    length = form(state, site, word(row, 1)) & mask
    step = signed(form(state, site, word(row, 2)) << shift) >> shift
    if (word(row, 5) and length == mask) or below(length, distance):
        return 0
    if step == 0:
        return MOST_ITERATIONS
    ahead = distance if step < 0 else length - distance
    whole = (ahead & ALL) // abs(step)
    return whole + 1 if below(whole, MOST_ITERATIONS) else MOST_ITERATIONS


def followed(state: int, site: int, row: int, count: int) -> int:
    """Note where a stream is; how many of `count` iterations may access it and leave one more.

    It is less than 0 where there are none.

    A search finds out itself.
    """
    address = untagged(form(state, site, word(row, 0)))
    step = form(state, site, word(row, 1))
    store(row + plan.STREAM_ADDRESS, address)
    store(row + plan.STREAM_STEP, step)
    if not below(abs(step), MOST_STEP):
        return -1
    if load(site + plan.EFFECT) == Effect.SEARCH:
        return count
    before = word(row, 5)
    return permitted(state, row, untagged(address - before * step), step, count + before) - 1 - before


def permitted(state: int, row: int, address: int, step: int, count: int) -> int:
    """How many iterations may access a stream that begins at `address`: at most `count` + 1."""
    size = word(row, 2)
    asked = word(row, 3)
    wanted = word(row, 4)
    left = pages_left(state)
    new = 0
    if address >= VA_END:
        return 0
    end = address + size
    travel = count * abs(step)
    up = end if step < 0 else end + travel
    high = address & -PAGE
    while high < min(up, VA_END):
        more = pages_for(state, high, asked, wanted)
        new += more
        if more < 0 or below(left, new):
            break
        high += PAGE
    reached = min(high, up)
    if reached < end:
        return 0
    if step == 0:
        return count + 1
    if step > 0:
        return (reached - end) // step + 1
    down = address - min(travel, address)
    low = address & -PAGE
    while low > down:
        more = pages_for(state, low - PAGE, asked, wanted)
        new += more
        if more < 0 or below(left, new):
            break
        low -= PAGE
    return (address - max(low, down)) // abs(step) + 1
