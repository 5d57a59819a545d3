"""Exact conversions of floating point: vectors checked by hand against the manual's pseudocode."""

from __future__ import annotations

import pytest

from kvrm.values.softfloat_convert import (
    fcvt,
    fcvt_to_fixed,
    fcvtxn,
    fixed_to_fp,
    fjcvtzs,
    frint,
    frint_bounded,
)
from kvrm.values.softfloat_core import AHP, DN, FZ, FZ16, IDC, IOC, IXC, OFC, UFC, Flags, Rounding
from single_precision import INF, MAX, NEG, ONE, QNAN, SNAN, SUBNORMAL, UP, ZERO


@pytest.mark.parametrize(
    ("x", "source", "target", "fpcr", "result", "fpsr"),
    [
        (0x3C00, 16, 64, 0, 0x3FF0_0000_0000_0000, 0),
        (0x7F01, 16, 32, 0, 0x7FE0_2000, 0),
        (0x7E15, 16, 32, 0, 0x7FC2_A000, 0),
        (0xFC01, 16, 64, 0, 0xFFF8_0400_0000_0000, IOC),
        (0xFC01, 16, 64, DN, 0x7FF8_0000_0000_0000, IOC),
        (0x7FFF, 16, 32, AHP, 0x47FF_E000, 0),  # 131008: AHP has neither infinities nor NaNs
        (0x0001, 16, 32, FZ16 | FZ, 0x3380_0000, 0),
        (0x47FF_E000, 32, 16, AHP, 0x7FFF, 0),
        (0x47FF_F000, 32, 16, AHP, 0x7FFF, IOC),
        (0x47FF_E000, 32, 16, 0, 0x7C00, OFC | IXC),
        (0x477F_EFFF, 32, 16, 0, 0x7BFF, IXC),
        (INF | NEG, 32, 16, AHP, 0xFFFF, IOC),
        (QNAN | NEG, 32, 16, AHP, 0x8000, IOC),
        (QNAN | NEG, 32, 16, AHP | DN, 0x8000, IOC),
        (0x7F80_1FFF, 32, 16, 0, 0x7E00, IOC),
        (0x3380_0000, 32, 16, FZ | FZ16, 0x0001, 0),  # half results are never flushed
        (SUBNORMAL, 32, 16, FZ, 0, IDC),
        (SUBNORMAL, 32, 64, 0, 0x36A0_0000_0000_0000, 0),
        (SUBNORMAL | NEG, 32, 64, FZ, 1 << 63, IDC),
        (0x36A0_0000_0000_0000, 64, 32, FZ, 0, UFC),
        (0x7FF0_0000_0000_0001, 64, 32, 0, 0x7FC0_0000, IOC),
        (0xFFF0_0000_0000_0000, 64, 32, 0, INF | NEG, 0),
    ],
)
def test_format_conversions(x: int, source: int, target: int, fpcr: int, result: int, fpsr: int) -> None:
    flags = Flags()
    assert (hex(fcvt(x, source, target, fpcr, flags)), flags.bits) == (hex(result), fpsr)


def test_fcvtxn_rounds_to_odd() -> None:
    flags = Flags()
    assert fcvtxn(0x3FF0_0000_0000_0001, UP, flags) == ONE | 1
    assert flags.bits == IXC
    assert fcvtxn(0x3FF0_0000_3FFF_FFFF) == ONE | 1
    assert fcvtxn(0x3FF0_0000_0000_0000) == ONE
    assert fcvtxn(0x7FEF_FFFF_FFFF_FFFF, 0, flags) == MAX
    assert flags.bits == IXC | OFC


@pytest.mark.parametrize(
    ("x", "fbits", "unsigned", "int_width", "rounding", "result", "fpsr"),
    [
        (0x4020_0000, 0, False, 32, Rounding.TIEEVEN, 2, IXC),  # 2.5
        (0x4020_0000, 0, False, 32, Rounding.TIEAWAY, 3, IXC),
        (0xC020_0000, 0, False, 32, Rounding.TIEAWAY, 0xFFFF_FFFD, IXC),
        (0xC020_0000, 0, False, 64, Rounding.NEGINF, (1 << 64) - 3, IXC),
        (0xC020_0000, 1, False, 32, Rounding.ZERO, 0xFFFF_FFFB, 0),
        (0xBF00_0000, 0, True, 32, Rounding.ZERO, 0, IXC),  # -0.5 fits once it is rounded
        (0xBF80_0000, 0, True, 32, Rounding.ZERO, 0, IOC),
        (0x4F00_0000, 0, False, 32, Rounding.ZERO, 0x7FFF_FFFF, IOC),
        (0x4F00_0000, 0, True, 32, Rounding.ZERO, 0x8000_0000, 0),
        (0xCF00_0000, 0, False, 32, Rounding.ZERO, 0x8000_0000, 0),
        (INF | NEG, 0, False, 64, Rounding.ZERO, 1 << 63, IOC),
        (INF, 0, True, 64, Rounding.ZERO, (1 << 64) - 1, IOC),
        (QNAN | NEG, 0, False, 32, Rounding.ZERO, 0, IOC),
        (SUBNORMAL, 0, False, 32, Rounding.POSINF, 1, IXC),
    ],
)
def test_to_fixed(
    x: int, fbits: int, unsigned: bool, int_width: int, rounding: Rounding, result: int, fpsr: int
) -> None:
    flags = Flags()
    assert fcvt_to_fixed(x, 32, fbits, unsigned, int_width, rounding, 0, flags) == result
    assert flags.bits == fpsr


def test_to_fixed_flushes_inputs() -> None:
    flags = Flags()
    assert fcvt_to_fixed(SUBNORMAL, 32, 0, False, 32, Rounding.POSINF, FZ, flags) == 0
    assert flags.bits == IDC


def test_half_infinity_saturates_wider_integers() -> None:
    flags = Flags()
    assert fcvt_to_fixed(0x7C00, 16, 0, False, 32, Rounding.ZERO, 0, flags) == 0x7FFF_FFFF
    assert flags.bits == IOC


def test_fixed_to_fp_vectors() -> None:
    flags = Flags()
    assert fixed_to_fp(0xFFFF_FFFF, 32, 0, False, 32, Rounding.ZERO, 0, flags) == ONE | NEG
    assert fixed_to_fp(0, 64, 0, False, 32, Rounding.NEGINF, 0, flags) == 0
    assert flags.bits == 0
    assert fixed_to_fp(0xFFFF_FFFF, 32, 0, True, 32, Rounding.TIEEVEN, 0, flags) == 0x4F80_0000
    assert flags.bits == IXC
    assert fixed_to_fp(0xFFFF_FFFF, 32, 0, True, 16, Rounding.TIEEVEN, 0, flags) == 0x7C00
    assert flags.bits == IXC | OFC
    assert fixed_to_fp(1, 32, 24, True, 16, Rounding.TIEEVEN) == 0x0001
    assert fixed_to_fp(1, 32, 24, True, 16, Rounding.TIEEVEN, FZ16) == 0


def test_frint_vectors() -> None:
    flags = Flags()
    assert frint(0xBE80_0000, 32, Rounding.ZERO, False, 0, flags) == NEG  # -0.25
    assert flags.bits == 0
    assert frint(0xBE80_0000, 32, Rounding.NEGINF, True, 0, flags) == ONE | NEG
    assert flags.bits == IXC
    assert frint(INF | NEG, 32, Rounding.ZERO) == INF | NEG
    assert frint(SNAN, 32, Rounding.ZERO) == SNAN | 0x40_0000
    assert frint(SUBNORMAL, 32, Rounding.POSINF) == ONE
    assert frint(SUBNORMAL, 32, Rounding.POSINF, True, FZ) == ZERO


@pytest.mark.parametrize(
    ("x", "width", "int_width", "result", "fpsr"),
    [
        (0xBE80_0000, 32, 32, NEG, IXC),
        (0xCF00_0000, 32, 32, 0xCF00_0000, 0),
        (0x4F00_0000, 32, 32, 0xCF00_0000, IOC),
        (INF, 32, 64, 0xDF00_0000, IOC),
        (QNAN, 32, 64, 0xDF00_0000, IOC),
        (0x43E0_0000_0000_0000, 64, 64, 0xC3E0_0000_0000_0000, IOC),
        (0x41E0_0000_0000_0000, 64, 32, 0xC1E0_0000_0000_0000, IOC),
        (0xC1E0_0000_0020_0000, 64, 32, 0xC1E0_0000_0000_0000, IOC),
        (0x41DF_FFFF_FFE0_0000, 64, 32, 0x41DF_FFFF_FFC0_0000, IXC),  # 2**31 - 0.5
    ],
)
def test_frint_bounded(x: int, width: int, int_width: int, result: int, fpsr: int) -> None:
    flags = Flags()
    assert frint_bounded(x, width, Rounding.ZERO, int_width, 0, flags) == result
    assert flags.bits == fpsr


@pytest.mark.parametrize(
    ("x", "fpcr", "result", "z", "fpsr"),
    [
        (0x4014_0000_0000_0000, 0, 5, True, 0),
        (0xC014_0000_0000_0000, 0, 0xFFFF_FFFB, True, 0),
        (0xBFE0_0000_0000_0000, 0, 0, False, IXC),
        (0x0000_0000_0000_0000, 0, 0, True, 0),
        (0x8000_0000_0000_0000, 0, 0, False, 0),
        (0xC1E0_0000_0000_0000, 0, 0x8000_0000, True, 0),
        (0x41E0_0000_0000_0000, 0, 0x8000_0000, False, IOC),
        (0x41F0_0000_0010_0000, 0, 1, False, IOC),  # 2**32 + 1
        (0xC1E0_0000_0020_0000, 0, 0x7FFF_FFFF, False, IOC),  # -2**31 - 1
        (0x7FEF_FFFF_FFFF_FFFF, 0, 0, False, IOC),
        (0xFFF0_0000_0000_0000, 0, 0, False, IOC),
        (0x7FF8_0000_0000_0000, 0, 0, False, IOC),
        (0x0000_0000_0000_0001, 0, 0, False, IXC),
        (0x0000_0000_0000_0001, FZ, 0, False, IDC),
    ],
)
def test_javascript_conversion(x: int, fpcr: int, result: int, z: bool, fpsr: int) -> None:
    flags = Flags()
    assert (*fjcvtzs(x, fpcr, flags), flags.bits) == (result, z, fpsr)
