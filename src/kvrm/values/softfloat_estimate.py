"""The AArch64 reciprocal and square-root estimates, bit for bit as the architecture defines them.

`kvrm.values.softfloat` describes operands, `fpcr` and `flags`.
"""

from __future__ import annotations

import math

from kvrm.values.softfloat_core import (
    DISCARD,
    DZC,
    FORMATS,
    IXC,
    OFC,
    UFC,
    Flags,
    Format,
    Rounding,
    flush_input,
    invalid,
    is_nan,
    propagate_nan,
    rounding_mode,
)


def _recip_estimate(a: int) -> int:
    """1/x in 1/256, for x = a/512 in 0.5 .. 1 (RecipEstimate): 256 .. 511."""
    return ((1 << 19) // (2 * a + 1) + 1) // 2


def _rsqrt_estimate(a: int) -> int:
    """1/sqrt(x) in 1/256, for x = a/512 in 0.25 .. 1 (RecipSqrtEstimate): 256 .. 511."""
    a = 2 * a + 1 if a < 256 else 2 * ((a | 1) ^ 1) + 2
    return (math.isqrt(((1 << 28) - 1) // a) + 1) // 2


def _normalise(x: int, f: Format) -> tuple[int, int]:
    """Exponent field and significand of |x|; a subnormal is shifted up until it has the hidden bit."""
    magnitude = x & f.magnitude
    exponent = magnitude >> f.fraction
    if exponent:
        return exponent, magnitude & (f.hidden - 1) | f.hidden
    shift = f.fraction + 1 - magnitude.bit_length()
    return 1 - shift, magnitude << shift


def frecpe(x: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """About 1/x, to 8 bits (FPRecipEstimate)."""
    f = FORMATS[width]
    x = flush_input(x, f, fpcr, flags)
    if is_nan(x, f):
        return propagate_nan(f, fpcr, flags, x)
    sign = x & f.sign
    magnitude = x & f.magnitude
    if magnitude == f.infinity:
        return sign
    if not magnitude:
        flags.bits |= DZC
        return sign | f.infinity
    if magnitude < f.hidden >> 2:
        flags.bits |= OFC | IXC
        away = Rounding.NEGINF if sign else Rounding.POSINF
        return sign | f.infinity - (rounding_mode(fpcr) not in (Rounding.TIEEVEN, away))
    exponent, significand = _normalise(x, f)
    result_exponent = 2 * f.bias - 1 - exponent
    if result_exponent <= 0 and fpcr & f.flush:
        flags.bits |= UFC
        return sign
    estimate = _recip_estimate(significand >> (f.fraction - 8)) << (f.fraction - 8)
    if result_exponent <= 0:
        return sign | estimate >> (1 - result_exponent)
    return sign | (result_exponent - 1 << f.fraction) + estimate


def frsqrte(x: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """About 1/sqrt(x), to 8 bits (FPRSqrtEstimate)."""
    f = FORMATS[width]
    x = flush_input(x, f, fpcr, flags)
    if is_nan(x, f):
        return propagate_nan(f, fpcr, flags, x)
    if not x & f.magnitude:
        flags.bits |= DZC
        return x | f.infinity
    if x & f.sign:
        return invalid(f, flags)
    if x == f.infinity:
        return 0
    exponent, significand = _normalise(x, f)
    estimate = _rsqrt_estimate(significand >> (f.fraction - 8 + (exponent & 1)))
    result_exponent = (3 * f.bias - 1 - exponent) // 2
    return (result_exponent - 1 << f.fraction) + (estimate << (f.fraction - 8))


def frecpx(x: int, width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """A power of two near 1/x: its exponent field inverted, the sign kept (FPRecpX)."""
    f = FORMATS[width]
    number = flush_input(x, f, fpcr, flags)
    if is_nan(number, f):
        return propagate_nan(f, fpcr, flags, number)
    if x & f.magnitude < f.hidden:
        return x & f.sign | f.infinity - f.hidden
    return x & f.sign | ~x & f.infinity


def urecpe(x: int) -> int:
    """About 1/x of an unsigned 0.32 number, as 1.31; saturated below 1/2 (UnsignedRecipEstimate)."""
    return _recip_estimate(x >> 23) << 23 if x >> 31 else 0xFFFF_FFFF


def ursqrte(x: int) -> int:
    """About 1/sqrt(x) of an unsigned 0.32 number, as 1.31; saturated below 1/4 (UnsignedRSqrtEstimate)."""
    return _rsqrt_estimate(x >> 23) << 23 if x >> 30 else 0xFFFF_FFFF
