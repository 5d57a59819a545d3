"""Exact floating point: vectors checked by hand against the manual's pseudocode."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvrm.values.softfloat import (
    fadd,
    fcmp,
    fcmpeq,
    fcmpge,
    fcmpgt,
    fdiv,
    fmax,
    fmaxnm,
    fmin,
    fminnm,
    fmul,
    fmuladd,
    fmulx,
    frecps,
    frsqrts,
    fsqrt,
    fsub,
)
from kvrm.values.softfloat_core import (
    DISCARD,
    DN,
    DZC,
    FZ,
    FZ16,
    IDC,
    IOC,
    IXC,
    OFC,
    UFC,
    Flags,
    Rounding,
    rounding_mode,
)
from kvrm.values.softfloat_estimate import frecpe, frecpx, frsqrte, urecpe, ursqrte
from single_precision import (
    CHOP,
    DEFAULT,
    DOWN,
    INF,
    MAX,
    NEG,
    NORMAL,
    ONE,
    QNAN,
    SNAN,
    SUBNORMAL,
    TWO,
    UP,
    ZERO,
)

Operation = Callable[..., int]
# Single precision: operation, operands, FPCR, result, FPSR.
ARITHMETIC: list[tuple[Operation, tuple[int, ...], int, int, int]] = [
    (fadd, (ONE, ONE), 0, TWO, 0),
    (fadd, (ONE, 0x3300_0000), 0, ONE, IXC),  # 1 + 2**-25
    (fadd, (ONE, 0x3380_0000), 0, ONE, IXC),  # 1 + 2**-24: a tie, to even
    (fadd, (ONE | 1, 0x3380_0000), 0, ONE + 2, IXC),
    (fadd, (ONE, SUBNORMAL), UP, ONE + 1, IXC),
    (fadd, (ONE, SUBNORMAL | NEG), CHOP, ONE - 1, IXC),
    (fadd, (ZERO, ZERO | NEG), 0, ZERO, 0),
    (fadd, (ZERO, ZERO | NEG), DOWN, NEG, 0),
    (fadd, (NEG, NEG), UP, NEG, 0),
    (fadd, (ONE, ONE | NEG), DOWN, NEG, 0),
    (fadd, (INF, INF | NEG), 0, DEFAULT, IOC),
    (fadd, (INF | NEG, INF), 0, DEFAULT, IOC),
    (fadd, (ZERO, ONE), FZ, ONE, 0),
    (fadd, (ONE, INF | NEG), 0, INF | NEG, 0),
    (fadd, (MAX, MAX), 0, INF, OFC | IXC),
    (fadd, (MAX, MAX), CHOP, MAX, OFC | IXC),
    (fadd, (MAX | NEG, MAX | NEG), UP, MAX | NEG, OFC | IXC),
    (fadd, (MAX | NEG, MAX | NEG), DOWN, INF | NEG, OFC | IXC),
    (fadd, (QNAN, SNAN), 0, SNAN | 0x40_0000, IOC),
    (fadd, (QNAN | NEG, QNAN + 1), 0, QNAN | NEG, 0),
    (fadd, (QNAN | NEG, QNAN + 1), DN, DEFAULT, 0),
    (fadd, (SNAN, SNAN + 1), DN, DEFAULT, IOC),
    (fadd, (SUBNORMAL, SUBNORMAL), 0, 2, 0),
    (fadd, (SUBNORMAL, SUBNORMAL | NEG), FZ, ZERO, IDC),
    (fadd, (SUBNORMAL, QNAN), FZ, QNAN, IDC),
    (fadd, (SUBNORMAL, SUBNORMAL), FZ16, 2, 0),
    (fadd, (NORMAL | 1, NORMAL | NEG), 0, SUBNORMAL, 0),
    (fadd, (NORMAL | 1, NORMAL | NEG), FZ, ZERO, UFC),
    (fsub, (ONE, QNAN), 0, QNAN, 0),  # the NaN keeps its sign
    (fsub, (INF, INF), 0, DEFAULT, IOC),
    (fsub, (ONE, ONE), 0, ZERO, 0),
    (fsub, (ZERO, ZERO), DOWN, NEG, 0),
    (fmul, (INF, ZERO | NEG), 0, DEFAULT, IOC),
    (fmul, (INF | NEG, TWO), 0, INF | NEG, 0),
    (fmul, (NORMAL, 0x3F00_0000), 0, 0x0040_0000, 0),  # exact subnormal: no underflow
    (fmul, (NORMAL | 1, 0x3F00_0000), 0, 0x0040_0000, UFC | IXC),
    (fmul, (NORMAL | 1, 0x3F00_0000), FZ, ZERO, UFC),  # flushed: not inexact
    (fmul, (0x3F7F_FFFF, NORMAL), 0, NORMAL, UFC | IXC),  # tiny before rounding
    (fmul, (SUBNORMAL, TWO | NEG), FZ, NEG, IDC),
    (fmulx, (INF | NEG, ZERO), 0, TWO | NEG, 0),
    (fmulx, (INF, SUBNORMAL), FZ, TWO, IDC),
    (fmulx, (SNAN, ZERO), 0, SNAN | 0x40_0000, IOC),
    (fdiv, (ONE, ZERO | NEG), 0, INF | NEG, DZC),
    (fdiv, (ZERO, ZERO), 0, DEFAULT, IOC),
    (fdiv, (INF, INF), 0, DEFAULT, IOC),
    (fdiv, (INF, ZERO), 0, INF, 0),
    (fdiv, (QNAN, ONE), 0, QNAN, 0),
    (fdiv, (ONE, QNAN), 0, QNAN, 0),
    (fdiv, (ONE | NEG, INF), 0, NEG, 0),
    (fdiv, (ONE, 0x4040_0000), 0, 0x3EAA_AAAB, IXC),
    (fdiv, (ONE, 0x4040_0000), DOWN, 0x3EAA_AAAA, IXC),
    (fdiv, (ONE, SUBNORMAL), FZ, INF, IDC | DZC),
    (fsqrt, (TWO,), 0, 0x3FB5_04F3, IXC),
    (fsqrt, (0x4080_0000,), 0, TWO, 0),
    (fsqrt, (NEG,), 0, NEG, 0),
    (fsqrt, (ONE | NEG,), 0, DEFAULT, IOC),
    (fsqrt, (INF,), 0, INF, 0),
    (fsqrt, (SUBNORMAL | NEG,), FZ, NEG, IDC),
    (fmuladd, (ONE | NEG, 0x3F80_0001, 0x3F80_0001), 0, 0x3480_0000, IXC),  # 2**-22 + 2**-46
    (fmuladd, (ONE | NEG, 0x3F80_0001, 0x3F80_0001), UP, 0x3480_0001, IXC),
    (fmuladd, (QNAN, INF, ZERO), 0, DEFAULT, IOC),
    (fmuladd, (QNAN, ZERO, INF), 0, DEFAULT, IOC),
    (fmuladd, (ONE, ZERO, INF), 0, DEFAULT, IOC),
    (fmuladd, (QNAN, INF, ONE), 0, QNAN, 0),
    (fmuladd, (SNAN, INF, ZERO), 0, SNAN | 0x40_0000, IOC),
    (fmuladd, (QNAN, ONE, QNAN + 1), 0, QNAN, 0),
    (fmuladd, (QNAN, SNAN, SNAN + 1), 0, SNAN | 0x40_0000, IOC),
    (fmuladd, (INF, INF | NEG, ONE), 0, DEFAULT, IOC),
    (fmuladd, (INF, ONE, ONE), 0, INF, 0),
    (fmuladd, (NEG, ZERO, ONE), 0, ZERO, 0),
    (fmuladd, (NEG, ZERO, ONE), DOWN, NEG, 0),
    (fmuladd, (NEG, ZERO, ONE | NEG), 0, NEG, 0),
    (frecps, (ONE, ONE), 0, ONE, 0),
    (frecps, (ZERO, INF | NEG), 0, TWO, 0),
    (frecps, (QNAN, ONE), 0, QNAN | NEG, 0),
    (frecps, (INF, ONE), 0, INF | NEG, 0),
    (frsqrts, (ONE, ONE), 0, ONE, 0),
    (frsqrts, (INF, ZERO), 0, 0x3FC0_0000, 0),
    (frsqrts, (MAX, TWO), 0, MAX | NEG, IXC),  # halved before it could overflow
    (fmax, (NEG, ZERO), 0, ZERO, 0),
    (fmax, (ZERO, NEG), 0, ZERO, 0),
    (fmin, (NEG, ZERO), 0, NEG, 0),
    (fmin, (ZERO, NEG), 0, NEG, 0),
    (fmin, (ONE, TWO), 0, ONE, 0),
    (fmin, (ONE, QNAN), 0, QNAN, 0),
    (fmax, (ONE | NEG, TWO | NEG), 0, ONE | NEG, 0),
    (fmin, (ONE, INF | NEG), 0, INF | NEG, 0),
    (fmax, (QNAN, ONE), 0, QNAN, 0),
    (fmax, (SUBNORMAL, ONE | NEG), FZ, ZERO, IDC),
    (fmaxnm, (QNAN, ONE | NEG), 0, ONE | NEG, 0),
    (fmaxnm, (ONE, QNAN), 0, ONE, 0),
    (fminnm, (QNAN, ONE), 0, ONE, 0),
    (fminnm, (ONE | NEG, QNAN), 0, ONE | NEG, 0),
    (fminnm, (QNAN, QNAN + 1), 0, QNAN, 0),
    (fmaxnm, (SNAN, ONE), 0, SNAN | 0x40_0000, IOC),
    (fminnm, (ONE, SNAN), 0, SNAN | 0x40_0000, IOC),
    (fmaxnm, (QNAN, SNAN), 0, SNAN | 0x40_0000, IOC),
    (frecpe, (ONE,), 0, 0x3F7F_8000, 0),
    (frecpe, (ZERO | NEG,), 0, INF | NEG, DZC),
    (frecpe, (INF | NEG,), 0, NEG, 0),
    (frecpe, (0x001F_FFFF,), 0, INF, OFC | IXC),
    (frecpe, (0x001F_FFFF,), CHOP, MAX, OFC | IXC),
    (frecpe, (0x0020_0000,), 0, 0x7F7F_8000, 0),
    (frecpe, (0x7E80_0000,), 0, 0x007F_C000, 0),
    (frecpe, (0x7E80_0000,), FZ, ZERO, UFC),
    (frecpe, (0x7F00_0000,), 0, 0x003F_E000, 0),
    (frecpe, (SNAN,), 0, SNAN | 0x40_0000, IOC),
    (frsqrte, (ONE,), 0, 0x3F7F_8000, 0),
    (frsqrte, (TWO,), 0, 0x3F34_8000, 0),
    (frsqrte, (SUBNORMAL,), 0, 0x64B4_8000, 0),
    (frsqrte, (SUBNORMAL | NEG,), FZ, INF | NEG, IDC | DZC),
    (frsqrte, (ONE | NEG,), 0, DEFAULT, IOC),
    (frsqrte, (INF,), 0, ZERO, 0),
    (frecpx, (ONE,), 0, 0x4000_0000, 0),
    (frecpx, (SUBNORMAL | NEG,), 0, 0xFF00_0000, 0),
    (frecpx, (INF,), 0, ZERO, 0),
    (frecpx, (SUBNORMAL,), FZ, 0x7F00_0000, IDC),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "fpcr", "result", "fpsr"), ARITHMETIC)
def test_single_precision_vectors(
    op: Operation, operands: tuple[int, ...], fpcr: int, result: int, fpsr: int
) -> None:
    flags = Flags()
    assert (hex(op(*operands, 32, fpcr, flags)), flags.bits) == (hex(result), fpsr)
    assert op(*operands, 32, fpcr) == result
    sticky = Flags(IXC)
    assert op(*operands, 32, fpcr, sticky) == result
    assert sticky.bits == fpsr | IXC


def test_discarded_flags_tell_nothing() -> None:
    assert fdiv(ONE, ZERO, 32) == INF
    assert DISCARD.bits == IOC | DZC | OFC | UFC | IXC | IDC


def test_half_precision_flushes_by_fz16_without_input_flag() -> None:
    flags = Flags()
    assert fadd(0x0001, 0x0001, 16, FZ, flags) == 0x0002
    assert fadd(0x0001, 0x8001, 16, FZ16, flags) == 0
    assert flags.bits == 0
    assert fmul(0x0400, 0x3800, 16, FZ16, flags) == 0
    assert flags.bits == UFC


def test_rounding_mode_is_the_fpcr_field() -> None:
    assert [rounding_mode(i << 22 | DN) for i in range(4)] == [
        Rounding.TIEEVEN, Rounding.POSINF, Rounding.NEGINF, Rounding.ZERO,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "nzcv", "quiet", "signal_all"),
    [
        (ONE, ONE, 0b0110, 0, 0),
        (ZERO, NEG, 0b0110, 0, 0),
        (ONE | NEG, ONE, 0b1000, 0, 0),
        (INF, MAX, 0b0010, 0, 0),
        (QNAN, ONE, 0b0011, 0, IOC),
        (INF, QNAN, 0b0011, 0, IOC),
        (ONE, SNAN, 0b0011, IOC, IOC),
    ],
)
def test_comparisons(a: int, b: int, nzcv: int, quiet: int, signal_all: int) -> None:
    for signalling, expected in ((False, quiet), (True, signal_all)):
        flags = Flags()
        assert (fcmp(a, b, 32, signalling, 0, flags), flags.bits) == (nzcv, expected)
    for op, result, expected in (
        (fcmpeq, nzcv == 0b0110, quiet),
        (fcmpge, nzcv in (0b0110, 0b0010), signal_all),
        (fcmpgt, nzcv == 0b0010, signal_all),
    ):
        flags = Flags()
        assert (op(a, b, 32, 0, flags), flags.bits) == (result, expected)


def test_comparison_flushes_inputs() -> None:
    flags = Flags()
    assert fcmp(SUBNORMAL, ZERO, 32, False, FZ, flags) == 0b0110
    assert flags.bits == IDC
    assert fcmpgt(SUBNORMAL, ZERO, 32)


def test_integer_estimates() -> None:
    assert [urecpe(x) for x in (0, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)] == [
        0xFFFF_FFFF, 0xFFFF_FFFF, 0xFF80_0000, 0x8000_0000,
    ]  # fmt: skip
    assert [ursqrte(x) for x in (0x3FFF_FFFF, 0x4000_0000, 0x8000_0000, 0xFFFF_FFFF)] == [
        0xFFFF_FFFF, 0xFF80_0000, 0xB480_0000, 0x8000_0000,
    ]  # fmt: skip
