"""Floating-point rows: conversions between formats and to and from integers and fixed point.

What `kvrm.values.fp` says about `fold` and `emit` holds here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvrm.values import softfloat_convert as exact
from kvrm.values.bits import Bits, apply, bits, primitive
from kvrm.values.fp import ROUND, checked, format_of, number, quieten
from kvrm.values.fp_half import field, narrow, widen
from kvrm.values.softfloat_core import FORMATS, Format, Rounding, flags_of, rounding_mode

# -- between formats -------------------------------------------------------------------------------


def _convert_nan(t: Any) -> Callable[..., Any]:
    """FPConvertNaN(): sign and leading payload bits, quiet."""

    def chosen(e: Any, target: Format, x: Any) -> Any:
        source = format_of(e, x)
        sign = field(e, x, source.sign, source.width - target.width, t)
        payload = field(e, x, source.quiet - 1, source.fraction - target.fraction, t)
        return e.or_(e.or_(sign, payload), e.const(t, target.infinity | target.quiet))

    return chosen


def emit_fcvt(e: Any, t: Any, x: Any, to: int, fpcr: int) -> Any:
    """`x` in the format of `to` bits, of type `t`."""
    source = format_of(e, x)
    if source.width == 16:
        out = widen(e, t, x)
        return e.select(_is_nan(e, source, x), quieten(e, FORMATS[to], out), out)
    if to == 16:
        return e.select(_is_nan(e, source, x), _convert_nan(t)(e, FORMATS[to], x), narrow(e, t, x))
    result = (e.fpext if to > source.width else e.fptrunc)(e.real(x), e.real(e.const(t, 0)).type)
    return checked(e, t, result, _convert_nan(t), x)


def _is_nan(e: Any, f: Format, x: Any) -> Any:
    return e.icmp_unsigned(">", e.and_(x, e.const(x.type, f.magnitude)), e.const(x.type, f.infinity))


def _emit_fcvtxn(e: Any, t: Any, x: Any, fpcr: int) -> Any:
    """Rounded to odd: the nearest single, one less if that is larger, with the last bit set if inexact."""
    target = FORMATS[32]
    given = e.and_(x, e.const(x.type, FORMATS[64].magnitude))
    nearest = e.fptrunc(e.real(given), e.real(e.const(t, 0)).type)
    back = e.bitcast(e.fpext(nearest, e.real(given).type), x.type)
    away = e.zext(e.icmp_unsigned(">", back, given), t)
    inexact = e.zext(e.icmp_unsigned("!=", back, given), t)
    number = e.or_(e.sub(e.bitcast(nearest, t), away), inexact)
    signed = e.or_(number, field(e, x, FORMATS[64].sign, 32, t))
    return e.select(_is_nan(e, FORMATS[64], x), _convert_nan(t)(e, target, x), signed)


def _fold_fcvt(w: int, x: int, to: int, fpcr: int) -> int:
    return exact.fcvt(x, w, to, fpcr, flags_of(fpcr))


_FCVT = primitive("fcvt", _fold_fcvt, emit_fcvt)
_FCVTXN = primitive("fcvtxn", lambda w, x, fpcr: exact.fcvtxn(x, fpcr, flags_of(fpcr)), _emit_fcvtxn)
_WIDEN = primitive("fwiden", lambda w, x, fpcr: exact.fwiden(x, fpcr), lambda e, t, x, fpcr: widen(e, t, x))


def fcvt(x: Bits, to: int, fpcr: int) -> Bits:
    """`x` in the format of `to` bits, another than its own (FPConvert)."""
    return apply(_FCVT, to, x.lanes, [x], to, fpcr)


def fcvtxn(x: Bits, fpcr: int) -> Bits:
    """Doubles as singles, rounded to odd."""
    return apply(_FCVTXN, 32, x.lanes, [x], fpcr)


def fwiden(x: Bits, fpcr: int) -> Bits:
    """Halves as singles that an operation is to see as if it had got the halves: NaNs stay as they are."""
    return apply(_WIDEN, 32, x.lanes, [x], fpcr)


# -- integers and fixed point ----------------------------------------------------------------------


def power_of_two(width: int, exponent: int) -> int:
    """The bits of 2**exponent, a normal number."""
    f = FORMATS[width]
    return f.bias + exponent << f.fraction


def scale_width(width: int, n: int) -> int:
    """Bits of the format in which numbers of `width` bits are scaled on their way to and from n-bit integers.

    Halves are too narrow for the powers of two; singles hold any 16-bit integer, doubles any of 32 bits.
    """
    return width if width > 16 else 32 if n == 16 else 64


def _exponent(x: int, f: Format) -> int:
    return (x >> f.fraction) - f.bias


def _fold_to_fixed(w: int, x: int, scale: int, n: int, unsigned: bool, rounding: Rounding, fpcr: int) -> int:
    fbits = _exponent(scale, FORMATS[scale_width(w, n)])
    return exact.fcvt_to_fixed(x, w, fbits, unsigned, n, rounding, fpcr, flags_of(fpcr))


def _emit_to_fixed(
    e: Any, t: Any, x: Any, scale: Any, n: int, unsigned: bool, rounding: Rounding, fpcr: int
) -> Any:
    y = e.fmul(number(e, x, half_as=scale_width(16, n)), e.real(scale))
    if rounding is not Rounding.ZERO:
        y = e.intrinsic(ROUND[rounding], y.type, y)
    return e.convert("fptoui.sat" if unsigned else "fptosi.sat", t, y)


def _fold_from_fixed(w: int, v: int, scale: int, to: int, unsigned: bool, fpcr: int) -> int:
    fbits = -_exponent(scale, FORMATS[scale_width(to, w)])
    rounding = rounding_mode(fpcr)
    return exact.fixed_to_fp(v, w, fbits, unsigned, to, rounding, fpcr, flags_of(fpcr))


def _emit_from_fixed(e: Any, t: Any, v: Any, scale: Any, to: int, unsigned: bool, fpcr: int) -> Any:
    factor = e.real(scale)
    if to == 16 and e.width(v) == 64:
        v = _jammed(e, v, unsigned)
    product = e.fmul((e.uitofp if unsigned else e.sitofp)(v, factor.type), factor)
    return narrow(e, t, e.bits(product)) if to == 16 else e.bits(product)


def _jammed(e: Any, v: Any, unsigned: bool) -> Any:
    """A 64-bit integer as one that a double holds and that rounds to the same half.

    In a large one the lowest 12 bits become a one above zeros, unless they are zero.
    """
    low = e.and_(v, e.const(v.type, 0xFFF))
    sticky = e.shl(e.zext(e.icmp_unsigned("!=", low, e.const(v.type, 0)), v.type), e.const(v.type, 11))
    top = (e.lshr if unsigned else e.ashr)(v, e.const(v.type, 52))
    small = e.icmp_unsigned("<=", e.add(top, e.const(v.type, 1)), e.const(v.type, 1))
    return e.select(small, v, e.or_(e.xor(v, low), sticky))


def _fold_fjcvtzs(w: int, x: int, fpcr: int) -> int:
    return exact.fjcvtzs(x, fpcr, flags_of(fpcr))[0]


def _emit_fjcvtzs(e: Any, t: Any, x: Any, fpcr: int) -> Any:
    """The significand shifted as the exponent says; its low bits count whatever the exponent is."""
    f = FORMATS[64]
    exponent = e.and_(e.lshr(x, e.const(x.type, f.fraction)), e.const(x.type, 0x7FF))
    significand = e.or_(e.and_(x, e.const(x.type, f.hidden - 1)), e.const(x.type, f.hidden))
    up = e.sub(exponent, e.const(x.type, f.bias + f.fraction))
    down = e.intrinsic("umin", x.type, e.sub(e.const(x.type, 0), up), e.const(x.type, 63))
    left = e.shl(significand, e.intrinsic("umin", x.type, up, e.const(x.type, 63)))
    size = e.select(e.icmp_signed("<", up, e.const(x.type, 0)), e.lshr(significand, down), left)
    negative = e.icmp_signed("<", x, e.const(x.type, 0))
    return e.trunc(e.select(negative, e.sub(e.const(x.type, 0), size), size), t)


def _fold_fjcvtzs_exact(w: int, x: int, fpcr: int) -> int:
    return int(exact.fjcvtzs(x, fpcr)[1])


def _emit_fjcvtzs_exact(e: Any, t: Any, x: Any, fpcr: int) -> Any:
    """Whether the 32-bit integer is the same number, with no sign lost."""
    n = _emit_fjcvtzs(e, e.const(e.resized(x.type, 32), 0).type, x, fpcr)
    same = e.fcmp_ordered("==", e.sitofp(n, e.real(x).type), e.real(x))
    return e.and_(same, e.icmp_unsigned("!=", x, e.const(x.type, FORMATS[64].sign)))


_TO_FIXED = primitive("fcvt_to_fixed", _fold_to_fixed, _emit_to_fixed)
_FROM_FIXED = primitive("fixed_to_fp", _fold_from_fixed, _emit_from_fixed)
_FJCVTZS = primitive("fjcvtzs", _fold_fjcvtzs, _emit_fjcvtzs)
_FJCVTZS_EXACT = primitive("fjcvtzs_exact", _fold_fjcvtzs_exact, _emit_fjcvtzs_exact)


def fcvt_to_fixed(
    x: Bits, n: int, unsigned: bool, rounding: Rounding, fpcr: int, scale: Bits | None = None
) -> Bits:
    """`x` * `scale` as an integer of n bits, saturated; a NaN gives 0 (FPToFixed).

    `scale` is 2**fbits as a number of `scale_width` bits: multiplying by it is exact or overflows, which
    saturates just the same.
    """
    factor = bits(to := scale_width(x.width, n), power_of_two(to, 0)) if scale is None else scale
    return apply(_TO_FIXED, n, x.lanes, [x, factor.splat(x.lanes)], n, unsigned, rounding, fpcr)


def fixed_to_fp(v: Bits, to: int, unsigned: bool, fpcr: int, scale: Bits | None = None) -> Bits:
    """The integer `v` times `scale` in the format of `to` bits (FixedToFP).

    `scale` is 2**-fbits as a number of `scale_width` bits, fbits at most 64: the product is exact.
    """
    factor = bits(n := scale_width(to, v.width), power_of_two(n, 0)) if scale is None else scale
    return apply(_FROM_FIXED, to, v.lanes, [v, factor.splat(v.lanes)], to, unsigned, fpcr)


def fjcvtzs(x: Bits, fpcr: int) -> tuple[Bits, Bits]:
    """A double towards zero, modulo 2**32, and whether the integer of 32 bits is exact (FPToFixedJS)."""
    return apply(_FJCVTZS, 32, 1, [x], fpcr), apply(_FJCVTZS_EXACT, 1, 1, [x], fpcr)
