"""Floating-point data processing: one, two and three sources, immediate (Arm ARM C4.1.96)."""

from __future__ import annotations

from dataclasses import dataclass

from kvrm.isa.a64.fp_common import LETTER, by_ftype, width_of
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits, bits, cond
from kvrm.values.fp import (
    Binary,
    Unary,
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
from kvrm.values.softfloat_core import Rounding, rounding_mode

EXECUTION = Execution.ARITHMETIC

# -- one source ------------------------------------------------------------------------------------


def _one_source(opcode: str) -> str:
    return f"000 11110 ftype:2 1 {opcode} 10000 Rn:5 Rd:5"


@by_ftype("FMOV (register)", _one_source("000000"), "fmov {Rd:fp}, {Rn:fp}", key="fmov_register")
def fmov_register(m: Context, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = m.v[Rn, n]


@by_ftype("FABS (scalar)", _one_source("000001"), "fabs {Rd:fp}, {Rn:fp}", key="fabs_scalar")
def fabs_scalar(m: Context, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = fabs(m.v[Rn, n])


@by_ftype("FNEG (scalar)", _one_source("000010"), "fneg {Rd:fp}, {Rn:fp}", key="fneg_scalar")
def fneg_scalar(m: Context, ftype: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = fneg(m.v[Rn, n])


@by_ftype("FSQRT (scalar)", _one_source("000011"), "fsqrt {Rd:fp}, {Rn:fp}", key="fsqrt_scalar")
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


@dataclass(frozen=True)
class Frint:
    """What an instruction that rounds to an integral number does; no rounding of its own means FPCR's."""

    rounding: Rounding | None
    exact: bool = False

    def __call__(self, a: Bits, fpcr: int) -> Bits:
        """The lanes of `a`, rounded."""
        return frint(a, rounding_mode(fpcr) if self.rounding is None else self.rounding, fpcr, self.exact)


FRINTS = {
    "FRINTN": Frint(Rounding.TIEEVEN),
    "FRINTP": Frint(Rounding.POSINF),
    "FRINTM": Frint(Rounding.NEGINF),
    "FRINTZ": Frint(Rounding.ZERO),
    "FRINTA": Frint(Rounding.TIEAWAY),
    "FRINTX": Frint(None, exact=True),
    "FRINTI": Frint(None),
}


def _one_operand(m: Context, ftype: Static, Rn: Bits, Rd: Bits, op: Unary) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = op(m.v[Rn, n], m.fpcr)


for name, opcode in zip(FRINTS, ("000", "001", "010", "011", "100", "110", "111"), strict=True):
    asm = f"{name.lower()} {{Rd:fp}}, {{Rn:fp}}"
    key = f"{name.lower()}_scalar"
    by_ftype(f"{name} (scalar)", _one_source(f"001{opcode}"), asm, key=key, op=FRINTS[name])(_one_operand)

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
PRODUCTS = ("FMUL", "FDIV", "FNMUL")

for number, (name, op) in enumerate(TWO_SOURCE):
    by_ftype(
        f"{name} (scalar)",
        f"000 11110 ftype:2 1 Rm:5 {number:04b} 10 Rn:5 Rd:5",
        f"{name.lower()} {{Rd:fp}}, {{Rn:fp}}, {{Rm:fp}}",
        key=f"{name.lower()}_scalar",
        execution=Execution.MULTIPLY_DIVIDE if name in PRODUCTS else None,
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
    by_ftype(
        name,
        f"000 11111 ftype:2 {o1} Rm:5 {o0} Ra:5 Rn:5 Rd:5",
        f"{name.lower()} {{Rd:fp}}, {{Rn:fp}}, {{Rm:fp}}, {{Ra:fp}}",
        key=name.lower(),
        execution=Execution.MULTIPLY_DIVIDE,
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


@by_ftype(
    "FMOV (scalar, immediate)",
    "000 11110 ftype:2 1 imm8:8 100 00000 Rd:5",
    "fmov {Rd:fp}, {imm8:fp_imm8}",
    key="fmov_scalar_immediate",
)
def fmov_scalar_immediate(m: Context, ftype: Static, imm8: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = expand_imm(imm8, n)
