"""Floating point in Advanced SIMD scalar pairwise and across lanes (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import (
    FP16,
    HALF,
    LETTER,
    arrangement,
    elements,
    shape_of,
    sz_of,
    width_of,
    with_half,
)
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits
from kvrm.values.fp import Binary, fadd, fmax, fmaxnm, fmin, fminnm

EXECUTION = Execution.ARITHMETIC


@printer
def fp_pair(d: Decoded, v: int) -> str:
    """Vector of two elements, their size by `sz`."""
    n = width_of(sz_of(d))
    return f"v{v}.{arrangement(2 * n, n)}"


@printer
def fp_across(d: Decoded, v: int) -> str:
    """Vector whose elements are all used, of the size that the definition is bound to."""
    return f"v{v}.{arrangement(*shape_of(d.Q, d.definition.bound['sz']))}"


def _pair(m: Context, sz: Static, Rn: Bits, Rd: Bits, op: Binary) -> None:
    n = width_of(sz)
    a = elements(m, Rn, 2 * n, n)
    m.v[Rd, n] = op(a.lane(0), a.lane(1), m.fpcr)


def _across(m: Context, Q: Static, Rn: Bits, Rd: Bits, op: Binary, sz: int) -> None:
    """Reduce(): neighbours, neighbours of the results, and so on; the order shows in NaNs only."""
    n, esize = shape_of(Q, sz)
    a, fpcr = elements(m, Rn, n, esize), m.fpcr
    while a.lanes > 1:
        a = op(a.shuffle(range(0, a.lanes, 2)), a.shuffle(range(1, a.lanes, 2)), fpcr)
    m.v[Rd, esize] = a


REDUCTIONS: list[tuple[str, int, str, Binary]] = [
    ("FMAXNM", 0, "01100", fmaxnm),
    ("FADD", 0, "01101", fadd),
    ("FMAX", 0, "01111", fmax),
    ("FMINNM", 1, "01100", fminnm),
    ("FMIN", 1, "01111", fmin),
]

for name, o1, opcode, op in REDUCTIONS:
    stem = name.lower()
    rest = f"11000 {opcode} 10 Rn:5 Rd:5"
    with_half(
        f"{name}P (scalar)",
        (f"01 1 11110 {o1} sz {rest}", f"01 0 11110 {o1} 0 {rest}"),
        f"{stem}p {{Rd:fp_sz}}, {{Rn:fp_pair}}",
        key=f"{stem}p_scalar",
        op=op,
    )(_pair)
    if name != "FADD":
        for key, u, sz, feature in ((f"{stem}v", 1, 0, None), (f"{stem}v_half", 0, HALF, FP16)):
            insn(
                f"{name}V",
                f"0 Q {u} 01110 {o1} 0 {rest}",
                f"{stem}v {LETTER[width_of(sz)]}{{Rd}}, {{Rn:fp_across}}",
                unallocated="" if sz else "Q=0",
                feature=feature,
                key=key,
                op=op,
                sz=sz,
            )(_across)
