"""The rows that checksums and ciphers need: bytes looked up in a known table, and products without carries.

Both are portable code on any target: no instruction of a host's own cryptographic extension is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

from kvrm.values.bits import Bits, apply, primitive


@dataclass(frozen=True, slots=True)
class Table:
    """256 known values of `width` bits under a name that no other table has."""

    name: str
    width: int
    entries: tuple[int, ...]


# -- Rows -----------------------------------------------------------------------------------------------


def _emit_lookup(e: Any, t: Any, index: Any, table: Table) -> Any:
    element = e.resized_scalar(t)
    base = e.constants(f"table.{table.name}", element, table.entries)
    return e.lane_by_lane(t, lambda i: e.load_element(base, i, element), index)


def _carryless(w: int, a: int, b: int) -> int:
    return reduce(xor, (a << i for i in range(w) if b >> i & 1), 0)


SPACING = 5
"""Every fifth bit of a factor: up to 31 of them fit, as the sum in any column of their product does."""


def _every(width: int, start: int) -> int:
    return sum(1 << i for i in range(start, width, SPACING))


def _emit_carryless(e: Any, t: Any, a: Any, b: Any) -> Any:
    """Ordinary products of bits so far apart that carries never reach the next column that is looked at."""
    w, full = e.width(a), e.width_of(t)
    left, right = (
        [e.zext(e.and_(x, e.const(x.type, _every(w, i))), t) for i in range(SPACING)] for x in (a, b)
    )
    out = e.const(t, 0)
    for column in range(SPACING):
        products = [e.mul(left[i], right[(column - i) % SPACING]) for i in range(SPACING)]
        parity = e.and_(reduce(e.xor, products), e.const(t, _every(full, column)))
        out = e.or_(out, parity)
    return out


_LOOKUP = primitive("lookup", lambda w, index, table: table.entries[index], _emit_lookup)
_CARRYLESS = primitive("carryless", _carryless, _emit_carryless)


def lookup(index: Bits, table: Table) -> Bits:
    """For each byte of `index`, the table's entry."""
    return apply(_LOOKUP, table.width, index.lanes, [index], table)


def carryless_product(a: Bits, b: Bits) -> Bits:
    """The whole product, twice as wide, of two polynomials over GF(2) of at most 64 bits."""
    return apply(_CARRYLESS, 2 * a.width, a.lanes, [a, a.like(b)])
