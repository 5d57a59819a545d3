"""The kernel's loop: in each round the lanes of a warp that are at one slot run it, and the others wait.

Lanes that went different ways meet again where their ways do. Handlers are inlined into the loop, or called
if they are large. While all lanes that run are at one slot, a handler that cannot branch leaves them at the
next one: nothing needs to be chosen then, and that slot is loaded while the handler runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from kvrm.backend.gpu.device_abi import (
    LOCAL_POINTER,
    PLAIN,
    PLAIN_ID,
    STOPPED,
    VAR_WORDS,
    Own,
    Var,
    lane_number,
    pointer,
    shared,
)
from kvrm.backend.gpu.inline import Classifier
from kvrm.backend.gpu.warp import ALL_LANES
from kvrm.engine.interpreter.slots import OPERANDS
from kvrm.lane import words as layout
from kvrm.staging.emitter import I1, I32, I64, PTR, UNLIKELY, Emitter


@dataclass(frozen=True, slots=True)
class Lane:
    """What a thread keeps of its lane: its state, its variables, its words at hand.

    Those have a copy of the variables for others: what others may have the address of would not be kept in
    registers.
    """

    state: ir.Value
    variables: ir.Value
    own: ir.Value

    def call(self, e: Emitter, handler: ir.Function, arguments: list[ir.Value]) -> None:
        inlined = "alwaysinline" in handler.attributes
        if inlined:
            e.call(handler, [self.state, self.variables, *arguments, self.own])
            return
        with self._copied(e) as copy:
            e.call(handler, [self.state, e.addrspacecast(copy, PTR), *arguments, self.own])

    def enter(self, e: Emitter, region: ir.Function, entry: ir.Value) -> None:
        """Run a region from the block with the number `entry` on."""
        with self._copied(e):
            e.call(region, [e.addrspacecast(self.state, LOCAL_POINTER), self.own, entry])

    @contextmanager
    def _copied(self, e: Emitter) -> Iterator[ir.Value]:
        copy = e.at(self.own, Own.VARIABLES)
        _copy_words(e, self.variables, copy, VAR_WORDS)
        yield copy
        _copy_words(e, copy, self.variables, VAR_WORDS)


@dataclass(frozen=True, slots=True)
class Run:
    """What a slot can have run, in the order of its numbers.

    `handlers` are functions, and whether the next slot is all that they can leave a lane at; `regions`
    functions, and how many blocks they are entered at. All other numbers are loops that `skip` skips. With
    `classifier`, for which there is nothing but handlers, one runs words of its own class only.
    """

    handlers: Sequence[tuple[ir.Function, bool]]
    regions: Sequence[tuple[ir.Function, int]]
    skip: ir.Function | None
    classifier: Classifier | None


def emit_loop(
    e: Emitter,
    what: Run,
    lane: Lane,
    slots: ir.Value,
    done: ir.Block,
    rounds: Rounds | None = None,
    lone: bool = False,
) -> None:
    """The loop, after the block that is being emitted; once no lane runs, `done` is next.

    With `rounds` all warps of a block run the same slot at a time; `lone`: a warp has one lane at most.
    """
    inline = None
    if what.classifier is not None:
        inline = what.classifier.begin(e, pointer(e, e.load_at(lane.own, Own.PARAMS, I64)))
    loop, look, go, run, following = map(e.append_basic_block, ("loop", "look", "go", "run", "following"))
    e.branch(loop)
    e.position_at_end(loop)
    mine = e.load_at(lane.variables, 8 * Var.IP, I32)
    least = mine if lone else rounds.choose(e, lane.own, mine) if rounds else _least(e, mine)
    e.cbranch(e.icmp_unsigned("==", least, ir.Constant(I32, STOPPED)), done, look).set_weights(list(UNLIKELY))
    e.position_at_end(look)
    if lone:
        together = ir.Constant(I1, 1)
    elif rounds:
        mine, together = _only(e, mine, least), ir.Constant(I1, 0)
    else:
        least, mine, together = _choose(e, lane.own, mine, least)
    looked = [least, mine, together, _id(e, slots, least)]
    before = e.block
    e.branch(go)
    e.position_at_end(go)
    now = [e.phi(value.type) for value in looked]
    _from(now, looked, before)
    least, mine, together, which = now
    number = e.zext(e.and_(least, ir.Constant(I32, PLAIN - 1)), I64)
    # loaded before lanes part, so that all of them load the same
    operands = _operands(e, slots, number)
    next_one = e.and_(e.add(least, ir.Constant(I32, 1)), ir.Constant(I32, PLAIN - 1))
    ahead = _id(e, slots, next_one) if lone else None
    choose = None if inline is None else partial(inline.choose, inline.word(e, number))
    # "not above" says to the optimiser only that: it would use the lane's own number for one that all share
    e.cbranch(e.icmp_unsigned("<=", mine, least), run, loop)
    e.position_at_end(following)
    after = [next_one, e.load_at(lane.variables, 8 * Var.IP, I32), ir.Constant(I1, 1)]
    _from(now, [*after, ahead or _id(e, slots, next_one)], following)
    e.branch(go)
    e.position_at_end(run)
    _cases(e, which, [number, *operands], what, lane, choose, (loop, following, together))


Choose = Callable[[Emitter, ir.Value, Sequence[ir.Block]], None]
"""Goes to the block of a handler's number."""
Targets = tuple[ir.Block, ir.Block, ir.Value]
"""What is next; what comes after a handler that is straight, if this holds."""


def _cases(
    e: Emitter,
    which: ir.Value,
    arguments: list[ir.Value],
    what: Run,
    lane: Lane,
    choose: Choose | None,
    targets: Targets,
) -> None:
    """Run the handler or the region with the number `which`, or skip iterations of a loop.

    `choose` decides whether a handler may.
    """
    other = e.append_basic_block("other")
    own = [e.append_basic_block("case") for _ in what.handlers]
    entered = [e.append_basic_block("case") for _ in what.regions]
    numbered = [case for case, (_, blocks) in zip(entered, what.regions, strict=True) for _ in range(blocks)]
    if choose is None:
        switch = e.switch(which, other)
        for k, case in enumerate([*own, *numbered]):
            switch.add_case(ir.Constant(I32, k), case)
    else:
        choose(e, which, own)
    loop, following, together = targets
    for case, (handler, straight) in zip(own, what.handlers, strict=True):
        e.position_at_end(case)
        lane.call(e, handler, arguments)
        if straight:
            e.cbranch(together, following, loop)
        else:
            e.branch(loop)
    first = len(what.handlers)
    for case, (region, blocks) in zip(entered, what.regions, strict=True):
        e.position_at_end(case)
        lane.enter(e, region, e.sub(which, ir.Constant(I32, first)))
        e.branch(loop)
        first += blocks
    e.position_at_end(other)
    if what.skip is None:
        e.unreachable()
        return
    site = e.zext(e.sub(which, ir.Constant(I32, first)), I64)
    lane.call(e, what.skip, [arguments[0], site, *arguments[2:]])
    e.branch(loop)


def _from(phis: Sequence[ir.Value], values: Sequence[ir.Value], block: ir.Block) -> None:
    for phi, value in zip(phis, values, strict=True):
        phi.add_incoming(value, block)


def _id(e: Emitter, slots: ir.Value, at: ir.Value) -> ir.Value:
    """What runs at a slot: with PLAIN set in its number, its own handler."""
    number = e.zext(e.and_(at, ir.Constant(I32, PLAIN - 1)), I64)
    plain = e.icmp_unsigned("!=", e.and_(at, ir.Constant(I32, PLAIN)), ir.Constant(I32, 0))
    place = e.select(plain, ir.Constant(I64, PLAIN_ID), ir.Constant(I64, 0))
    return e.load(e.at(e.at(slots, e.shl(number, ir.Constant(I64, 5))), place), typ=I32)


def _operands(e: Emitter, slots: ir.Value, number: ir.Value) -> list[ir.Value]:
    """The other three words of a slot."""
    slot = e.at(slots, e.shl(number, ir.Constant(I64, 5)))
    both = e.load(e.at(slot, OPERANDS + 8), typ=ir.VectorType(I64, 2), align=16)
    return [e.load_at(slot, OPERANDS, I64), *(e.extract_element(both, ir.Constant(I32, i)) for i in (0, 1))]


def _least(e: Emitter, value: ir.Value) -> ir.Value:
    """The least of the warp's values."""
    return e.module.warp.least(e, value, ALL_LANES)


def _only(e: Emitter, mine: ir.Value, chosen: ir.Value) -> ir.Value:
    """The lane's own number if it is the chosen one, else STOPPED, as an assembly that hides its origin.

    Otherwise the optimiser uses the lane's own number wherever it equals the chosen one, which all lanes
    share: what a warp loads once would be loaded for each lane.
    """
    own = e.select(e.icmp_unsigned("==", mine, chosen), mine, ir.Constant(I32, STOPPED))
    return e.asm(ir.FunctionType(I32, [I32]), "", "=r,0", [own], side_effect=False)


@dataclass(frozen=True, slots=True)
class Rounds:
    """How the warps of a block choose a slot together, as `_choose`, by three words that they share.

    In each round the least is found in one word; once all are there, the word of the round before is free.
    """

    words: ir.Value
    at: ir.Value
    first: ir.Value

    def choose(self, e: Emitter, own: ir.Value, mine: ir.Value) -> ir.Value:
        """The slot that is next in the block, the same for all; STOPPED if no lane of it runs."""
        three = ir.Constant(I64, 24)
        deepest, _, slot = _deepest(e, own, mine)
        key = e.or_(e.shl(e.zext(deepest, I64), ir.Constant(I64, 32)), e.zext(slot, I64))
        now = e.load(self.at, typ=I64)
        with e.if_then(self.first):
            e.atomic_rmw("umin", e.at(self.words, now), key, "monotonic")
        e.module.warp.meet(e)
        chosen = e.trunc(e.load(e.at(self.words, now), typ=I64), I32)
        following, before = (
            e.select(e.icmp_unsigned(">=", moved, three), e.sub(moved, three), moved)
            for moved in (e.add(now, ir.Constant(I64, 8)), e.add(now, ir.Constant(I64, 16)))
        )
        with e.if_then(self.first):
            e.store(ir.Constant(I64, -1), e.at(self.words, before))
        e.store(following, self.at)
        return chosen


def begin_rounds(e: Emitter) -> Rounds:
    """Make the words, before any warp of the block chooses."""
    words = e.addrspacecast(shared(e.module, "rounds", 3), PTR)
    with e.goto_entry_block():
        at = e.alloca(I64)
    e.store(ir.Constant(I64, 0), at)
    for word in range(3):
        e.store_at(ir.Constant(I64, -1), words, 8 * word)
    e.module.warp.meet(e)
    lane = e.trunc(lane_number(e), I32)
    return Rounds(words, at, e.icmp_unsigned("==", lane, _least(e, lane)))


def _choose(
    e: Emitter, own: ir.Value, mine: ir.Value, least: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Which slot runs; the lane's own number, or STOPPED if it waits whatever that is; whether none waits.

    If lanes are not all at one slot, those are first that are deepest in calls.
    """
    stopped = ir.Constant(I32, STOPPED)
    at_least = e.icmp_unsigned("==", mine, least)
    same = e.or_(at_least, e.icmp_unsigned("==", mine, stopped))
    together = e.module.warp.every(e, same)
    before, apart, go = e.block, e.append_basic_block("apart"), e.append_basic_block("go")
    e.cbranch(together, go, apart)
    e.position_at_end(apart)
    _, candidate, of_candidates = _deepest(e, own, mine)
    e.branch(go)
    e.position_at_end(go)
    chosen, own = e.phi(I32), e.phi(I32)
    for phi, if_together, if_apart in ((chosen, least, of_candidates), (own, mine, candidate)):
        phi.add_incoming(if_together, before)
        phi.add_incoming(if_apart, apart)
    return chosen, own, together


def _deepest(e: Emitter, own: ir.Value, mine: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The least stack pointer in the warp; the number of a lane that has it, or STOPPED; the least of those.

    Lanes deepest in calls go first, and the others wait for them to return (Collange, "Stack-less SIMT
    reconvergence at low cost", 2011).
    """
    stopped = ir.Constant(I32, STOPPED)
    depth = e.select(e.icmp_unsigned("==", mine, stopped), stopped, e.load_at(own, 8 * layout.SP, I32))
    deepest = _least(e, depth)
    candidate = e.select(e.icmp_unsigned("<=", depth, deepest), mine, stopped)
    return deepest, candidate, _least(e, candidate)


def _copy_words(e: Emitter, source: ir.Value, to: ir.Value, count: int) -> None:
    for i in range(count):
        e.store_at(e.load_at(source, 8 * i, I64), to, 8 * i)
