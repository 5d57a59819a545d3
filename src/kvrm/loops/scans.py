"""The effects of many iterations at once that load: reductions and searches, as kernels for any target.

They are as those of `kvrm.loops.bulk`; a search checks permissions itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvrm.loops import plan
from kvrm.loops.bulk import SIZES, Many, address_of, gathered, on_page, step_of
from kvrm.loops.effects import Operation
from kvrm.loops.guest_pages import find, loaded, page, pages_for, untagged
from kvrm.loops.plan import form, row_at, rows, word
from kvrm.memory import VA_END
from kvrm.memory.space import within
from kvrm.staging.host import below, load, store

Value = Callable[[int, int], int]
Stay = Callable[[int, int, int, int, int, int, int, int], int]


# -- reductions ----------------------------------------------------------------------------------------------
def reduction(state: int, site: int, count: int) -> int:
    """Registers take in what is loaded."""
    for i in range(rows(site, plan.PARTS)):
        row = row_at(site, plan.PARTS, plan.FOLD_ROW, i)
        total = folded(state, site, count, row) * word(row, 5)
        place = state + word(row, 6)
        store(place, combined(word(row, 3) >> 5, load(place), total) & word(row, 7))
    return count


def folded(state: int, site: int, count: int, row: int) -> int:
    """What one load loads in all iterations, combined page by page."""
    stream = site + word(row, 0)
    at = address_of(stream) + word(row, 1)
    step = step_of(stream)
    size = word(row, 2)
    total = word(row, 4)
    while count:
        here = min(count, on_page(at, step, size))
        where = page(state, at)
        offset = within(at)
        if here == 0:
            where = gathered(state, site, site + load(site + plan.BUFFER), at, size)
            offset = 0
            here = 1
        total = FOLDS[word(row, 3)](where, offset, step, here, total)
        at += here * step
        count -= here
    return total


def reading(size: int, signed: bool) -> Value:
    """A number of that many bytes in a page."""
    top = 1 << (8 * size - 1) if signed else 0

    def value(where: int, offset: int) -> int:
        return (loaded(where, offset, size) ^ top) - top

    return value


def combined(operation: int, a: int, b: int) -> int:
    """What an operation makes of two numbers."""
    if operation == Operation.ADD:
        return a + b
    if operation == Operation.XOR:
        return a ^ b
    return a | b if operation == Operation.OR else a & b


def folding(operation: int, value: Value) -> Many:
    """Combine values of a page with a total."""

    def fold(where: int, offset: int, step: int, count: int, total: int) -> int:
        for i in range(count):
            total = combined(operation, total, value(where, offset + i * step))
        return total

    return fold


VALUES: Final = {size | signed << 4: reading(size, signed) for size in SIZES for signed in (False, True)}
FOLDS: Final = {
    kind | operation << 5: folding(operation, value)
    for kind, value in VALUES.items()
    for operation in Operation
}


# -- searches ------------------------------------------------------------------------------------------------
def search(state: int, site: int, count: int) -> int:
    """Iterations whose loaded value stays in the interval; one less where a page is not permitted."""
    row = site + load(site + plan.PARTS)
    stream = site + word(row, 0)
    size = word(row, 2)
    kind = word(row, 3)
    times = word(row, 4)
    mask = word(row, 7)
    at = untagged(address_of(stream) + word(row, 1))
    step = step_of(stream)
    rest = form(state, site, word(row, 5)) & mask
    length = form(state, site, word(row, 6)) & mask
    if word(row, 8) and length == mask:
        return 0
    sought = (mask - rest) * times & mask
    single = kind == 1 and step == 1 and length == mask - 1 and below(sought, 256)
    done = 0
    while done < count:
        here = min(count - done, on_page(at, step, size))
        if at >= VA_END or here == 0 or pages_for(state, at, word(stream, 3), word(stream, 4)):
            break
        where = page(state, at)
        if single:
            same = find(site, where, within(at), sought, here)
        else:
            same = STAYING[kind](where, within(at), step, here, times, rest, length, mask)
        done += same
        if same != here:
            return done
        at = untagged(at + here * step)
    return max(done - 1, 0)


def staying(value: Value) -> Stay:
    """How many values of a page, one after another, are in an interval."""

    def stay(
        where: int, offset: int, step: int, count: int, times: int, rest: int, length: int, mask: int
    ) -> int:
        for i in range(count):
            if below(length, (value(where, offset + i * step) * times + rest) & mask):
                return i
        return count

    return stay


STAYING: Final = {kind: staying(value) for kind, value in VALUES.items()}
