"""Floating-point data processing: one, two and three sources, immediate (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import LETTER, width_of
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Static, insn
from kvrm.values import Bits, bits, cond
from kvrm.values.fp import (
    Binary,
    fabs,
    fadd,
    fdiv,
    fmax,
    fmaxnm,
    fmin,
    fminnm,
    fmul,
    fmuladd,
    fneg,
    frint,
    fsqrt,
    fsub,
)
from kvrm.values.fp_convert import fcvt
from kvrm.values.softfloat import Rounding, rounding_mode

NO_HALF = "ftype=1x"
"""Half precision in arithmetic is FEAT_FP16; ftype 10 is not allocated."""

# -- one source ------------------------------------------------------------------------------------


def _one_source(opcode: str) -> str:
    return f"000 11110 ftype:2 1 {opcode} 10000 Rn:5 Rd:5"


@insn("FMOV (register)", _one_source("000000"), "fmov {Rd:fp}, {Rn:fp}", unallocated=NO_HALF)
def fmov_register(m: Context, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = m.v[Rn, n]


@insn("FABS (scalar)", _one_source("000001"), "fabs {Rd:fp}, {Rn:fp}", unallocated=NO_HALF)
def fabs_scalar(m: Context, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = fabs(m.v[Rn, n])


@insn("FNEG (scalar)", _one_source("000010"), "fneg {Rd:fp}, {Rn:fp}", unallocated=NO_HALF)
def fneg_scalar(m: Context, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = fneg(m.v[Rn, n])


@insn("FSQRT (scalar)", _one_source("000011"), "fsqrt {Rd:fp}, {Rn:fp}", unallocated=NO_HALF)
def fsqrt_scalar(m: Context, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = fsqrt(m.v[Rn, n], m.fpcr)


@printer
def fcvt_to(d: Decoded, opc: int) -> str:
    """FCVT's destination, its size by `opc`."""
    return f"{LETTER[width_of(opc)]}{d.Rd}"


@insn(
    "FCVT",
    _one_source("0001 opc:2"),
    "fcvt {opc:fcvt_to}, {Rn:fp}",
    unallocated="ftype=10 | opc=10 | ftype=00 opc=00 | ftype=01 opc=01 | ftype=11 opc=11",
)
def fcvt_scalar(m: Context, ftype: Static, opc: Static, Rn: Bits, Rd: Bits) -> None:
    to = width_of(opc)
    m.v[Rd, to] = fcvt(m.v[Rn, width_of(ftype)], to, m.fpcr)


def _frint(m: Context, ftype: Static, Rn: Bits, Rd: Bits, rounding: Rounding | None) -> None:
    n, fpcr = width_of(ftype), m.fpcr
    m.v[Rd, n] = frint(m.v[Rn, n], rounding_mode(fpcr) if rounding is None else rounding, fpcr)


FRINTS: dict[str, Rounding | None] = {
    "FRINTN": Rounding.TIEEVEN,
    "FRINTP": Rounding.POSINF,
    "FRINTM": Rounding.NEGINF,
    "FRINTZ": Rounding.ZERO,
    "FRINTA": Rounding.TIEAWAY,
    "FRINTX": None,
    "FRINTI": None,
}
"""The rounding to an integral number that each does; None is FPCR's."""

for name, opcode in zip(FRINTS, ("000", "001", "010", "011", "100", "110", "111"), strict=True):
    asm = f"{name.lower()} {{Rd:fp}}, {{Rn:fp}}"
    insn(
        f"{name} (scalar)",
        _one_source(f"001{opcode}"),
        asm,
        unallocated=NO_HALF,
        key=f"{name.lower()}_scalar",
        rounding=FRINTS[name],
    )(_frint)

# -- two sources -----------------------------------------------------------------------------------


def _two_source(m: Context, ftype: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: Binary) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = op(m.v[Rn, n], m.v[Rm, n], m.fpcr)


def _fnmul(a: Bits, b: Bits, fpcr: int) -> Bits:
    """The product negated, a NaN as well."""
    return fneg(fmul(a, b, fpcr))


TWO_SOURCE: list[tuple[str, Binary]] = [
    ("FMUL", fmul),
    ("FDIV", fdiv),
    ("FADD", fadd),
    ("FSUB", fsub),
    ("FMAX", fmax),
    ("FMIN", fmin),
    ("FMAXNM", fmaxnm),
    ("FMINNM", fminnm),
    ("FNMUL", _fnmul),
]

for number, (name, op) in enumerate(TWO_SOURCE):
    insn(
        f"{name} (scalar)",
        f"000 11110 ftype:2 1 Rm:5 {number:04b} 10 Rn:5 Rd:5",
        f"{name.lower()} {{Rd:fp}}, {{Rn:fp}}, {{Rm:fp}}",
        unallocated=NO_HALF,
        key=f"{name.lower()}_scalar",
        op=op,
    )(_two_source)

# -- three sources ---------------------------------------------------------------------------------


def _three_source(
    m: Context, ftype: Static, Rm: Bits, Ra: Bits, Rn: Bits, Rd: Bits, negate: tuple[bool, bool]
) -> None:
    """Addend and first factor are negated before they are looked at, NaNs too."""
    n = width_of(ftype)
    addend, factor, other = m.v[Ra, n], m.v[Rn, n], m.v[Rm, n]
    addend = fneg(addend) if negate[0] else addend
    factor = fneg(factor) if negate[1] else factor
    m.v[Rd, n] = fmuladd(addend, factor, other, m.fpcr)


THREE_SOURCE = {
    "FMADD": ("0", "0", (False, False)),
    "FMSUB": ("0", "1", (False, True)),
    "FNMADD": ("1", "0", (True, True)),
    "FNMSUB": ("1", "1", (True, False)),
}

for name, (o1, o0, negate) in THREE_SOURCE.items():
    insn(
        name,
        f"000 11111 ftype:2 {o1} Rm:5 {o0} Ra:5 Rn:5 Rd:5",
        f"{name.lower()} {{Rd:fp}}, {{Rn:fp}}, {{Rm:fp}}, {{Ra:fp}}",
        unallocated=NO_HALF,
        key=name.lower(),
        negate=negate,
    )(_three_source)

# -- immediate -------------------------------------------------------------------------------------


def expand_imm(imm8: Bits, n: int) -> Bits:
    """VFPExpandImm(): abcdefgh as sign a, exponent NOT(b):bb...b:cd, fraction efgh00...0."""
    fraction = {16: 10, 32: 23, 64: 52}[n]
    exponent_bits = n - 1 - fraction
    sign = imm8[7].zext(n).lsl(n - 1)
    ones = ((1 << exponent_bits - 3) - 1) << 2
    high = cond(imm8[6], bits(n, ones), 1 << exponent_bits - 1)
    return sign | (high | imm8[5:4].zext(n)).lsl(fraction) | imm8[3:0].zext(n).lsl(fraction - 4)


@printer
def fp_imm8(d: Decoded, imm8: int) -> str:
    """The number that an 8-bit floating-point immediate stands for."""
    magnitude = (16 + (imm8 & 15)) / 16 * 2.0 ** ((imm8 >> 4 & 7 ^ 4) - 3)
    return f"#{-magnitude if imm8 >> 7 else magnitude:.8f}"


@insn(
    "FMOV (scalar, immediate)",
    "000 11110 ftype:2 1 imm8:8 100 00000 Rd:5",
    "fmov {Rd:fp}, {imm8:fp_imm8}",
    unallocated=NO_HALF,
)
def fmov_scalar_immediate(m: Context, ftype: Static, imm8: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = expand_imm(imm8, n)
