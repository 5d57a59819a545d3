"""The interpreter's fixed functions: entering, decoding on first use, crossing pages, breakpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from kvrm.engine.interpreter import flags
from kvrm.engine.interpreter.abi import CONVENTION, DECODER, HANDLER, Function
from kvrm.engine.interpreter.memory_access import fetched
from kvrm.engine.interpreter.slots import (
    CLASS,
    KEYS,
    OPERANDS,
    PAGE_SLOTS,
    PLAIN_OFFSET,
    PLAIN_PER_PC,
    SLOT,
    SLOT_PER_PC,
)
from kvrm.isa.definition import BUCKET_SHIFT
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE
from kvrm.staging import native
from kvrm.staging.emitter import I1, I8, I32, I64, PTR, Callee, Emitter, i64

_ANSWER = ir.FunctionType(I64, [PTR])
MXCSR = 0x1F80
"""To nearest, subnormals kept, no traps: x86's floating-point control register after a reset."""
CANDIDATE = 12
"""Bytes of a candidate: mask, value and handler number, 32 bits each. A bucket is two 32-bit numbers: first
candidate and the one after the last."""


def build_runtime(module: ir.Module) -> None:
    """Emit `enter`, `record`, `lay_out`, `undecoded`, `untranslated`, `next_page` and `breakpoint`."""
    start = _start(module)
    _enter(module, start)
    _record(module, start)
    _lay_out(module)
    _undecoded(module)
    f = Function(module, "next_page", linkage="external")
    f.jump(f.e.load_at(f.ip, OPERANDS, I64), cost=0)
    for name, reason in (("breakpoint", Reason.BREAKPOINT), ("untranslated", Reason.UNTRANSLATED)):
        f = Function(module, name, linkage="external")
        f.leave(reason, f.ip, f.budget)


def _start(module: ir.Module) -> ir.Function:
    f = Function(module, "start")
    f.jump(f.e.load_at(f.state, layout.PC, I64), cost=0)
    return f.fn


def _enter(module: ir.Module, start: ir.Function) -> None:
    """`void enter(state)`: run from PC with REMAINING as budget until something returns to the host."""
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), "enter")
    e = Emitter(fn.append_basic_block("entry"))
    state = fn.args[0]
    again, answer, host = (e.append_basic_block(name) for name in ("again", "answer", "host"))
    with default_arithmetic(e):
        e.branch(again)
        e.position_at_end(again)
        call(e, start, state, ir.Constant(PTR, None), e.load_at(state, layout.REMAINING, I64))
        function = e.load_at(state, layout.ANSWER, PTR)
        e.cbranch(e.icmp_unsigned("==", function, ir.Constant(PTR, None)), host, answer)
        e.position_at_end(answer)
        done = e.call(Callee(function, _ANSWER), [e.load_at(state, layout.ANSWER_TABLE, PTR)])
        e.cbranch(e.icmp_unsigned("==", done, i64(0)), again, host)
        e.position_at_end(host)
    e.ret_void()


def call(e: Emitter, handler: ir.Value, state: ir.Value, ip: ir.Value, budget: ir.Value) -> None:
    """Run a handler, and all that it goes on with, until something leaves."""
    nzcv = [e.trunc(e.load_at(state, layout.FLAGS_OFFSET + i, I8), I1) for i in range(4)]
    callee = handler if isinstance(handler, ir.Function) else Callee(handler, HANDLER)
    e.call(callee, [state, ip, budget, *flags.from_bits(e, *nzcv)], cconv=CONVENTION)


def _record(module: ir.Module, start: ir.Function) -> None:
    """`int64 record(state, ips, count)`: run `count` instructions, each as `enter` does with a budget of 1.

    It notes the slot after each that retires, and returns how many did: fewer if one left for the host.
    """
    fn = ir.Function(module, ir.FunctionType(I64, [PTR, PTR, I64]), "record")
    e = Emitter(fn.append_basic_block("entry"))
    state, ips, count = fn.args
    one, zero = i64(1), i64(0)
    loop, again, done = (e.append_basic_block(name) for name in ("loop", "again", "done"))
    with default_arithmetic(e):
        entry = e.block
        e.branch(loop)
        e.position_at_end(loop)
        i = e.phi(I64)
        i.add_incoming(zero, entry)
        ip = e.phi(PTR)
        ip.add_incoming(ir.Constant(PTR, None), entry)
        e.store_at(e.add(e.load_at(state, layout.HORIZON, I64), one), state, layout.HORIZON)
        e.store_at(one, state, layout.REMAINING)
        first = e.icmp_unsigned("==", ip, ir.Constant(PTR, None))
        at_pc, at_ip, ran = (e.append_basic_block(name) for name in ("at_pc", "at_ip", "ran"))
        e.cbranch(first, at_pc, at_ip)
        e.position_at_end(at_pc)
        call(e, start, state, ip, one)
        e.branch(ran)
        e.position_at_end(at_ip)
        call(e, e.load_at(ip, 0, PTR), state, ip, one)
        e.branch(ran)
        e.position_at_end(ran)
        following = e.load_at(state, layout.IP, PTR)
        e.store(following, e.gep(ips, [i], source_etype=PTR))
        more = e.add(i, one)
        used_up = e.icmp_unsigned("==", e.load_at(state, layout.REASON, I64), i64(Reason.BUDGET))
        e.cbranch(used_up, again, done)
        e.position_at_end(again)
        i.add_incoming(more, again)
        ip.add_incoming(following, again)
        full = e.append_basic_block("full")
        e.cbranch(e.icmp_unsigned("<", more, count), loop, full)
        e.position_at_end(full)
        e.branch(done)
        e.position_at_end(done)
        retired = e.phi(I64)
        retired.add_incoming(i, ran)
        retired.add_incoming(more, full)
    e.ret(retired)


@contextmanager
def default_arithmetic(e: Emitter) -> Iterator[None]:
    """On x86, what is emitted inside runs with MXCSR at its default, whatever the host has set."""
    if not native.host_is_x86():
        yield
        return
    kept, wanted = e.alloca(I32), e.alloca(I32)
    e.store(ir.Constant(I32, MXCSR), wanted)
    e.call(_control(e.module, "stmxcsr"), [kept])
    e.call(_control(e.module, "ldmxcsr"), [wanted])
    yield
    e.call(_control(e.module, "ldmxcsr"), [kept])


def _control(module: ir.Module, name: str) -> ir.Function:
    full = f"llvm.x86.sse.{name}"
    return module.globals.get(full) or ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), full)


def _lay_out(module: ir.Module) -> None:
    """`void lay_out(slots, pc, undecoded, next_page)`: the slots of the page at `pc`, none yet decoded."""
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 4), "lay_out")
    e = Emitter(fn.append_basic_block("entry"))
    slots, pc, undecoded, next_page = fn.args
    base, before, loop, done = e.inttoptr(slots, PTR), e.block, *map(e.append_basic_block, ("loop", "done"))
    e.branch(loop)
    e.position_at_end(loop)
    i = e.phi(I64)
    i.add_incoming(i64(0), before)
    slot = e.at(base, e.mul(i, i64(SLOT)))
    last = e.icmp_unsigned("==", i, i64(PAGE_SLOTS - 1))
    e.store_at(e.select(last, next_page, undecoded), slot, 0)
    e.store_at(e.add(pc, e.shl(i, i64(2))), slot, OPERANDS)
    following = e.add(i, i64(1))
    i.add_incoming(following, loop)
    e.cbranch(last, done, loop)
    e.position_at_end(done)
    e.ret_void()


def _undecoded(module: ir.Module) -> None:
    """Find the decoder of this slot's word, let it fill the slot, and run that.

    A translated region in the slot stays there; the handler goes where plain ones are.
    """
    f = Function(module, "undecoded", linkage="external")
    e = f.e
    pc = e.load_at(f.ip, OPERANDS, I64)
    lost = e.append_basic_block("lost")
    word = fetched(e, f.state, pc, lost)
    with e.goto_block(lost):
        f.leave(Reason.CODE, f.ip, f.budget)
    decoder = search(e, f.state, e.load_at(f.ip, CLASS, I32), word)
    with e.if_then(e.icmp_unsigned("==", decoder, ir.Constant(PTR, None)), likely=False):
        f.leave(Reason.HANDLER, f.ip, f.budget, WORD=e.zext(word, I64))
    before = e.load_at(f.ip, 0, PTR)
    e.call(Callee(decoder, DECODER), [word, pc, f.ip])
    handler = e.load_at(f.ip, 0, PTR)
    with e.if_then(e.icmp_unsigned("!=", before, f.fn), likely=False):
        e.store_at(before, f.ip, 0)
        offset = e.and_(pc, i64(PAGE - 1))
        further = e.mul(offset, i64(SLOT_PER_PC - PLAIN_PER_PC))
        e.store_at(handler, f.ip, e.sub(i64(PLAIN_OFFSET), further))
    f.tail(handler, f.ip, f.budget)


def search(e: Emitter, state: ir.Value, work: ir.Value, word: ir.Value) -> ir.Value:
    """The decoder of `word` among those of the class `work`, 32 bits both; null if there is none yet."""
    key = e.lshr(word, ir.Constant(I32, BUCKET_SHIFT))
    first_of_class = e.mul(work, ir.Constant(I32, KEYS))
    bucket = e.shl(e.zext(e.add(first_of_class, key), I64), i64(3))
    buckets = e.load_at(state, layout.BUCKETS, PTR)
    first = e.load_at(buckets, bucket, I32)
    last = e.load_at(e.at(buckets, 4), bucket, I32)
    candidates = e.load_at(state, layout.CANDIDATES, PTR)
    before, loop = e.block, e.append_basic_block("loop")
    test, step = e.append_basic_block("test"), e.append_basic_block("step")
    hit, found = e.append_basic_block("hit"), e.append_basic_block("found")
    e.branch(loop)
    e.position_at_end(loop)
    i = e.phi(I32)
    i.add_incoming(first, before)
    e.cbranch(e.icmp_unsigned("<", i, last), test, found)
    e.position_at_end(test)
    row = e.at(candidates, e.mul(e.zext(i, I64), i64(CANDIDATE)))
    mask, value = e.load_at(row, 0, I32), e.load_at(row, 4, I32)
    e.cbranch(e.icmp_unsigned("==", e.and_(word, mask), value), hit, step)
    e.position_at_end(step)
    i.add_incoming(e.add(i, ir.Constant(I32, 1)), step)
    e.branch(loop)
    e.position_at_end(hit)
    number = e.zext(e.load_at(row, 8, I32), I64)
    one = e.load_at(e.load_at(state, layout.DECODERS, PTR), e.shl(number, i64(3)), PTR)
    e.branch(found)
    e.position_at_end(found)
    decoder = e.phi(PTR)
    decoder.add_incoming(ir.Constant(PTR, None), loop)
    decoder.add_incoming(one, hit)
    return decoder
