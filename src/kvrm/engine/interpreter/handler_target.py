"""What handlers are staged for: the host's native code, or a GPU's (`kvrm.backend.gpu.device_stage`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from llvmlite import ir

from kvrm.engine.interpreter.abi import Function, HandlerFunction
from kvrm.engine.interpreter.memory_access import fast_address, read_slow, write_slow
from kvrm.engine.interpreter.slots import OPERAND_BYTES, OPERANDS, SLOT_PER_PC
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.memory import OUTSIDE, VA_END
from kvrm.staging.emitter import I64, PTR, Emitter, Module, Type, Value, integer
from kvrm.values import Bits, StagingError, bits, cond

if TYPE_CHECKING:
    from kvrm.engine.interpreter.stage import HandlerStage
    from kvrm.engine.nodes import StaticNode


class HandlerTarget(Protocol):
    """How a handler reaches memory, its operands and the next handler. Each handler has one of its own."""

    def begin(self, module: Module, name: str) -> HandlerFunction:
        """The function that the handler becomes."""

    def read(self, stage: HandlerStage, address: Value, t: Type) -> Value:
        """A `t` of guest memory."""

    def write(self, stage: HandlerStage, address: Value, value: Value) -> None:
        """Store it in guest memory."""

    def step_if(self, stage: HandlerStage, condition: Value) -> None:
        """Have the host's single step run the instruction, none of which is done yet, if this holds."""

    def misaligned_if(self, stage: HandlerStage, condition: Value) -> None:
        """The same where SP is not aligned."""

    def operand(self, stage: HandlerStage, node: StaticNode) -> tuple[Value, int]:
        """A predecode value from the handler's slot, and its offset among the operands there."""

    def call(self, stage: HandlerStage) -> None:
        """Do a system call if it is one that is done here; what follows leaves for the host."""

    def jump_far(self, stage: HandlerStage, target: Bits) -> None:
        """End with a branch to a predecode value on another page."""

    def name(self, e: Emitter, function: Value, slot: Value) -> None:
        """In a decoder: have a slot run the handler that is this function."""


class HostTarget:
    """Handlers of the host.

    The handler proper has no calls, so that LLVM needs no stack frame in it. An access that is not on one
    filled page with the right permission continues in the handler's `slow` twin, which is the same definition
    over the careful access functions. The twin itself has none.
    """

    def __init__(self, slow: Value | None) -> None:
        self._slow = slow
        self._used = 0

    def begin(self, module: Module, name: str) -> HandlerFunction:
        return Function(module, name)

    def read(self, stage: HandlerStage, address: Value, t: Type) -> Value:
        """On the fast path one page-table entry is checked; anything unusual goes to the slow twin."""
        f = stage.f
        if self._slow is None:
            return read_slow(f, address, t)
        return f.e.load(fast_address(f, address, t.width // 8, "R", self._slow), typ=t, align=1)

    def write(self, stage: HandlerStage, address: Value, value: Value) -> None:
        """As `read`."""
        f = stage.f
        if self._slow is None:
            write_slow(f, address, value)
        else:
            f.e.store(value, fast_address(f, address, value.type.width // 8, "W", self._slow), align=1)

    def step_if(self, stage: HandlerStage, condition: Value) -> None:
        f = stage.f
        with f.e.if_then(condition, likely=False):
            f.leave(Reason.STEP, f.ip, f.budget)

    def misaligned_if(self, stage: HandlerStage, condition: Value) -> None:
        """The careful twin finds it again, and has the host's single step tell."""
        f = stage.f
        if self._slow is None:
            self.step_if(stage, condition)
            return
        with f.e.if_then(condition, likely=False):
            f.tail(self._slow, f.ip, f.budget)

    def operand(self, stage: HandlerStage, node: StaticNode) -> tuple[Value, int]:
        width, at = operand_width(node.width), self._used
        if at + width // 8 > OPERAND_BYTES:
            raise StagingError(f"operands take more than {OPERAND_BYTES} bytes")
        self._used += width // 8
        f, t = stage.f, integer(width)
        with f.e.goto_block(stage.loads):
            raw = f.e.load_at(f.ip, OPERANDS + at, t, align=1)
            if node.width < width:
                limits = [f.e.const(t, 0), f.e.const(t, 1 << node.width)]
                raw.set_metadata("range", f.fn.module.add_metadata(limits))
                raw = f.e.trunc(raw, integer(node.width))
        return raw, at

    def call(self, stage: HandlerStage) -> None:
        """None is: all leave."""

    def jump_far(self, stage: HandlerStage, target: Bits) -> None:
        """Predecoding has found where in the code table to look."""
        inside = target.ult(VA_END)
        row = cond(inside, (target.lsr(12) * 8).trunc(32), bits(32, 8 * OUTSIDE))
        f, e = stage.f, stage.f.e
        table = e.load_at(f.state, layout.CODE_TABLE, PTR)
        slots = e.load_at(table, e.zext(stage.value(row), I64), PTR)
        with e.if_then(e.icmp_unsigned("==", slots, ir.Constant(PTR, None)), likely=False):
            f.leave(Reason.CODE, None, e.sub(f.budget, e.const(I64, 1)), PC=stage.value(target))
        offset = (target & 4095).trunc(32) * SLOT_PER_PC
        f.advance(e.at(slots, e.zext(stage.value(offset), I64)))

    def name(self, e: Emitter, function: Value, slot: Value) -> None:
        e.store_at(function, slot, 0)


def operand_width(width: int) -> int:
    """Bits that an operand of `width` bits takes in a slot."""
    for w in (8, 16, 32, 64):
        if width <= w:
            return w
    raise StagingError(f"an operand of {width} bits")
