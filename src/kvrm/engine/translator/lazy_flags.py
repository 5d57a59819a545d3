"""Flags between the blocks of a region: after a comparison its operands are kept, not what they say.

The operands of `cmp` are mostly registers that live on anyway; the flags that a loop leaves with every
iteration are then computed only where the region ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from kvrm.engine.interpreter import flags as facets_of
from kvrm.isa.context import Flags
from kvrm.staging.emitter import I32, I64, Emitter, i64
from kvrm.values import Bits

FACETS, SUB64, SUB32 = range(3)
"""What the slots hold: the interpreter's four facets, or the operands of a subtraction."""


class LazyFlags:
    """The slots of the flags in a region under construction; `entry` are the facets that it starts with."""

    def __init__(self, e: Emitter, slot: Callable[..., ir.Value], entry: list[ir.Value]) -> None:
        self._e = e
        self._kind = slot("flags_kind", I64, i64(FACETS))
        self._facets = [slot(f"flags_{i}", I64, facet) for i, facet in enumerate(entry)]
        self._x, self._y = slot("flags_x", I64, i64(0)), slot("flags_y", I64, i64(0))

    def store(self, nzcv: Flags, value: Callable[[Bits], ir.Value]) -> None:
        """Keep flags for other blocks."""
        e, pair = self._e, subtraction(nzcv)
        if pair is None:
            facets = facets_of.write(e, nzcv, [value(f) for f in nzcv])
            for slot, facet in zip(self._facets, facets, strict=True):
                e.store(facet, slot)
            e.store(i64(FACETS), self._kind)
            return
        for slot, operand in zip((self._x, self._y), pair, strict=True):
            wide = value(operand)
            e.store(wide if operand.width == 64 else e.zext(wide, I64), slot)
        e.store(i64(SUB64 if pair[0].width == 64 else SUB32), self._kind)

    def load(self) -> list[ir.Value]:
        e = self._e
        kind, x, y = (e.load(slot, typ=I64) for slot in (self._kind, self._x, self._y))
        kept = [e.load(slot, typ=I64) for slot in self._facets]
        difference, overflow = self._subtracted(x, y)
        low, low_overflow = self._subtracted(e.trunc(x, I32), e.trunc(y, I32))
        low, low_overflow = e.sext(low, I64), e.sext(low_overflow, I64)
        wide = e.icmp_unsigned("==", kind, i64(SUB64))
        carry = e.zext(e.icmp_unsigned(">=", x, y), I64)
        made = [
            e.select(wide, difference, low),
            e.select(wide, difference, low),
            carry,
            e.select(wide, overflow, low_overflow),
        ]
        plain = e.icmp_unsigned("==", kind, i64(FACETS))
        return [e.select(plain, old, new) for old, new in zip(kept, made, strict=True)]

    def _subtracted(self, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
        """x - y, and a value that is negative if that overflowed."""
        e = self._e
        difference = e.sub(x, y)
        return difference, e.and_(e.xor(x, y), e.xor(x, difference))


def subtraction(nzcv: Flags) -> tuple[Bits, Bits] | None:
    """x and y, if these are the flags of x - y."""
    n, z, c, v = nzcv
    pair = signed_less(n, v)
    zero, carry = facets_of.made_by(z, "eq"), facets_of.made_by(c, "ule")
    total = facets_of.sign_of(n)
    if pair is None or zero is None or carry is None or total is None:
        return None
    x, y = pair
    fits = _are(zero.args, (total, total.like(0))) and _are(carry.args, (y, x)) and x.width in (32, 64)
    return pair if fits else None


def signed_less(n: Bits, v: Bits) -> tuple[Bits, Bits] | None:
    """x and y, if N and V are those of x - y: then N != V says x < y."""
    difference, overflow = facets_of.sign_of(n), facets_of.sign_of(v)
    if difference is None or overflow is None or difference.width != overflow.width:
        return None
    sub, both = facets_of.made_by(difference, "sub"), facets_of.made_by(overflow, "and")
    if sub is None or both is None:
        return None
    x, y = sub.args
    one, other = (facets_of.made_by(a, "xor") for a in both.args)
    if one is None or other is None:
        return None
    return (x, y) if _are(one.args, (x, y)) and _are(other.args, (x, difference)) else None


def _are(found: Any, wanted: tuple[Bits, Bits]) -> bool:
    return all(
        a.payload is b.payload or (a.known and b.known and a.payload == b.payload)
        for a, b in zip(found, wanted, strict=True)
    )
