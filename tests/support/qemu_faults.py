"""Where QEMU 7.2 is at fault by the manual: its outcome put right, so that only those bits are excused."""

from __future__ import annotations

import dataclasses

from kvrm.isa.a64 import decode
from oracle.case import Case, Outcome

FZ = 1 << 24
FCVTZS_FIXED = "fcvtzs_fixed_scalar_16"


def put_right(case: Case, outcome: Outcome) -> Outcome:
    """The outcome of the case's last word as the manual has it."""
    d = decode(case.words[-1])
    if d is None:
        return outcome
    if d.definition.key == FCVTZS_FIXED:
        # FCVTZS Hd, Hn, #fbits: V[d] = ZeroExtend(result), but QEMU leaves the sign above the element
        v = list(outcome.v)
        v[d.Rd] &= 0xFFFF
        return dataclasses.replace(outcome, v=tuple(v))
    if d.definition.name == "FJCVTZS" and case.fpcr & FZ and 0 < case.v[d.Rn] & (1 << 64) - 1 < 1 << 52:
        # FPToFixedJS: "elsif sign == '0' && value == 0.0 && !IsZero(op<51:0>) then Z = '0'"
        return dataclasses.replace(outcome, nzcv=0)
    return outcome
