"""The guest's memory as the functions that skip iterations see it: operations, and what they are on the CPU.

A *page* of the guest's memory is known by a number, and what is in it by its offset there. On the CPU that is
the host address of its first byte. A host address that is a multiple of 8 serves as a page too. A GPU has
operations of its own (`kvrm.loops.device`); `site` has the words of a loop (`kvrm.loops.plan`).
"""

from __future__ import annotations

from ctypes import memmove, string_at
from typing import Final

from kvrm.lane import words as layout
from kvrm.loops import plan
from kvrm.loops.plan import ALL, BLOCK, WORD
from kvrm.memory import flat
from kvrm.staging.host import load, move, position

UNTAGGED: Final = (1 << 56) - 1
REFUSED: Final = -1
"""Instead of a number of pages."""


# -- addresses -----------------------------------------------------------------------------------------------
def untagged(address: int) -> int:
    """Without the top byte."""
    return address & UNTAGGED


def lowest(address: int, step: int, count: int) -> int:
    """The lowest address that is reached in `count` steps."""
    return address + min(step * count, 0)


def highest(address: int, step: int, count: int) -> int:
    """The highest address that is reached."""
    return address + max(step * count, 0)


# -- what each target has of its own -------------------------------------------------------------------------
def register(state: int, offset: int) -> int:
    """The host address of a register that may be a SIMD register."""
    return state + offset


def pages_for(state: int, address: int, asked: int, wanted: int) -> int:
    """How many pages the lane must get for an access to the page of an untagged address that is in range.

    REFUSED if the `asked` bits of the page's permissions are not the `wanted` ones. On the CPU a page that
    may be written is the lane's own.
    """
    return 0 if _entry(state, address) & asked == wanted else REFUSED


def pages_left(state: int) -> int:
    """How many pages the lane may get."""
    return 0


def lacking(state: int, address: int, step: int, size: int, count: int, take: int) -> int:
    """How many pages the lane must get to store `size` bytes at each of `count` addresses.

    With `take` it gets them first. REFUSED if it may not, or if that takes a look at too many pages.
    """
    return 0


def page(state: int, address: int) -> int:
    """The page of an address, which may be accessed."""
    return flat.page(_entry(state, address))


def loaded(where: int, offset: int, size: int) -> int:
    """The 1, 2, 4 or 8 bytes at any offset in a page, as an unsigned number; `size` is a constant."""
    return int.from_bytes(string_at(where + offset, size), "little")


def put(where: int, offset: int, value: int, size: int) -> int:
    """Store the 1, 2, 4 or 8 low bytes at any offset in a page of guest memory; `size` is a constant."""
    memmove(where + offset, (value & ALL).to_bytes(WORD, "little"), size)
    return value


def carry(site: int, to: int, at: int, of: int, start: int, size: int, down: int) -> int:
    """Copy bytes from page `of` to page `to`, which may be the same: from the last on, if it goes down."""
    return move(load(site + plan.MOVE), to + at, of + start, size)


def repeat_block(to: int, at: int, buffer: int, start: int, count: int) -> int:
    """Store a block again and again, from where a word of a page begins."""
    memmove(to + at, string_at(buffer + start, BLOCK) * count, BLOCK * count)
    return to


def find(site: int, where: int, offset: int, byte: int, count: int) -> int:
    """How many of `count` bytes are before the first that is that one; `count` if none is."""
    return position(load(site + plan.FIND), where + offset, byte, count)


def _entry(state: int, address: int) -> int:
    return flat.entry(load(state + layout.PAGE_TABLE), address)
