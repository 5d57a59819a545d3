"""Regions on the device: one function for all lanes of a warp, which part and meet again inside it.

Lanes run a block together. Where they do not all go on to the same block, each notes the number of its next
one, and all that entered the region meet; those with the smallest number go on, until they come to where others
wait. Numbers follow the flow of control: a loop's blocks before what comes after it, a function's before what
follows its call. So lanes that went different ways meet where their ways do. The hardware alone would not see
to it: it has lanes meet where all ways lead, and each block has ways that lead out of the region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from kvrm.engine.emitter import I1, I32, I64
from kvrm.engine.interpreter.abi import Function, unlikely
from kvrm.engine.translator.deferred import RegionEmitter
from kvrm.engine.translator.region import Block, Region
from kvrm.engine.translator.stage import RegionStage
from kvrm.target.cuda import access
from kvrm.target.cuda.abi import PLAIN, RegionFunction, Var
from kvrm.target.cuda.access import Site
from kvrm.target.cuda.flow import flow_order
from kvrm.values import Bits

SITES = {"R": 4, "W": 2}
"""Places of a region that remember a page, for each kind of access: the last is for all that have none."""
OUT, PLAIN_OUT = 1 << 16, (1 << 16) + 1
"""In place of a block's number: the lane leaves, and its target says where to; PLAIN_OUT: to the handler."""
NO_PAGE = (1 << 64) - 1
NOBODY = (1 << 32) - 1
"""In place of the least number of those who wait."""


def _c(value: int) -> ir.Constant:
    return ir.Constant(I32, value)


class DeviceRegion(RegionStage):
    """A region on the device; in a loop, the first places that access memory remember their pages.

    Places with the same address registers share what they remember.
    """

    _f: RegionFunction

    def __init__(self, module: ir.Module, name: str, region: Region) -> None:
        super().__init__(module, name, region)
        slot = self._registers.slot
        self._sites = {
            kind: [
                Site(slot(f"page{kind}{i}", I64, ir.Constant(I64, NO_PAGE)), slot(f"base{kind}{i}", I64))
                for i in range(count)
            ]
            for kind, count in SITES.items()
        }
        self._taken: dict[str, list[tuple[int, int]]] = {kind: [] for kind in SITES}
        self._following, self._chosen, self._waiting = (
            slot(k, I32) for k in ("following", "chosen", "waiting")
        )
        self._order = flow_order(region.entry, region.successors)
        self._end_of_block: ir.Block = None
        self._meeting, self._parted = (self._f.fn.append_basic_block(k) for k in ("meeting", "parted"))

    @property
    def function(self) -> ir.Function:
        """What was built."""
        return self._f.fn

    def _function(self, module: ir.Module, name: str) -> Function:
        return RegionFunction(module, name, RegionEmitter)

    # -- control flow ----------------------------------------------------------------------------------------
    def _start(self) -> None:
        """Go to the block that the region is entered at, with a budget that lasts until it is looked at."""
        e, most = self.e, max(self._region.checked().values())
        enough, few = e.append_basic_block("enough"), e.append_basic_block("few")
        left = e.icmp_unsigned("<=", self._f.budget, ir.Constant(I64, most))
        unlikely(e.cbranch(left, few, enough))
        e.position_at_end(few)
        self._refuse()
        e.position_at_end(enough)
        entry = e.load_at(self._f.vars, 8 * Var.ENTRY, I32)
        for slot in (self._following, self._chosen):
            e.store(entry, slot)
        e.branch(self._meeting)

    def _refuse(self) -> None:
        self._f.leave_to_handler()

    def _predecessors(self) -> dict[int, int]:
        """None: a block may follow the meeting."""
        return {}

    def _unroll(self, turn: list[Block], needed: int) -> None:
        outer, self._end_of_block = self._end_of_block, self.e.append_basic_block("end")
        super()._unroll(turn, needed)
        self._end_of_block = outer

    def _checked_together(self, turn: list[Block]) -> Any:
        return _Apart()

    def _emit(self, block: Block, needed: int | None) -> None:
        self._end_of_block = self.e.append_basic_block("end")
        super()._emit(block, needed)

    def leave_plain(self) -> None:
        """End the LLVM block: a lane that leaves waits for the others of its block at that block's end."""
        self._settle()
        self.e.store(ir.Constant(I64, self._pc), self._target)
        self._go(PLAIN_OUT)

    def _finish(self, block: Block) -> None:
        """Go on with the next block if all agree on it and nobody waits before it; else meet."""
        e = self.e
        self._ahead = self._region.successors(block.start)
        ways = self._note_next(block)
        e.branch(self._end_of_block)
        e.position_at_end(self._end_of_block)
        for number in ways if len(ways) > 1 else ():
            self._if_free(number, self._agreed(self._goes_to(number)))
        least = min(ways)
        e.store(self._lesser(e.load(self._waiting, typ=I32), *map(_c, {*ways} - {least})), self._waiting)
        self._if_free(least, self._goes_to(least))
        e.branch(self._parted)

    def _if_free(self, number: int, condition: ir.Value) -> None:
        """Go on with a block of that number on a condition, if none wait for it or before it."""
        e = self.e
        if number < OUT:
            free = e.icmp_unsigned("<", _c(number), e.load(self._waiting, typ=I32))
            other = e.append_basic_block("other")
            e.cbranch(e.and_(free, condition), self._heads[self._order[number]], other)
            e.position_at_end(other)

    def _goes_to(self, number: int) -> ir.Value:
        return self.e.icmp_unsigned("==", self.e.load(self._following, typ=I32), _c(number))

    def _lesser(self, one: ir.Value, *others: ir.Value) -> ir.Value:
        for other in others:
            one = self.e.select(self.e.icmp_unsigned("<", one, other), one, other)
        return one

    def _edge(self, pc: int) -> None:
        """Go on at a known address, at the end of the block."""
        self._ahead = [pc] if pc in self._heads else []
        self._note(pc)
        self.e.branch(self._end_of_block)

    def _note_next(self, block: Block) -> list[int]:
        """Store the number of the lane's next block; those it may be, but for rare ones."""
        e = self.e
        if self._next is None:
            return [self._note(block.end)]
        target, condition = self._next
        if condition is not None and condition.known:
            return [self._note(int(target) if int(condition) else block.end)]
        if not target.known:
            return [self._note_indirect(self.value(target), self._region.targets.get(block.end, ()))]
        fall = int(target) if condition is None else block.end
        if condition is None:
            return [self._note(fall)]
        # all of it before the branch, so that there is none
        choice, ways = self.value(condition), [int(target), fall]
        e.store(e.select(choice, *(ir.Constant(I64, pc) for pc in ways)), self._target)
        numbers = [self._number_of(pc) for pc in ways]
        e.store(e.select(choice, *map(_c, numbers)), self._following)
        return sorted(numbers)

    def _note(self, pc: int) -> int:
        """The lane's next block is at a known address."""
        number = self._number_of(pc)
        if number == OUT:
            self.e.store(ir.Constant(I64, pc), self._target)
        self.e.store(_c(number), self._following)
        return number

    def _note_indirect(self, target: ir.Value, seen: Sequence[int]) -> int:
        """The lane's next block is at a computed address; where it is most often."""
        e = self.e
        e.store(target, self._target)
        number: ir.Value = _c(OUT)
        for pc in reversed(seen):
            this = e.icmp_unsigned("==", target, ir.Constant(I64, pc))
            number = e.select(this, _c(self._number_of(pc)), number)
        e.store(number, self._following)
        return self._number_of(seen[0]) if seen else OUT

    def _number_of(self, pc: int) -> int:
        """OUT where the region was not cut with that way in mind, as with a register that happens to be known."""
        return self._order.index(pc) if pc in self._ahead else OUT

    def _go(self, number: int) -> None:
        self.e.store(_c(number), self._following)
        self.e.branch(self._end_of_block)

    def _agreed(self, condition: ir.Value) -> ir.Value:
        """Whether it holds for all that are together."""
        return self._of_warp("vote.all.sync", I1, lambda mask: (mask, condition))

    def _least(self, value: ir.Value) -> ir.Value:
        return self._of_warp("redux.sync.umin", I32, lambda mask: (value, mask))

    def _of_warp(
        self, name: str, t: ir.Type, arguments: Callable[[ir.Value], tuple[ir.Value, ...]]
    ) -> ir.Value:
        """Of those that are together now, whoever they are: nobody waits, so nobody waits in vain."""
        e = self.e
        return e.external(f"llvm.nvvm.{name}", t, *arguments(e.external("llvm.nvvm.activemask", I32)))

    def _meet(self) -> None:
        """Where all lanes come who do not go on together."""
        e = self.e
        look, part, go = (e.append_basic_block(name) for name in ("look", "part", "go"))
        e.position_at_end(self._parted)
        self._registers.lazy_flags.normalise()
        e.store(self._least(e.load(self._following, typ=I32)), self._chosen)
        e.branch(self._meeting)
        e.position_at_end(self._meeting)
        mine, chosen = (e.load(slot, typ=I32) for slot in (self._following, self._chosen))
        e.cbranch(e.icmp_unsigned(">=", chosen, _c(OUT)), part, look)
        e.position_at_end(look)
        among = e.icmp_unsigned("==", mine, chosen)
        e.store(self._least(e.select(among, _c(NOBODY), mine)), self._waiting)
        e.cbranch(among, go, self._parted)
        e.position_at_end(go)
        first, *others = (self._heads[pc] for pc in self._order)
        switch = e.switch(chosen, first)
        for number, head in enumerate(others, 1):
            switch.add_case(_c(number), head)
        self._end(part)
        plain = e.icmp_unsigned("==", mine, _c(PLAIN_OUT))
        flag = e.select(plain, ir.Constant(I64, PLAIN), ir.Constant(I64, 0))
        self._f.jump(e.load(self._target, typ=I64), cost=0, flag=flag)

    def _leave(self) -> None:
        """All ways out lead through the meeting."""
        self._meet()
        for block in (self._out, self._plain):
            self.e.position_at_end(block)
            self.e.unreachable()

    # -- memory ----------------------------------------------------------------------------------------------
    def _site(self, kind: str) -> Site:
        key, taken, sites = self._accesses.registers, self._taken[kind], self._sites[kind]
        if key not in taken:
            taken.append(key)
        return sites[min(taken.index(key), len(sites) - 1)]

    def read_memory(self, address: Bits, n: int) -> Bits:
        """Through the group's entries."""
        where = self.value(address)
        self.settle()
        value, refused = access.read(self.e, self.state, self._f.vars, where, ir.IntType(n), self._site("R"))
        self._leave_if(refused)
        return self._wrap(value, n)

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Through the group's entries; nothing is accessed where the condition is 0."""
        self.settle()
        a, v = self.value(address), self.value(value)
        if condition is None:
            self._write(a, v)
            return
        with self.e.if_then(self.value(condition)):
            self._write(a, v)

    def _write(self, address: ir.Value, value: ir.Value) -> None:
        e = self.e
        far, refused = access.write(e, self.state, self._f.vars, address, value, self._site("W"))
        with e.if_then(far, likely=False):
            for site in self._sites["R"]:
                site.forget(e)
        self._leave_if(refused)

    def _leave_if(self, refused: ir.Value) -> None:
        """Lanes that took longer are waited for before those that were refused leave."""
        e = self.e
        hidden = e.asm(ir.FunctionType(I32, [I32]), "", "=r,0", [e.zext(refused, I32)], side_effect=True)
        hidden.attributes.add("convergent")
        with e.if_then(e.icmp_unsigned("!=", hidden, _c(0)), likely=False):
            self.leave_plain()


class _Apart:
    """Accesses are checked one by one, at their sites."""

    saves, steady = False, True

    def check(self, fail: ir.Block) -> None:
        """Nothing."""
