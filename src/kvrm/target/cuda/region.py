"""Regions on the device: one function for all lanes of a warp, which part and meet again inside it.

Lanes run a block together. Where they do not all go on to the same block, each notes the number of its next
one, and all that entered the region meet; those with the smallest number go on, until they come to where others
wait. Numbers follow the flow of control: a loop's blocks before what comes after it, a function's before what
follows its call. So lanes that went different ways meet where their ways do. The hardware alone would not see
to it: it has lanes meet where all ways lead, and each block has ways that lead out of the region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from llvmlite import ir

from kvrm.engine.emitter import I1, I32, I64
from kvrm.engine.interpreter.abi import Function, unlikely
from kvrm.engine.translator.deferred import RegionEmitter
from kvrm.engine.translator.region import Block, Region
from kvrm.engine.translator.stage import RegionStage
from kvrm.target.cuda import memory
from kvrm.target.cuda.abi import PLAIN, DeviceFunction, Var
from kvrm.target.cuda.flow import flow_order
from kvrm.values import Bits

SITES = 4
"""Places of a region that remember a page."""
EXITS = 1 << 16
"""The number of the first way out."""
NOBODY = (1 << 32) - 1
"""In place of the least number of those who wait."""


def _c(value: int) -> ir.Constant:
    return ir.Constant(I32, value)


class DeviceRegion(RegionStage):
    """A region on the device; in a loop, the first places that access memory remember their pages.

    Places with the same address registers share what they remember.
    """

    _f: DeviceFunction

    def __init__(self, module: ir.Module, name: str, region: Region) -> None:
        super().__init__(module, name, region)
        slot = self._registers.slot
        first = {"page": (1 << 64) - 1, "base": 0}
        self._sites = [
            memory.Site(*(slot(f"{k}{i}", I64, ir.Constant(I64, v)) for k, v in first.items()))
            for i in range(SITES if region.loops else 0)
        ]
        self._taken: dict[tuple[str, int, int], memory.Site] = {}
        self._following, self._chosen, self._waiting = (
            slot(k, I32) for k in ("following", "chosen", "waiting")
        )
        self._order = flow_order(region.entry, region.successors)
        self._ways_out: list[ir.Block] = []
        self._end_of_block: ir.Block = None
        self._meeting, self._parted = (self._f.fn.append_basic_block(k) for k in ("meeting", "parted"))

    @property
    def function(self) -> ir.Function:
        """What was built."""
        return self._f.fn

    def _function(self, module: ir.Module, name: str) -> Function:
        return DeviceFunction(module, name, "internal", RegionEmitter)

    # -- control flow ----------------------------------------------------------------------------------------
    def build(self) -> None:
        """Emit the function's body."""
        super().build()
        self._meet()

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
        self._go(_c(self._way_out(self._plain)))

    def _finish(self, block: Block) -> None:
        """Go on with the next block if all agree on it and nobody waits before it; else meet."""
        e = self.e
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
        if number < EXITS:
            free = e.icmp_unsigned("<", _c(number), e.load(self._waiting, typ=I32))
            other = e.append_basic_block("other")
            e.cbranch(e.and_(free, condition), self._block(number), other)
            e.position_at_end(other)

    def _goes_to(self, number: int) -> ir.Value:
        return self.e.icmp_unsigned("==", self.e.load(self._following, typ=I32), _c(number))

    def _lesser(self, one: ir.Value, *others: ir.Value) -> ir.Value:
        for other in others:
            one = self.e.select(self.e.icmp_unsigned("<", one, other), one, other)
        return one

    def _edge(self, pc: int) -> None:
        """Go on at a known address, at the end of the block."""
        self._note(self._number_of(pc))
        self.e.branch(self._end_of_block)

    def _note_next(self, block: Block) -> list[int]:
        """Store the number of the lane's next block; those it may be, but for rare ones."""
        e = self.e
        if self._next is None:
            return self._note(self._number_of(block.end))
        target, condition = self._next
        if condition is not None and condition.known:
            return self._note(self._number_of(int(target) if int(condition) else block.end))
        if not target.known:
            return self._note_indirect(self.value(target), self._region.targets.get(block.end, ()))
        inside = int(target) in self._region.successors(block.start)
        taken = self._number_of(int(target)) if inside else self._leaving_to(int(target))
        if condition is None:
            return self._note(taken)
        fall = self._number_of(block.end)
        e.store(e.select(self.value(condition), _c(taken), _c(fall)), self._following)
        return [taken, fall] if taken < EXITS else [fall, taken]

    def _note(self, number: int) -> list[int]:
        self.e.store(_c(number), self._following)
        return [number]

    def _note_indirect(self, target: ir.Value, seen: Sequence[int]) -> list[int]:
        e = self.e
        e.store(target, self._target)
        number: ir.Value = _c(self._way_out(self._out))
        for pc in reversed(seen):
            this = e.icmp_unsigned("==", target, ir.Constant(I64, pc))
            number = e.select(this, _c(self._number_of(pc)), number)
        e.store(number, self._following)
        return [self._number_of(pc) for pc in seen[:1]] or [self._way_out(self._out)]

    def _number_of(self, pc: int) -> int:
        return self._order.index(pc) if pc in self._heads else self._leaving_to(pc)

    def _leaving_to(self, pc: int) -> int:
        if pc not in self._exits:
            self._exits[pc] = self.e.append_basic_block(f"to_{pc:x}_")
        return self._way_out(self._exits[pc])

    def _way_out(self, block: ir.Block) -> int:
        if block not in self._ways_out:
            self._ways_out.append(block)
        return EXITS + self._ways_out.index(block)

    def _block(self, number: int) -> ir.Block:
        return self._ways_out[number - EXITS] if number >= EXITS else self._heads[self._order[number]]

    def _go(self, number: ir.Value) -> None:
        self.e.store(number, self._following)
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
        e.cbranch(e.icmp_unsigned(">=", chosen, _c(EXITS)), part, look)
        e.position_at_end(look)
        among = e.icmp_unsigned("==", mine, chosen)
        e.store(self._least(e.select(among, _c(NOBODY), mine)), self._waiting)
        e.cbranch(among, go, self._parted)
        for block, number, blocks in ((go, chosen, self._order), (part, mine, self._ways_out)):
            e.position_at_end(block)
            first = 0 if block is go else EXITS
            switch = e.switch(number, self._block(first))
            for i in range(1, len(blocks)):
                switch.add_case(_c(first + i), self._block(first + i))

    def _jump_plain(self, target: ir.Value) -> None:
        self._f.jump(target, cost=0, flag=PLAIN)

    # -- memory ----------------------------------------------------------------------------------------------
    def _site(self, access: str) -> memory.Site | None:
        key = access, *self._accesses.registers
        if key not in self._taken and len(self._taken) < len(self._sites):
            self._taken[key] = self._sites[len(self._taken)]
        return self._taken.get(key)

    def read_memory(self, address: Bits, n: int) -> Bits:
        """Through the group's entries."""
        where, t = self.value(address), ir.IntType(n)
        self.settle()
        read = self._together(lambda refuse: memory.read(self._f, where, t, refuse, self._site("R")))
        return self._wrap(read, n)

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Through the group's entries; nothing is accessed where the condition is 0."""
        self.settle()
        a, v = self.value(address), self.value(value)

        def write(refuse: memory.Refuse) -> None:
            with nullcontext() if condition is None else self.e.if_then(self.value(condition)):
                memory.write(self._f, a, v, refuse, self._site("W"), self._sites)

        self._together(write)

    def _together(self, access: Callable[[memory.Refuse], ir.Value | None]) -> Any:
        """Access memory; lanes that take longer are waited for before those that were refused leave."""
        e, met = self.e, self.e.append_basic_block("met")
        ends: list[tuple[int, ir.Block]] = []

        def end(refused: int) -> None:
            ends.append((refused, e.block))
            e.branch(met)

        value = access(lambda: end(1))
        end(0)
        e.position_at_end(met)
        refused = e.phi(I32)
        result = e.phi(value.type) if value is not None else None
        for flag, block in ends:
            refused.add_incoming(_c(flag), block)
            if result is not None:
                result.add_incoming(ir.Constant(result.type, ir.Undefined) if flag else value, block)
        hidden = e.asm(ir.FunctionType(I32, [I32]), "", "=r,0", [refused], side_effect=True)
        hidden.attributes.add("convergent")
        with e.if_then(e.icmp_unsigned("!=", hidden, _c(0)), likely=False):
            self.leave_plain()
        return result


class _Apart:
    """Accesses are checked one by one, at their sites."""

    saves, steady = False, True

    def check(self, fail: ir.Block) -> None:
        """Nothing."""
