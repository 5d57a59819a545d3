"""Exact floating point against independent oracles: `Fraction`s rounded by bisection, the host's float."""

from __future__ import annotations

import itertools
import math
import operator
import random
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from kvrm.values.softfloat import fadd, fcmp, fcmpge, fdiv, fmul, fmuladd, frecps, frsqrts, fsqrt, fsub
from kvrm.values.softfloat_convert import fcvt, fcvt_to_fixed, fcvtxn, fixed_to_fp, frint
from kvrm.values.softfloat_core import FORMATS, IOC, IXC, OFC, UFC, Flags, Rounding
from kvrm.values.softfloat_estimate import frecpe, frsqrte, urecpe, ursqrte

Operation = Callable[..., int]
WIDTHS = (16, 32, 64)


def _decode(x: int, width: int) -> Fraction:
    """The value of a finite bit pattern; infinity counts as the power of two that comes after the numbers."""
    exponent_bits, fraction_bits = {16: (5, 10), 32: (8, 23), 64: (11, 52)}[width]
    field = x >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = x & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    magnitude = Fraction(fraction + (1 << fraction_bits if field else 0)) * Fraction(2) ** (
        max(field, 1) - bias - fraction_bits
    )
    return -magnitude if x >> (width - 1) else magnitude


def _round(value: Fraction, width: int, rounding: Rounding) -> tuple[int, int]:
    """The bit pattern and FPSR of a nonzero value: bisect for its neighbours, then pick one."""
    infinity = {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0 << 48}[width]
    magnitude = abs(value)
    low, high = 0, infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _decode(middle, width) <= magnitude else (low, middle)
    error, gap = magnitude - _decode(low, width), _decode(high, width) - _decode(low, width)
    up = {
        Rounding.TIEEVEN: error > gap / 2 or (error == gap / 2 and low & 1 == 1),
        Rounding.POSINF: error > 0 and value > 0,
        Rounding.NEGINF: error > 0 and value < 0,
        Rounding.ZERO: False,
        Rounding.ODD: error > 0 and low & 1 == 0,
    }[rounding]
    result = high if up else low
    fpsr = IXC if error else 0
    if result == infinity or magnitude >= _decode(infinity, width):
        fpsr = OFC | IXC
    elif error and magnitude < _decode(1 << {16: 10, 32: 23, 64: 52}[width], width):
        fpsr = UFC | IXC
    return result | (1 << (width - 1) if value < 0 else 0), fpsr


def _numbers(width: int, count: int) -> Iterator[int]:
    """Finite bit patterns: the corners, sparse significands (for ties) and anything."""
    rnd = random.Random(width * count)
    f = FORMATS[width]
    corners = [0, 1, f.hidden - 1, f.hidden, f.hidden + 1, f.infinity - 1, f.bias << f.fraction]
    for _ in range(count):
        choice = rnd.randrange(5)
        if choice == 0:
            x = rnd.choice(corners)
        elif choice == 1:
            x = rnd.randrange(f.infinity)
        else:
            spread = min(f.fraction + 2, f.bias - 1)
            exponent = f.bias + rnd.randint(-spread, spread)
            x = exponent << f.fraction | (1 << rnd.randrange(f.fraction)) - rnd.randrange(2)
        yield x | rnd.getrandbits(1) << (width - 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_estimates_are_within_their_bound(width: int) -> None:
    for x in _numbers(width, 300):
        value = abs(_decode(x, width))
        reciprocal = frecpe(x, width)
        if value and FORMATS[width].hidden <= reciprocal & FORMATS[width].magnitude < FORMATS[width].infinity:
            assert abs(abs(_decode(reciprocal, width)) * value - 1) < Fraction(1, 256)
        if value:
            root = frsqrte(x & FORMATS[width].magnitude, width)
            assert abs(_decode(root, width) ** 2 * value - 1) < Fraction(1, 128)


def test_estimates_are_rounded_table_values() -> None:
    """The manual's loops amount to rounding 256/x and 256/sqrt(x) for the middle of each interval."""
    for a in range(128, 512):
        middle = (2 * a + 1) / 1024 if a < 256 else (a // 2 * 2 + 1) / 512
        assert ursqrte(a << 23) == math.floor(256 / math.sqrt(middle) + 0.5) << 23
        if a >= 256:
            assert urecpe(a << 23) == math.floor(256 / ((2 * a + 1) / 1024) + 0.5) << 23


ROUNDED: list[tuple[Operation, Callable[..., Fraction | None]]] = [
    (fadd, operator.add),
    (fsub, operator.sub),
    (fmul, operator.mul),
    (fdiv, lambda a, b: a / b if b else None),
    (frecps, lambda a, b: 2 - a * b),
    (frsqrts, lambda a, b: (3 - a * b) / 2),
]


@pytest.mark.parametrize("rounding", list(Rounding)[:4], ids=lambda mode: mode.name)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("op", "exact"), ROUNDED, ids=[op.__name__ for op, _ in ROUNDED])
def test_arithmetic_rounds_the_exact_result(
    op: Operation, exact: Callable[..., Fraction | None], width: int, rounding: Rounding
) -> None:
    numbers = list(_numbers(width, 60))
    for a, b in zip(numbers, reversed(numbers), strict=True):
        value = exact(_decode(a, width), _decode(b, width))
        if value:
            flags = Flags()
            result = op(a, b, width, rounding << 22, flags)
            assert (result, flags.bits) == _round(value, width, rounding)
            assert op(a, b, width, rounding << 22) == result


@pytest.mark.parametrize("rounding", list(Rounding)[:4], ids=lambda mode: mode.name)
@pytest.mark.parametrize("width", WIDTHS)
def test_fused_multiply_add_rounds_once(width: int, rounding: Rounding) -> None:
    numbers = list(_numbers(width, 60))
    for a, b, c in zip(numbers, reversed(numbers), numbers[7:] + numbers[:7], strict=True):
        near = fmul(a, b, width) ^ FORMATS[width].sign
        for addend in (c, near if near & FORMATS[width].magnitude < FORMATS[width].infinity else 0):
            value = _decode(a, width) * _decode(b, width) + _decode(addend, width)
            if value:
                flags = Flags()
                result = fmuladd(addend, a, b, width, rounding << 22, flags)
                assert (result, flags.bits) == _round(value, width, rounding)


@pytest.mark.parametrize("rounding", list(Rounding)[:4], ids=lambda mode: mode.name)
@pytest.mark.parametrize("width", WIDTHS)
def test_square_root_rounds_the_exact_result(width: int, rounding: Rounding) -> None:
    for x in _numbers(width, 100):
        x &= FORMATS[width].magnitude
        if x:
            scaled = _decode(x, width) * 4**1200
            root = math.isqrt(int(scaled))
            # A root that is not rational lies strictly between two of these, and far from any tie.
            value = Fraction(2 * root + (root * root != scaled), 2 << 1200)
            flags = Flags()
            result = fsqrt(x, width, rounding << 22, flags)
            assert (result, flags.bits) == _round(value, width, rounding)
            assert fsqrt(x, width, rounding << 22) == result


@pytest.mark.parametrize("rounding", list(Rounding)[:4], ids=lambda mode: mode.name)
@pytest.mark.parametrize(("source", "target"), [(64, 32), (64, 16), (32, 16), (16, 32), (16, 64), (32, 64)])
def test_format_conversion_rounds(source: int, target: int, rounding: Rounding) -> None:
    for x in _numbers(source, 80):
        value = _decode(x, source)
        if value:
            flags = Flags()
            result = fcvt(x, source, target, rounding << 22, flags)
            assert (result, flags.bits) == _round(value, target, rounding)
            if (source, target) == (64, 32):
                flags = Flags()
                result = fcvtxn(x, rounding << 22, flags)
                assert (result, flags.bits) == _round(value, target, Rounding.ODD)


def _integral(value: Fraction, rounding: Rounding) -> int:
    """The integer that `value` rounds to."""
    if rounding == Rounding.TIEAWAY:
        return math.floor(abs(value) + Fraction(1, 2)) * (-1 if value < 0 else 1)
    directions: dict[Rounding, Callable[[Fraction], int]] = {
        Rounding.TIEEVEN: round,
        Rounding.POSINF: math.ceil,
        Rounding.NEGINF: math.floor,
        Rounding.ZERO: math.trunc,
    }
    return directions[rounding](value)


@pytest.mark.parametrize("rounding", list(Rounding)[:5], ids=lambda mode: mode.name)
@pytest.mark.parametrize("width", WIDTHS)
def test_integer_conversions_round(width: int, rounding: Rounding) -> None:
    for number, x in enumerate(_numbers(width, 300)):
        value = _decode(x, width)
        integral = _integral(value, rounding)
        assert _decode(frint(x, width, rounding), width) == integral
        fbits, unsigned, bits = number % 17, number % 3 == 0, (16, 32, 64)[number % 3]
        low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        scaled = value * 2**fbits
        wanted = _integral(scaled, rounding)
        flags = Flags()
        got = fcvt_to_fixed(x, width, fbits, unsigned, bits, rounding, 0, flags)
        assert got == min(max(wanted, low), high) % 2**bits
        assert flags.bits == (IXC if wanted != scaled else 0) if low <= wanted <= high else flags.bits == IOC


@pytest.mark.parametrize("rounding", list(Rounding)[:4], ids=lambda mode: mode.name)
@pytest.mark.parametrize("width", WIDTHS)
def test_integers_round_to_floats(width: int, rounding: Rounding) -> None:
    rnd = random.Random(width)
    for number in range(80):
        bits = (16, 32, 64)[number % 3]
        v = rnd.getrandbits(bits) >> rnd.randrange(bits) ^ (2**bits - 1) * (number & 1)
        unsigned, fbits = number % 5 == 0, rnd.randrange(bits)
        signed = v if unsigned or v < 2 ** (bits - 1) else v - 2**bits
        if v:
            flags = Flags()
            result = fixed_to_fp(v, bits, fbits, unsigned, width, rounding, 0, flags)
            assert (result, flags.bits) == _round(Fraction(signed, 2**fbits), width, rounding)


@pytest.mark.parametrize("width", WIDTHS)
def test_default_mode_is_the_host_arithmetic(width: int) -> None:
    """Fresh flags take the exact path, discarded ones the host's: both must agree with the host."""
    code, letter = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}[width]
    numbers = list(_numbers(width, 1500))
    for a, b in itertools.pairwise(numbers):
        x, y = (struct.unpack(code, struct.pack(letter, n))[0] for n in (a, b))
        for op, host in ((fadd, x + y), (fsub, x - y), (fmul, x * y), (fdiv, x / y if y else math.inf)):
            if 2.0 ** (2 - FORMATS[width].bias) <= abs(host) <= FORMATS[width].high:
                wanted = struct.unpack(letter, struct.pack(code, host))[0]
                assert op(a, b, width) == op(a, b, width, 0, Flags()) == wanted
        assert (fcmp(a, b, width) == 0b1000) == (x < y)
        assert fcmpge(a, b, width) == (x >= y)
