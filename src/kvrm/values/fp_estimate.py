"""Floating-point rows: reciprocal and square-root estimates.

The architecture defines them by integer divisions and searches. Emitted code finds the same integers by
divisions and roots of small numbers, which single precision gets right for every argument there is (the tests
try them all).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvrm.values import softfloat_estimate as exact
from kvrm.values.bits import Bits, apply, primitive
from kvrm.values.fp import format_of, quieten, unary
from kvrm.values.fp_convert import emit_fcvt
from kvrm.values.fp_half import widen
from kvrm.values.softfloat_core import Format


def _number(e: Any, t: Any, value: int) -> Any:
    """The integer `value` as a floating-point number, a normal one with lanes as wide as those of `t`."""
    return e.uitofp(e.const(t, value), e.real(e.const(t, 0)).type)


def _recip_estimate(e: Any, a: Any) -> Any:
    """RecipEstimate(): for a in 256 .. 511."""
    t = a.type
    divisor = e.uitofp(e.or_(e.shl(a, e.const(t, 1)), e.const(t, 1)), e.real(a).type)
    quotient = e.fptoui(e.fdiv(_number(e, t, 1 << 19), divisor), t)
    return e.lshr(e.add(quotient, e.const(t, 1)), e.const(t, 1))


def _rsqrt_estimate(e: Any, a: Any) -> Any:
    """RecipSqrtEstimate(): for a in 128 .. 511."""
    t = a.type
    twice = e.shl(a, e.const(t, 1))
    low = e.or_(twice, e.const(t, 1))
    high = e.add(e.and_(twice, e.const(t, -4)), e.const(t, 2))
    middle = e.uitofp(e.select(e.icmp_unsigned("<", a, e.const(t, 256)), low, high), e.real(a).type)
    root = e.intrinsic("sqrt", middle.type, middle)
    bound = e.intrinsic("ceil", middle.type, e.fdiv(_number(e, t, 1 << 14), root))
    return e.lshr(e.fptoui(bound, t), e.const(t, 1))


def _parts(e: Any, f: Format, x: Any) -> tuple[Any, Any, Any]:
    """Magnitude, exponent field and significand; a subnormal is shifted up until it has the hidden bit."""
    t = x.type
    magnitude = e.and_(x, e.const(t, f.magnitude))
    shift = e.sub(e.intrinsic("ctlz", t, magnitude, e.false), e.const(t, f.width - 1 - f.fraction))
    subnormal = e.icmp_unsigned("<", magnitude, e.const(t, f.hidden))
    inside = e.and_(shift, e.const(t, f.width - 1))
    exponent = e.select(subnormal, e.sub(e.const(t, 1), shift), e.lshr(magnitude, e.const(t, f.fraction)))
    fraction = e.select(subnormal, e.shl(magnitude, inside), magnitude)
    significand = e.or_(e.and_(fraction, e.const(t, f.hidden - 1)), e.const(t, f.hidden))
    return magnitude, exponent, significand


def _special(e: Any, f: Format, x: Any, magnitude: Any, out: Any) -> Any:
    """`out`, or the quiet NaN where `x` is a NaN."""
    is_nan = e.icmp_unsigned(">", magnitude, e.const(x.type, f.infinity))
    return e.select(is_nan, quieten(e, f, x), out)


def _emit_frecpe(e: Any, t: Any, x: Any, fpcr: int) -> Any:
    f = format_of(e, x)
    magnitude, exponent, significand = _parts(e, f, x)
    estimate = _recip_estimate(e, e.lshr(significand, e.const(t, f.fraction - 8)))
    estimate = e.shl(estimate, e.const(t, f.fraction - 8))
    result = e.sub(e.const(t, 2 * f.bias - 1), exponent)
    normal = e.add(e.shl(e.sub(result, e.const(t, 1)), e.const(t, f.fraction)), estimate)
    places = e.and_(e.sub(e.const(t, 1), result), e.const(t, 3))
    out = e.select(e.icmp_signed("<=", result, e.const(t, 0)), e.lshr(estimate, places), normal)
    out = e.select(e.icmp_unsigned("<", magnitude, e.const(t, f.hidden >> 2)), e.const(t, f.infinity), out)
    out = e.select(e.icmp_unsigned("==", magnitude, e.const(t, f.infinity)), e.const(t, 0), out)
    return _special(e, f, x, magnitude, e.or_(out, e.and_(x, e.const(t, f.sign))))


def _emit_frsqrte(e: Any, t: Any, x: Any, fpcr: int) -> Any:
    f = format_of(e, x)
    magnitude, exponent, significand = _parts(e, f, x)
    odd = e.and_(exponent, e.const(t, 1))
    estimate = _rsqrt_estimate(e, e.lshr(significand, e.add(odd, e.const(t, f.fraction - 8))))
    result = e.lshr(e.sub(e.const(t, 3 * f.bias - 1), exponent), e.const(t, 1))
    out = e.shl(e.sub(result, e.const(t, 1)), e.const(t, f.fraction))
    out = e.add(out, e.shl(estimate, e.const(t, f.fraction - 8)))
    out = e.select(e.icmp_unsigned("==", x, e.const(t, f.infinity)), e.const(t, 0), out)
    out = e.select(e.icmp_signed("<", x, e.const(t, 0)), e.const(t, f.default_nan), out)
    zero = e.icmp_unsigned("==", magnitude, e.const(t, 0))
    out = e.select(zero, e.or_(x, e.const(t, f.infinity)), out)
    return _special(e, f, x, magnitude, out)


def _emit_frecpx(e: Any, t: Any, x: Any, fpcr: int) -> Any:
    f = format_of(e, x)
    magnitude = e.and_(x, e.const(t, f.magnitude))
    exponent = e.and_(e.xor(x, e.const(t, -1)), e.const(t, f.infinity))
    small = e.icmp_unsigned("<", magnitude, e.const(t, f.hidden))
    out = e.select(small, e.const(t, f.infinity - f.hidden), exponent)
    return _special(e, f, x, magnitude, e.or_(out, e.and_(x, e.const(t, f.sign))))


def _emit_urecpe(e: Any, t: Any, x: Any) -> Any:
    a = e.or_(e.lshr(x, e.const(t, 23)), e.const(t, 256))
    estimate = e.shl(_recip_estimate(e, a), e.const(t, 23))
    return e.select(e.icmp_signed("<", x, e.const(t, 0)), estimate, e.const(t, -1))


def _emit_ursqrte(e: Any, t: Any, x: Any) -> Any:
    a = e.intrinsic("umax", t, e.lshr(x, e.const(t, 23)), e.const(t, 128))
    estimate = e.shl(_rsqrt_estimate(e, a), e.const(t, 23))
    return e.select(e.icmp_unsigned("<", x, e.const(t, 1 << 30)), e.const(t, -1), estimate)


def _by_single(emit: Callable[..., Any]) -> Callable[..., Any]:
    """For a half, the estimate for the equal single: its 8 bits fit a half, or overflow as they should."""

    def emit_any(e: Any, t: Any, x: Any, fpcr: int) -> Any:
        if e.width(x) > 16:
            return emit(e, t, x, fpcr)
        wide = e.resized(t, 32)
        return emit_fcvt(e, t, emit(e, wide, widen(e, wide, x), fpcr), 16, fpcr)

    return emit_any


frecpe = unary("frecpe", _by_single(_emit_frecpe), exact.frecpe)
"""About 1/a, to 8 bits (FPRecipEstimate)."""
frsqrte = unary("frsqrte", _by_single(_emit_frsqrte), exact.frsqrte)
"""About 1/sqrt(a), to 8 bits (FPRSqrtEstimate)."""
frecpx = unary("frecpx", _emit_frecpx, exact.frecpx)
"""A power of two near 1/a (FPRecpX)."""

_URECPE = primitive("urecpe", lambda w, x: exact.urecpe(x), _emit_urecpe)
_URSQRTE = primitive("ursqrte", lambda w, x: exact.ursqrte(x), _emit_ursqrte)


def urecpe(a: Bits) -> Bits:
    """About 1/a of unsigned 0.32 lanes (UnsignedRecipEstimate)."""
    return apply(_URECPE, 32, a.lanes, [a])


def ursqrte(a: Bits) -> Bits:
    """About 1/sqrt(a) of unsigned 0.32 lanes (UnsignedRSqrtEstimate)."""
    return apply(_URSQRTE, 32, a.lanes, [a])
