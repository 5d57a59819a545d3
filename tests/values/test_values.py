"""Every primitive means the same folded and emitted."""

from __future__ import annotations

import itertools
import random

import pytest

from kvrm.values import Bits, StagingError, bits, concat, cond, from_lanes
from native_function import Native, interesting

SAME = "add sub mul and or xor lsl lsr asr ror udiv sdiv umulh smulh umin umax smin smax eq ult ule slt sle"
METHODS = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "and": "__and__", "or": "__or__", "xor": "__xor__",
}  # fmt: skip
UNARY = "clz popcount bit_reverse byte_reverse __neg__ __invert__"


@pytest.mark.parametrize("width", [8, 32, 64])
@pytest.mark.parametrize("name", SAME.split())
def test_binary(name, width):
    rng = random.Random(1)
    stage = Native()
    method = METHODS.get(name, name)
    f = stage.finish(getattr(stage.argument(width), method)(stage.argument(width)))
    for a, b in itertools.product(interesting(width, rng), repeat=2):
        assert f(a, b) == getattr(bits(width, a), method)(bits(width, b)).values, (a, b)


@pytest.mark.parametrize("name", SAME.split())
def test_binary_lanes(name):
    rng = random.Random(2)
    stage = Native()
    method = METHODS.get(name, name)
    f = stage.finish(getattr(stage.argument(16, 4), method)(stage.argument(16, 4)))
    for _ in range(50):
        a, b = ([rng.choice(interesting(16, rng)) for _ in range(4)] for _ in range(2))
        want = getattr(Bits(16, tuple(a), 4), method)(Bits(16, tuple(b), 4))
        assert f(*a, *b) == want.values, (a, b)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("name", UNARY.split())
def test_unary(name, width):
    rng = random.Random(3)
    stage = Native()
    f = stage.finish(getattr(stage.argument(width), name)())
    for a in interesting(width, rng):
        assert f(a) == getattr(bits(width, a), name)().values, a


SHAPES = {
    "zext": lambda a, b: a.zext(64),
    "sext": lambda a, b: a.sext(64),
    "trunc": lambda a, b: a.trunc(5),
    "slice": lambda a, b: a[23:7],
    "concat": lambda a, b: concat(a, b),
    "cond": lambda a, b: cond(a.ult(b), a, b),
    "split": lambda a, b: a.split(8),
    "whole": lambda a, b: from_lanes([a, b, b, a]).whole,
    "lane": lambda a, b: a.split(8).lane(2),
    "lane_at": lambda a, b: a.split(8).lane(b),
    "with_lane": lambda a, b: a.split(8).with_lane(1, b.trunc(8)),
    "with_lane_at": lambda a, b: a.split(8).with_lane(a.lsr(9), b.trunc(8)),
    "splat": lambda a, b: a.splat(4),
    "shuffle": lambda a, b: a.split(8).shuffle([3, 5, 0, 6], b.split(8)),
    "cond_lanes": lambda a, b: cond(a.split(8).slt(b.split(8)), a.split(8), b.split(8)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    rng = random.Random(4)
    stage = Native()
    f = stage.finish(SHAPES[name](stage.argument(32), stage.argument(32)))
    for a, b in itertools.product(interesting(32, rng), repeat=2):
        assert f(a, b) == SHAPES[name](bits(32, a), bits(32, b)).values, (a, b)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda v: v + bits(8, 1),
        lambda v: v.zext(16),
        lambda v: v.trunc(64),
        lambda v: v[32],
        lambda v: v[3:5],
        lambda v: v.split(7),
        lambda v: v.split(8).lane(4),
        lambda v: bool(v),
        lambda v: v == 1,
        lambda v: cond(v, v, v),
        lambda v: int(v.split(8)),
    ],
)
def test_misuse_is_loud(misuse):
    with pytest.raises(StagingError):
        misuse(bits(32, 7))


def test_unknown_values_have_no_int():
    stage = Native()
    with pytest.raises(StagingError):
        int(stage.argument(32))
