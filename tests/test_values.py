"""Every primitive means the same folded and emitted."""

from __future__ import annotations

import ctypes
import itertools
import random

import pytest
from llvmlite import ir

from kvrm.engine import native
from kvrm.engine.emitter import PTR, Emitter, integer
from kvrm.engine.nodes import RunNode
from kvrm.values import Bits, StagingError, bits, concat, cond, from_lanes


class Native:
    """A stage whose code is one function from argument bytes to result bytes."""

    level = 2

    def __init__(self):
        self.module = ir.Module()
        fn = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [PTR, PTR]), "f")
        self.e = Emitter(fn.append_basic_block())
        self.into, self.out = fn.args
        self.used = 0

    def value(self, b):
        return (
            b.payload.value
            if isinstance(b.payload, RunNode)
            else self.e.const(integer(b.width, b.lanes), b.payload)
        )

    def apply(self, row, width, lanes, args, attrs):
        return RunNode(self, row.emit(self.e, integer(width, lanes), *[self.value(a) for a in args], *attrs))

    def argument(self, width, lanes=1):
        parts = []
        for _ in range(lanes):
            whole = self.e.load_at(self.into, self.used, ir.IntType(128), align=1)
            parts.append(
                Bits(width, RunNode(self, self.e.trunc(whole, ir.IntType(width)) if width < 128 else whole))
            )
            self.used += 16
        return parts[0] if lanes == 1 else from_lanes(parts)

    def finish(self, result):
        for i, lane in enumerate(result.list()):
            v = self.value(lane)
            self.e.store_at(
                self.e.zext(v, ir.IntType(128)) if lane.width < 128 else v, self.out, 16 * i, align=1
            )
        self.e.ret_void()
        loader = native.Loader()
        loader.load(native.compile_object(str(self.module)))
        code = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(loader.address("f"))
        lanes = result.lanes

        def call(*values):
            out = ctypes.create_string_buffer(16 * lanes)
            code(b"".join(v.to_bytes(16, "little") for v in values), out)
            return tuple(int.from_bytes(out.raw[16 * i : 16 * i + 16], "little") for i in range(lanes))

        call.loader = loader
        return call


SAME = "add sub mul and or xor lsl lsr asr ror udiv sdiv umulh smulh umin umax smin smax eq ult ule slt sle"
METHODS = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "and": "__and__", "or": "__or__", "xor": "__xor__",
}  # fmt: skip
UNARY = "clz popcount bit_reverse byte_reverse __neg__ __invert__"


def interesting(width, rng):
    edge = [0, 1, 2, width - 1, width, width + 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
    return [v & (1 << width) - 1 for v in edge] + [rng.getrandbits(width) for _ in range(6)]


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
