"""Skipping iterations on the CPU: the handler that stands where an accepted loop begins.

It has iterations skipped and goes on with plain execution, which runs at least one whole iteration more: that
leaves flags and loaded registers as they must be.
"""

from __future__ import annotations

import functools

from kvrm.engine.interpreter.abi import Function
from kvrm.engine.interpreter.slots import CLASS, OPERANDS
from kvrm.loops import guest_pages, plan
from kvrm.loops.plan import BLOCK
from kvrm.loops.skip import skipped
from kvrm.staging import native
from kvrm.staging.emitter import I64, PTR, Emitter, Module, Value, integer
from kvrm.staging.host import load, store
from kvrm.staging.operations import HOST, Emitted, Operations
from kvrm.staging.translation import define


def enter(state: int, site: int, slot: int, budget: int) -> int:
    """Skip what can be skipped and count it; how many instructions that were.

    Where that does not pay, the slot is as it was before.
    """
    iterations = skipped(state, site, budget)
    spent = iterations * load(site + plan.COST)
    store(site + plan.ENTRIES, load(site + plan.ENTRIES) + 1)
    store(site + plan.SKIPS, load(site + plan.SKIPS) + (iterations != 0))
    store(site + plan.ITERATIONS, load(site + plan.ITERATIONS) + iterations)
    earned = spent - plan.WORTH if iterations else -plan.LOOK
    credit = max(min(load(site + plan.CREDIT) + earned, plan.LARGEST_CREDIT), 0)
    store(site + plan.CREDIT, credit)
    if credit == 0:
        store(slot, load(site + plan.UNDECODED))
        store(slot + OPERANDS, load(site + plan.PC))
        store(slot + CLASS, load(site + plan.CLASS_WORD))
    return spent


def _loaded(e: Emitter, where: Value, offset: Value, size: Value) -> Value:
    at = e.inttoptr(e.add(where, offset), PTR)
    return e.zext(e.load(at, typ=integer(8 * size.constant), align=1), I64)


def _put(e: Emitter, where: Value, offset: Value, value: Value, size: Value) -> Value:
    part = e.trunc(value, integer(8 * size.constant))
    e.store(part, e.inttoptr(e.add(where, offset), PTR), align=1)
    return value


def _repeat_block(e: Emitter, to: Value, at: Value, buffer: Value, start: Value, count: Value) -> Value:
    block = e.load_at(e.inttoptr(buffer, PTR), start, integer(64, BLOCK // 8), align=1)
    first = e.at(e.inttoptr(to, PTR), at)
    with e.repeat(count) as i:
        e.store_at(block, first, e.mul(i, e.const(I64, BLOCK)), align=1)
    return to


OPERATIONS: Operations = {
    **HOST,
    guest_pages.loaded: Emitted(_loaded),
    guest_pages.put: Emitted(_put),
    guest_pages.repeat_block: Emitted(_repeat_block),
}


@functools.cache
def handler() -> tuple[int, native.Loader]:
    """The address of the handler that stands in the slot of a loop's head, and what keeps it."""
    loader = native.load_kept("loops", _text)
    return loader.address("skip_iterations"), loader


def _text() -> str:
    """`skip_iterations`, and what it calls."""
    f = Function(Module(name="loops"), "skip_iterations", linkage="external")
    e, module = f.e, f.fn.module
    site = e.load_at(f.ip, OPERANDS, I64)
    state, slot = (e.ptrtoint(address, I64) for address in (f.state, f.ip))
    spent = e.call(define(module, enter, OPERATIONS), [state, site, slot, f.budget])
    head = e.load_at(e.inttoptr(site, PTR), plan.HEAD, PTR)
    f.tail(e.load_at(head, 0, PTR), head, e.sub(f.budget, spent))
    return str(module)
