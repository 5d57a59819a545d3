"""Exact AArch64 conversions between floating-point formats, and to and from integers and fixed point.

`kvrm.values.softfloat` describes operands, `fpcr` and `flags`.
"""

from __future__ import annotations

from kvrm.values.softfloat_core import (
    AHP,
    ALTERNATIVE_HALF,
    DISCARD,
    DN,
    FORMATS,
    FZ16,
    IOC,
    IXC,
    Flags,
    Format,
    Rounding,
    flush_input,
    is_nan,
    propagate_nan,
    round_pack,
    rounding_mode,
    shift_round,
    split,
)


def _integer(x: int, f: Format, rounding: int, fbits: int = 0) -> tuple[int, bool]:
    """The finite number x * 2**fbits rounded to a signed integer, and whether that changed it."""
    m, e = split(x, f)
    negative = x & f.sign != 0
    n, inexact = shift_round(m, -e - fbits, negative, rounding)
    return (-n if negative else n), inexact


def _float_of_integer(n: int, sign: int, f: Format, fpcr: int) -> int:
    """The integer `n`, which `f` holds exactly; zero gets the bit `sign`."""
    if n == 0:
        return sign
    return round_pack(n < 0, abs(n), 0, f, Rounding.ZERO, fpcr, DISCARD)


def frint(
    x: int, width: int, rounding: int, exact: bool = False, fpcr: int = 0, flags: Flags = DISCARD
) -> int:
    """`x` rounded to an integral number (FPRoundInt); `exact` reports a change as inexact, as FRINTX does.

    `rounding` is a `Rounding`; FPCR.RMode is not looked at.
    """
    f = FORMATS[width]
    x = flush_input(x, f, fpcr, flags)
    if is_nan(x, f):
        return propagate_nan(f, fpcr, flags, x)
    if x & f.magnitude == f.infinity:
        return x
    n, inexact = _integer(x, f, rounding)
    if inexact and exact:
        flags.bits |= IXC
    return _float_of_integer(n, x & f.sign, f, fpcr)


def frint_bounded(
    x: int, width: int, rounding: int, int_width: int, fpcr: int = 0, flags: Flags = DISCARD
) -> int:
    """`x` rounded to an integral number of `int_width` (32, 64) signed bits (FPRoundIntN: FRINT32Z etc.).

    What does not fit, infinities and NaNs give the most negative integer and are invalid. `width`: 32 or 64.
    """
    f = FORMATS[width]
    x = flush_input(x, f, fpcr, flags)
    if x & f.magnitude < f.infinity:
        n, inexact = _integer(x, f, rounding)
        if -1 << (int_width - 1) <= n < 1 << (int_width - 1):
            if inexact:
                flags.bits |= IXC
            return _float_of_integer(n, x & f.sign, f, fpcr)
    flags.bits |= IOC
    return f.sign | f.bias + int_width - 1 << f.fraction


def fcvt(x: int, from_width: int, to_width: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """`x` in another format, rounded as FPCR.RMode says (FPConvert); the widths differ.

    FPCR.AHP selects the alternative half precision; FPCR.FZ16 has no effect.
    """
    return _convert(x, from_width, to_width, rounding_mode(fpcr), fpcr, flags)


def fcvtxn(x: int, fpcr: int = 0, flags: Flags = DISCARD) -> int:
    """The double `x` as a single, rounded to odd (FPConvert of FCVTXN)."""
    return _convert(x, 64, 32, Rounding.ODD, fpcr, flags)


def fwiden(x: int, fpcr: int = 0) -> int:
    """The half `x` as the single that an operation on singles sees instead (FPMulAddH).

    FPCR.FZ16 flushes a subnormal half, AHP has no effect, and a NaN stays signalling or quiet.
    """
    x = flush_input(x, FORMATS[16], fpcr, DISCARD)
    if is_nan(x, FORMATS[16]):
        payload = (x & FORMATS[16].hidden - 1) << FORMATS[32].fraction >> FORMATS[16].fraction
        return (x & FORMATS[16].sign) << 16 | FORMATS[32].infinity | payload
    return _convert(x, 16, 32, Rounding.ZERO, 0, DISCARD)


def _convert(x: int, from_width: int, to_width: int, rounding: int, fpcr: int, flags: Flags) -> int:
    """`x` in another format (FPConvert)."""
    source = ALTERNATIVE_HALF if from_width == 16 and fpcr & AHP else FORMATS[from_width]
    target = ALTERNATIVE_HALF if to_width == 16 and fpcr & AHP else FORMATS[to_width]
    fpcr &= ~FZ16
    x = flush_input(x, source, fpcr, flags)
    sign = target.sign if x & source.sign else 0
    if is_nan(x, source):
        return _convert_nan(x, source, target, sign, fpcr, flags)
    magnitude = x & source.magnitude
    if magnitude == source.infinity:
        if target is ALTERNATIVE_HALF:
            flags.bits |= IOC
            return sign | target.magnitude
        return sign | target.infinity
    if not magnitude:
        return sign
    m, e = split(magnitude, source)
    return round_pack(sign != 0, m, e, target, rounding, fpcr, flags)


def _convert_nan(x: int, source: Format, target: Format, sign: int, fpcr: int, flags: Flags) -> int:
    """The quiet NaN with the leading bits of the payload of `x` (FPConvertNaN), or what stands for it."""
    if not x & source.quiet or target is ALTERNATIVE_HALF:
        flags.bits |= IOC
    if target is ALTERNATIVE_HALF:
        return sign
    if fpcr & DN:
        return target.default_nan
    payload = (x & source.quiet - 1) << target.fraction >> source.fraction
    return sign | target.infinity | target.quiet | payload


def fcvt_to_fixed(
    x: int,
    width: int,
    fbits: int,
    unsigned: bool,
    int_width: int,
    rounding: int,
    fpcr: int = 0,
    flags: Flags = DISCARD,
) -> int:
    """`x` as a fixed-point number of `int_width` bits, `fbits` of them fractional, saturated (FPToFixed).

    A NaN gives 0. The result is masked to `int_width` bits. FPCR.RMode is not looked at.
    """
    f = FORMATS[width]
    x = flush_input(x, f, fpcr, flags)
    low, high = (0, (1 << int_width) - 1) if unsigned else (-1 << (int_width - 1), (1 << (int_width - 1)) - 1)
    if is_nan(x, f):
        flags.bits |= IOC
        return 0
    if x & f.magnitude == f.infinity:
        n, inexact = (low - 1 if x & f.sign else high + 1), False
    else:
        n, inexact = _integer(x, f, rounding, fbits)
    if not low <= n <= high:
        flags.bits |= IOC
        n = low if n < low else high
    elif inexact:
        flags.bits |= IXC
    return n & ((1 << int_width) - 1)


def fixed_to_fp(
    v: int,
    int_width: int,
    fbits: int,
    unsigned: bool,
    width: int,
    rounding: int,
    fpcr: int = 0,
    flags: Flags = DISCARD,
) -> int:
    """The fixed-point number `v` of `int_width` bits, `fbits` of them fractional (FixedToFP).

    `v` is a bit pattern. `rounding` is normally `rounding_mode(fpcr)`; FPCR.RMode itself is not looked at.
    """
    if not unsigned and v >> (int_width - 1):
        v -= 1 << int_width
    if v == 0:
        return 0
    return round_pack(v < 0, abs(v), -fbits, FORMATS[width], rounding, fpcr, flags)


def fjcvtzs(x: int, fpcr: int = 0, flags: Flags = DISCARD) -> tuple[int, bool]:
    """The double `x` towards zero and modulo 2**32, and the Z flag: whether that was exact (FPToFixedJS).

    For Z, -0 and a flushed subnormal are not exact.
    """
    f = FORMATS[64]
    number = flush_input(x, f, fpcr, flags)
    if number & f.magnitude >= f.infinity:
        flags.bits |= IOC
        return 0, False
    n, inexact = _integer(number, f, Rounding.ZERO)
    if not -1 << 31 <= n < 1 << 31:
        flags.bits |= IOC
    elif inexact:
        flags.bits |= IXC
    else:
        return n & 0xFFFF_FFFF, x != f.sign and number == x
    return n & 0xFFFF_FFFF, False
