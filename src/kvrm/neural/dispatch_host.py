"""Dispatch-10,279 on the CPU."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from llvmlite import ir

from kvrm.engine.interpreter.dispatch import Policy
from kvrm.isa.execution import Classes, Words
from kvrm.neural.dispatch_network import COUNT, NAME, random_weights
from kvrm.neural.dispatch_staged import emit_decision, emit_outputs, loaded_again
from kvrm.neural.weights import Floats, load
from kvrm.staging import native
from kvrm.staging.emitter import I8, I32, I64, PTR, Emitter

LANES = 16
"""Words at a time."""


class HostNetwork:
    """The network with these parameters, COUNT of float32."""

    def __init__(self, flat: Floats) -> None:
        if flat.dtype != np.float32 or flat.shape != (COUNT,):
            raise ValueError(f"{COUNT} parameters of float32, not {flat.shape} of {flat.dtype}")
        self._flat = np.ascontiguousarray(flat)
        self._decide, self._loader = _compiled()

    def decide(self, words: Words) -> tuple[Classes, Floats]:
        """Class of each word and the lead of its output over the next one, for any number of words."""
        count = len(words)
        padded = np.zeros(-(-count // LANES) * LANES, np.uint32)
        padded[:count] = words
        chosen, margins = np.empty(len(padded), np.uint8), np.empty(len(padded), np.float32)
        arrays = (self._flat, padded, chosen, margins)
        self._decide(*(a.ctypes.data for a in arrays), len(padded) // LANES)
        return chosen[:count], margins[:count]

    def classes(self, words: Words) -> Classes:
        """Class of each word."""
        return self.decide(words)[0]


@functools.cache
def _compiled() -> tuple[Any, native.Loader]:
    """The function, and what keeps it."""
    loader = native.load_kept("dispatch", _text)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_uint64)(loader.address("decide"))
    return function, loader


def _text() -> str:
    """`void decide(weights, words, classes, margins, count)`: `count` times LANES words."""
    module = ir.Module(name="dispatch")
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * 4 + [I64]), "decide")
    weights, words, classes, margins, count = fn.args
    e = Emitter(fn.append_basic_block("entry"))
    with e.repeat(count) as i:
        at = e.mul(i, ir.Constant(I64, LANES))
        four = e.mul(at, ir.Constant(I64, 4))
        some = e.load_at(words, four, ir.VectorType(I32, LANES), align=4)
        chosen, margin = emit_decision(e, emit_outputs(e, loaded_again(e, weights, i), some))
        e.store_at(e.trunc(chosen, ir.VectorType(I8, LANES)), classes, at, align=1)
        e.store_at(margin, margins, four, align=4)
    e.ret_void()
    return str(module)


def shipped() -> Policy:
    """The policy of the weights that ship."""
    return HostNetwork(load(NAME, COUNT)).classes


def random_policy(seed: int = 0) -> Policy:
    """The policy of random weights."""
    return HostNetwork(random_weights(seed)).classes
