"""The stage that makes one function of a region: operands are known, registers and flags live in SSA.

A region leaves in two ways, both with the state written back: *out*, to run whatever stands at an address
(another region, perhaps), and *plain*, to have the interpreter run the instruction at an address.
What a region cannot do itself - a page-table entry that is not filled, an access across pages, too little
budget left - goes plain, at the instruction concerned, with the state as it was before that instruction.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from llvmlite import ir

from kvrm.engine.interpreter.abi import Function, HandlerFunction, unlikely
from kvrm.engine.interpreter.slots import PLAIN_OFFSET, PLAIN_PER_PC, SLOT_PER_PC
from kvrm.engine.translator.deferred import Deferred, RegionEmitter
from kvrm.engine.translator.page_sites import Accesses
from kvrm.engine.translator.region import Block, Region
from kvrm.engine.translator.region_values import RegionValues
from kvrm.engine.translator.registers import Registers
from kvrm.engine.translator.together import Together
from kvrm.isa.context import Flags, System
from kvrm.lane import words as layout
from kvrm.staging.emitter import I64, PTR

UNROLLED = 48
"""Instructions of a simple loop that run between two looks at pages and budget. More make the check cheaper
for each iteration and its failure likelier: it takes the budget of all, and pages that allow all accesses."""


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def build_region(module: ir.Module, name: str, region: Region) -> None:
    """Emit the function of a region."""
    RegionStage(module, name, region).build()


class RegionStage(RegionValues):
    """Runs the instructions of a region over LLVM values."""

    def __init__(self, module: ir.Module, name: str, region: Region) -> None:
        super().__init__()
        self._region = region
        self._f = self._function(module, name)
        self.e = self._f.e
        self._deferred = Deferred(self.e, self.value)
        self.state = self._f.state
        self.state.add_attribute("noalias")
        self.entry_flags = self._f.flags
        widths: dict[int, int] = {}
        for flow in region.flows:
            for r, w in flow.widths.items():
                widths[r] = max(w, widths.get(r, 0))
        self._registers = self._make_registers(widths)
        self._accesses = Accesses(self, self.e, self._registers, region.loops and not region.brief)
        self._budget = self._registers.slot("budget", I64, self._f.budget)
        self._target = self._registers.slot("target", I64)
        self._heads = {pc: self._f.fn.append_basic_block(f"at_{pc:x}_") for pc in region.order()}
        # Each known target has its own way out: the host then predicts where that leads.
        self._exits: dict[int, ir.Block] = {}
        self._out = self._f.fn.append_basic_block("out")
        self._plain = self._f.fn.append_basic_block("plain")
        self._number = _c(region.number)

    # -- building --------------------------------------------------------------------------------------------
    def _function(self, module: ir.Module, name: str) -> HandlerFunction:
        return Function(module, name, "external", RegionEmitter)

    def _make_registers(self, widths: dict[int, int]) -> Registers:
        def place(offset: int) -> ir.Value:
            return self.e.at(self.state, offset)

        return Registers(self, self.e, place, widths, in_state=self._region.brief)

    def build(self) -> None:
        """Emit the function's body."""
        e, entry = self.e, self.e.block
        start = e.append_basic_block("start")
        e.position_at_end(start)
        if any(flow.floating for flow in self._region.flows):
            self._require_default_fpcr()
        self._start()
        checked = self._region.checked()
        self._most = max(checked.values())
        self._loops = {} if self._region.brief else self._region.simple_loops(checked)
        unrolled = {block.start for iteration in self._loops.values() for block in iteration}
        before = self._predecessors()
        flags: dict[int, Flags] = {}
        for pc in self._region.order():
            self._begin(flags.get(before.get(pc, -1)))
            self._emit(self._region.blocks[pc], checked.get(pc))
            if self._registers.known_flags is not None and pc not in unrolled:
                flags[pc] = self._registers.known_flags
            self._finish(self._region.blocks[pc])
        self._leave()
        e.position_at_end(entry)
        e.branch(start)

    def _leave(self) -> None:
        """Emit the ways out."""
        for pc, block in self._exits.items():
            self._end(block)
            self._f.jump(_c(pc), cost=0)
        self._end(self._out)
        self._f.jump(self.e.load(self._target, typ=I64), cost=0)
        self._end(self._plain)
        self._jump_plain(self.e.load(self._target, typ=I64))

    def _start(self) -> None:
        """Go to the first block."""
        self.e.branch(self._heads[self._region.entry])

    def _predecessors(self) -> dict[int, int]:
        """For blocks that are reached from one block only, which that is."""
        return self._region.only_predecessors()

    def _end(self, block: ir.Block) -> None:
        """Write the state back in a block that leaves."""
        self.e.position_at_end(block)
        self._f.flags = self._registers.write_back()
        self._f.budget = self.e.load(self._budget, typ=I64)

    def _require_default_fpcr(self) -> None:
        """Compiled floating point is for FPCR = 0; with any other the interpreter goes on."""
        e = self.e
        value = e.load_at(self.state, layout.SYSTEM_OFFSET + 8 * System.FPCR, I64)
        usual, other = e.append_basic_block("usual"), e.append_basic_block("other")
        unlikely(e.cbranch(e.icmp_unsigned("!=", value, _c(0)), other, usual))
        e.position_at_end(other)
        self._refuse()
        e.position_at_end(usual)

    def _refuse(self) -> None:
        """Do nothing: the interpreter runs the instruction that the region is entered at."""
        self.e.store(_c(self._region.entry), self._target)
        self.e.branch(self._plain)

    def _emit(self, block: Block, needed: int | None) -> None:
        e = self.e
        e.position_at_end(self._heads[block.start])
        self._left = e.load(self._budget, typ=I64)
        if needed is not None:
            if block.start in self._loops:
                self._unroll(self._loops[block.start], self._most)
            with e.if_then(e.icmp_unsigned("<=", self._left, _c(needed)), likely=False):
                self._pc, self._retired = block.start, 0
                e.store_at(self._number, self.state, layout.REGION)
                self.leave_plain()
        self._retired = 0
        self._run(block)
        self._settle()

    def _begin(self, flags: Flags | None) -> None:
        """Other code: nothing is known of registers but, perhaps, these flags."""
        self._registers.begin(flags)
        self._aligned = set()
        self._deferred.begin()

    def _run(self, block: Block) -> None:
        """The instructions of a block, once."""
        from kvrm.isa.a64 import decode

        self._next, self._pc = None, block.start
        for word in block.words:
            d = decode(word, self._pc)
            assert d is not None
            self._accesses.begin(d)
            d.definition.run(self, d.operands())
            self._pc += 4
            self._retired += 1

    def _settle(self) -> None:
        """Leave registers, flags and budget where other blocks find them."""
        self._registers.spill()
        self.e.store(self.e.sub(self._left, _c(self._retired)), self._budget)

    def _unroll(self, iteration: list[Block], needed: int) -> None:
        """Some iterations of a loop, if worth it, whose accesses are checked first; goes on for others."""
        e, head = self.e, self.e.block
        once, check, several = (e.append_basic_block(name) for name in ("once", "check", "several"))
        e.position_at_end(several)
        together = self._checked_together(iteration)
        self._retired, size = 0, sum(len(block.words) for block in iteration)
        ways = zip(iteration, [*iteration[1:], iteration[0]], strict=True)
        ends = [(block, following.start) for block, following in ways]
        self._run(iteration[0])
        self._iterations(ends, UNROLLED - size, together)
        self._accesses.single()
        e.position_at_end(head)
        if self._retired > size or together.saves:
            unlikely(e.cbranch(e.icmp_unsigned("<=", self._left, _c(needed + self._retired)), once, check))
        else:
            e.branch(once)
        e.position_at_end(check)
        together.check(once)
        e.branch(several)
        self._begin(None)
        e.position_at_end(once)

    def _checked_together(self, iteration: list[Block]) -> Together:
        return self._accesses.together(f"{iteration[0].start:x}")

    def _iterations(self, ends: list[tuple[Block, int]], most: int, together: Together) -> None:
        """From the first block on, iterations of up to `most` instructions and one more."""
        for at, (block, following) in enumerate(itertools.cycle(ends), 1):
            done = at % len(ends) == 0 and not (self._retired <= most and together.steady)
            if done or not self._goes_on(block, following):
                self._settle()
                self._finish(block)
                return
            self._run(self._region.blocks[following])

    def _goes_on(self, block: Block, following: int) -> bool:
        """After a block, be at another that may follow, or go where else it leads; false if it only may."""
        e = self.e
        if self._next is None:
            return True
        target, condition = self._next
        if condition is None or condition.known:
            taken = condition is None or bool(int(condition))
            return (int(target) if taken and target.known else block.end if not taken else -1) == following
        self._deferred.settle()
        again, leave = e.append_basic_block("again"), e.append_basic_block("leave")
        back = target.known and int(target) == following
        e.cbranch(self.value(condition), *((again, leave) if back else (leave, again)))
        e.position_at_end(leave)
        self._settle()
        self._edge(block.end if back else int(target))
        e.position_at_end(again)
        return True

    def _finish(self, block: Block) -> None:
        if self._next is None:
            self._edge(block.end)
            return
        e, (target, condition) = self.e, self._next
        if condition is not None and condition.known:
            self._edge(int(target) if int(condition) else block.end)
            return
        if condition is not None:
            taken, fall = e.append_basic_block("taken"), e.append_basic_block("fall")
            e.cbranch(self.value(condition), taken, fall)
            e.position_at_end(fall)
            self._edge(block.end)
            e.position_at_end(taken)
        if target.known and int(target) in self._region.successors(block.start):
            self._edge(int(target))
        elif target.known:
            # a branch whose register happens to be known: the region was not cut with it in mind
            self._leave_to(int(target))
        else:
            self._indirect(self.value(target), self._region.targets.get(block.end, ()))

    def _edge(self, pc: int) -> None:
        """Go on at a known address, with the state spilled and the budget counted."""
        if pc in self._heads:
            self.e.branch(self._heads[pc])
        else:
            self._leave_to(pc)

    def _leave_to(self, pc: int) -> None:
        if pc not in self._exits:
            self._exits[pc] = self.e.append_basic_block(f"to_{pc:x}_")
        self.e.branch(self._exits[pc])

    def _indirect(self, target: ir.Value, seen: Sequence[int]) -> None:
        e = self.e
        for pc in seen:
            other = e.append_basic_block("other")
            e.cbranch(e.icmp_unsigned("==", target, _c(pc)), self._heads[pc], other)
            e.position_at_end(other)
        e.store(target, self._target)
        e.branch(self._out)

    def settle(self) -> None:
        """Before a branch that may leave: all values of the block are right from here on."""
        self._deferred.settle()

    def leave_plain(self) -> None:
        """End the LLVM block: the interpreter runs the present instruction, of which nothing is done yet."""
        self._settle()
        self.e.store(_c(self._pc), self._target)
        self.e.branch(self._plain)

    def _jump_plain(self, target: ir.Value) -> None:
        """To the interpreter's handler of an address of the region, whatever stands in its slot."""
        f, e = self._f, self.e
        table = e.load_at(f.state, layout.CODE_TABLE, PTR)
        slots = e.load_at(table, e.shl(e.lshr(target, _c(12)), _c(3)), PTR)
        lost, found = e.append_basic_block("lost"), e.append_basic_block("found")
        unlikely(e.cbranch(e.icmp_unsigned("==", slots, ir.Constant(PTR, None)), lost, found))
        e.position_at_end(lost)
        f.jump(target, cost=0)
        e.position_at_end(found)
        offset = e.and_(target, _c(4095))
        ip = e.at(slots, e.mul(offset, _c(SLOT_PER_PC)))
        kept = e.load_at(e.at(slots, PLAIN_OFFSET), e.mul(offset, _c(PLAIN_PER_PC)), PTR)
        replaced = e.icmp_unsigned("!=", kept, ir.Constant(PTR, None))
        f.tail(e.select(replaced, kept, e.load_at(ip, 0, PTR)), ip, f.budget)
