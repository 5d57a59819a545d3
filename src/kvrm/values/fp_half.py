"""Half precision for hosts without it: halves are widened, computed with as wider numbers, and rounded once.

Why that is exact, for p = 11 significant bits in a half:

- A sum, product, quotient or root of halves that is rounded to q bits and then to p is the one rounded to p
  if q >= 2p + 2, and singles have q = 24. Where the result is subnormal, sums and products of halves are
  exact as singles, and a quotient A / B that is no tie lies further from one than singles are apart.
- c + a * b is rounded to 53 bits as a double (the product is exact). That could only do harm next to a tie t
  between two halves. t is no half, c is one, so a * b = (t - c) + d is not small against the last place of t:
  of its 22 bits the lowest is at least 2^-22 of that place, hence so is d unless it is zero, but a double
  loses at most 2^-42 of it. The same holds for half of 3 - a * b.

Conversions are integer operations on the bits.
"""

from __future__ import annotations

from typing import Any

from kvrm.values.softfloat_core import FORMATS

# -- bits of one format in another -----------------------------------------------------------------


def _resize(e: Any, x: Any, t: Any) -> Any:
    """`x` zero-extended or cut to the lanes of `t`."""
    return e.zext(x, t) if e.width(x) < e.width_of(t) else e.trunc(x, t)


def align(e: Any, x: Any, by: int) -> Any:
    """`x` shifted right, or left if `by` is negative."""
    return e.lshr(x, e.const(x.type, by)) if by > 0 else e.shl(x, e.const(x.type, -by))


def field(e: Any, x: Any, mask: int, by: int, t: Any) -> Any:
    """The bits of `mask` in `x`, shifted right by `by`, in lanes of type `t`."""
    bits = e.and_(x, e.const(x.type, mask))
    return align(e, _resize(e, bits, t), by) if by < 0 else _resize(e, align(e, bits, by), t)


# -- conversions -----------------------------------------------------------------------------------


def widen(e: Any, t: Any, x: Any) -> Any:
    """Halves as singles or doubles, of type `t`: exact; signalling NaNs stay signalling.

    The half's bits are read as the other format, and multiplied by the power of two between the biases.
    """
    source, target = FORMATS[16], FORMATS[e.width_of(t)]
    up = target.fraction - source.fraction
    magnitude = field(e, x, source.magnitude, -up, t)
    scale = e.real(e.const(t, 2 * target.bias - source.bias << target.fraction))
    number = e.bitcast(e.fmul(e.real(magnitude), scale), t)
    special = e.or_(magnitude, e.const(t, target.infinity))
    finite = e.icmp_unsigned("<", magnitude, e.const(t, source.infinity << up))
    sign = field(e, x, source.sign, source.width - target.width, t)
    return e.or_(sign, e.select(finite, number, special))


def narrow(e: Any, t: Any, x: Any) -> Any:
    """Singles or doubles as halves, of type `t`, ties to even; NaNs become anything.

    Rounded by a carry where the half is normal, else in a sum that has its last place.
    """
    source, target, wide = FORMATS[e.width(x)], FORMATS[16], x.type
    down = source.fraction - target.fraction
    magnitude = e.and_(x, e.const(wide, source.magnitude))
    odd = field(e, magnitude, 1 << down, down, wide)
    carried = e.add(e.add(magnitude, e.const(wide, (1 << down - 1) - 1)), odd)
    normal = e.sub(align(e, carried, down), e.const(wide, source.bias - target.bias << target.fraction))
    normal = e.intrinsic("umin", wide, normal, e.const(wide, target.infinity))
    last_place = e.const(wide, source.bias + target.lsb + source.fraction << source.fraction)
    tiny = e.sub(e.bitcast(e.fadd(e.real(magnitude), e.real(last_place)), wide), last_place)
    smallest = e.const(wide, source.bias + target.min_exponent << source.fraction)
    out = e.select(e.icmp_unsigned("<", magnitude, smallest), tiny, normal)
    sign = field(e, x, source.sign, source.width - target.width, t)
    return e.or_(sign, e.trunc(out, t))
