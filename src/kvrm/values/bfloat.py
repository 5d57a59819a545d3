"""Rows of bfloat16, the upper half of a single. Conversion follows FPCR; sums and products do not.

BFAdd() and BFMul() flush subnormals, round to odd, and give the default NaN for every NaN.
"""

from __future__ import annotations

from typing import Any

from kvrm.values.bits import Bits, apply, primitive
from kvrm.values.softfloat_core import (
    DN,
    FORMATS,
    IOC,
    Format,
    Rounding,
    flags_of,
    flush_input,
    is_nan,
    is_signalling,
    round_pack,
    rounding_mode,
    shift_round,
    split,
)

SINGLE, DOUBLE = FORMATS[32], FORMATS[64]
BFLOAT16 = Format(16, 7, -126, 0x7F80, "e")
NARROWING = DOUBLE.fraction - SINGLE.fraction

# -- Sums and products of singles, exact and then rounded to odd ------------------------------------------


def _flushed(x: int) -> int:
    return x if x & SINGLE.magnitude >= SINGLE.hidden else x & SINGLE.sign


def _to_odd(negative: bool, m: int, exponent: int) -> int:
    """BFRound() of m * 2**exponent (m > 0): to odd, but to zero below and infinity above normal numbers."""
    sign = SINGLE.sign if negative else 0
    top = m.bit_length() - 1 + exponent
    if top < SINGLE.min_exponent:
        return sign
    if top > SINGLE.bias:
        return sign | SINGLE.infinity
    significand, _ = shift_round(m, top - SINGLE.fraction - exponent, negative, Rounding.ODD)
    return sign | (top - SINGLE.min_exponent << SINGLE.fraction) + significand


def _sum(w: int, a: int, b: int) -> int:
    a, b = _flushed(a), _flushed(b)
    infinite = [x for x in (a, b) if x & SINGLE.magnitude == SINGLE.infinity]
    if is_nan(a, SINGLE) or is_nan(b, SINGLE) or (len(infinite) == 2 and a != b):
        return SINGLE.default_nan
    if infinite:
        return infinite[0]
    (ma, ea), (mb, eb) = split(a, SINGLE), split(b, SINGLE)
    exponent = min(ea, eb)
    x, y = ma << ea - exponent, mb << eb - exponent
    total = (-x if a & SINGLE.sign else x) + (-y if b & SINGLE.sign else y)
    return _to_odd(total < 0, abs(total), exponent) if total else a & b & SINGLE.sign


def _product(w: int, a: int, b: int) -> int:
    a, b = _flushed(a), _flushed(b)
    sign = (a ^ b) & SINGLE.sign
    infinite = SINGLE.infinity in (a & SINGLE.magnitude, b & SINGLE.magnitude)
    zero = not (a & SINGLE.magnitude and b & SINGLE.magnitude)
    if is_nan(a, SINGLE) or is_nan(b, SINGLE) or (infinite and zero):
        return SINGLE.default_nan
    if infinite:
        return sign | SINGLE.infinity
    (ma, ea), (mb, eb) = split(a, SINGLE), split(b, SINGLE)
    return sign if zero else _to_odd(sign != 0, ma * mb, ea + eb)


def _as_double(e: Any, x: Any) -> Any:
    """The single `x`, flushed, as a number of double precision."""
    magnitude = e.and_(x, e.const(x.type, SINGLE.magnitude))
    tiny = e.icmp_unsigned("<", magnitude, e.const(x.type, SINGLE.hidden))
    flushed = e.select(tiny, e.and_(x, e.const(x.type, SINGLE.sign)), x)
    wide = e.real(e.const(e.resized(x.type, 64), 0)).type
    return e.fpext(e.real(flushed), wide)


def _emit_to_odd(e: Any, t: Any, wide: Any) -> Any:
    """A double (as bits) that is exact or rounded to odd itself, as a single."""
    w = wide.type
    magnitude = e.and_(wide, e.const(w, DOUBLE.magnitude))
    sticky = e.icmp_unsigned("!=", e.and_(wide, e.const(w, (1 << NARROWING) - 1)), e.const(w, 0))
    rebiased = e.sub(magnitude, e.const(w, DOUBLE.bias - SINGLE.bias << DOUBLE.fraction))
    out = e.or_(e.trunc(e.lshr(rebiased, e.const(w, NARROWING)), t), e.zext(sticky, t))

    def power(exponent: int) -> Any:
        return e.const(w, DOUBLE.bias + exponent << DOUBLE.fraction)

    out = e.select(e.icmp_unsigned("<", magnitude, power(SINGLE.min_exponent)), e.const(t, 0), out)
    huge = e.icmp_unsigned(">=", magnitude, power(SINGLE.bias + 1))
    out = e.select(huge, e.const(t, SINGLE.infinity), out)
    sign = e.and_(e.trunc(e.lshr(wide, e.const(w, 32)), t), e.const(t, SINGLE.sign))
    nan = e.icmp_unsigned(">", magnitude, e.const(w, DOUBLE.infinity))
    return e.select(nan, e.const(t, SINGLE.default_nan), e.or_(sign, out))


def _emit_sum(e: Any, t: Any, a: Any, b: Any) -> Any:
    """The nearest double, moved by one place towards what it lacks where it is even and not exact."""
    w = e.resized(t, 64)
    x, y = _as_double(e, a), _as_double(e, b)
    total = e.fadd(x, y)
    back = e.fsub(total, x)
    error = e.fadd(e.fsub(x, e.fsub(total, back)), e.fsub(y, back))
    number, lacking = e.bitcast(total, w), e.bitcast(error, w)
    inexact = e.fcmp_ordered("!=", error, e.real(e.const(w, 0)))
    even = e.icmp_unsigned("==", e.and_(number, e.const(w, 1)), e.const(w, 0))
    outwards = e.icmp_signed(">=", e.xor(number, lacking), e.const(w, 0))
    step = e.select(outwards, e.const(w, 1), e.const(w, -1))
    return _emit_to_odd(e, t, e.add(number, e.select(e.and_(inexact, even), step, e.const(w, 0))))


def _emit_product(e: Any, t: Any, a: Any, b: Any) -> Any:
    """Eight bits times eight bits are exact."""
    return _emit_to_odd(e, t, e.bitcast(e.fmul(_as_double(e, a), _as_double(e, b)), e.resized(t, 64)))


# -- Conversion -------------------------------------------------------------------------------------------


def _from_single(w: int, x: int, fpcr: int) -> int:
    flags = flags_of(fpcr)
    x = flush_input(x, SINGLE, fpcr, flags)
    if is_nan(x, SINGLE):
        flags.bits |= IOC * is_signalling(x, SINGLE)
        return BFLOAT16.default_nan if fpcr & DN else x >> 16 | BFLOAT16.quiet
    if x & SINGLE.magnitude in (0, SINGLE.infinity):
        return x >> 16
    m, exponent = split(x, SINGLE)
    return round_pack(x & SINGLE.sign != 0, m, exponent, BFLOAT16, rounding_mode(fpcr), 0, flags)


def _emit_from_single(e: Any, t: Any, x: Any, fpcr: int) -> Any:
    wide = x.type
    upper = e.lshr(x, e.const(wide, 16))
    odd = e.and_(upper, e.const(wide, 1))
    rounded = e.lshr(e.add(e.add(x, e.const(wide, 0x7FFF)), odd), e.const(wide, 16))
    magnitude = e.and_(x, e.const(wide, SINGLE.magnitude))
    nan = e.icmp_unsigned(">", magnitude, e.const(wide, SINGLE.infinity))
    return e.trunc(e.select(nan, e.or_(upper, e.const(wide, BFLOAT16.quiet)), rounded), t)


# -- Rows -------------------------------------------------------------------------------------------------

_SUM = primitive("bfadd", _sum, _emit_sum)
_PRODUCT = primitive("bfmul", _product, _emit_product)
_FROM_SINGLE = primitive("bfcvt", _from_single, _emit_from_single)


def bfadd(a: Bits, b: Bits) -> Bits:
    """a + b of singles (BFAdd)."""
    return apply(_SUM, 32, a.lanes, [a, a.like(b)])


def bfmul(a: Bits, b: Bits) -> Bits:
    """a * b of bfloat16 numbers held in singles (BFMul)."""
    return apply(_PRODUCT, 32, a.lanes, [a, a.like(b)])


def bfcvt(a: Bits, fpcr: int) -> Bits:
    """The single `a` as a bfloat16 of 16 bits (FPConvertBF)."""
    return apply(_FROM_SINGLE, 16, a.lanes, [a], fpcr)
