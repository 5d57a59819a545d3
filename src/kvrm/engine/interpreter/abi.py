"""What handlers agree on: their signature and the ways from one to the next."""

from __future__ import annotations

from typing import Protocol

from llvmlite import ir

from kvrm.engine.interpreter import flags
from kvrm.engine.interpreter.slots import SLOT_PER_PC
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.staging.emitter import I1, I8, I32, I64, PTR, UNLIKELY, Callee, Emitter, i64

CONVENTION = "preserve_nonecc"
"""No register is the callee's to keep. Handlers end in tail calls and never return to each other: with the C
convention each would save registers for a caller that is gone, and the seven arguments would not all be in
registers."""
HANDLER = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I64, I64, I64, I64])
DECODER = ir.FunctionType(ir.VoidType(), [I32, I64, PTR])


class HandlerFunction(Protocol):
    """A function that a handler or a region becomes, under construction: what it has, and the ways out of it.

    `state` is the lane's, `registers` its general ones, `ip` the slot that runs.
    """

    fn: ir.Function
    e: Emitter
    state: ir.Value
    registers: ir.Value
    ip: ir.Value
    budget: ir.Value
    flags: list[ir.Value]

    def tail(self, target: ir.Value, ip: ir.Value, budget: ir.Value) -> None:
        """Continue in another handler."""

    def leave(self, reason: Reason, ip: ir.Value | None, budget: ir.Value, **fields: ir.Value) -> None:
        """Return to the host, with these fields in the state; ip None when PC says where to go on."""

    def advance(self, ip: ir.Value, cost: int = 1) -> None:
        """Retire `cost` instructions and run the slot at `ip`, or leave when the budget is used up."""

    def jump(self, target: ir.Value, cost: int = 1) -> None:
        """Retire and continue at the guest address `target`, or leave if its page is not predecoded."""


class Function:
    """A handler-shaped function of the host."""

    def __init__(
        self, module: ir.Module, name: str, linkage: str = "internal", emitter: type[Emitter] = Emitter
    ) -> None:
        self.fn = ir.Function(module, HANDLER, name)
        self.fn.calling_convention = CONVENTION
        self.fn.linkage = linkage
        self.e = emitter(self.fn.append_basic_block("entry"))
        self.state, self.ip, self.budget = self.fn.args[:3]
        self.registers = self.state
        self.flags: list[ir.Value] = list(self.fn.args[3:])

    def tail(self, target: ir.Value, ip: ir.Value, budget: ir.Value) -> None:
        """Continue in another handler: a jump, or the host's stack would grow with each guest instruction."""
        callee = target if isinstance(target, ir.Function) else Callee(target, HANDLER)
        self.e.call(callee, [self.state, ip, budget, *self.flags], cconv=CONVENTION, tail="musttail")
        self.e.ret_void()

    def leave(self, reason: Reason, ip: ir.Value | None, budget: ir.Value, **fields: ir.Value) -> None:
        """Return to the host with the state written back; ip None when PC says where to go on."""
        e, s = self.e, self.state
        for name, value in fields.items():
            e.store_at(value, s, getattr(layout, name))
        e.store_at(i64(reason), s, layout.REASON)
        self.tail(exit_function(self.fn.module), ir.Constant(PTR, None) if ip is None else ip, budget)

    def advance(self, ip: ir.Value, cost: int = 1) -> None:
        """Retire `cost` instructions and run the slot at `ip`, or leave when the budget is used up."""
        e, budget = self.e, self.budget
        if cost:
            budget = e.sub(budget, i64(cost))
            with e.if_then(e.icmp_unsigned("==", budget, i64(0)), likely=False):
                self.leave(Reason.BUDGET, ip, budget)
        self.tail(e.load_at(ip, 0, PTR), ip, budget)

    def jump(self, target: ir.Value, cost: int = 1) -> None:
        """Retire and continue at the guest address `target`, or leave if its page is not predecoded."""
        e = self.e
        page = e.lshr(target, i64(12))
        lost = e.append_basic_block("lost")
        with e.if_then(e.icmp_unsigned(">=", page, i64(1 << 27)), likely=False):
            e.branch(lost)
        table = e.load_at(self.state, layout.CODE_TABLE, PTR)
        slots = e.load_at(table, e.shl(page, i64(3)), PTR)
        odd = e.icmp_unsigned("!=", e.and_(target, i64(3)), i64(0))
        bad = e.or_(e.icmp_unsigned("==", slots, ir.Constant(PTR, None)), odd)
        found = e.append_basic_block("found")
        unlikely(e.cbranch(bad, lost, found))
        e.position_at_end(lost)
        left = e.sub(self.budget, i64(cost))
        self.leave(Reason.CODE, None, left, PC=untagged(e, target))
        e.position_at_end(found)
        offset = e.mul(e.and_(target, i64(4095)), i64(SLOT_PER_PC))
        self.advance(e.at(slots, offset), cost)


def untagged(e: Emitter, address: ir.Value) -> ir.Value:
    """`kvrm.memory.untagged` of an address."""
    kernel = e.trunc(e.lshr(address, i64(55)), I1)
    return e.select(kernel, address, e.and_(address, i64((1 << 56) - 1)))


def unlikely(branch: ir.Instruction) -> None:
    """Mark the taken side of a conditional branch as cold."""
    branch.set_weights(list(UNLIKELY))


def exit_function(module: ir.Module) -> ir.Function:
    """The module's function that writes the machine's registers back and returns to `enter`."""
    known = module.globals.get("exit")
    if known is not None:
        return known
    f = Function(module, "exit")
    # One copy, away from the handlers: inlined, it would write back all of the state at each of their ways
    # out.
    f.fn.attributes.add("noinline")
    f.fn.attributes.add("cold")
    e = f.e
    e.store_at(f.ip, f.state, layout.IP)
    e.store_at(f.budget, f.state, layout.REMAINING)
    for i, flag in enumerate(flags.read(e, f.flags)):
        e.store_at(e.zext(flag, I8), f.state, layout.FLAGS_OFFSET + i)
    e.ret_void()
    return f.fn
