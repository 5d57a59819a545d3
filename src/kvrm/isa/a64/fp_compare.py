"""Floating-point compare, conditional compare and conditional select (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.common import condition_holds
from kvrm.isa.a64.fp_common import by_ftype, width_of
from kvrm.isa.context import Context, Flags
from kvrm.isa.definition import Execution, Static
from kvrm.values import Bits, bits, cond
from kvrm.values.fp import exceptions_if, fcmpeq, fcmplt, funordered

EXECUTION = Execution.ARITHMETIC


def _compare(a: Bits, b: Bits, signal_all: bool, fpcr: int) -> Flags:
    """FPCompare(): less 1000, equal 0110, greater 0010, unordered 0011."""
    less = fcmplt(a, b, signal_all, fpcr)
    return less, fcmpeq(a, b, fpcr), ~less, funordered(a, b, fpcr)


def _fcmp(m: Context, ftype: Static, Rm: Bits, Rn: Bits, signal_all: bool) -> None:
    n = width_of(ftype)
    m.flags = _compare(m.v[Rn, n], m.v[Rm, n], signal_all, m.fpcr)


def _fcmp_zero(m: Context, ftype: Static, Rn: Bits, signal_all: bool) -> None:
    n = width_of(ftype)
    m.flags = _compare(m.v[Rn, n], bits(n, 0), signal_all, m.fpcr)


for name, e in (("FCMP", "0"), ("FCMPE", "1")):
    by_ftype(
        name,
        f"000 11110 ftype:2 1 Rm:5 00 1000 Rn:5 {e}0000",
        f"{name.lower()} {{Rn:fp}}, {{Rm:fp}}",
        key=name.lower(),
        signal_all=e == "1",
    )(_fcmp)
    by_ftype(
        f"{name} (zero)",
        f"000 11110 ftype:2 1 ignored:5 00 1000 Rn:5 {e}1000",
        f"{name.lower()} {{Rn:fp}}, #0.0",
        key=f"{name.lower()}_zero",
        signal_all=e == "1",
    )(_fcmp_zero)


def _fccmp(
    m: Context, ftype: Static, Rm: Bits, cond_: Static, Rn: Bits, nzcv: Bits, signal_all: bool
) -> None:
    n = width_of(ftype)
    holds = condition_holds(m, cond_)
    compared = _compare(m.v[Rn, n], m.v[Rm, n], signal_all, exceptions_if(holds, m.fpcr))
    n_, z, c, v = (cond(holds, flag, nzcv[3 - i]) for i, flag in enumerate(compared))
    m.flags = n_, z, c, v


for name, op in (("FCCMP", "0"), ("FCCMPE", "1")):
    by_ftype(
        name,
        f"000 11110 ftype:2 1 Rm:5 cond_:4 01 Rn:5 {op} nzcv:4",
        f"{name.lower()} {{Rn:fp}}, {{Rm:fp}}, {{nzcv:imm}}, {{cond_:cond}}",
        key=name.lower(),
        signal_all=op == "1",
    )(_fccmp)


@by_ftype(
    "FCSEL",
    "000 11110 ftype:2 1 Rm:5 cond_:4 11 Rn:5 Rd:5",
    "fcsel {Rd:fp}, {Rn:fp}, {Rm:fp}, {cond_:cond}",
    key="fcsel",
)
def fcsel(m: Context, ftype: Static, Rm: Bits, cond_: Static, Rn: Bits, Rd: Bits) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = cond(condition_holds(m, cond_), m.v[Rn, n], m.v[Rm, n])
