"""Prefetches: a handler of a chosen site asks for the words that the site is to access later.

It has the page from its own access, so a word on the same page costs no look-up; another page's is not asked
for. A prefetch changes nothing but what the GPU's cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from kvrm.backend.gpu import access
from kvrm.backend.gpu.far import DONE
from kvrm.engine.interpreter.slots import OPERAND_BYTES, OPERANDS
from kvrm.memory import PAGE
from kvrm.staging.emitter import I16, I64, Emitter

MOST = 2
"""Prefetches of a site."""
STEPS_BYTES = 2 * MOST
STEPS = OPERAND_BYTES - STEPS_BYTES
"""Offset of a site's steps among its operands: bytes ahead, 16 bits each, 0 for none."""
IN_SLOT = slice(OPERANDS + STEPS, OPERANDS + OPERAND_BYTES)
INSTRUCTION = "prefetch.global.L1 [$0];"


def packed(steps: Sequence[int]) -> bytes:
    """Steps as a slot has them; those that always lead to another page are left out."""
    near = [step for step in steps if 0 < abs(step) < PAGE][:MOST]
    return np.array(near + [0] * (MOST - len(near)), "<i2").tobytes()


def prefetch(e: Emitter, address: ir.Value, page: ir.Value, steps: ir.Value) -> None:
    """Prefetch what is ahead of `address`, whose access returned `page`, by `steps` as in a slot, 64 bits."""
    known = e.icmp_unsigned(">", page, ir.Constant(I64, DONE))
    for k in range(MOST):
        step = e.sext(e.trunc(e.lshr(steps, ir.Constant(I64, 16 * k)), I16), I64)
        there = e.add(address, step)
        same = e.icmp_unsigned("==", e.lshr(e.xor(address, there), ir.Constant(I64, 12)), ir.Constant(I64, 0))
        some = e.icmp_unsigned("!=", step, ir.Constant(I64, 0))
        with e.if_then(e.and_(e.and_(known, same), some)):
            where, _ = access.place(e, page, there)
            # nothing depends on it: without a side effect the optimiser would remove it
            e.asm(ir.FunctionType(ir.VoidType(), [I64]), INSTRUCTION, "l", [where], side_effect=True)
