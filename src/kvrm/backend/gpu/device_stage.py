"""Handlers on the device: what the stage of the interpreter is given instead of the host's target."""

from __future__ import annotations

from llvmlite import ir

from kvrm.backend.gpu import access
from kvrm.backend.gpu.device_abi import PLAIN_ID, DeviceFunction, Own, Param, lane_number
from kvrm.backend.gpu.group_memory import parameter, pool_is_used_up, words_of
from kvrm.backend.gpu.linux import OPERATIONS, Here
from kvrm.backend.gpu.prefetch import STEPS, STEPS_BYTES
from kvrm.engine.interpreter.abi import unlikely
from kvrm.engine.interpreter.handler_target import operand_width
from kvrm.engine.interpreter.slots import OPERAND_BYTES, SLOT
from kvrm.engine.interpreter.stage import HandlerStage
from kvrm.engine.nodes import StaticNode
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.linux.resident.dispatch import resident
from kvrm.linux.resident.layout import ASKED, DONE, EXIT
from kvrm.staging.device import call, thread_number
from kvrm.staging.emitter import I1, I32, I64, PTR, Emitter
from kvrm.values import Bits, StagingError


class DeviceTarget:
    """A handler on the device, whose number is what decoders put into slots.

    One that `prefetches` does so after its first access, by steps that are put into its slots.
    """

    def __init__(self, number: int, prefetches: bool = False) -> None:
        self._number, self._prefetches = number, prefetches
        self._way_out: tuple[ir.Block, ir.PhiInstr] | None = None
        self._taken: list[tuple[int, int]] = [(STEPS, STEPS_BYTES)] if prefetches else []

    def begin(self, module: ir.Module, name: str) -> DeviceFunction:
        self._f = DeviceFunction(module, name)
        return self._f

    # -- memory ----------------------------------------------------------------------------------------------
    def read(self, stage: HandlerStage, address: ir.Value, t: ir.Type) -> ir.Value:
        """Through the group's entries."""
        page, value = access.read_far(self._f.e, self._f.registers, address, t)
        self._accessed(address, page)
        return value

    def write(self, stage: HandlerStage, address: ir.Value, value: ir.Value) -> None:
        """Through the group's entries."""
        self._accessed(address, access.write_far(self._f.e, self._f.registers, address, value))

    def _accessed(self, address: ir.Value, page: ir.Value) -> None:
        """Leave if an access was refused; `page` is what it returned."""
        f, e = self._f, self._f.e
        self._leave_if(e.icmp_unsigned("==", page, ir.Constant(I64, access.REFUSED)), Reason.MEMORY)
        if self._prefetches:
            self._prefetches = False
            word, shift = f.operands[STEPS // 8], ir.Constant(I64, 8 * (STEPS % 8))
            access.ask_ahead(e, address, page, e.lshr(word, shift))

    def step_if(self, stage: HandlerStage, condition: ir.Value) -> None:
        self._leave_if(condition, Reason.STEP)

    misaligned_if = step_if

    def _leave_if(self, condition: ir.Value, reason: Reason) -> None:
        """Leave, none of the instruction being done yet: by one way out, since it is inlined in the loop."""
        f, e = self._f, self._f.e
        if self._way_out is None:
            with e.goto_block(e.append_basic_block("way_out")):
                self._way_out = e.block, e.phi(I64)
                f.leave(self._way_out[1], f.ip, f.budget)
        block, reasons = self._way_out
        reasons.add_incoming(ir.Constant(I64, reason), e.block)
        after = e.append_basic_block("after")
        unlikely(e.cbranch(condition, block, after))
        e.position_at_end(after)

    # -- operands --------------------------------------------------------------------------------------------
    def operand(self, stage: HandlerStage, node: StaticNode) -> tuple[ir.Value, int]:
        """From the slot's words, which the loop has loaded; aligned, so that none is in two of them."""
        size = operand_width(node.width) // 8
        free = set(range(OPERAND_BYTES)).difference(*(range(at, at + n) for at, n in self._taken))
        at = next((a for a in range(0, OPERAND_BYTES, size) if free.issuperset(range(a, a + size))), None)
        if at is None:
            raise StagingError(f"operands take more than {OPERAND_BYTES} bytes")
        self._taken.append((at, size))
        f, e = self._f, self._f.e
        with e.goto_block(stage.loads):
            word = f.operands[at // 8]
            raw = e.lshr(word, ir.Constant(I64, 8 * (at % 8))) if at % 8 else word
            raw = raw if node.width == 64 else e.trunc(raw, ir.IntType(node.width))
        return raw, at

    def name(self, e: Emitter, function: ir.Function, slot: ir.Value) -> None:
        for offset in (0, PLAIN_ID):
            e.store_at(ir.Constant(I32, self._number), slot, offset)

    # -- what is next ----------------------------------------------------------------------------------------
    def jump_far(self, stage: HandlerStage, target: Bits) -> None:
        self._f.jump(stage.value(target))

    def call(self, stage: HandlerStage) -> None:
        """A system call that is done here ends the handler; any other goes on to leave."""
        f, e = self._f, self._f.e
        # a call in the loop itself would cost it registers: all that live across it are saved
        f.fn.attributes.add("noinline")
        left = e.sub(f.budget, ir.Constant(I64, 1))
        retired = e.sub(e.load_at(f.state, layout.HORIZON, I64), left)
        verdict = call(e, resident, self._lane(retired), operations=OPERATIONS)
        with e.if_then(e.icmp_unsigned("==", verdict, ir.Constant(I64, DONE))):
            f.advance(e.at(f.ip, SLOT))
        with e.if_then(e.icmp_unsigned("==", verdict, ir.Constant(I64, EXIT))):
            f.leave(Reason.EXIT, None, left, PC=stage.value(stage.pc + 4))
        with e.if_then(e.icmp_unsigned("==", verdict, ir.Constant(I64, ASKED))):
            f.leave(Reason.NO_ANSWER, f.ip, f.budget)
        used_up = call(e, pool_is_used_up, f.parameters())
        with e.if_then(e.trunc(used_up, I1)):
            f.leave(Reason.NO_PAGE, f.ip, f.budget)

    def _lane(self, retired: ir.Value) -> ir.Value:
        """The words that system calls know the lane by (`Here`)."""
        f, e = self._f, self._f.e
        with e.goto_entry_block():
            words = e.words(len(Here))
        params, number = f.parameters(), thread_number.emit(e)
        registers = e.addrspacecast(f.registers, PTR)
        known = {
            Here.STATE: e.ptrtoint(f.state, I64),
            Here.REGISTERS: e.ptrtoint(registers, I64),
            Here.PARAMS: params,
            Here.RETIRED: retired,
            Here.PROCESS: call(e, parameter, params, e.const(I64, Param.PROCESS)),
            Here.WORDS: call(e, words_of, params, number),
            Here.NUMBER: number,
            Here.TABLE: e.load_at(f.registers, Own.TABLE, I64),
            Here.LANE: lane_number(e),
        }
        for word, value in known.items():
            e.store_at(value, words, 8 * word)
        return words
