"""FJCVTZS: a double to a 32-bit integer as JavaScript wants it, FEAT_JSCVT (Arm ARM C4.1.96, C7.2.99)."""

from __future__ import annotations

from kvrm.isa.a64.common import ZERO
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, insn
from kvrm.values import Bits
from kvrm.values.fp_convert import fjcvtzs as to_int32

EXECUTION = Execution.ARITHMETIC


@insn("FJCVTZS", "0 00 11110 01 1 11 110 000000 Rn:5 Rd:5", "fjcvtzs {Rd:W}, d{Rn}", feature="FEAT_JSCVT")
def fjcvtzs(m: Context, Rn: Bits, Rd: Bits) -> None:
    """Z tells that the integer is the number itself, which -0 is not; FPCR has no influence on either."""
    m.x[Rd, 32], exact = to_int32(m.v[Rn, 64], m.fpcr)
    m.flags = ZERO, exact, ZERO, ZERO
