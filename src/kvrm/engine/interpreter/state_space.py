"""The space of a lane as handlers have it: the page table that its state points to.

Only the host, or the loop of lanes, resolves what the table does not have: handlers leave for that. What an
instruction accesses is small and mostly lies on two pages here, so it is moved by aligned words that are put
together in registers: a processor waits long for a word that was written to memory byte by byte.
"""

from __future__ import annotations

from typing import Final

from kvrm.lane import words as layout
from kvrm.memory import R_BIT, W_BIT, access, flat
from kvrm.memory.space import Space, within
from kvrm.staging.host import apart, load, store
from kvrm.staging.kernel import Array
from kvrm.staging.operations import HOST, Operations, standing_for

TABLE: Final = layout.PAGE_TABLE // 8


def entry(state: Array, address: int) -> int:
    """From the page table."""
    return flat.entry(state[TABLE], address)


def allows(state: Array, entry: int, kind: int) -> int:
    """By the entry's bits."""
    return flat.allows(entry, kind)


def resolve(state: Array, address: int, kind: int) -> int:
    """Refused here."""
    return 0


OPERATIONS: Operations = {**HOST, **standing_for(Space, entry, allows, resolve)}


def word_with(state: Space, address: int) -> int:
    """The host address of the aligned word that has a byte of the guest's, on a page that the table has."""
    return flat.page(state.entry(address)) + (within(address) & -8)


def lower(word: int, shift: int) -> int:
    """A word shifted to the right by less than 64, zeros coming in."""
    return (word >> shift) & ((1 << (63 - shift) << 1) - 1)


def upper(word: int, shift: int) -> int:
    """The bits that leave a word that is shifted to the left."""
    return lower(word, 1) >> (63 - shift)


# Functions of a module of handlers: they are rare, and one copy serves all accesses of its handlers.
@apart
def read(state: Space, address: int, size: int, to: int) -> int:
    """Copy from the guest to words: how many bytes come before the first that is refused, or all."""
    done = access.reached(state, address, size, R_BIT)
    if done == size:
        shift = 8 * (address & 7)
        for i in range((size + 7) >> 3):
            first = load(word_with(state, address + 8 * i))
            last = load(word_with(state, address + min(8 * i + 8, size) - 1))
            store(to + 8 * i, lower(first, shift) | (last << 1 << (63 - shift)))
    return done


@apart
def write(state: Space, address: int, size: int, source: int) -> int:
    """Copy from words to the guest, nothing unless all may be written; the result as that of `read`."""
    done = access.reached(state, address, size, W_BIT)
    if done == size:
        shift = 8 * (address & 7)
        for i in range((size + 7) >> 3):
            count = min(size - 8 * i, 8)
            mask = lower(-1, 64 - 8 * count)
            value = load(source + 8 * i) & mask
            first = word_with(state, address + 8 * i)
            store(first, (load(first) & ~(mask << shift)) | (value << shift))
            last = word_with(state, address + 8 * i + count - 1)
            store(last, (load(last) & ~upper(mask, shift)) | upper(value, shift))
    return done
