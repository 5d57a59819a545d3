"""The rows of vector instructions mean the same folded and emitted."""

from __future__ import annotations

import itertools
import random

import pytest

from kvrm.values import Bits, bits, vectors
from native_function import Native, interesting

NAMES = ("sqadd", "sqsub", "uqadd", "uqsub")


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("name", NAMES)
def test_saturating_scalars(name, width):
    operation = getattr(vectors, name)
    stage = Native()
    f = stage.finish(operation(stage.argument(width), stage.argument(width)))
    for a, b in itertools.product(interesting(width, random.Random(1)), repeat=2):
        assert f(a, b) == operation(bits(width, a), bits(width, b)).values, (a, b)


@pytest.mark.parametrize("name", NAMES)
def test_saturating_lanes(name):
    operation, rng = getattr(vectors, name), random.Random(2)
    stage = Native()
    f = stage.finish(operation(stage.argument(16, 4), stage.argument(16, 4)))
    for _ in range(50):
        a, b = (tuple(rng.choice(interesting(16, rng)) for _ in range(4)) for _ in range(2))
        assert f(*a, *b) == operation(Bits(16, a, 4), Bits(16, b, 4)).values, (a, b)


@pytest.mark.parametrize(
    ("name", "a", "b", "want"),
    [
        ("sqadd", 0x7F, 1, 0x7F),
        ("sqadd", 0x80, 0xFF, 0x80),
        ("sqsub", 0x80, 1, 0x80),
        ("sqsub", 0, 0x80, 0x7F),
        ("uqadd", 0xFF, 1, 0xFF),
        ("uqsub", 1, 2, 0),
    ],
)
def test_saturation_is_where_the_width_ends(name, a, b, want):
    assert int(getattr(vectors, name)(bits(8, a), bits(8, b))) == want


@pytest.mark.parametrize("count", [8, 16])
def test_pick(count):
    rng = random.Random(3)
    stage = Native()
    f = stage.finish(vectors.pick(stage.argument(8, 16), stage.argument(8, count)))
    for _ in range(20):
        table, index = (tuple(rng.randrange(256) for _ in range(n)) for n in (16, count))
        picked = tuple(table[i % 16] for i in index)
        assert f(*table, *index) == picked
        assert vectors.pick(Bits(8, table, 16), Bits(8, index, count)).values == picked
