"""Dispatch inline: a policy is asked about each instruction that runs, inside the native loop.

Nothing is kept from one time to the next: the loop fetches the word at the pc, has code that the policy emits
tell its class, looks for a decoder among those of that class only, and runs the handler that this gives.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Set
from time import perf_counter
from typing import Any, Protocol

from llvmlite import ir

from kvrm.engine.exits import OUT_OF_BUDGET, SIMPLE, Exit
from kvrm.engine.interpreter.abi import DECODER
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.interpreter.memory_access import fetched
from kvrm.engine.interpreter.runtime import call, default_arithmetic, search
from kvrm.engine.interpreter.slots import SLOT, SLOT_PER_PC
from kvrm.isa.features import CORTEX_A76
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import VA_BITS, Memory
from kvrm.staging import native
from kvrm.staging.emitter import I64, PTR, Callee, Emitter, i64

Emits = Callable[[Emitter, ir.Value], ir.Value]


class InlinePolicy(Protocol):
    """A dispatch policy whose answer for one word can be computed in native code.

    `emit(e, word)` emits that, 32 bits to 32 bits; `name` tells it from all others whose code is kept.
    """

    name: str
    emit: Emits

    def __call__(self, words: Any) -> Any:
        """The class of each word."""


def inline_or_none(policy: Any) -> InlinePolicy | None:
    """A dispatch policy, if it is an inline one."""
    return policy if hasattr(policy, "emit") else None


class InlineInterpreter(Interpreter):
    """The interpreter, one word after the other, as it was fetched."""

    enterable = False

    def __init__(
        self, state: State, memory: Memory, policy: InlinePolicy, features: frozenset[str] = CORTEX_A76
    ) -> None:
        super().__init__(state, memory, features)
        self.dispatch_by(policy)
        self._slot = (ctypes.c_uint64 * (SLOT // 8))()
        self._inline, self._loader = _compiled(policy)

    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        """As the interpreter; with breakpoints, native code comes back after each instruction."""
        if not breakpoints:
            return super().run(budget)
        for i in range(budget):
            if i and self._state.pc in breakpoints:
                return SIMPLE[Reason.BREAKPOINT]
            left = super().run(1)
            if left.kind is not Reason.BUDGET:
                return left
        return OUT_OF_BUDGET

    def _enter(self, budget: int) -> None:
        s = self._state
        self.ready()
        s.set(layout.HORIZON, self.retired)
        s.set(layout.REMAINING, 0)
        total, began = 0, perf_counter()
        for _ in range(1 if self.trace is None else budget):
            s.set(layout.PC, s.pc)
            done = self._inline(s.address, ctypes.addressof(self._slot), budget if self.trace is None else 1)
            total += done
            if self.trace is not None:
                self.trace += [s.pc] * done
            s.pc = s.get(layout.PC)
            if s.get(layout.REASON) != Reason.BUDGET:
                break
        self.ran(total, perf_counter() - began)

    def _predecode(self, pc: int) -> None:
        """Nothing is predecoded; GuestFault if what is at `pc` cannot be executed."""
        self._require_code(pc)


_LOOPS: dict[str, tuple[Any, native.Loader]] = {}


def _compiled(policy: InlinePolicy) -> tuple[Any, native.Loader]:
    """The loop with this policy, and what keeps it."""
    if policy.name not in _LOOPS:
        loader = native.load_kept(f"inline-{policy.name}", lambda: _text(policy.emit))
        words = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        function = ctypes.CFUNCTYPE(ctypes.c_int64, *words)(loader.address("inline"))
        _LOOPS[policy.name] = function, loader
    return _LOOPS[policy.name]


def _text(emit: Emits) -> str:
    """`int64 inline(state, slot, count)`: run `count` instructions from PC on; leave there where to go on.

    It returns how many retired; `slot` is where the one that runs is decoded.
    """
    module = ir.Module(name="inline")
    fn = ir.Function(module, ir.FunctionType(I64, [PTR, PTR, I64]), "inline")
    e, (state, slot, count) = Emitter(fn.append_basic_block("entry")), fn.args
    names = ("loop", "fetch", "decode", "run", "next", "none", "lost", "other", "end", "done")
    blocks = {name: e.append_basic_block(name) for name in names}
    with default_arithmetic(e):
        began, first = e.block, e.load_at(state, layout.PC, I64)
        e.branch(blocks["loop"])
        e.position_at_end(blocks["loop"])
        i, pc = e.phi(I64), e.phi(I64)
        i.add_incoming(i64(0), began)
        pc.add_incoming(first, began)
        e.cbranch(e.icmp_unsigned("<", i, count), blocks["fetch"], blocks["end"])
        word = _fetch(e, blocks, state, pc)
        decoder = search(e, state, emit(e, word), word)
        e.cbranch(e.icmp_unsigned("==", decoder, ir.Constant(PTR, None)), blocks["none"], blocks["run"])
        e.position_at_end(blocks["run"])
        e.call(Callee(decoder, DECODER), [word, pc, slot])
        e.store_at(e.add(e.load_at(state, layout.HORIZON, I64), i64(1)), state, layout.HORIZON)
        call(e, e.load_at(slot, 0, PTR), state, slot, i64(1))
        following, goes_on = _following(e, state, slot, pc)
        e.store_at(following, state, layout.PC)
        e.cbranch(goes_on, blocks["next"], blocks["other"])
        e.position_at_end(blocks["next"])
        i.add_incoming(e.add(i, i64(1)), blocks["next"])
        pc.add_incoming(following, blocks["next"])
        e.branch(blocks["loop"])
        for name, reason in (("none", Reason.HANDLER), ("lost", Reason.CODE), ("end", Reason.BUDGET)):
            e.position_at_end(blocks[name])
            if name == "none":
                e.store_at(e.zext(word, I64), state, layout.WORD)
            e.store_at(pc, state, layout.PC)
            e.store_at(i64(reason), state, layout.REASON)
            e.branch(blocks["done"])
        e.position_at_end(blocks["other"])
        last = e.add(i, e.sub(i64(1), e.load_at(state, layout.REMAINING, I64)))
        e.branch(blocks["done"])
        e.position_at_end(blocks["done"])
        retired = e.phi(I64)
        for name in ("none", "lost", "end"):
            retired.add_incoming(i, blocks[name])
        retired.add_incoming(last, blocks["other"])
    e.ret(retired)
    return str(module)


def _fetch(e: Emitter, blocks: dict[str, ir.Block], state: ir.Value, pc: ir.Value) -> ir.Value:
    """The word at the pc; "lost" comes next where there is none, or where the host must look first."""
    e.position_at_end(blocks["fetch"])
    odd = e.and_(pc, i64(3))
    tagged = e.lshr(pc, i64(VA_BITS))
    e.cbranch(e.icmp_unsigned("!=", e.or_(odd, tagged), i64(0)), blocks["lost"], blocks["decode"])
    e.position_at_end(blocks["decode"])
    return fetched(e, state, pc, blocks["lost"])


def _following(e: Emitter, state: ir.Value, slot: ir.Value, pc: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where the lane is after an instruction, and whether the loop may go on there.

    The handler's way on is to a slot as far from its own as the addresses are apart, or to PC where it looked
    for a page's slots and found none.
    """
    ip, reason, left = (
        e.load_at(state, at, t) for at, t in ((layout.IP, PTR), (layout.REASON, I64), (layout.REMAINING, I64))
    )
    distance = e.sub(e.ptrtoint(ip, I64), e.ptrtoint(slot, I64))
    near = e.add(pc, e.ashr(distance, i64(SLOT_PER_PC.bit_length() - 1)))
    nowhere = e.icmp_unsigned("==", ip, ir.Constant(PTR, None))
    following = e.select(nowhere, e.load_at(state, layout.PC, I64), near)
    used_up = e.icmp_unsigned("==", reason, i64(Reason.BUDGET))
    far = e.and_(e.icmp_unsigned("==", reason, i64(Reason.CODE)), e.icmp_unsigned("==", left, i64(0)))
    return following, e.or_(used_up, far)
