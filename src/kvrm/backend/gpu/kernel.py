"""The interpreter kernel: handlers, regions and the loop that runs them, and what is before and after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from llvmlite import ir

from kvrm.backend.gpu import transfer
from kvrm.backend.gpu.device_abi import (
    GROUP,
    LOCAL_POINTER,
    OWN_WORDS,
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
    shared_words,
)
from kvrm.backend.gpu.device_stage import DeviceTarget
from kvrm.backend.gpu.group_memory import table_of, words_of
from kvrm.backend.gpu.inline import make_classifier
from kvrm.backend.gpu.region import DeviceRegion
from kvrm.backend.gpu.region_plan import fits
from kvrm.backend.gpu.rounds import Lane, Run, begin_rounds, emit_loop
from kvrm.backend.gpu.warp import NvidiaWarp, Warp
from kvrm.engine.interpreter import flags
from kvrm.engine.interpreter.abi import DECODER
from kvrm.engine.interpreter.inline import Emits
from kvrm.engine.interpreter.segment import Variant
from kvrm.engine.interpreter.slots import SLOT
from kvrm.engine.interpreter.stage import Form, HandlerStage
from kvrm.engine.translator.region import Region
from kvrm.engine.translator.stage import RegionStage
from kvrm.isa.a64 import definition_of
from kvrm.isa.definition import Definition, Execution
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.staging.device import begin_kernel, call, thread_number
from kvrm.staging.emitter import I1, I8, I32, I64, PTR, Callee, Emitter
from kvrm.staging.ptx import LAYOUT, TRIPLE
from kvrm.values import StagingError

MISSING, NEXT_PAGE, BREAKPOINT, UNDEFINED = range(4)
"""Numbers of the fixed handlers; those of variants follow."""
KERNELS = ("run", *transfer.KERNELS)
LARGEST_INLINED = 150
"""LLVM instructions of a handler that is inlined into the loop. A larger one, such as LD4, is called: in line
it would take registers and room in the instruction cache from all others."""


Skip = Callable[[Module], ir.Function]
"""Emits the handler that skips loops; its first operand is which one."""


@dataclass(frozen=True, slots=True)
class Staged:
    """LLVM text of the kernel and of the host's decoders, and the number of handlers."""

    device: str
    host: str
    handlers: int


def stage(
    variants: Sequence[Variant],
    regions: Sequence[Region] = (),
    lone: bool = False,
    inline: Emits | None = None,
    prefetching: Sequence[int] | None = None,
    skip: Skip | None = None,
    warp: Warp | None = None,
) -> Staged:
    """Stage a kernel that has the handlers of `variants`, and `regions`, whose blocks have the numbers after.

    `lone`: it is for one lane. With `inline`, for which there are no regions, a handler runs words of that
    class only which this tells. Those of the variants `prefetching` are there once more, with prefetches, and
    their decoders after all others. All numbers after these are loops that `skip` skips. `warp` is the
    driver's; by default NVIDIA's.
    """
    own = SHARED_POINTER if regions or lone else LOCAL_POINTER
    device, host = Module(own, warp or NvidiaWarp()), ir.Module(name="decoders")
    device.triple, device.data_layout = TRIPLE, LAYOUT
    functions = [(fixed, False) for fixed in _fixed(device)]
    classes: list[Execution | None] = [None] * len(functions)
    decoders: list[ir.Function] = []
    for k, (key, statics) in enumerate(variants):
        d = definition_of(key)
        far = _handler(device, f"h{k}", d, statics, len(functions))
        straight = d.execution not in (Execution.BRANCH, Execution.SYSTEM)
        functions.append((far.function, straight))
        near = None
        if far.has_static_target:
            near = _handler(device, f"h{k}_near", d, statics, len(functions), Form.NEAR)
            functions.append((near.function, straight))
        classes += [d.execution] * (len(functions) - len(classes))
        decoders.append(far.decoder(host, f"d{k}", d, near))
    for k in prefetching or ():
        d = definition_of(variants[k][0])
        far = _handler(device, f"h{k}_ahead", d, variants[k][1], len(functions), prefetches=True)
        functions.append((far.function, True))
        classes.append(d.execution)
        decoders.append(far.decoder(host, f"d{k}_ahead", d, None))
    for function, _ in functions:
        size = sum(len(block.instructions) for block in function.blocks)
        if "noinline" not in function.attributes:
            function.attributes.add("alwaysinline" if size <= LARGEST_INLINED else "noinline")
    handlers = len(functions)
    small = fits(regions)
    entered = [
        (_region(device, f"region{k}", region, small), len(region.order()))
        for k, region in enumerate(regions)
    ]
    classifier = None if inline is None else make_classifier(device, inline, classes, MISSING)
    what = Run(functions, entered, skip and skip(device), classifier)
    _kernel(device, what, by_block=not small, lone=lone)
    transfer.build(device)
    _predecode(host, decoders)
    return Staged(str(device), str(host), handlers)


@cache
def can_prefetch(variant: Variant) -> bool:
    """Whether a variant is of a load or store, and has room for steps among its operands."""
    d = definition_of(variant[0])
    if d.execution is not Execution.LOAD_STORE:
        return False
    try:
        _handler(Module(LOCAL_POINTER, NvidiaWarp()), "h", d, variant[1], 0, prefetches=True)
    except StagingError:
        return False
    return True


def _region(module: Module, name: str, region: Region, alone: bool) -> ir.Function:
    made = RegionStage(module, name, region, DeviceRegion(alone))
    made.build()
    # Convergent, as its lanes vote: made conditional on another branch, the call would ask fewer lanes than
    # are there. One copy: the loop's own registers and code are for all slots.
    for attribute in ("noinline", "convergent"):
        made.f.fn.attributes.add(attribute)
    return made.f.fn


def _handler(
    module: Module,
    name: str,
    d: Definition,
    statics: Sequence[int],
    number: int,
    form: Form = Form.ALL,
    prefetches: bool = False,
) -> HandlerStage:
    made = HandlerStage(module, name, DeviceTarget(number, prefetches), form)
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


def _kernel(module: Module, what: Run, by_block: bool, lone: bool) -> None:
    """`run(params, grant)`: all lanes that have not ended run `grant` instructions, below 2^32, at most.

    If it is 0, only those run that are to go on with what is left of an earlier grant. With `by_block` all
    warps of a block run the same slot at a time, so that they share what the instruction cache has of it.
    """
    e, (params, grant) = begin_kernel(module, "run", 2)
    thread = _thread(e, params)
    begin, done, end = (e.append_basic_block(n) for n in ("begin", "done", "end"))
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
    rounds = begin_rounds(e) if by_block and not lone else None
    emit_loop(e, what, lane, slots, done, rounds, lone)
    e.position_at_end(done)
    _end(e, thread, lane, runs)
    e.branch(end)
    e.position_at_end(end)
    e.ret_void()


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of the kernel: the parameter block, its lane's words and its group's table; what exists."""

    params: ir.Value
    state: ir.Value
    table: ir.Value
    exists: ir.Value
    group_exists: ir.Value


def _thread(e: Emitter, params: ir.Value) -> Thread:
    number, block = thread_number.emit(e), pointer(e, params)
    state, table = (call(e, of, params, number) for of in (words_of, table_of))
    first, lanes = e.and_(number, ir.Constant(I64, -GROUP)), e.load_at(block, 8 * Param.LANES, I64)
    return Thread(block, state, table, *(e.icmp_unsigned("<", n, lanes) for n in (number, first)))


def _start(e: Emitter, t: Thread, state: ir.Value, variables: ir.Value, grant: ir.Value) -> ir.Value:
    """Set the variables of a lane from its state; whether it runs."""
    reason = e.load_at(state, layout.REASON, I64)
    fresh, used_up, again = (
        e.icmp_unsigned("==", reason, ir.Constant(I64, r)) for r in (0, Reason.BUDGET, Reason.AGAIN)
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


def _own(e: Emitter) -> ir.Value:
    """The thread's words at hand."""
    if e.module.own == SHARED_POINTER:
        return shared_words(e)
    return e.addrspacecast(_words(e, OWN_WORDS), e.module.own)


def _words(e: Emitter, count: int) -> ir.Value:
    """Words of the thread's own; only those that the entry block makes become registers."""
    with e.goto_entry_block():
        return e.words(count)


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
