"""Single-precision numbers and rounding modes that the vectors of exact floating point are written with."""

from __future__ import annotations

from kvrm.values.softfloat_core import Rounding

ZERO, SUBNORMAL, NORMAL, ONE, TWO, MAX, INF, QNAN, SNAN, DEFAULT = (
    0x0000_0000, 0x0000_0001, 0x0080_0000, 0x3F80_0000, 0x4000_0000,
    0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_1234, 0x7F80_1234, 0x7FC0_0000,
)  # fmt: skip
NEG = 0x8000_0000
UP, DOWN, CHOP = (mode << 22 for mode in (Rounding.POSINF, Rounding.NEGINF, Rounding.ZERO))
