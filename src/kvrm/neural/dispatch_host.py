"""Dispatch-10,279 on the CPU."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from kvrm.engine.interpreter.dispatch import Policy
from kvrm.isa.execution import Classes, Words
from kvrm.neural.dispatch_network import COUNT, NAME, random_weights
from kvrm.neural.dispatch_staged import emit_decision, emit_outputs
from kvrm.neural.weights import Floats, load
from kvrm.staging import native
from kvrm.staging.emitter import I64, PTR, Emitter, Module, Value, integer
from kvrm.staging.operations import Emitted
from kvrm.staging.translation import define

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
        return self.decide(words)[0]


@Emitted
def decide_some(e: Emitter, *addresses: Value) -> Value:
    """Classes and leads of LANES words: addresses of weights, words, classes and leads."""
    weights, words, classes, margins = (e.inttoptr(address, PTR) for address in addresses)
    some = e.load(words, typ=integer(32, LANES), align=4)
    chosen, margin = emit_decision(e, emit_outputs(e, weights, some))
    e.store(e.trunc(chosen, integer(8, LANES)), classes, align=1)
    e.store(margin, margins, align=4)
    return e.const(I64, 0)


def decide(weights: int, words: int, classes: int, margins: int, count: int) -> int:
    """Classes and leads of `count` times LANES words.

    For all that LLVM knows the weights' address changes. Otherwise it would load all of them before the loop,
    which do not fit the registers, and so store and load them again.
    """
    for i in range(count):
        at = LANES * i
        decide_some(weights + (i >> 40), words + 4 * at, classes + at, margins + 4 * at)
    return 0


@functools.cache
def _compiled() -> tuple[Any, native.Loader]:
    """The function, and what keeps it."""
    loader = native.load_kept("dispatch", _text)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_uint64)(loader.address("decide"))
    return function, loader


def _text() -> str:
    module = Module(name="dispatch")
    define(module, decide)
    return str(module)


def shipped() -> Policy:
    return HostNetwork(load(NAME, COUNT)).classes


def random_policy(seed: int = 0) -> Policy:
    return HostNetwork(random_weights(seed)).classes
