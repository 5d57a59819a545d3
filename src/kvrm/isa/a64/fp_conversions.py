"""Floating point to and from integer and fixed point, moves between register files (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import FP16, NO_HALF, ONLY_HALF, by_ftype, width_of
from kvrm.isa.assembly import number, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits, bits
from kvrm.values.fp_convert import fcvt_to_fixed, fixed_to_fp, power_of_two, scale_width
from kvrm.values.softfloat_core import FORMATS, Rounding

EXECUTION = Execution.ARITHMETIC


def power(exponent: Bits, n: int, sign: int) -> Bits:
    """2**(sign * exponent) as a number of n bits."""
    e = exponent.zext(n).lsl(FORMATS[n].fraction)
    one = bits(n, power_of_two(n, 0))
    return one + e if sign > 0 else one - e


# -- integers --------------------------------------------------------------------------------------


def _integer(rmode: str, opcode: str) -> str:
    return f"sf 00 11110 ftype:2 1 {rmode} {opcode} 000000 Rn:5 Rd:5"


def _to_integer(
    m: Context, sf: Static, ftype: Static, Rn: Bits, Rd: Bits, unsigned: bool, rounding: Rounding
) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = fcvt_to_fixed(m.v[Rn, width_of(ftype)], n, unsigned, rounding, m.fpcr)


TO_INTEGER = {
    "FCVTN": ("00", "00", Rounding.TIEEVEN),
    "FCVTP": ("01", "00", Rounding.POSINF),
    "FCVTM": ("10", "00", Rounding.NEGINF),
    "FCVTZ": ("11", "00", Rounding.ZERO),
    "FCVTA": ("00", "10", Rounding.TIEAWAY),
}

for stem, (rmode, opcode, rounding) in TO_INTEGER.items():
    for unsigned, letter in enumerate("SU"):
        name = stem + letter
        by_ftype(
            f"{name} (scalar, integer)" if stem == "FCVTZ" else f"{name} (scalar)",
            _integer(rmode, f"{opcode}{unsigned}"),
            f"{name.lower()} {{Rd:R}}, {{Rn:fp}}",
            key=f"{name.lower()}_integer",
            unsigned=bool(unsigned),
            rounding=rounding,
        )(_to_integer)


def _from_integer(m: Context, sf: Static, ftype: Static, Rn: Bits, Rd: Bits, unsigned: bool) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = fixed_to_fp(m.x[Rn, 64 if sf else 32], n, unsigned, m.fpcr)


for unsigned, name in enumerate(("SCVTF", "UCVTF")):
    by_ftype(
        f"{name} (scalar, integer)",
        _integer("00", f"01{unsigned}"),
        f"{name.lower()} {{Rd:fp}}, {{Rn:R}}",
        key=f"{name.lower()}_integer",
        unsigned=bool(unsigned),
    )(_from_integer)

# -- fixed point -----------------------------------------------------------------------------------


@printer
def fbits(d: Decoded, scale: int) -> str:
    """Fraction bits of a fixed-point number."""
    return number(64 - scale)


NO_FIXED = "sf=0 scale=0xxxxx"


def _fixed(rmode: str, opcode: str) -> str:
    return f"sf 00 11110 ftype:2 0 {rmode} {opcode} scale:6 Rn:5 Rd:5"


def _fraction_bits(scale: Bits) -> Bits:
    return bits(7, 64) - scale.zext(7)


def _to_fixed(m: Context, sf: Static, ftype: Static, scale: Bits, Rn: Bits, Rd: Bits, unsigned: bool) -> None:
    n, width = 64 if sf else 32, width_of(ftype)
    factor = power(_fraction_bits(scale), scale_width(width, n), 1)
    m.x[Rd, n] = fcvt_to_fixed(m.v[Rn, width], n, unsigned, Rounding.ZERO, m.fpcr, factor)


def _from_fixed(
    m: Context, sf: Static, ftype: Static, scale: Bits, Rn: Bits, Rd: Bits, unsigned: bool
) -> None:
    n, width = 64 if sf else 32, width_of(ftype)
    factor = power(_fraction_bits(scale), scale_width(width, n), -1)
    m.v[Rd, width] = fixed_to_fp(m.x[Rn, n], width, unsigned, m.fpcr, factor)


for unsigned, letter in enumerate("SU"):
    by_ftype(
        f"FCVTZ{letter} (scalar, fixed-point)",
        _fixed("11", f"00{unsigned}"),
        f"fcvtz{letter.lower()} {{Rd:R}}, {{Rn:fp}}, {{scale:fbits}}",
        unallocated=NO_FIXED,
        key=f"fcvtz{letter.lower()}_fixed",
        unsigned=bool(unsigned),
    )(_to_fixed)
    by_ftype(
        f"{letter}CVTF (scalar, fixed-point)",
        _fixed("00", f"01{unsigned}"),
        f"{letter.lower()}cvtf {{Rd:fp}}, {{Rn:R}}, {{scale:fbits}}",
        unallocated=NO_FIXED,
        key=f"{letter.lower()}cvtf_fixed",
        unsigned=bool(unsigned),
    )(_from_fixed)

# -- moves -----------------------------------------------------------------------------------------

SAME_SIZE = f"{NO_HALF} | sf=0 ftype=01 | sf=1 ftype=00"


@insn("FMOV (general)", _integer("00", "110"), "fmov {Rd:R}, {Rn:fp}", unallocated=SAME_SIZE)
def fmov_to_general(m: Context, sf: Static, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.v[Rn, n]


@insn("FMOV (general)", _integer("00", "111"), "fmov {Rd:fp}, {Rn:R}", unallocated=SAME_SIZE)
def fmov_from_general(m: Context, sf: Static, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.v[Rd, n] = m.x[Rn, n]


@insn("FMOV (general)", _integer("00", "110"), "fmov {Rd:R}, {Rn:fp}", unallocated=ONLY_HALF, feature=FP16)
def fmov_half_to_general(m: Context, sf: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.v[Rn, 16].zext(n)


@insn("FMOV (general)", _integer("00", "111"), "fmov {Rd:fp}, {Rn:R}", unallocated=ONLY_HALF, feature=FP16)
def fmov_half_from_general(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.v[Rd, 16] = m.x[Rn, 16]


@insn("FMOV (general)", "1 00 11110 10 1 01 110 000000 Rn:5 Rd:5", "fmov {Rd:X}, v{Rn}.d[1]")
def fmov_top_to_general(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.x[Rd, 64] = m.v[Rn, 128].split(64).lane(1)


@insn("FMOV (general)", "1 00 11110 10 1 01 111 000000 Rn:5 Rd:5", "fmov v{Rd}.d[1], {Rn:X}")
def fmov_top_from_general(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.v[Rd, 128] = m.v[Rd, 128].split(64).with_lane(1, m.x[Rn, 64])
