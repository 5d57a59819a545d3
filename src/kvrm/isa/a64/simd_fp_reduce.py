"""Floating point in Advanced SIMD scalar pairwise and across lanes (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import arrangement, elements, width_of
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Static, insn
from kvrm.values import Bits
from kvrm.values.fp import Binary, fadd, fmax, fmaxnm, fmin, fminnm


@printer
def fp_pair(d: Decoded, v: int) -> str:
    """Vector of two elements, their size by `sz`."""
    return f"v{v}.{arrangement(2 * width_of(d.sz), width_of(d.sz))}"


def _pair(m: Context, sz: Static, Rn: Bits, Rd: Bits, op: Binary) -> None:
    n = width_of(sz)
    a = elements(m, Rn, 2 * n, n)
    m.v[Rd, n] = op(a.lane(0), a.lane(1), m.fpcr)


def _across(m: Context, Rn: Bits, Rd: Bits, op: Binary) -> None:
    """Reduce(): the two halves first; the order shows in NaNs only."""
    a, fpcr = elements(m, Rn, 128, 32), m.fpcr
    low, high = a.shuffle((0, 2)), a.shuffle((1, 3))
    pairs = op(low, high, fpcr)
    m.v[Rd, 32] = op(pairs.lane(0), pairs.lane(1), fpcr)


REDUCTIONS: list[tuple[str, int, str, Binary]] = [
    ("FMAXNM", 0, "01100", fmaxnm),
    ("FADD", 0, "01101", fadd),
    ("FMAX", 0, "01111", fmax),
    ("FMINNM", 1, "01100", fminnm),
    ("FMIN", 1, "01111", fmin),
]

for name, o1, opcode, op in REDUCTIONS:
    stem = name.lower()
    insn(
        f"{name}P (scalar)",
        f"01 1 11110 {o1} sz 11000 {opcode} 10 Rn:5 Rd:5",
        f"{stem}p {{Rd:fp_sz}}, {{Rn:fp_pair}}",
        key=f"{stem}p_scalar",
        op=op,
    )(_pair)
    if name != "FADD":
        insn(
            f"{name}V",
            f"0 1 1 01110 {o1} 0 11000 {opcode} 10 Rn:5 Rd:5",
            f"{stem}v s{{Rd}}, v{{Rn}}.4s",
            key=f"{stem}v",
            op=op,
        )(_across)
