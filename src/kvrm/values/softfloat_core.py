"""The parts that every floating-point operation shares: formats, FPCR, exception flags, rounding, NaNs.

Numbers are bit patterns held in Python ints, already masked to their width. FEAT_AFP (FPCR.AH, FIZ, NEP) and
trapped exceptions are not implemented, so their FPCR bits have no effect.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

# FPCR fields (Arm ARM C5.2.8); RMODE is the mask of a two-bit field.
FZ16: Final = 1 << 19
RMODE: Final = 3 << 22
FZ: Final = 1 << 24
DN: Final = 1 << 25
AHP: Final = 1 << 26

# FPSR cumulative exception bits (Arm ARM C5.2.9).
IOC: Final = 1 << 0
DZC: Final = 1 << 1
OFC: Final = 1 << 2
UFC: Final = 1 << 3
IXC: Final = 1 << 4
IDC: Final = 1 << 7


class Rounding(IntEnum):
    """The manual's FPRounding; the first four have the encoding of FPCR.RMode."""

    TIEEVEN = 0
    POSINF = 1
    NEGINF = 2
    ZERO = 3
    TIEAWAY = 4
    ODD = 5


_MODES: Final = tuple(Rounding)


def rounding_mode(fpcr: int) -> Rounding:
    """The rounding that FPCR.RMode asks for (FPRoundingMode)."""
    return _MODES[fpcr >> 22 & 3]


class Flags:
    """Cumulative exceptions: operations only ever set bits of `bits`, laid out as in FPSR."""

    __slots__ = ("bits",)

    def __init__(self, bits: int = 0) -> None:
        self.bits = bits

    def __repr__(self) -> str:
        return f"Flags({self.bits:#x})"


# Everything is set already, so that adding to it changes nothing and no caller can learn anything from it.
DISCARD: Final = Flags(IOC | DZC | OFC | UFC | IXC | IDC)


class Control(int):
    """A value of FPCR that knows where exceptions go: what `m.fpcr` is while a machine tracks them."""

    flags: Flags

    def __new__(cls, fpcr: int, flags: Flags) -> Control:
        """The value `fpcr`, exceptions to be added to `flags`."""
        self = super().__new__(cls, fpcr)
        self.flags = flags
        return self


def flags_of(fpcr: int) -> Flags:
    """Where the exceptions of an operation go that is given `fpcr`: nowhere, unless it is a `Control`."""
    return fpcr.flags if isinstance(fpcr, Control) else DISCARD


@dataclass(frozen=True, slots=True)
class Format:
    """One floating-point format, with the masks and conversions that operations on it need.

    A finite number is `significand * 2**exponent`; `exponent` is that of the least significant bit.
    """

    width: int
    fraction: int  # stored bits of the significand
    min_exponent: int  # exponent of the smallest normal number
    infinity: int  # first magnitude above all finite numbers
    code: str  # the format's letter in `struct`
    sign: int = field(init=False)
    magnitude: int = field(init=False)  # mask of all but the sign
    hidden: int = field(init=False)  # the smallest normal number, and the significand bit that is not stored
    quiet: int = field(init=False)  # set in quiet NaNs, clear in signalling ones
    default_nan: int = field(init=False)
    lsb: int = field(init=False)  # exponent of the smallest subnormal
    bias: int = field(init=False)
    flush: int = field(init=False)  # the FPCR bit that flushes subnormals
    denormal: int = field(init=False)  # the flag of a flushed input: half precision has none
    low: float = field(init=False)  # within low..high a host float that is rounded to this format is in
    high: float = field(init=False)  # no danger of underflow or overflow
    to_floats: Callable[[int, int], tuple[float, float]] = field(init=False)
    to_bits: Callable[[float], int] = field(init=False)

    def __post_init__(self) -> None:
        derived: dict[str, object] = {
            "sign": 1 << (self.width - 1),
            "magnitude": (1 << (self.width - 1)) - 1,
            "hidden": 1 << self.fraction,
            "quiet": 1 << (self.fraction - 1),
            "default_nan": self.infinity | 1 << (self.fraction - 1),
            "lsb": self.min_exponent - self.fraction,
            "bias": 1 - self.min_exponent,
            "flush": FZ16 if self.width == 16 else FZ,
            "denormal": 0 if self.width == 16 else IDC,
            "low": 2.0 ** (self.min_exponent + 1),
            "high": 2.0**-self.min_exponent,
        }
        derived["to_floats"], derived["to_bits"] = _converters(self.width, self.code)
        for name, value in derived.items():
            object.__setattr__(self, name, value)


def _converters(
    width: int, code: str
) -> tuple[Callable[[int, int], tuple[float, float]], Callable[[float], int]]:
    """Functions (two bit patterns -> two host floats) and (host float -> bit pattern, ties to even)."""
    letter = {16: "H", 32: "I", 64: "Q"}[width]
    pack_pair = struct.Struct(f"<2{letter}").pack
    unpack_pair = struct.Struct(f"<2{code}").unpack
    pack_one = struct.Struct(f"<{code}").pack

    def to_floats(a: int, b: int) -> tuple[float, float]:
        x, y = unpack_pair(pack_pair(a, b))
        return x, y

    def to_bits(value: float) -> int:
        return int.from_bytes(pack_one(value), "little")

    return to_floats, to_bits


FORMATS: Final = {
    16: Format(16, 10, -14, 0x7C00, "e"),
    32: Format(32, 23, -126, 0x7F80_0000, "f"),
    64: Format(64, 52, -1022, 0x7FF0_0000_0000_0000, "d"),
}
# FPCR.AHP: no infinities or NaNs, the largest exponent holds numbers as well.
ALTERNATIVE_HALF: Final = Format(16, 10, -14, 0x8000, "e")


def flush_input(x: int, f: Format, fpcr: int, flags: Flags) -> int:
    """`x`, or a zero of its sign if it is subnormal and `fpcr` flushes those (FPUnpackBase)."""
    if fpcr & f.flush and 0 < x & f.magnitude < f.hidden:
        flags.bits |= f.denormal
        return x & f.sign
    return x


def split(x: int, f: Format) -> tuple[int, int]:
    """Significand and exponent of the finite number `x`, sign ignored: |x| = significand * 2**exponent."""
    magnitude = x & f.magnitude
    if magnitude < f.hidden:
        return magnitude, f.lsb
    exponent = magnitude >> f.fraction
    return magnitude - (exponent - 1 << f.fraction), exponent - 1 + f.lsb


def is_nan(x: int, f: Format) -> bool:
    """Whether `x` is a quiet or a signalling NaN."""
    return x & f.magnitude > f.infinity


def is_signalling(x: int, f: Format) -> bool:
    """Whether `x` is a signalling NaN."""
    return x & f.magnitude > f.infinity and not x & f.quiet


def invalid(f: Format, flags: Flags) -> int:
    """The default NaN of an invalid operation."""
    flags.bits |= IOC
    return f.default_nan


def propagate_nan(f: Format, fpcr: int, flags: Flags, *operands: int) -> int:
    """The NaN that results from `operands`, one of which at least is a NaN (FPProcessNaNs, FPProcessNaNs3).

    The first signalling NaN wins and is quietened; without one, the first quiet NaN.
    """
    nans = [x for x in operands if is_nan(x, f)]
    chosen = nans[0]
    for x in nans:
        if not x & f.quiet:
            flags.bits |= IOC
            chosen = x | f.quiet
            break
    return f.default_nan if fpcr & DN else chosen


def shift_round(m: int, shift: int, negative: bool, rounding: int) -> tuple[int, bool]:
    """`m * 2**-shift` rounded to an integer, and whether that changed it.

    `m` is a magnitude; `negative` says which way up and down are for it.
    """
    if shift <= 0:
        return m << -shift, False
    q = m >> shift
    rest = m - (q << shift)
    if not rest:
        return q, False
    half = 1 << (shift - 1)
    if rounding == Rounding.TIEEVEN:
        up = rest > half or (rest == half and q & 1 == 1)
    elif rounding == Rounding.TIEAWAY:
        up = rest >= half
    elif rounding == Rounding.ODD:
        up = q & 1 == 0
    else:
        up = rounding == (Rounding.NEGINF if negative else Rounding.POSINF)
    return q + up, True


def zero_sum(f: Format, rounding: int) -> int:
    """The zero that is the exact sum of numbers which are not both zeros of one sign."""
    return f.sign if rounding == Rounding.NEGINF else 0


def round_pack(negative: bool, m: int, e: int, f: Format, rounding: int, fpcr: int, flags: Flags) -> int:
    """`m * 2**e` (m > 0) with a sign, rounded to `f` (FPRoundBase with FPCR.AH = 0).

    Tininess, and with it the flush to zero, is judged before rounding. A caller whose `m` stands for an
    unrepresentable value (a quotient, a root) passes two bits more than `f` holds and sets the last one.
    """
    sign = f.sign if negative else 0
    top = m.bit_length() - 1 + e
    tiny = top < f.min_exponent
    if tiny and fpcr & f.flush:
        flags.bits |= UFC
        return sign
    ulp = f.lsb if tiny else top - f.fraction
    q, inexact = shift_round(m, ulp - e, negative, rounding)
    # The hidden bit adds one to the exponent field, and so does a carry out of the rounding.
    magnitude = (ulp - f.lsb << f.fraction) + q
    if magnitude >= f.infinity:
        return sign | _overflow(negative, f, rounding, flags)
    if inexact:
        flags.bits |= UFC | IXC if tiny else IXC
    return sign | magnitude


def _overflow(negative: bool, f: Format, rounding: int, flags: Flags) -> int:
    """The magnitude for a number too large for `f`."""
    if f is ALTERNATIVE_HALF:
        flags.bits |= IOC
        return f.magnitude
    flags.bits |= OFC | IXC
    away = Rounding.NEGINF if negative else Rounding.POSINF
    if rounding in (Rounding.TIEEVEN, Rounding.TIEAWAY, away):
        return f.infinity
    return f.infinity - 1
