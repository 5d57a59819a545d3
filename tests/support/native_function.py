"""Values as native code: a function made of what a test emits, and operands for it."""

from __future__ import annotations

import ctypes

from llvmlite import ir

from kvrm.engine.nodes import RunNode
from kvrm.staging import native
from kvrm.staging.emitter import PTR, Emitter, integer
from kvrm.values import Bits, from_lanes


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


def interesting(width, rng):
    edge = [0, 1, 2, width - 1, width, width + 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
    return [v & (1 << width) - 1 for v in edge] + [rng.getrandbits(width) for _ in range(6)]
