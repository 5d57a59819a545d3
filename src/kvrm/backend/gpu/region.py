"""Regions on the device: one function for all lanes of a warp, which part and meet again inside it.

Lanes run a block together. Where they do not all go on to the same block, those go on whose next block has
the smallest number, until they come to where others wait; then all that entered the region meet. Numbers
follow the flow of control: a loop's blocks before what comes after it, a function's before what follows its
call. So lanes that went different ways meet where their ways do. The hardware alone would not see to it: it
has lanes meet where all ways lead, and each block has ways that lead out of the region. Here all ways lead to
the meeting, those out too; nothing depends on which lanes are there, so no lane is waited for in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import chain
from typing import Any

from llvmlite import ir

from kvrm.backend.gpu import access
from kvrm.backend.gpu.access import Site
from kvrm.backend.gpu.device_abi import PLAIN, RegionFunction, Var
from kvrm.backend.gpu.flow import in_flow_order
from kvrm.engine.interpreter.abi import HandlerFunction, unlikely
from kvrm.engine.translator.deferred import RegionEmitter
from kvrm.engine.translator.lazy_flags import LazyFlags
from kvrm.engine.translator.region import Block, Region
from kvrm.engine.translator.registers import Registers
from kvrm.engine.translator.stage import RegionStage
from kvrm.lane import words as layout
from kvrm.staging.emitter import I1, I32, I64
from kvrm.values import Bits, bits

SITES = {"R": 4, "W": 2}
"""Sites of a region that remember a page, for each kind of access: the last is for all that have none."""
OUT, PLAIN_OUT = 1 << 16, (1 << 16) + 1
"""Instead of a block's number: the lane leaves, and its target says where to; PLAIN_OUT: to the handler."""
NONE_WAITS = (1 << 32) - 1
"""Instead of the least number of lanes that wait."""


def _c(value: int) -> ir.Constant:
    return ir.Constant(I32, value)


class DeviceRegion:
    """What a region of the device is staged for.

    If it is `alone`, registers live in SSA, and sites that access memory remember their pages: those with
    the same address registers share what they remember. Otherwise registers are in memory between blocks.
    """

    def __init__(self, alone: bool) -> None:
        self._alone = alone
        self._ahead: list[int] = []
        self._gone: set[int] = set()
        self._before: ir.Value | None = None
        self._taken: dict[str, list[tuple[int, int]]] = {kind: [] for kind in SITES}

    def begin(self, module: ir.Module, name: str) -> HandlerFunction:
        self._f = RegionFunction(module, name, RegionEmitter)
        return self._f

    def make_registers(self, stage: RegionStage, widths: dict[int, int]) -> Registers:
        def place(offset: int) -> ir.Value:
            return stage.e.at(self._f.registers if offset < layout.V_OFFSET else stage.state, offset)

        if self._alone:
            return Registers(stage, stage.e, place, widths)
        # A region whose blocks follow each other in no fixed order enters and leaves often. Each block loads
        # what it uses and stores what it changes: entering takes no time, and a thread needs few registers.
        return Registers(stage, stage.e, place, dict.fromkeys(widths, 128), in_state=True)

    def prepare(self, stage: RegionStage) -> None:
        self._stage, slot = stage, stage.registers.slot
        stage.registers.lazy_flags = LazyFlags(stage.e, self._flags_word, self._f.flags)
        self._following, self._chosen, self._waiting = (
            slot(k, I32) for k in ("following", "chosen", "waiting")
        )
        self._order = in_flow_order(stage.region)
        self._meeting, self._parted = (self._f.fn.append_basic_block(k) for k in ("meeting", "parted"))
        self._sites = {
            kind: [
                Site(slot(f"page{kind}{i}", I64), slot(f"base{kind}{i}", I64))
                for i in range(number if self._alone else 0)
            ]
            for kind, number in SITES.items()
        }
        for site in chain.from_iterable(self._sites.values()):
            site.forget(stage.e)

    def _flags_word(self, name: str, t: ir.Type, first: ir.Value) -> ir.Value:
        """Facets are in memory: few blocks need them, and they would take registers in all."""
        if name[-1].isdigit():
            return self._stage.e.at(self._f.vars, 8 * (Var.FLAGS + int(name[-1])))
        return self._stage.registers.slot(name, t, first)

    # -- control flow ----------------------------------------------------------------------------------------
    def start(self, stage: RegionStage) -> None:
        """Go to the block that the region is entered at, with a budget that lasts until it is looked at."""
        e, most = stage.e, stage.region.longest
        enough, few = e.append_basic_block("enough"), e.append_basic_block("few")
        left = e.icmp_unsigned("<=", self._f.budget, ir.Constant(I64, most))
        unlikely(e.cbranch(left, few, enough))
        e.position_at_end(few)
        self.refuse(stage)
        e.position_at_end(enough)
        entry = self._f.entry
        for slot in (self._following, self._chosen):
            e.store(entry, slot)
        e.branch(self._meeting)

    def refuse(self, stage: RegionStage) -> None:
        self._f.leave_to_handler()

    def predecessors(self, region: Region) -> dict[int, int]:
        """None: a block may follow the meeting."""
        return {}

    @contextmanager
    def unrolling(self, stage: RegionStage) -> Iterator[None]:
        e, self._gone = stage.e, set()
        start = e.append_basic_block("start")
        e.branch(start)
        e.position_at_end(start)
        self._before = self._present()
        yield
        self._before = None

    def together(self, stage: RegionStage, iteration: list[Block]) -> Any:
        return _Apart()

    def go_plain(self, stage: RegionStage) -> None:
        """The lane waits, and leaves when all others have come to where they leave."""
        self._wait(_c(PLAIN_OUT))

    def finish(self, stage: RegionStage, block: Block) -> None:
        """Go on with the next block if no lane waits before it; else meet."""
        e = stage.e
        self._ahead = stage.region.successors(block.start)
        target, condition = stage.next or (bits(64, block.end), None)
        if condition is not None and condition.known:
            target, condition = (target if int(condition) else bits(64, block.end)), None
        if not target.known:
            self._go_indirectly(stage.value(target), stage.region.targets.get(block.end, ()))
        elif condition is None:
            self._go(int(target), self._before, self._gone)
        else:
            choice, before = stage.value(condition), self._before or self._present()
            ways = {"taken": int(target), "fall": block.end}
            blocks = [e.append_basic_block(name) for name in ways]
            e.cbranch(choice, *blocks)
            for where, pc in zip(blocks, ways.values(), strict=True):
                e.position_at_end(where)
                self._go(pc, before, self._gone.union(map(self._number_of, ways.values())))
        self._gone = set()

    def _go(self, pc: int, before: ir.Value | None, others: Set[int]) -> None:
        """Go on with a block, while others may go to blocks of those numbers; `before`: all that were here.

        Those whose number is least go on without the others, which wait.
        """
        e, number = self._stage.e, self._number_of(pc)
        if number == OUT:
            self._leave_for(pc)
            return
        waiting = e.load(self._waiting, typ=I32)
        everybody = ir.Constant(I1, 1)
        if before is not None:
            everybody = e.icmp_unsigned("==", self._present(), before)
        greater = min((n for n in others if n > number), default=OUT)
        if greater < OUT:
            parted = e.select(e.icmp_unsigned("<", waiting, _c(greater)), waiting, _c(greater))
            waiting = e.select(everybody, waiting, parted)
            e.store(waiting, self._waiting)
        free = e.icmp_unsigned("<", _c(number), waiting)
        if min(others, default=number) < number:
            free = e.and_(free, everybody)
        wait = e.append_basic_block("wait")
        e.cbranch(free, self._stage.heads[pc], wait)
        e.position_at_end(wait)
        self._wait(_c(number))

    def _go_indirectly(self, target: ir.Value, seen: Sequence[int]) -> None:
        """Go on at a computed address, with the block that it most often is if all agree on it."""
        e = self._stage.e
        e.store(target, self._stage.destination)
        if not seen:
            self._wait(_c(OUT))
            return
        before, likely, other = self._present(), e.append_basic_block("likely"), e.append_basic_block("other")
        e.cbranch(e.icmp_unsigned("==", target, ir.Constant(I64, seen[0])), likely, other)
        e.position_at_end(likely)
        self._go(seen[0], before, {-1})
        e.position_at_end(other)
        number: ir.Value = _c(OUT)
        for pc in seen[1:]:
            this = e.icmp_unsigned("==", target, ir.Constant(I64, pc))
            number = e.select(this, _c(self._number_of(pc)), number)
        self._wait(number)

    def edge(self, stage: RegionStage, pc: int) -> None:
        """Leave a loop in one of several iterations: lanes that stay go on to the last."""
        self._ahead = [pc] if pc in stage.heads else []
        self._gone.add(self._number_of(pc))
        self._go(pc, self._before, {-1})

    def _leave_for(self, pc: int) -> None:
        self._stage.e.store(ir.Constant(I64, pc), self._stage.destination)
        self._wait(_c(OUT))

    def _wait(self, number: ir.Value) -> None:
        self._stage.e.store(number, self._following)
        self._stage.e.branch(self._parted)

    def _number_of(self, pc: int) -> int:
        """OUT where the region was not cut with that way in mind: a register happens to be known."""
        return self._order.index(pc) if pc in self._ahead else OUT

    def _present(self) -> ir.Value:
        """A bit for each lane that is here."""
        return self._stage.e.module.warp.present(self._stage.e)

    def _least(self, value: ir.Value) -> ir.Value:
        """The least of the lanes that are here, whichever they are: none is waited for in vain."""
        return self._stage.e.module.warp.least(self._stage.e, value, self._present())

    def _meet(self) -> None:
        """Where all lanes come that do not go on together."""
        e = self._stage.e
        look, part, go = (e.append_basic_block(name) for name in ("look", "part", "go"))
        e.position_at_end(self._parted)
        e.store(self._least(e.load(self._following, typ=I32)), self._chosen)
        e.branch(self._meeting)
        e.position_at_end(self._meeting)
        mine, chosen = (e.load(slot, typ=I32) for slot in (self._following, self._chosen))
        e.cbranch(e.icmp_unsigned(">=", chosen, _c(OUT)), part, look)
        e.position_at_end(look)
        among = e.icmp_unsigned("==", mine, chosen)
        e.store(self._least(e.select(among, _c(NONE_WAITS), mine)), self._waiting)
        e.cbranch(among, go, self._parted)
        e.position_at_end(go)
        first, *others = (self._stage.heads[pc] for pc in self._order)
        switch = e.switch(chosen, first)
        for number, head in enumerate(others, 1):
            switch.add_case(_c(number), head)
        self._stage.end(part)
        plain = e.icmp_unsigned("==", mine, _c(PLAIN_OUT))
        flag = e.select(plain, ir.Constant(I64, PLAIN), ir.Constant(I64, 0))
        self._f.jump(e.load(self._stage.destination, typ=I64), cost=0, flag=flag)

    def leave(self, stage: RegionStage) -> None:
        """All ways out lead through the meeting."""
        self._meet()

    # -- memory ----------------------------------------------------------------------------------------------
    def _site(self, kind: str) -> Site | None:
        key, taken, sites = self._stage.accesses.registers, self._taken[kind], self._sites[kind]
        if not sites:
            return None
        if key not in taken:
            taken.append(key)
        return sites[min(taken.index(key), len(sites) - 1)]

    def read(self, stage: RegionStage, address: Bits, n: int) -> Bits:
        """Through the group's entries."""
        where = stage.value(address)
        stage.settle()
        value, refused = access.read(stage.e, self._f.registers, where, ir.IntType(n), self._site("R"))
        self._leave_if(refused)
        return stage.wrap(value, n)

    def write(self, stage: RegionStage, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Through the group's entries; nothing is accessed where the condition is 0."""
        stage.settle()
        a, v = stage.value(address), stage.value(value)
        if condition is None:
            self._write(a, v)
            return
        with stage.e.if_then(stage.value(condition)):
            self._write(a, v)

    def _write(self, address: ir.Value, value: ir.Value) -> None:
        e = self._stage.e
        far, refused = access.write(e, self._f.registers, address, value, self._site("W"))
        if self._sites["R"]:
            with e.if_then(far, likely=False):
                for site in self._sites["R"]:
                    site.forget(e)
        self._leave_if(refused)

    def _leave_if(self, refused: ir.Value) -> None:
        """Lanes that took longer are waited for before those that were refused leave.

        The assembly is convergent: the optimiser may neither copy it to both sides of a branch nor see that
        what comes out is what went in. Without it, refused lanes jump from the slow access to the way out,
        and lanes of the fast one go on before those of the slow one are back.
        """
        e = self._stage.e
        hidden = e.asm(ir.FunctionType(I32, [I32]), "", "=r,0", [e.zext(refused, I32)], side_effect=True)
        hidden.attributes.add("convergent")
        with e.if_then(e.icmp_unsigned("!=", hidden, _c(0)), likely=False):
            self._stage.leave_plain()


class _Apart:
    """Accesses are checked one by one, at their sites."""

    saves, steady = False, True

    def check(self, fail: ir.Block) -> None:
        """Nothing."""
