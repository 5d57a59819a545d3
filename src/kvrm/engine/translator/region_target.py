"""What regions are staged for: the host's native code, or a GPU's (`kvrm.backend.gpu.region`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from llvmlite import ir

from kvrm.engine.interpreter.abi import Function, HandlerFunction, unlikely
from kvrm.engine.interpreter.slots import PLAIN_OFFSET, PLAIN_PER_PC, SLOT_PER_PC
from kvrm.engine.nodes import RunNode
from kvrm.engine.translator.deferred import RegionEmitter
from kvrm.engine.translator.region import Block, Region
from kvrm.engine.translator.registers import VECTOR, Registers
from kvrm.engine.translator.shapes import parts
from kvrm.lane import words as layout
from kvrm.staging.emitter import I64, PTR, i64
from kvrm.values import Bits, concat

if TYPE_CHECKING:
    from kvrm.engine.translator.stage import RegionStage


class RegionTarget(Protocol):
    """How a region reaches memory and registers, and how control passes. Each region has one of its own."""

    def begin(self, module: ir.Module, name: str) -> HandlerFunction:
        """The function that the region becomes."""

    def make_registers(self, stage: RegionStage, widths: dict[int, int]) -> Registers:
        """Where guest registers are; `widths` as `Registers` has it."""

    def prepare(self, stage: RegionStage) -> None:
        """The function has registers and a block for each of the region's."""

    def start(self, stage: RegionStage) -> None:
        """Go to the block that the region is entered at."""

    def refuse(self, stage: RegionStage) -> None:
        """Do nothing: the interpreter runs the instruction that the region is entered at."""

    def predecessors(self, region: Region) -> dict[int, int]:
        """For blocks that are reached from one block only, which that is."""

    def unrolling(self, stage: RegionStage) -> AbstractContextManager[None]:
        """While several iterations of a loop are emitted."""

    def together(self, stage: RegionStage, iteration: list[Block]) -> Any:
        """What checks accesses of iterations at once, as `Together` does."""

    def finish(self, stage: RegionStage, block: Block) -> None:
        """Go on after a block, with the state spilled and the budget counted."""

    def edge(self, stage: RegionStage, pc: int) -> None:
        """Go on at a known address, in one of several iterations."""

    def go_plain(self, stage: RegionStage) -> None:
        """Have the interpreter run the instruction at the destination."""

    def leave(self, stage: RegionStage) -> None:
        """Emit the ways out."""

    def read(self, stage: RegionStage, address: Bits, n: int) -> Bits:
        """Bits of guest memory."""

    def write(self, stage: RegionStage, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Store in guest memory, unless the condition is 0."""


class HostRegion:
    """A region of the host. Each known target has its own way out: the host predicts where that leads."""

    def __init__(self) -> None:
        self._exits: dict[int, ir.Block] = {}

    def begin(self, module: ir.Module, name: str) -> HandlerFunction:
        return Function(module, name, "external", RegionEmitter)

    def make_registers(self, stage: RegionStage, widths: dict[int, int]) -> Registers:
        def place(offset: int) -> ir.Value:
            return stage.e.at(stage.state, offset)

        return Registers(stage, stage.e, place, widths, in_state=stage.region.brief)

    def prepare(self, stage: RegionStage) -> None:
        self._out, self._plain = (stage.f.fn.append_basic_block(name) for name in ("out", "plain"))

    # -- control flow ----------------------------------------------------------------------------------------
    def start(self, stage: RegionStage) -> None:
        """A region has one way in."""
        stage.e.branch(stage.heads[stage.region.entry])

    def refuse(self, stage: RegionStage) -> None:
        stage.e.store(i64(stage.region.entry), stage.destination)
        stage.e.branch(self._plain)

    def predecessors(self, region: Region) -> dict[int, int]:
        return region.only_predecessors()

    def unrolling(self, stage: RegionStage) -> AbstractContextManager[None]:
        return nullcontext()

    def together(self, stage: RegionStage, iteration: list[Block]) -> Any:
        return stage.accesses.together(f"{iteration[0].start:x}")

    def finish(self, stage: RegionStage, block: Block) -> None:
        if stage.next is None:
            self.edge(stage, block.end)
            return
        e, (target, condition) = stage.e, stage.next
        if condition is not None and condition.known:
            self.edge(stage, int(target) if int(condition) else block.end)
            return
        if condition is not None:
            taken, fall = e.append_basic_block("taken"), e.append_basic_block("fall")
            e.cbranch(stage.value(condition), taken, fall)
            e.position_at_end(fall)
            self.edge(stage, block.end)
            e.position_at_end(taken)
        if target.known and int(target) in stage.region.successors(block.start):
            self.edge(stage, int(target))
        elif target.known:
            # a branch whose register happens to be known: the region was not cut with it in mind
            self._leave_to(stage, int(target))
        else:
            self._indirect(stage, stage.value(target), stage.region.targets.get(block.end, ()))

    def edge(self, stage: RegionStage, pc: int) -> None:
        if pc in stage.heads:
            stage.e.branch(stage.heads[pc])
        else:
            self._leave_to(stage, pc)

    def go_plain(self, stage: RegionStage) -> None:
        stage.e.branch(self._plain)

    def leave(self, stage: RegionStage) -> None:
        for pc, block in self._exits.items():
            stage.end(block)
            stage.f.jump(i64(pc), cost=0)
        stage.end(self._out)
        stage.f.jump(stage.e.load(stage.destination, typ=I64), cost=0)
        stage.end(self._plain)
        self._jump_plain(stage, stage.e.load(stage.destination, typ=I64))

    def _leave_to(self, stage: RegionStage, pc: int) -> None:
        if pc not in self._exits:
            self._exits[pc] = stage.e.append_basic_block(f"to_{pc:x}_")
        stage.e.branch(self._exits[pc])

    def _indirect(self, stage: RegionStage, target: ir.Value, seen: Sequence[int]) -> None:
        e = stage.e
        for pc in seen:
            other = e.append_basic_block("other")
            e.cbranch(e.icmp_unsigned("==", target, i64(pc)), stage.heads[pc], other)
            e.position_at_end(other)
        e.store(target, stage.destination)
        e.branch(self._out)

    def _jump_plain(self, stage: RegionStage, target: ir.Value) -> None:
        """To the interpreter's handler of an address of the region, whatever stands in its slot."""
        f, e = stage.f, stage.e
        table = e.load_at(f.state, layout.CODE_TABLE, PTR)
        slots = e.load_at(table, e.shl(e.lshr(target, i64(12)), i64(3)), PTR)
        lost, found = e.append_basic_block("lost"), e.append_basic_block("found")
        unlikely(e.cbranch(e.icmp_unsigned("==", slots, ir.Constant(PTR, None)), lost, found))
        e.position_at_end(lost)
        f.jump(target, cost=0)
        e.position_at_end(found)
        offset = e.and_(target, i64(4095))
        ip = e.at(slots, e.mul(offset, i64(SLOT_PER_PC)))
        kept = e.load_at(e.at(slots, PLAIN_OFFSET), e.mul(offset, i64(PLAIN_PER_PC)), PTR)
        replaced = e.icmp_unsigned("!=", kept, ir.Constant(PTR, None))
        f.tail(e.select(replaced, kept, e.load_at(ip, 0, PTR)), ip, f.budget)

    # -- memory ----------------------------------------------------------------------------------------------
    def read(self, stage: RegionStage, address: Bits, n: int) -> Bits:
        host = stage.accesses.host(address, n // 8, "R")
        if n < 128:
            return stage.wrap(stage.e.load(host, typ=ir.IntType(n), align=1), n)
        vectors = (stage.e.load_at(host, at, VECTOR, align=1) for at in reversed(range(0, n // 8, 16)))
        return concat(*(Bits(64, RunNode(stage, vector), 2).whole for vector in vectors))

    def write(self, stage: RegionStage, address: Bits, value: Bits, condition: Bits | None) -> None:
        e = stage.e
        if condition is not None:
            stage.settle()
            store, after = e.append_basic_block("store"), e.append_basic_block("after")
            e.cbranch(stage.value(condition), store, after)
            e.position_at_end(store)
        host = stage.accesses.host(address, value.width // 8, "W")
        for at, part in enumerate(parts(value) or [value]):
            e.store_at(stage.value(part.split(64) if part.width == 128 else part), host, 16 * at, align=1)
        if condition is not None:
            e.branch(after)
            e.position_at_end(after)
