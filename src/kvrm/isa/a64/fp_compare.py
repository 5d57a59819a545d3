"""Floating-point compare, conditional compare and conditional select (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.common import condition_holds
from kvrm.isa.a64.fp_common import width_of
from kvrm.isa.a64.fp_data_processing import NO_HALF
from kvrm.isa.context import Context, Flags
from kvrm.isa.definition import Static, insn
from kvrm.values import Bits, bits, cond
from kvrm.values.fp import fcmpeq, fcmpgt, funordered


def _compare(a: Bits, b: Bits, fpcr: int) -> Flags:
    """FPCompare(): less 1000, equal 0110, greater 0010, unordered 0011."""
    less = fcmpgt(b, a, fpcr)
    return less, fcmpeq(a, b, fpcr), ~less, funordered(a, b, fpcr)


def _fcmp(m: Context, ftype: Static, Rm: Bits, Rn: Bits) -> None:
    n = width_of(ftype)
    m.flags = _compare(m.v[Rn, n], m.v[Rm, n], m.fpcr)


def _fcmp_zero(m: Context, ftype: Static, Rn: Bits) -> None:
    n = width_of(ftype)
    m.flags = _compare(m.v[Rn, n], bits(n, 0), m.fpcr)


# FCMPE differs from FCMP in the exceptions that quiet NaNs raise.
for name, e in (("FCMP", "0"), ("FCMPE", "1")):
    insn(
        name,
        f"000 11110 ftype:2 1 Rm:5 00 1000 Rn:5 {e}0000",
        f"{name.lower()} {{Rn:fp}}, {{Rm:fp}}",
        unallocated=NO_HALF,
        key=name.lower(),
    )(_fcmp)
    insn(
        f"{name} (zero)",
        f"000 11110 ftype:2 1 ignored:5 00 1000 Rn:5 {e}1000",
        f"{name.lower()} {{Rn:fp}}, #0.0",
        unallocated=NO_HALF,
        key=f"{name.lower()}_zero",
    )(_fcmp_zero)


def _fccmp(m: Context, ftype: Static, Rm: Bits, cond_: Static, Rn: Bits, nzcv: Bits) -> None:
    n = width_of(ftype)
    compared = _compare(m.v[Rn, n], m.v[Rm, n], m.fpcr)
    holds = condition_holds(m, cond_)
    n_, z, c, v = (cond(holds, flag, nzcv[3 - i]) for i, flag in enumerate(compared))
    m.flags = n_, z, c, v


for name, op in (("FCCMP", "0"), ("FCCMPE", "1")):
    insn(
        name,
        f"000 11110 ftype:2 1 Rm:5 cond_:4 01 Rn:5 {op} nzcv:4",
        f"{name.lower()} {{Rn:fp}}, {{Rm:fp}}, {{nzcv:imm}}, {{cond_:cond}}",
        unallocated=NO_HALF,
        key=name.lower(),
    )(_fccmp)


@insn(
    "FCSEL",
    "000 11110 ftype:2 1 Rm:5 cond_:4 11 Rn:5 Rd:5",
    "fcsel {Rd:fp}, {Rn:fp}, {Rm:fp}, {cond_:cond}",
    unallocated=NO_HALF,
)
def fcsel(m: Context, ftype: Static, Rm: Bits, cond_: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = cond(condition_holds(m, cond_), m.v[Rn, n], m.v[Rm, n])
