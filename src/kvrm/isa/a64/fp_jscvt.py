"""FJCVTZS: a double to a 32-bit integer as JavaScript wants it, FEAT_JSCVT (Arm ARM C4.1.96, C7.2.99)."""

from __future__ import annotations

from kvrm.isa.a64.common import ZERO
from kvrm.isa.context import Context
from kvrm.isa.definition import insn
from kvrm.values import Bits, cond
from kvrm.values.fp_convert import fixed_to_fp

POINT = 1075
"""The biased exponent for which the fraction counts ones."""


def to_int32(a: Bits) -> Bits:
    """FPToFixedJS(): towards zero, modulo 2^32. The exponent of an infinity or NaN shifts all bits out."""
    exponent = a[62:52].zext(64)
    significand = (a & ((1 << 52) - 1)) | 1 << 52
    up, down = significand.lsl(exponent - POINT), significand.lsr(exponent.like(POINT) - exponent)
    magnitude = cond(exponent.uge(POINT), up, down).trunc(32)
    return cond(a.sign, -magnitude, magnitude)


@insn("FJCVTZS", "0 00 11110 01 1 11 110 000000 Rn:5 Rd:5", "fjcvtzs {Rd:W}, d{Rn}", feature="FEAT_JSCVT")
def fjcvtzs(m: Context, Rn: Bits, Rd: Bits) -> None:
    """Z tells that the integer is the number itself, which -0 is not; FPCR has no influence on either."""
    number = m.v[Rn, 64]
    integer = to_int32(number)
    m.x[Rd, 32] = integer
    m.flags = ZERO, fixed_to_fp(integer, 64, False, 0).eq(number), ZERO, ZERO
