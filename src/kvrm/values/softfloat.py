"""Exact AArch64 floating point on bit patterns: arithmetic and comparison.

    >>> hex(fadd(0x3FF0000000000000, 0x4000000000000000, 64))
    '0x4008000000000000'

Operands and results are Python ints, masked to `width` (16, 32 or 64) bits. `fpcr` has the layout of FPCR, of
which RMode, FZ, DN, AHP and FZ16 count. Exceptions are added to `flags`, which can be left out:

    >>> flags = Flags()
    >>> hex(fdiv(0x3F800000, 0, 32, 0, flags)), flags.bits == DZC
    ('0x7f800000', True)

The operations follow the shared pseudocode of the Arm ARM (J1.3, functions FP...). What the instructions
do around them (negated operands of FMSUB, absolute values of FACGE) is left to the instructions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from kvrm.values.softfloat_core import (
    DISCARD,
    DZC,
    FORMATS,
    IOC,
    IXC,
    RMODE,
    Flags,
    Format,
    flush_input,
    invalid,
    is_nan,
    is_signalling,
    propagate_nan,
    round_pack,
    split,
    zero_sum,
)


def _on_host(op: Callable[[float, float], float], a: int, b: int, f: Format) -> int | None:
    """What the host computes, or None unless that is sure to be the correctly rounded result, ties to even.

    It is for normal operands and a result away from underflow and overflow. In the narrower formats the host
    rounds to 53 bits and then again, which is harmless for + - * / as 53 >= 2 * 24 + 2.
    """
    x, y = f.to_floats(a, b)
    low = f.low
    if abs(x) >= low and abs(y) >= low:
        z = op(x, y)
        if low <= abs(z) <= f.high:
            return f.to_bits(z)
    return None


def fadd(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """`a` + `b` (FPAdd)."""
    f = FORMATS[width]
    if flags.bits & IXC and not fpcr & RMODE:
        quick = _on_host(operator.add, a, b, f)
        if quick is not None:
            return quick
    return _add(a, b, 0, f, fpcr, flags)


def fsub(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """`a` - `b` (FPSub)."""
    f = FORMATS[width]
    if flags.bits & IXC and not fpcr & RMODE:
        quick = _on_host(operator.sub, a, b, f)
        if quick is not None:
            return quick
    return _add(a, b, f.sign, f, fpcr, flags)


def _add(a: int, b: int, negate: int, f: Format, fpcr: int, flags: Flags) -> int:
    """`a` + (`b` ^ `negate`), where a NaN `b` is not negated."""
    a = flush_input(a, f, fpcr, flags)
    b = flush_input(b, f, fpcr, flags)
    if is_nan(a, f) or is_nan(b, f):
        return propagate_nan(f, fpcr, flags, a, b)
    b ^= negate
    if a & f.magnitude == f.infinity:
        return invalid(f, flags) if b == a ^ f.sign else a
    if b & f.magnitude == f.infinity:
        return b
    ma, ea = split(a, f)
    mb, eb = split(b, f)
    return _sum(ma, ea, a & f.sign, mb, eb, b & f.sign, f, fpcr, flags)


def _sum(
    ma: int, ea: int, sa: int, mb: int, eb: int, sb: int, f: Format, fpcr: int, flags: Flags, scale: int = 0
) -> int:
    """The rounded sum of two finite numbers (significand, exponent, sign bit), times 2**scale."""
    rounding = fpcr >> 22 & 3
    e = min(ea, eb)
    x = ma << (ea - e)
    y = mb << (eb - e)
    total = (-x if sa else x) + (-y if sb else y)
    if total:
        return round_pack(total < 0, abs(total), e + scale, f, rounding, fpcr, flags)
    return sa if sa == sb and not x else zero_sum(f, rounding)


def fmul(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """`a` * `b` (FPMul)."""
    f = FORMATS[width]
    if flags.bits & IXC and not fpcr & RMODE:
        quick = _on_host(operator.mul, a, b, f)
        if quick is not None:
            return quick
    return _mul(a, b, f.default_nan, f, fpcr, flags)


def fmulx(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """`a` * `b`, where infinity times zero is 2 with the product's sign (FPMulX)."""
    f = FORMATS[width]
    return _mul(a, b, f.bias + 1 << f.fraction, f, fpcr, flags)


def _mul(a: int, b: int, infinity_by_zero: int, f: Format, fpcr: int, flags: Flags) -> int:
    """`a` * `b`; `infinity_by_zero` is a magnitude, or the default NaN for an invalid operation."""
    a = flush_input(a, f, fpcr, flags)
    b = flush_input(b, f, fpcr, flags)
    if is_nan(a, f) or is_nan(b, f):
        return propagate_nan(f, fpcr, flags, a, b)
    sign = (a ^ b) & f.sign
    x = a & f.magnitude
    y = b & f.magnitude
    if x == f.infinity or y == f.infinity:
        if x and y:
            return sign | f.infinity
        return invalid(f, flags) if infinity_by_zero == f.default_nan else sign | infinity_by_zero
    if not x or not y:
        return sign
    ma, ea = split(x, f)
    mb, eb = split(y, f)
    return round_pack(sign != 0, ma * mb, ea + eb, f, fpcr >> 22 & 3, fpcr, flags)


def fdiv(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """`a` / `b` (FPDiv)."""
    f = FORMATS[width]
    if flags.bits & IXC and not fpcr & RMODE:
        quick = _on_host(operator.truediv, a, b, f)
        if quick is not None:
            return quick
    a = flush_input(a, f, fpcr, flags)
    b = flush_input(b, f, fpcr, flags)
    if is_nan(a, f) or is_nan(b, f):
        return propagate_nan(f, fpcr, flags, a, b)
    sign = (a ^ b) & f.sign
    x = a & f.magnitude
    y = b & f.magnitude
    if x == y and x in (0, f.infinity):
        return invalid(f, flags)
    if x == f.infinity:
        return sign | f.infinity
    if not y:
        flags.bits |= DZC
        return sign | f.infinity
    if not x or y == f.infinity:
        return sign
    ma, ea = split(x, f)
    mb, eb = split(y, f)
    shift = max(0, f.fraction + 3 + mb.bit_length() - ma.bit_length())
    q, rest = divmod(ma << shift, mb)
    return round_pack(sign != 0, q | (rest != 0), ea - eb - shift, f, fpcr >> 22 & 3, fpcr, flags)


def fsqrt(a: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """The square root of a (FPSqrt)."""
    f = FORMATS[width]
    if flags.bits & IXC and not fpcr & RMODE and f.hidden <= a < f.infinity:
        return f.to_bits(math.sqrt(f.to_floats(a, a)[0]))
    a = flush_input(a, f, fpcr, flags)
    if is_nan(a, f):
        return propagate_nan(f, fpcr, flags, a)
    if not a & f.magnitude or a == f.infinity:
        return a
    if a & f.sign:
        return invalid(f, flags)
    m, e = split(a, f)
    shift = 2 * f.fraction + 6 - m.bit_length()
    shift += (e - shift) & 1
    m <<= shift
    root = math.isqrt(m)
    return round_pack(False, root | (root * root != m), (e - shift) // 2, f, fpcr >> 22 & 3, fpcr, flags)


def fmuladd(addend: int, a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """`addend` + `a` * `b`, rounded once (FPMulAdd)."""
    return _muladd(addend, a, b, 0, FORMATS[width], fpcr, flags)


def _muladd(addend: int, a: int, b: int, scale: int, f: Format, fpcr: int, flags: Flags) -> int:
    """(addend + a * b) * 2**scale, rounded once."""
    c = flush_input(addend, f, fpcr, flags)
    a = flush_input(a, f, fpcr, flags)
    b = flush_input(b, f, fpcr, flags)
    x = a & f.magnitude
    y = b & f.magnitude
    undefined = (x == f.infinity and not y) or (y == f.infinity and not x)
    if is_nan(a, f) or is_nan(b, f) or is_nan(c, f):
        if undefined and not is_signalling(c, f):
            return invalid(f, flags)
        return propagate_nan(f, fpcr, flags, c, a, b)
    sign = (a ^ b) & f.sign
    infinite = x == f.infinity or y == f.infinity
    if undefined or (infinite and c == sign ^ f.sign | f.infinity):
        return invalid(f, flags)
    if infinite:
        return sign | f.infinity
    if c & f.magnitude == f.infinity:
        return c
    ma, ea = split(x, f)
    mb, eb = split(y, f)
    mc, ec = split(c, f)
    return _sum(mc, ec, c & f.sign, ma * mb, ea + eb, sign, f, fpcr, flags, scale)


def frecps(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """2 - a * b, rounded once; infinity times zero counts as zero (FPRecipStepFused)."""
    f = FORMATS[width]
    return _step(a, b, f.bias + 1 << f.fraction, 0, f, fpcr, flags)


def frsqrts(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """(3 - a * b) / 2, rounded once; infinity times zero counts as zero (FPRSqrtStepFused)."""
    f = FORMATS[width]
    return _step(a, b, (f.bias + 1 << f.fraction) | f.quiet, -1, f, fpcr, flags)


def _step(a: int, b: int, base: int, scale: int, f: Format, fpcr: int, flags: Flags) -> int:
    """(base - a * b) * 2**scale; a NaN `a` is negated."""
    a = flush_input(a, f, fpcr, flags) ^ f.sign
    b = flush_input(b, f, fpcr, flags)
    if {a & f.magnitude, b & f.magnitude} == {0, f.infinity}:
        a = b = 0
    return _muladd(base, a, b, scale, f, fpcr, flags)


def _order(a: int, f: Format) -> int:
    """An int that compares as the number `a` does."""
    return -(a & f.magnitude) if a & f.sign else a


def fmax(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """The larger number; a NaN operand wins, and +0 is above -0 (FPMax)."""
    f = FORMATS[width]
    a = flush_input(a, f, fpcr, flags)
    b = flush_input(b, f, fpcr, flags)
    if is_nan(a, f) or is_nan(b, f):
        return propagate_nan(f, fpcr, flags, a, b)
    if not (a | b) & f.magnitude:
        return a & b
    return a if _order(a, f) > _order(b, f) else b


def fmin(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """The smaller number; a NaN operand wins, and -0 is below +0 (FPMin)."""
    f = FORMATS[width]
    a = flush_input(a, f, fpcr, flags)
    b = flush_input(b, f, fpcr, flags)
    if is_nan(a, f) or is_nan(b, f):
        return propagate_nan(f, fpcr, flags, a, b)
    if not (a | b) & f.magnitude:
        return a | b
    return a if _order(a, f) < _order(b, f) else b


def _replace_quiet(a: int, b: int, substitute: int, f: Format) -> tuple[int, int]:
    """The operands, with the quiet NaN replaced if one is a quiet NaN and the other a number."""
    if is_nan(a, f) and not is_nan(b, f) and a & f.quiet:
        return substitute, b
    if is_nan(b, f) and not is_nan(a, f) and b & f.quiet:
        return a, substitute
    return a, b


def fmaxnm(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """The larger number, where a number wins against a quiet NaN (FPMaxNum)."""
    f = FORMATS[width]
    a, b = _replace_quiet(a, b, f.sign | f.infinity, f)
    return fmax(a, b, width, fpcr, flags)


def fminnm(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """The smaller number, where a number wins against a quiet NaN (FPMinNum)."""
    f = FORMATS[width]
    a, b = _replace_quiet(a, b, f.infinity, f)
    return fmin(a, b, width, fpcr, flags)


def _compare(a: int, b: int, width: int, signal_all: bool, fpcr: int, flags: Flags) -> int | None:
    """An int with the sign of a - b, or None if they are unordered."""
    f = FORMATS[width]
    a = flush_input(a, f, fpcr, flags)
    b = flush_input(b, f, fpcr, flags)
    if is_nan(a, f) or is_nan(b, f):
        if signal_all or is_signalling(a, f) or is_signalling(b, f):
            flags.bits |= IOC
        return None
    return _order(a, f) - _order(b, f)


def fcmp(a: int, b: int, width: int, signal_all: bool = False, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """NZCV (N = 8, Z = 4, C = 2, V = 1) of comparing a with b (FPCompare).

    `signal_all` makes quiet NaNs invalid as well, as FCMPE does.
    """
    difference = _compare(a, b, width, signal_all, fpcr, flags)
    if difference is None:
        return 0b0011
    if difference == 0:
        return 0b0110
    return 0b1000 if difference < 0 else 0b0010


def fcmpeq(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> bool:
    """`a` == `b`; only a signalling NaN is invalid (FPCompareEQ)."""
    return _compare(a, b, width, False, fpcr, flags) == 0


def fcmpge(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> bool:
    """`a` >= `b`; every NaN is invalid (FPCompareGE)."""
    difference = _compare(a, b, width, True, fpcr, flags)
    return difference is not None and difference >= 0


def fcmpgt(a: int, b: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> bool:
    """`a` > `b`; every NaN is invalid (FPCompareGT)."""
    difference = _compare(a, b, width, True, fpcr, flags)
    return difference is not None and difference > 0
