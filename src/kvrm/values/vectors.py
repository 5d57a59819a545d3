"""The rows that only vector instructions need: saturating sums and lanes picked by other lanes."""

from __future__ import annotations

from typing import Any

from kvrm.values.bits import Bits, Lift, Primitive, apply, primitive
from kvrm.values.primitives import signed


def _clamp(w: int, value: int) -> int:
    limit = 1 << (w - 1)
    return min(max(value, -limit), limit - 1)


def _intrinsic(name: str) -> Any:
    return lambda e, t, a, b: e.intrinsic(name, t, a, b)


def _emit_pick(e: Any, t: Any, table: Any, index: Any) -> Any:
    out = e.splat(e.const(t.element, 0), t.count)
    inside = e.and_(index, e.const(index.type, table.type.count - 1))
    for i in range(t.count):
        at = e.extract_element(inside, e.index(i))
        out = e.insert_element(out, e.extract_element(table, e.lane_index(table, at)), e.index(i))
    return out


_SQADD = primitive("sqadd", lambda w, a, b: _clamp(w, signed(w, a) + signed(w, b)), _intrinsic("sadd.sat"))
_SQSUB = primitive("sqsub", lambda w, a, b: _clamp(w, signed(w, a) - signed(w, b)), _intrinsic("ssub.sat"))
_UQADD = primitive("uqadd", lambda w, a, b: min(a + b, (1 << w) - 1), _intrinsic("uadd.sat"))
_UQSUB = primitive("uqsub", lambda w, a, b: max(a - b, 0), _intrinsic("usub.sat"))
_PICK = primitive("pick", lambda w, a, ix: [a[i % len(a)] for i in ix], _emit_pick, whole=True)


def _two(row: Primitive, a: Bits, b: Lift) -> Bits:
    return apply(row, a.width, a.lanes, [a, a.like(b)])


def sqadd(a: Bits, b: Lift) -> Bits:
    """Signed sum, clamped to the width."""
    return _two(_SQADD, a, b)


def sqsub(a: Bits, b: Lift) -> Bits:
    """Signed difference, clamped to the width."""
    return _two(_SQSUB, a, b)


def uqadd(a: Bits, b: Lift) -> Bits:
    """Unsigned sum, clamped to the width."""
    return _two(_UQADD, a, b)


def uqsub(a: Bits, b: Lift) -> Bits:
    """Unsigned difference, 0 where it would be negative."""
    return _two(_UQSUB, a, b)


def pick(table: Bits, index: Bits) -> Bits:
    """For each lane of `index`, the lane of `table` with that number, modulo its lanes (a power of two)."""
    return apply(_PICK, table.width, index.lanes, [table, index])
