"""The space of a lane as handlers have it: the page table that its state points to.

Only the host, or the loop of lanes, resolves what the table does not have: handlers leave for that.
"""

from __future__ import annotations

from typing import Final

from kvrm.lane import words as layout
from kvrm.memory import R_BIT, W_BIT, access, flat
from kvrm.memory.space import Space
from kvrm.staging.host import apart, load_byte, store_byte
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


def take(state: Array, entry: int, offset: int, to: int, size: int) -> int:
    """Byte by byte: accesses of an instruction are small."""
    start = flat.page(entry) + offset
    for i in range(size):
        store_byte(to + i, load_byte(start + i))
    return to


def give(state: Array, entry: int, offset: int, source: int, size: int) -> int:
    """As `take`."""
    start = flat.page(entry) + offset
    for i in range(size):
        store_byte(start + i, load_byte(source + i))
    return source


OPERATIONS: Operations = {**HOST, **standing_for(Space, entry, allows, resolve, take, give)}


# Functions of a module of handlers: they are rare, and one copy serves all accesses of its handlers.
@apart
def read(state: Space, address: int, size: int, to: int) -> int:
    """Copy from the guest: how many bytes come before the first that is refused; then nothing is copied."""
    return access.transfer(state, address, size, R_BIT, to)


@apart
def write(state: Space, address: int, size: int, source: int) -> int:
    """Copy to the guest; the result as that of `read`."""
    return access.transfer(state, address, size, W_BIT, source)
