"""Floating-point rows: conversions between formats and to and from integers and fixed point.

What `kvrm.values.fp` says about `fold` and `emit` holds here too. Half precision is converted by integer
operations, so that no host needs instructions or library calls for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvrm.values import softfloat
from kvrm.values.bits import Bits, apply, primitive
from kvrm.values.fp import ROUND, checked, format_of, quieten
from kvrm.values.softfloat import FORMATS, Format, Rounding

# -- between formats -------------------------------------------------------------------------------


def _resize(e: Any, x: Any, t: Any) -> Any:
    """`x` zero-extended or cut to the lanes of `t`."""
    return e.zext(x, t) if e.width(x) < e.width_of(t) else e.trunc(x, t)


def _align(e: Any, x: Any, by: int) -> Any:
    """`x` shifted right, or left if `by` is negative."""
    return e.lshr(x, e.const(x.type, by)) if by > 0 else e.shl(x, e.const(x.type, -by))


def _field(e: Any, x: Any, mask: int, by: int, t: Any) -> Any:
    """The bits of `mask` in `x`, shifted right by `by`, in lanes of type `t`."""
    bits = e.and_(x, e.const(x.type, mask))
    return _align(e, _resize(e, bits, t), by) if by < 0 else _resize(e, _align(e, bits, by), t)


def _convert_nan(t: Any) -> Callable[..., Any]:
    """FPConvertNaN(): sign and leading payload bits, quiet."""

    def chosen(e: Any, target: Format, x: Any) -> Any:
        source = format_of(e, x)
        sign = _field(e, x, source.sign, source.width - target.width, t)
        payload = _field(e, x, source.quiet - 1, source.fraction - target.fraction, t)
        return e.or_(e.or_(sign, payload), e.const(t, target.infinity | target.quiet))

    return chosen


def _emit_fcvt(e: Any, t: Any, x: Any, to: int, fpcr: int) -> Any:
    source = format_of(e, x)
    if source.width == 16:
        return _from_half(e, t, x)
    if to == 16:
        return _to_half(e, t, x)
    number = e.real(e.const(t, 0)).type
    result = (e.fpext if to > source.width else e.fptrunc)(e.real(x), number)
    return checked(e, t, result, _convert_nan(t), x)


def _from_half(e: Any, t: Any, x: Any) -> Any:
    """The half's bits read as the other format, times the power of two that makes up for the bias: exact."""
    source, target = FORMATS[16], FORMATS[e.width_of(t)]
    up = target.fraction - source.fraction
    magnitude = _field(e, x, source.magnitude, -up, t)
    scale = e.real(e.const(t, 2 * target.bias - source.bias << target.fraction))
    number = e.bitcast(e.fmul(e.real(magnitude), scale), t)
    special = e.or_(magnitude, e.const(t, target.infinity))
    is_nan = e.icmp_unsigned(">", special, e.const(t, target.infinity | source.infinity << up))
    special = e.select(is_nan, quieten(e, target, special), special)
    finite = e.icmp_unsigned("<", magnitude, e.const(t, source.infinity << up))
    sign = _field(e, x, source.sign, source.width - target.width, t)
    return e.or_(sign, e.select(finite, number, special))


def _to_half(e: Any, t: Any, x: Any) -> Any:
    """Rounded to even: by a carry where the half is normal, else in a sum that has its last place."""
    source, target, wide = format_of(e, x), FORMATS[16], x.type
    down = source.fraction - target.fraction
    magnitude = e.and_(x, e.const(wide, source.magnitude))
    odd = _field(e, magnitude, 1 << down, down, wide)
    carried = e.add(e.add(magnitude, e.const(wide, (1 << down - 1) - 1)), odd)
    normal = e.sub(_align(e, carried, down), e.const(wide, source.bias - target.bias << target.fraction))
    normal = e.intrinsic("umin", wide, normal, e.const(wide, target.infinity))
    last_place = e.const(wide, source.bias + target.lsb + source.fraction << source.fraction)
    tiny = e.sub(e.bitcast(e.fadd(e.real(magnitude), e.real(last_place)), wide), last_place)
    smallest = e.const(wide, source.bias + target.min_exponent << source.fraction)
    out = e.select(e.icmp_unsigned("<", magnitude, smallest), tiny, normal)
    is_nan = e.icmp_unsigned(">", magnitude, e.const(wide, source.infinity))
    sign = _field(e, x, source.sign, source.width - target.width, t)
    return e.select(is_nan, _convert_nan(t)(e, target, x), e.or_(sign, e.trunc(out, t)))


def _emit_fcvtxn(e: Any, t: Any, x: Any, fpcr: int) -> Any:
    """Rounded to odd: the nearest single, one less if that is larger, with the last bit set if inexact."""
    target = FORMATS[32]
    given = e.and_(x, e.const(x.type, FORMATS[64].magnitude))
    nearest = e.fptrunc(e.real(given), e.real(e.const(t, 0)).type)
    back = e.bitcast(e.fpext(nearest, e.real(given).type), x.type)
    away = e.zext(e.icmp_unsigned(">", back, given), t)
    inexact = e.zext(e.icmp_unsigned("!=", back, given), t)
    number = e.or_(e.sub(e.bitcast(nearest, t), away), inexact)
    is_nan = e.icmp_unsigned(">", given, e.const(x.type, FORMATS[64].infinity))
    signed = e.or_(number, _field(e, x, FORMATS[64].sign, 32, t))
    return e.select(is_nan, _convert_nan(t)(e, target, x), signed)


_FCVT = primitive("fcvt", lambda w, x, to, fpcr: softfloat.fcvt(x, w, to, fpcr), _emit_fcvt)
_FCVTXN = primitive("fcvtxn", lambda w, x, fpcr: softfloat.fcvtxn(x, fpcr), _emit_fcvtxn)


def fcvt(x: Bits, to: int, fpcr: int) -> Bits:
    """`x` in the format of `to` bits, another than its own (FPConvert)."""
    return apply(_FCVT, to, x.lanes, [x], to, fpcr)


def fcvtxn(x: Bits, fpcr: int) -> Bits:
    """Doubles as singles, rounded to odd."""
    return apply(_FCVTXN, 32, x.lanes, [x], fpcr)


# -- integers and fixed point ----------------------------------------------------------------------


def power_of_two(width: int, exponent: int) -> int:
    """The bits of 2**exponent, a normal number."""
    f = FORMATS[width]
    return f.bias + exponent << f.fraction


def _exponent(x: int, f: Format) -> int:
    return (x >> f.fraction) - f.bias


def _fold_to_fixed(w: int, x: int, scale: int, n: int, unsigned: bool, rounding: Rounding, fpcr: int) -> int:
    return softfloat.fcvt_to_fixed(x, w, _exponent(scale, FORMATS[w]), unsigned, n, rounding, fpcr)


def _emit_to_fixed(
    e: Any, t: Any, x: Any, scale: Any, n: int, unsigned: bool, rounding: Rounding, fpcr: int
) -> Any:
    y = e.fmul(e.real(x), e.real(scale))
    if rounding is not Rounding.ZERO:
        y = e.intrinsic(ROUND[rounding], y.type, y)
    return e.convert("fptoui.sat" if unsigned else "fptosi.sat", t, y)


def _fold_from_fixed(w: int, v: int, scale: int, to: int, unsigned: bool, fpcr: int) -> int:
    fbits = -_exponent(scale, FORMATS[to])
    return softfloat.fixed_to_fp(v, w, fbits, unsigned, to, softfloat.rounding_mode(fpcr), fpcr)


def _emit_from_fixed(e: Any, t: Any, v: Any, scale: Any, to: int, unsigned: bool, fpcr: int) -> Any:
    factor = e.real(scale)
    number = (e.uitofp if unsigned else e.sitofp)(v, factor.type)
    return e.bitcast(e.fmul(number, factor), t)


_TO_FIXED = primitive("fcvt_to_fixed", _fold_to_fixed, _emit_to_fixed)
_FROM_FIXED = primitive("fixed_to_fp", _fold_from_fixed, _emit_from_fixed)


def fcvt_to_fixed(
    x: Bits, n: int, unsigned: bool, rounding: Rounding, fpcr: int, scale: Bits | None = None
) -> Bits:
    """`x` * `scale` as an integer of n bits, saturated; a NaN gives 0 (FPToFixed).

    `scale` is 2**fbits as a number of the format of `x`: multiplying by it is exact or overflows, which
    saturates just the same.
    """
    factor = x.like(power_of_two(x.width, 0)) if scale is None else scale.splat(x.lanes)
    return apply(_TO_FIXED, n, x.lanes, [x, factor], n, unsigned, rounding, fpcr)


def fixed_to_fp(v: Bits, to: int, unsigned: bool, fpcr: int, scale: Bits | None = None) -> Bits:
    """The integer `v` times `scale` in the format of `to` bits, 32 or 64 (FixedToFP).

    `scale` is 2**-fbits as a number of that format, fbits at most 64: the product is exact.
    """
    factor = Bits(to, power_of_two(to, 0)) if scale is None else scale
    return apply(_FROM_FIXED, to, v.lanes, [v, factor.splat(v.lanes)], to, unsigned, fpcr)
