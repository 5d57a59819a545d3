"""The rows of bfloat16 mean the same folded and emitted, and round as the manual says."""

from __future__ import annotations

import random
import struct
from fractions import Fraction

import pytest

from kvrm.values import Bits, bits
from kvrm.values.bfloat import bfadd, bfcvt, bfmul
from kvrm.values.softfloat_core import Rounding
from native_function import Native
from oracle.operands import chosen_float

BINARY = [bfadd, bfmul]


def pairs(rng: random.Random, count: int):
    """Singles of every class, and pairs of neighbouring magnitude."""
    for i in range(count):
        a, b = chosen_float(rng, 32), chosen_float(rng, 32)
        if i % 3 == 0:
            b = a ^ rng.choice((0, 1 << 31)) ^ rng.getrandbits(rng.randrange(1, 29))
        yield a, b


@pytest.mark.parametrize("operation", BINARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("lanes", [1, 4])
def test_folded_and_emitted(operation, lanes):
    rng = random.Random(lanes)
    stage = Native()
    f = stage.finish(operation(stage.argument(32, lanes), stage.argument(32, lanes)))
    for _ in range(5000 // lanes):
        a, b = zip(*pairs(rng, lanes), strict=True)
        x, y = (Bits(32, v if lanes > 1 else v[0], lanes) for v in (a, b))
        assert f(*a, *b) == operation(x, y).values, [f"{v:08x}" for v in (*a, *b)]


def test_conversion_folded_and_emitted():
    rng = random.Random(5)
    stage = Native()
    f = stage.finish(bfcvt(stage.argument(32), 0))
    for _ in range(5000):
        a = chosen_float(rng, 32)
        assert f(a) == bfcvt(bits(32, a), 0).values, f"{a:08x}"


def exact(x: int) -> Fraction:
    return Fraction(struct.unpack("<f", x.to_bytes(4, "little"))[0])


@pytest.mark.parametrize("operation", BINARY, ids=lambda f: f.__name__)
def test_rounding_to_odd(operation):
    """An inexact result is odd, and next to the exact one."""
    rng = random.Random(6)
    inexact = 0
    for _ in range(5000):
        a, b = (rng.getrandbits(1) << 31 | rng.randrange(100, 150) << 23 | rng.getrandbits(23) for _ in "ab")
        if operation is bfmul:
            a, b = a & ~0xFFFF, b & ~0xFFFF
        want = exact(a) + exact(b) if operation is bfadd else exact(a) * exact(b)
        got = int(operation(bits(32, a), bits(32, b)))
        if exact(got) != want:
            inexact += 1
            assert got & 1
            assert min(exact(got - 1), exact(got + 1)) < want < max(exact(got - 1), exact(got + 1))
    assert (inexact > 1000) == (operation is bfadd)


INFINITY, NAN, TINY, LARGEST = 0x7F80_0000, 0x7FC0_0000, 0x0080_0000, 0x7F7F_FFFF
MINUS = 1 << 31


@pytest.mark.parametrize(
    ("operation", "a", "b", "want"),
    [
        (bfadd, 1, 1, 0),
        (bfadd, TINY, TINY + 1 | MINUS, MINUS),
        (bfadd, MINUS, MINUS, MINUS),
        (bfadd, 0, MINUS, 0),
        (bfadd, LARGEST, LARGEST, INFINITY),
        (bfadd, LARGEST, 0x7300_0001, LARGEST),
        (bfadd, INFINITY, INFINITY | MINUS, NAN),
        (bfadd, INFINITY, 1, INFINITY),
        (bfadd, 0x7F80_0001, 0, NAN),
        (bfmul, TINY, 0x3F00_0000, 0),
        (bfmul, INFINITY, MINUS, NAN),
        (bfmul, INFINITY, TINY | MINUS, INFINITY | MINUS),
        (bfmul, INFINITY, 1, NAN),
        (bfmul, 0xFFC0_1234, 0, NAN),
    ],
)
def test_limits(operation, a, b, want):
    assert int(operation(bits(32, a), bits(32, b))) == want


@pytest.mark.parametrize(
    ("rounding", "want"),
    [
        (Rounding.TIEEVEN, 0x3F80),
        (Rounding.POSINF, 0x3F81),
        (Rounding.NEGINF, 0x3F80),
        (Rounding.ZERO, 0x3F80),
    ],
)
def test_conversion_follows_the_rounding_mode(rounding, want):
    assert int(bfcvt(bits(32, 0x3F80_8000), rounding << 22)) == want
