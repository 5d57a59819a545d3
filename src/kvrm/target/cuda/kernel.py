"""The interpreter kernel: a loop that runs, for each group, the slot with the smallest number, over and over.

The lanes of a warp whose slot that is run it, the others wait: lanes that went different ways meet again
where their ways do. Handlers are inlined into the loop, or called if they are large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from kvrm.engine.emitter import I1, I8, I32, I64, PTR, UNLIKELY, Emitter
from kvrm.engine.interpreter import flags
from kvrm.engine.interpreter.abi import DECODER, Callee
from kvrm.engine.interpreter.segment import Variant
from kvrm.engine.interpreter.slots import SLOT, Reason
from kvrm.engine.translator.region import Region
from kvrm.isa.a64 import definition_of
from kvrm.isa.definition import Definition
from kvrm.machine import state as layout
from kvrm.target.cuda import memory, transfer
from kvrm.target.cuda.abi import (
    AGAIN,
    GROUP,
    LOCAL_POINTER,
    OWN_WORDS,
    PLAIN,
    PLAIN_ID,
    REGISTER_WORDS,
    SHARED_POINTER,
    STATE_WORDS,
    STOPPED,
    VAR_WORDS,
    DeviceFunction,
    Module,
    Own,
    Param,
    Var,
    pointer,
    shared,
    shared_words,
)
from kvrm.target.cuda.plan import fits
from kvrm.target.cuda.region import DeviceRegion
from kvrm.target.cuda.stage import DeviceStage
from kvrm.target.cuda.transfer import Thread

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""Said in the text too: what is parsed without it has other alignments."""
MISSING, NEXT_PAGE, BREAKPOINT, UNDEFINED = range(4)
"""Numbers of the fixed handlers; those of variants follow."""
KERNELS = ("run", *transfer.KERNELS)
ALL_LANES = ir.Constant(I32, (1 << 32) - 1)
LARGEST_INLINED = 150
"""LLVM instructions of a handler that is inlined into the loop."""


@dataclass(frozen=True, slots=True)
class Staged:
    """LLVM text of the kernel and of the host's decoders, and the number of handlers."""

    device: str
    host: str
    handlers: int


def stage(variants: Sequence[Variant], regions: Sequence[Region] = ()) -> Staged:
    """Stage a kernel that has the handlers of `variants`, and `regions`, whose blocks have numbers behind."""
    device, host = Module(SHARED_POINTER if regions else LOCAL_POINTER), ir.Module(name="decoders")
    device.triple, device.data_layout = TRIPLE, LAYOUT
    functions = _fixed(device)
    decoders: list[ir.Function] = []
    for k, (key, statics) in enumerate(variants):
        d = definition_of(key)
        far = _handler(device, f"h{k}", d, statics, len(functions), near=False)
        functions.append(far.function)
        near = None
        if far.has_static_target:
            near = _handler(device, f"h{k}_near", d, statics, len(functions), near=True)
            functions.append(near.function)
        decoders.append(far.decoder(host, f"d{k}", d, near))
    for function in functions:
        size = sum(len(block.instructions) for block in function.blocks)
        if "noinline" not in function.attributes:
            function.attributes.add("alwaysinline" if size <= LARGEST_INLINED else "noinline")
    handlers = len(functions)
    small = fits(regions)
    entered = [
        (_region(device, f"region{k}", region, small), len(region.order()))
        for k, region in enumerate(regions)
    ]
    _kernel(device, functions, entered, by_block=not small)
    transfer.build(device)
    _predecode(host, decoders)
    return Staged(str(device), str(host), handlers)


def _region(module: Module, name: str, region: Region, alone: bool) -> ir.Function:
    made = DeviceRegion(module, name, region, alone)
    made.build()
    for attribute in ("noinline", "convergent"):
        made.function.attributes.add(attribute)
    return made.function


def _handler(
    module: Module, name: str, d: Definition, statics: Sequence[int], number: int, near: bool
) -> DeviceStage:
    made = DeviceStage(module, name, number, near)
    made.build(d, statics)
    return made


def _fixed(module: Module) -> list[ir.Function]:
    out = []
    for name, reason in (
        ("missing", Reason.HANDLER),
        ("", None),
        ("breakpoint", Reason.BREAKPOINT),
        ("undefined", Reason.UNDEFINED),
    ):
        f = DeviceFunction(module, name or "next_page")
        if reason is None:
            f.jump(f.operands[0], cost=0)
        else:
            f.leave(reason, f.ip, f.budget)
        out.append(f.fn)
    return out


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
        """Run a handler."""
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


Entered = Sequence[tuple[ir.Function, int]]
"""Functions of regions, and how many blocks they are entered at."""


def _kernel(module: Module, handlers: Sequence[ir.Function], regions: Entered, by_block: bool) -> None:
    """`run(params, grant)`: all lanes that have not ended run `grant` instructions, below 2^32, at most.

    If it is 0, only those run that are to go on with what is left of an earlier grant. With `by_block` all
    warps of a block run the same slot at a time, so that they share what the instruction cache has of it.
    """
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64]), "run")
    fn.calling_convention = "ptx_kernel"
    e, (params, grant) = Emitter(fn.append_basic_block("entry")), fn.args
    thread = Thread(e, params)
    begin, loop, done, end = (e.append_basic_block(n) for n in ("begin", "loop", "done", "end"))
    e.cbranch(thread.group_exists, begin, end)
    e.position_at_end(begin)
    state, variables, own = _words(e, layout.STATE_BYTES // 8), _words(e, VAR_WORDS), _own(e)
    _copy_state(e, pointer(e, thread.state), state, own, load=True)
    runs = _start(e, thread, state, variables, grant)
    root, code = (e.load_at(thread.params, 8 * p, I64) for p in (Param.ROOT, Param.CODE))
    for offset, value in zip(Own, (thread.table, root, code, params, state), strict=False):
        e.store_at(value, own, offset)
    slots = pointer(e, e.load_at(thread.params, 8 * Param.SLOTS, I64))
    lane = Lane(state, variables, own)
    round_ = _begin_rounds(e, thread) if by_block else None
    e.branch(loop)
    e.position_at_end(loop)
    _loop(e, handlers, regions, lane, slots, round_, loop, done)
    e.position_at_end(done)
    _end(e, thread, lane, runs)
    e.branch(end)
    e.position_at_end(end)
    e.ret_void()


def _start(e: Emitter, t: Thread, state: ir.Value, variables: ir.Value, grant: ir.Value) -> ir.Value:
    """Set the variables of a lane from its state; whether it runs."""
    reason = e.load_at(state, layout.REASON, I64)
    fresh, used_up, again = (
        e.icmp_unsigned("==", reason, ir.Constant(I64, r)) for r in (0, Reason.BUDGET, AGAIN)
    )
    granted = e.and_(e.or_(fresh, used_up), e.icmp_unsigned("!=", grant, ir.Constant(I64, 0)))
    runs = e.and_(t.exists, e.or_(granted, again))
    with e.if_then(runs):
        left = e.load_at(state, layout.REMAINING, I64)
        now = e.select(again, left, grant)
        e.store_at(e.add(e.load_at(state, layout.HORIZON, I64), e.sub(now, left)), state, layout.HORIZON)
        e.store_at(now, state, layout.REMAINING)
        e.store_at(ir.Constant(I64, 0), state, layout.REASON)
    e.store_at(e.load_at(state, layout.REMAINING, I32), variables, 8 * Var.BUDGET)
    nzcv = [e.trunc(e.load_at(state, layout.FLAGS_OFFSET + i, I8), I1) for i in range(4)]
    for i, facet in enumerate(flags.from_bits(e, *nzcv)):
        e.store_at(facet, variables, 8 * (Var.FLAGS + i))
    ip = e.select(runs, e.load_at(state, layout.IP, I32), ir.Constant(I32, STOPPED))
    e.store_at(ip, variables, 8 * Var.IP)
    return runs


def _loop(
    e: Emitter,
    handlers: Sequence[ir.Function],
    regions: Entered,
    lane: Lane,
    slots: ir.Value,
    round_: Rounds | None,
    loop: ir.Block,
    done: ir.Block,
) -> None:
    look, run, other = (e.append_basic_block(n) for n in ("look", "run", "other"))
    mine = e.load_at(lane.variables, 8 * Var.IP, I32)
    least = _least(e, mine) if round_ is None else round_.choose(e, lane.own, mine)
    e.cbranch(e.icmp_unsigned("==", least, ir.Constant(I32, STOPPED)), done, look).set_weights(list(UNLIKELY))
    e.position_at_end(look)
    if round_ is None:
        least, mine = _choose(e, lane.own, mine, least)
    else:
        mine = _only(e, mine, least)
    # loaded before lanes part, so that all of them load the same
    number = e.zext(e.and_(least, ir.Constant(I32, PLAIN - 1)), I64)
    plain = e.icmp_unsigned("!=", e.and_(least, ir.Constant(I32, PLAIN)), ir.Constant(I32, 0))
    slot = e.at(slots, e.shl(number, ir.Constant(I64, 5)))
    halves = [e.load(e.at(slot, i), typ=ir.VectorType(I64, 2), align=16) for i in (0, 16)]
    for half in halves:
        half.set_metadata("invariant.load", e.module.add_metadata([]))
    words = [e.extract_element(half, ir.Constant(I32, i)) for half in halves for i in (0, 1)]
    which = e.select(plain, e.lshr(words[0], ir.Constant(I64, 8 * PLAIN_ID)), words[0])
    # "not above" says to the optimiser only that: it would use the lane's own number for one that all share
    e.cbranch(e.icmp_unsigned("<=", mine, least), run, loop)
    e.position_at_end(run)
    switch = e.switch(e.trunc(which, I32), other)
    for k, handler in enumerate(handlers):
        case = e.append_basic_block("case")
        switch.add_case(ir.Constant(I32, k), case)
        e.position_at_end(case)
        lane.call(e, handler, [number, *words[1:]])
        e.branch(loop)
    first = len(handlers)
    for region, blocks in regions:
        case = e.append_basic_block("case")
        for k in range(first, first + blocks):
            switch.add_case(ir.Constant(I32, k), case)
        e.position_at_end(case)
        lane.enter(e, region, e.trunc(e.sub(which, ir.Constant(I64, first)), I32))
        e.branch(loop)
        first += blocks
    e.position_at_end(other)
    e.unreachable()


def _least(e: Emitter, value: ir.Value) -> ir.Value:
    """The least of the warp's values."""
    return e.external("llvm.nvvm.redux.sync.umin", I32, value, ALL_LANES)


def _only(e: Emitter, mine: ir.Value, chosen: ir.Value) -> ir.Value:
    """The lane's own number if it is the chosen one, else STOPPED; the optimiser does not know that."""
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
        stopped, three = ir.Constant(I32, STOPPED), ir.Constant(I64, 24)
        depth = e.select(e.icmp_unsigned("==", mine, stopped), stopped, e.load_at(own, 8 * layout.SP, I32))
        deepest = _least(e, depth)
        slot = _least(e, e.select(e.icmp_unsigned("<=", depth, deepest), mine, stopped))
        key = e.or_(e.shl(e.zext(deepest, I64), ir.Constant(I64, 32)), e.zext(slot, I64))
        now = e.load(self.at, typ=I64)
        with e.if_then(self.first):
            e.atomic_rmw("umin", e.at(self.words, now), key, "monotonic")
        e.external("llvm.nvvm.barrier.cta.sync.all", ir.VoidType(), ir.Constant(I32, 0))
        chosen = e.trunc(e.load(e.at(self.words, now), typ=I64), I32)
        following, before = (
            e.select(e.icmp_unsigned(">=", moved, three), e.sub(moved, three), moved)
            for moved in (e.add(now, ir.Constant(I64, 8)), e.add(now, ir.Constant(I64, 16)))
        )
        with e.if_then(self.first):
            e.store(ir.Constant(I64, -1), e.at(self.words, before))
        e.store(following, self.at)
        return chosen


def _begin_rounds(e: Emitter, thread: Thread) -> Rounds:
    """Make the words, before any warp of the block chooses."""
    words = e.addrspacecast(shared(e.module, "rounds", 3), PTR)
    with e.goto_entry_block():
        at = e.alloca(I64)
    e.store(ir.Constant(I64, 0), at)
    for word in range(3):
        e.store_at(ir.Constant(I64, -1), words, 8 * word)
    e.external("llvm.nvvm.barrier.cta.sync.all", ir.VoidType(), ir.Constant(I32, 0))
    lane = e.trunc(thread.lane, I32)
    return Rounds(words, at, e.icmp_unsigned("==", lane, _least(e, lane)))


def _choose(e: Emitter, own: ir.Value, mine: ir.Value, least: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Which slot runs, and the lane's own number, or STOPPED if it waits whatever that is.

    If lanes are not all at one slot, those are first that are deepest in calls, as the stack pointer tells:
    the others wait for them to return (Collange, "Stack-less SIMT reconvergence at low cost", 2011).
    """
    stopped = ir.Constant(I32, STOPPED)
    same = e.icmp_unsigned("==", mine, least)
    together = e.external("llvm.nvvm.vote.all.sync", I1, ALL_LANES, same)
    before, apart, go = e.block, e.append_basic_block("apart"), e.append_basic_block("go")
    e.cbranch(together, go, apart)
    e.position_at_end(apart)
    depth = e.select(e.icmp_unsigned("==", mine, stopped), stopped, e.load_at(own, 8 * layout.SP, I32))
    candidate = e.select(e.icmp_unsigned("<=", depth, _least(e, depth)), mine, stopped)
    of_candidates = _least(e, candidate)
    e.branch(go)
    e.position_at_end(go)
    chosen, own = e.phi(I32), e.phi(I32)
    for phi, if_together, if_apart in ((chosen, least, of_candidates), (own, mine, candidate)):
        phi.add_incoming(if_together, before)
        phi.add_incoming(if_apart, apart)
    return chosen, own


def _own(e: Emitter) -> ir.Value:
    """The thread's words at hand."""
    if e.module.own == SHARED_POINTER:
        return shared_words(e)
    return e.addrspacecast(_words(e, OWN_WORDS), e.module.own)


def _words(e: Emitter, count: int) -> ir.Value:
    """Words of the thread's own; only those that the entry block makes become registers."""
    with e.goto_entry_block():
        return memory.local_words(e, count)


def _end(e: Emitter, t: Thread, lane: Lane, runs: ir.Value) -> None:
    """Write a lane's state back, and count."""
    state, variables = lane.state, lane.variables
    left = e.zext(e.load_at(variables, 8 * Var.BUDGET, I32), I64)
    facets = [e.load_at(variables, 8 * (Var.FLAGS + i), I64) for i in range(4)]
    for i, flag in enumerate(flags.read(e, facets)):
        e.store_at(e.zext(flag, I8), state, layout.FLAGS_OFFSET + i)
    with e.if_then(runs):
        e.store_at(left, state, layout.REMAINING)
        counters = pointer(e, e.load_at(t.params, 8 * Param.COUNTERS, I64))
        reason = e.load_at(state, layout.REASON, I64)
        used_up = e.zext(e.icmp_unsigned("==", reason, ir.Constant(I64, Reason.BUDGET)), I64)
        before, after = (_retired(e, *at) for at in ((pointer(e, t.state), GROUP), (state, 1)))
        for i, value in enumerate((used_up, e.sub(after, before))):
            e.atomic_rmw("add", e.at(counters, 8 * i), value, "monotonic")
        _copy_state(e, pointer(e, t.state), state, lane.own, load=False)


def _retired(e: Emitter, state: ir.Value, stride: int) -> ir.Value:
    """Instructions that a lane has retired, from its state with words `stride` words apart."""
    horizon, left = (e.load_at(state, stride * at, I64) for at in (layout.HORIZON, layout.REMAINING))
    return e.sub(horizon, left)


def _copy_words(e: Emitter, source: ir.Value, to: ir.Value, count: int) -> None:
    for i in range(count):
        e.store_at(e.load_at(source, 8 * i, I64), to, 8 * i)


def _copy_state(e: Emitter, base: ir.Value, state: ir.Value, own: ir.Value, load: bool) -> None:
    """Between device memory, where words of lanes lie side by side, and where a lane has them that runs."""
    for to, first, end in ((own, 0, REGISTER_WORDS), (state, REGISTER_WORDS, STATE_WORDS)):
        with e.repeat(end - first) as i:
            word = e.add(i, ir.Constant(I64, first))
            there, here = (
                e.at(base, e.shl(word, ir.Constant(I64, 8))),
                e.at(to, e.shl(word, ir.Constant(I64, 3))),
            )
            e.store(e.load(there if load else here, typ=I64), here if load else there)


def _predecode(module: ir.Module, decoders: Sequence[ir.Function]) -> None:
    """`predecode(variants, words, pc, slots, count)`: fill slots; of variant -1, those that have none."""
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, PTR, I64]), "predecode")
    variants, words, pc, slots, count = fn.args
    e = Emitter(fn.append_basic_block("entry"))
    t = ir.ArrayType(PTR, len(decoders))
    table = ir.GlobalVariable(module, t, "decoders")
    table.initializer, table.global_constant, table.linkage = ir.Constant(t, decoders), True, "internal"
    with e.repeat(count) as i:
        four = e.shl(i, ir.Constant(I64, 2))
        variant, word = e.load_at(variants, four, I32), e.load_at(words, four, I32)
        with e.if_then(e.icmp_signed(">=", variant, ir.Constant(I32, 0))):
            decoder = e.load(e.at(table, e.shl(e.zext(variant, I64), ir.Constant(I64, 3))), typ=PTR)
            slot = e.at(slots, e.mul(i, ir.Constant(I64, SLOT)))
            e.call(Callee(decoder, DECODER), [word, e.add(pc, four), slot])
    e.ret_void()
