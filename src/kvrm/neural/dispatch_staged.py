"""The arithmetic of Dispatch-10,279, emitted once for every target.

Each sum begins with the bias and takes the products in the order of the inputs, each by one fused
multiply-add of float32. That is exact arithmetic with one rounding a step, so all targets give the same bits.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from kvrm.isa.execution import SIDE_BITS
from kvrm.neural.dispatch_network import SIZES, WIDTH, places
from kvrm.neural.weights import Floats
from kvrm.staging.emitter import I32, I64, Emitter, constant

F32 = ir.FloatType()


def emit_outputs(e: Emitter, weights: ir.Value, words: ir.Value) -> list[ir.Value]:
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


def emit_decision(e: Emitter, outputs: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """The class (as `words`), the first of the greatest outputs; and its lead over the next one, float32."""
    best, second = outputs[0], _lanes(e, outputs[0], float("-inf"))
    t = ir.VectorType(I32, best.type.count) if isinstance(best.type, ir.VectorType) else I32
    chosen: ir.Value = constant(t, 0)
    for number, output in enumerate(outputs[1:], 1):
        greater = e.fcmp_ordered(">", output, best)
        lower = e.select(greater, best, output)
        second = e.select(e.fcmp_ordered(">", lower, second), lower, second)
        best = e.select(greater, output, best)
        chosen = e.select(greater, constant(t, number), chosen)
    return chosen, e.fsub(best, second)


def constants(module: ir.Module, flat: Floats, space: int = 0) -> ir.Value:
    """The parameters as constants of a module, in an address space: a pointer to them.

    They are given as bits, for LLVM's text would round them.
    """
    t = ir.ArrayType(I32, len(flat))
    made = ir.GlobalVariable(module, t, "weights", addrspace=space)
    made.linkage, made.global_constant, made.align = "internal", True, 16
    made.initializer = ir.Constant(t, [ir.Constant(I32, int(bits)) for bits in flat.view(np.uint32)])
    made.type = ir.PointerType(addrspace=space)
    return made


def loaded_again(e: Emitter, weights: ir.Value, i: ir.Value) -> ir.Value:
    """`weights` in round `i`, 64 bits below 2^40, of a loop: the optimiser cannot load all of them before it.

    They would not fit the registers, and be stored and loaded again.
    """
    return e.at(weights, e.lshr(i, ir.Constant(I64, 40)))


def _embedded(e: Emitter, weights: ir.Value, words: ir.Value) -> list[ir.Value]:
    """The numbers that the top byte chooses."""
    if not isinstance(words.type, ir.VectorType):
        return [_row(e, weights, words, i) for i in range(WIDTH)]
    lanes = [e.extract_element(words, e.index(k)) for k in range(words.type.count)]
    found = []
    for i in range(WIDTH):
        value = ir.Constant(ir.VectorType(F32, len(lanes)), ir.Undefined)
        for k, word in enumerate(lanes):
            value = e.insert_element(value, _row(e, weights, word, i), e.index(k))
        found.append(value)
    return found


def _row(e: Emitter, weights: ir.Value, word: ir.Value, i: int) -> ir.Value:
    top = e.zext(e.lshr(word, ir.Constant(I32, 24)), I64)
    return _parameter(e, weights, e.add(e.mul(top, ir.Constant(I64, 4 * WIDTH)), ir.Constant(I64, 4 * i)))


def _parameter(e: Emitter, weights: ir.Value, offset: ir.Value | int) -> ir.Value:
    value = e.load_at(weights, offset, F32)
    # weights never change: loads of them need no order among stores, and may leave loops
    value.set_metadata("invariant.load", e.module.add_metadata([]))
    return value


def _bit(e: Emitter, words: ir.Value, b: int) -> ir.Value:
    one = e.and_(e.lshr(words, constant(words.type, b)), constant(words.type, 1))
    t = ir.VectorType(F32, one.type.count) if isinstance(one.type, ir.VectorType) else F32
    return e.uitofp(one, t)


def _sum(e: Emitter, weights: ir.Value, values: list[ir.Value], first: int, bias: int) -> ir.Value:
    total = _like(e, values[0], _parameter(e, weights, 4 * bias))
    for i, value in enumerate(values):
        weight = _like(e, value, _parameter(e, weights, 4 * (first + i)))
        total = e.intrinsic("fma", value.type, value, weight, total)
    return total


def _like(e: Emitter, value: ir.Value, scalar: ir.Value) -> ir.Value:
    return e.splat(scalar, value.type.count) if isinstance(value.type, ir.VectorType) else scalar


def _lanes(e: Emitter, value: ir.Value, number: float) -> ir.Value:
    return _like(e, value, ir.Constant(F32, number))


def _relu(e: Emitter, value: ir.Value) -> ir.Value:
    zero = _lanes(e, value, 0.0)
    return e.select(e.fcmp_ordered(">", value, zero), value, zero)
