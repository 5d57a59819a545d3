"""The arithmetic of Dispatch-10,279, emitted once for every target.

Each sum begins with the bias and takes the products in the order of the inputs, each by one fused
multiply-add of float32. That is exact arithmetic with one rounding a step, so all targets give the same bits.
"""

from __future__ import annotations

import numpy as np

from kvrm.isa.execution import SIDE_BITS
from kvrm.neural.dispatch_network import SIZES, WIDTH, places
from kvrm.neural.weights import Floats
from kvrm.staging.emitter import FLOATS, I32, I64, Emitter, Value, integer

NEGATIVE_INFINITY = 0xFF800000


def emit_outputs(e: Emitter, weights: Value, words: Value) -> list[Value]:
    """The outputs of the last layer for `words`, i32 or lanes of it; `weights` points to the parameters."""
    values = _embedded(e, weights, words)
    values += [_bit(e, words, b) for b in SIDE_BITS]
    last = len(SIZES) - 2
    for number, (first, biases) in enumerate(places()):
        sums = [
            _sum(e, weights, values, first + j * len(values), biases + j) for j in range(SIZES[number + 1])
        ]
        values = sums if number == last else [_relu(e, s) for s in sums]
    return values


def emit_decision(e: Emitter, outputs: list[Value]) -> tuple[Value, Value]:
    """The class (as `words`), the first of the greatest outputs; and its lead over the next one, float32."""
    best, second = outputs[0], _number(e, outputs[0], NEGATIVE_INFINITY)
    t = integer(32, e.lanes(best))
    chosen: Value = e.const(t, 0)
    for number, output in enumerate(outputs[1:], 1):
        greater = e.fcmp_ordered(">", output, best)
        lower = e.select(greater, best, output)
        second = e.select(e.fcmp_ordered(">", lower, second), lower, second)
        best = e.select(greater, output, best)
        chosen = e.select(greater, e.const(t, number), chosen)
    return chosen, e.fsub(best, second)


def constants(e: Emitter, flat: Floats, space: int = 0) -> Value:
    """The address of the parameters as constants of the module, in an address space.

    They are given as bits, for LLVM's text would round them.
    """
    return e.table(I32, "weights", flat.view(np.uint32).tolist(), space)


def _embedded(e: Emitter, weights: Value, words: Value) -> list[Value]:
    """The numbers that the top byte chooses."""
    lanes = e.lanes(words)
    if lanes == 1:
        return [_row(e, weights, words, i) for i in range(WIDTH)]
    each = [e.extract_element(words, e.index(k)) for k in range(lanes)]
    return [e.together([_row(e, weights, word, i) for word in each]) for i in range(WIDTH)]


def _row(e: Emitter, weights: Value, word: Value, i: int) -> Value:
    top = e.zext(e.lshr(word, e.const(I32, 24)), I64)
    return _parameter(e, weights, e.add(e.mul(top, e.const(I64, 4 * WIDTH)), e.const(I64, 4 * i)))


def _parameter(e: Emitter, weights: Value, offset: Value | int) -> Value:
    value = e.load_at(weights, offset, FLOATS[32])
    # weights never change: loads of them need no order among stores, and may leave loops
    value.set_metadata("invariant.load", e.module.add_metadata([]))
    return value


def _bit(e: Emitter, words: Value, b: int) -> Value:
    one = e.and_(e.lshr(words, e.const(words.type, b)), e.const(words.type, 1))
    return e.uitofp(one, e.real(one).type)


def _sum(e: Emitter, weights: Value, values: list[Value], first: int, bias: int) -> Value:
    total = _like(e, values[0], _parameter(e, weights, 4 * bias))
    for i, value in enumerate(values):
        weight = _like(e, value, _parameter(e, weights, 4 * (first + i)))
        total = e.intrinsic("fma", value.type, value, weight, total)
    return total


def _like(e: Emitter, value: Value, scalar: Value) -> Value:
    return scalar if e.lanes(value) == 1 else e.splat(scalar, e.lanes(value))


def _number(e: Emitter, value: Value, bits: int) -> Value:
    """A constant float32, in as many lanes as a value."""
    return e.real(e.const(integer(32, e.lanes(value)), bits))


def _relu(e: Emitter, value: Value) -> Value:
    zero = _number(e, value, 0)
    return e.select(e.fcmp_ordered(">", value, zero), value, zero)
