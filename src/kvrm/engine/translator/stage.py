"""The stage that makes one function of a region: operands are known, registers and flags live in SSA.

A region leaves in two ways, both with the state written back: *out*, to run whatever stands at an address
(another region, perhaps), and *plain*, to have the interpreter run the instruction at an address.
What a region cannot do itself - a page-table entry that is not filled, an access across pages, too little
budget left - goes plain, at the instruction concerned, with the state as it was before that instruction.
"""

from __future__ import annotations

import itertools

from llvmlite import ir

from kvrm.engine.interpreter.abi import unlikely
from kvrm.engine.translator.deferred import Deferred
from kvrm.engine.translator.page_sites import Accesses
from kvrm.engine.translator.region import Block, Region
from kvrm.engine.translator.region_target import HostRegion, RegionTarget
from kvrm.engine.translator.region_values import RegionValues
from kvrm.engine.translator.together import Together
from kvrm.isa.context import Flags, System
from kvrm.lane import words as layout
from kvrm.staging.emitter import I64, i64
from kvrm.values import Bits

UNROLLED = 48
"""Instructions of a simple loop that run between two looks at pages and budget. More make the check cheaper
for each iteration and its failure likelier: it takes the budget of all, and pages that allow all accesses."""


def build_region(module: ir.Module, name: str, region: Region) -> None:
    RegionStage(module, name, region, HostRegion()).build()


class RegionStage(RegionValues):
    """Runs the instructions of a region over LLVM values."""

    def __init__(self, module: ir.Module, name: str, region: Region, target: RegionTarget) -> None:
        super().__init__()
        self.region, self._target = region, target
        self.f = target.begin(module, name)
        self.e = self.f.e
        self._deferred = Deferred(self.e, self.value)
        self.state = self.f.state
        self.state.add_attribute("noalias")
        self.entry_flags = self.f.flags
        widths: dict[int, int] = {}
        for flow in region.flows:
            for r, w in flow.widths.items():
                widths[r] = max(w, widths.get(r, 0))
        self.registers = target.make_registers(self, widths)
        self.accesses = Accesses(self, self.e, self.registers, region.loops and not region.brief)
        self.budget = self.registers.slot("budget", I64, self.f.budget)
        self.destination = self.registers.slot("target", I64)
        self.heads = {pc: self.f.fn.append_basic_block(f"at_{pc:x}_") for pc in region.order()}
        self._number = i64(region.number)
        target.prepare(self)

    # -- building --------------------------------------------------------------------------------------------
    def build(self) -> None:
        e, entry = self.e, self.e.block
        start = e.append_basic_block("start")
        e.position_at_end(start)
        flows = self.region.flows
        if any(flow.floating for flow in flows):
            self._require_default_fpcr()
        self._sp_stays = not any(flow.moves_sp for flow in flows)
        if self._sp_stays and any(flow.begins_with_sp for flow in flows):
            self._require_aligned_sp()
        self._target.start(self)
        checked = self.region.checked()
        self._most = max(checked.values())
        self._loops = {} if self.region.brief else self.region.simple_loops(checked)
        unrolled = {block.start for iteration in self._loops.values() for block in iteration}
        before = self._target.predecessors(self.region)
        flags: dict[int, Flags] = {}
        for pc in self.region.order():
            self._begin(flags.get(before.get(pc, -1)))
            self._emit(self.region.blocks[pc], checked.get(pc))
            if self.registers.known_flags is not None and pc not in unrolled:
                flags[pc] = self.registers.known_flags
            self._target.finish(self, self.region.blocks[pc])
        self._target.leave(self)
        e.position_at_end(entry)
        e.branch(start)

    def end(self, block: ir.Block) -> None:
        """Write the state back in a block that leaves."""
        self.e.position_at_end(block)
        self.f.flags = self.registers.write_back()
        self.f.budget = self.e.load(self.budget, typ=I64)

    def _require_default_fpcr(self) -> None:
        """Compiled floating point is for FPCR = 0."""
        self._require_zero(self.e.load_at(self.state, layout.SYSTEM_OFFSET + 8 * System.FPCR, I64))

    def _require_aligned_sp(self) -> None:
        """SP does not change in the region: one look at it, instead of some inside of loops."""
        self._require_zero(self.e.and_(self.registers.at_entry(layout.SP), i64(15)))

    def _require_zero(self, value: ir.Value) -> None:
        """With any other value the interpreter goes on."""
        e = self.e
        usual, other = e.append_basic_block("usual"), e.append_basic_block("other")
        unlikely(e.cbranch(e.icmp_unsigned("!=", value, i64(0)), other, usual))
        e.position_at_end(other)
        self._target.refuse(self)
        e.position_at_end(usual)

    def _emit(self, block: Block, needed: int | None) -> None:
        e = self.e
        e.position_at_end(self.heads[block.start])
        self._left = e.load(self.budget, typ=I64)
        if needed is not None:
            if block.start in self._loops:
                with self._target.unrolling(self):
                    self._unroll(self._loops[block.start], self._most)
            with e.if_then(e.icmp_unsigned("<=", self._left, i64(needed)), likely=False):
                self.present, self._retired = block.start, 0
                e.store_at(self._number, self.state, layout.REGION)
                self.leave_plain()
        self._retired = 0
        self._run(block)
        self.spill()

    def _begin(self, flags: Flags | None) -> None:
        """Other code: nothing is known of registers but, perhaps, these flags."""
        self.registers.begin(flags)
        self._aligned = {(((layout.SP, 1),), 0)} if self._sp_stays else set()
        self._deferred.begin()

    def _run(self, block: Block) -> None:
        """The instructions of a block, once."""
        from kvrm.isa.a64 import decode

        self.next, self.present = None, block.start
        for word in block.words:
            d = decode(word, self.present)
            assert d is not None
            self.accesses.begin(d)
            d.definition.run(self, d.operands())
            self.present += 4
            self._retired += 1

    def spill(self) -> None:
        """Leave registers, flags and budget where other blocks find them."""
        self.registers.spill()
        self.e.store(self.e.sub(self._left, i64(self._retired)), self.budget)

    def _unroll(self, iteration: list[Block], needed: int) -> None:
        """Some iterations of a loop, if worth it, whose accesses are checked first; goes on for others."""
        e, head = self.e, self.e.block
        once, check, several = (e.append_basic_block(name) for name in ("once", "check", "several"))
        e.position_at_end(several)
        together = self._target.together(self, iteration)
        self._retired, size = 0, sum(len(block.words) for block in iteration)
        ways = zip(iteration, [*iteration[1:], iteration[0]], strict=True)
        ends = [(block, following.start) for block, following in ways]
        self._run(iteration[0])
        self._iterations(ends, UNROLLED - size, together)
        self.accesses.single()
        e.position_at_end(head)
        if self._retired > size or together.saves:
            unlikely(e.cbranch(e.icmp_unsigned("<=", self._left, i64(needed + self._retired)), once, check))
        else:
            e.branch(once)
        e.position_at_end(check)
        together.check(once)
        e.branch(several)
        self._begin(None)
        e.position_at_end(once)

    def _iterations(self, ends: list[tuple[Block, int]], most: int, together: Together) -> None:
        """From the first block on, iterations of up to `most` instructions and one more."""
        for at, (block, following) in enumerate(itertools.cycle(ends), 1):
            done = at % len(ends) == 0 and not (self._retired <= most and together.steady)
            if done or not self._goes_on(block, following):
                self.spill()
                self._target.finish(self, block)
                return
            self._run(self.region.blocks[following])

    def _goes_on(self, block: Block, following: int) -> bool:
        """After a block, be at another that may follow, or go where else it leads; false if it only may."""
        e = self.e
        if self.next is None:
            return True
        target, condition = self.next
        if condition is None or condition.known:
            taken = condition is None or bool(int(condition))
            return (int(target) if taken and target.known else block.end if not taken else -1) == following
        self._deferred.settle()
        again, leave = e.append_basic_block("again"), e.append_basic_block("leave")
        back = target.known and int(target) == following
        e.cbranch(self.value(condition), *((again, leave) if back else (leave, again)))
        e.position_at_end(leave)
        self.spill()
        self._target.edge(self, block.end if back else int(target))
        e.position_at_end(again)
        return True

    def read_memory(self, address: Bits, n: int) -> Bits:
        return self._target.read(self, address, n)

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Nothing is accessed where the condition is 0."""
        self._target.write(self, address, value, condition)

    def settle(self) -> None:
        """Before a branch that may leave: all values of the block are right from here on."""
        self._deferred.settle()

    def leave_plain(self) -> None:
        """End the LLVM block: the interpreter runs the present instruction, of which nothing is done yet."""
        self.spill()
        self.e.store(i64(self.present), self.destination)
        self._target.go_plain(self)
