"""FMLAL, FMLSL and the forms for upper halves: products of halves added to singles (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import arrangement, elements
from kvrm.isa.a64.simd_fp_by_element import half_element
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits
from kvrm.values.fp import fmuladd, fneg
from kvrm.values.fp_convert import fwiden

EXECUTION = Execution.MULTIPLY_DIVIDE


@printer
def long_sum(d: Decoded, v: int) -> str:
    """Vector of singles."""
    return f"v{v}.{arrangement(128 if d.Q else 64, 32)}"


@printer
def long_factor(d: Decoded, v: int) -> str:
    """Vector of as many halves."""
    return f"v{v}.{arrangement(64 if d.Q else 32, 16)}"


def _halves(m: Context, r: Bits, q: int, upper: bool) -> Bits:
    """The lower or upper half of the halves in the 64 or 128 bits of a register."""
    part = 64 if q else 32
    return elements(m, r, 2 * part, part).lane(int(upper)).split(16)


def _add(m: Context, q: int, a: Bits, b: Bits, Rd: Bits, negate: bool) -> None:
    """FPMulAddH(): products of halves are exact as singles, so that each sum is rounded once."""
    n, fpcr = 128 if q else 64, m.fpcr
    factor = fwiden(fneg(a) if negate else a, fpcr)
    m.v[Rd, n] = fmuladd(elements(m, Rd, n, 32), factor, fwiden(b, fpcr), fpcr)


def _vector(m: Context, Q: Static, Rm: Bits, Rn: Bits, Rd: Bits, negate: bool, upper: bool) -> None:
    _add(m, Q, _halves(m, Rn, Q, upper), _halves(m, Rm, Q, upper), Rd, negate)


def _element(
    m: Context,
    Q: Static,
    L: Bits,
    M: Bits,
    Rm: Bits,
    H: Bits,
    Rn: Bits,
    Rd: Bits,
    negate: bool,
    upper: bool,
) -> None:
    a = _halves(m, Rn, Q, upper)
    _add(m, Q, a, half_element(m, Rm, L, M, H).splat(a.lanes), Rd, negate)


for negate, stem in enumerate(("FMLAL", "FMLSL")):
    for upper, name in enumerate((stem, f"{stem}2")):
        text = f"{name.lower()} {{Rd:long_sum}}, {{Rn:long_factor}}"
        insn(
            f"{stem}, {stem}2 (vector)",
            f"0 Q {upper} 01110 {negate} 0 1 Rm:5 11{1 - upper}01 1 Rn:5 Rd:5",
            f"{text}, {{Rm:long_factor}}",
            feature="FEAT_FHM",
            key=f"{name.lower()}_vector",
            negate=bool(negate),
            upper=bool(upper),
        )(_vector)
        insn(
            f"{stem}, {stem}2 (by element)",
            f"0 Q {upper} 01111 10 L M Rm:4 {upper}{negate}00 H 0 Rn:5 Rd:5",
            f"{text}, {{Rm:fp_element}}",
            feature="FEAT_FHM",
            key=f"{name.lower()}_element",
            negate=bool(negate),
            upper=bool(upper),
        )(_element)
