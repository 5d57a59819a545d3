"""Fixed-point conversions in Advanced SIMD shift by immediate and its scalar group (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import FP16, LETTER, arrangement, elements
from kvrm.isa.a64.fp_conversions import power
from kvrm.isa.assembly import number
from kvrm.isa.context import Context
from kvrm.isa.definition import Asm, Decoded, Execution, Static, insn
from kvrm.values import Bits, bits
from kvrm.values.fp_convert import fcvt_to_fixed, fixed_to_fp, scale_width
from kvrm.values.softfloat_core import Rounding

EXECUTION = Execution.ARITHMETIC


def _convert(a: Bits, imm: Bits, fpcr: int, unsigned: bool, to_fixed: bool) -> Bits:
    """`imm` is what immh:immb has below its leading one: the element size minus the fraction bits."""
    n = a.width
    fraction_bits = bits(7, n) - imm.zext(7)
    if to_fixed:
        return fcvt_to_fixed(a, n, unsigned, Rounding.ZERO, fpcr, power(fraction_bits, scale_width(n, n), 1))
    return fixed_to_fp(a, n, unsigned, fpcr, power(fraction_bits, scale_width(n, n), -1))


def _vector(
    m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, unsigned: bool, to_fixed: bool
) -> None:
    n = 128 if Q else 64
    m.v[Rd, n] = _convert(elements(m, Rn, n, esize), imm, m.fpcr, unsigned, to_fixed)


def _scalar(m: Context, imm: Bits, Rn: Bits, Rd: Bits, esize: int, unsigned: bool, to_fixed: bool) -> None:
    m.v[Rd, esize] = _convert(m.v[Rn, esize], imm, m.fpcr, unsigned, to_fixed)


def _asm(mnemonic: str, esize: int, scalar: bool) -> Asm:
    def text(d: Decoded) -> str:
        fraction = number(esize - d.imm)
        if scalar:
            return f"{mnemonic} {LETTER[esize]}{d.Rd}, {LETTER[esize]}{d.Rn}, {fraction}"
        lanes = arrangement(128 if d.Q else 64, esize)
        return f"{mnemonic} v{d.Rd}.{lanes}, v{d.Rn}.{lanes}, {fraction}"

    return text


FIXED_POINT = [
    ("SCVTF", "0", "11100", False),
    ("FCVTZS", "0", "11111", True),
    ("UCVTF", "1", "11100", False),
    ("FCVTZU", "1", "11111", True),
]

for name, u, opcode, to_fixed in FIXED_POINT:
    for esize, imm, feature in ((16, "001 imm:4", FP16), (32, "01 imm:5", None), (64, "1 imm:6", None)):
        mnemonic = name.lower()
        rest = f"{imm} {opcode} 1 Rn:5 Rd:5"
        insn(
            f"{name} (vector, fixed-point)",
            f"0 Q {u} 011110 {rest}",
            _asm(mnemonic, esize, scalar=False),
            unallocated="Q=0" if esize == 64 else "",
            feature=feature,
            key=f"{mnemonic}_fixed_vector_{esize}",
            esize=esize,
            unsigned=u == "1",
            to_fixed=to_fixed,
        )(_vector)
        insn(
            f"{name} (vector, fixed-point)",
            f"01 {u} 111110 {rest}",
            _asm(mnemonic, esize, scalar=True),
            feature=feature,
            key=f"{mnemonic}_fixed_scalar_{esize}",
            esize=esize,
            unsigned=u == "1",
            to_fixed=to_fixed,
        )(_scalar)
