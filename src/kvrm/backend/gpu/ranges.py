"""Ranges of pages in a lane's entries (`kvrm.backend.gpu.group_memory`): what they are, and what they become.

All lanes of a group share the address of what a page shows until it is written: the page of zeros, or one of
a file, as the first lane has it that maps the page. It can become another while no lane of the group has the
page mapped. Lanes map pages at the same moment only if they are at the same system call instruction, and none
goes on after it before all have done theirs (`kvrm.backend.gpu.rounds`). A lane that finds what another one
has mapped where its own would be has nothing mapped, and the CPU does its call. A page is READY from the
beginning, until a lane gives up its copy or shows something else there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from kvrm.backend.gpu.device_abi import Param, pointer
from kvrm.backend.gpu.group_memory import (
    CODE,
    MAPPED,
    OWN,
    READ,
    READY,
    SHARED,
    UNSURE,
    WRITE,
    Access,
    local_words,
)
from kvrm.backend.gpu.thread import Thread
from kvrm.linux.resident.layout import FILE, KEEP, MAP, Fixed
from kvrm.memory import PAGE
from kvrm.staging.emitter import I1, I32, I64, PTR, Emitter


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value & (1 << 64) - 1)


def examine(module: ir.Module) -> ir.Function:
    """`examine(params, start, end)`: what the pages of a range are."""
    if "examine" in module.globals:
        return module.globals["examine"]
    fn, e, t, a = _range_function(module, "examine", I64, [I64, I64, I64])
    _, start, end = fn.args
    zeros, found = _zeros(e, t), local_words(e, 1)
    e.store(_c(0), found)
    with _pages(e, start, end) as at:
        entry = a.entry(at)
        mapped, writable = (a.bit(e.load_at(entry, mask, I32)) for mask in (MAPPED, WRITE))
        shared = _shown(e, e.and_(e.load_at(entry, SHARED, I64), _c(~UNSURE)))
        is_file, is_code = (_has(e, shared, mark) for mark in (FILE, CODE))
        other = e.and_(e.icmp_unsigned("!=", shared, zeros), e.not_(is_file))
        tests = (mapped, e.not_(mapped), other, is_code, e.not_(writable), is_file, is_beyond(e, t, shared))
        bits = e.load(found, typ=I64)
        for i, test in enumerate(tests):
            bits = e.or_(bits, e.shl(e.zext(test, I64), _c(i)))
        e.store(bits, found)
    e.ret(e.load(found, typ=I64))
    return fn


def change(module: ir.Module) -> ir.Function:
    """`change(params, start, end, become, left)`: set the lane's bits in the entries of a range.

    It may have as many more pages (the word at `left`) as it had copies there.
    """
    if "change" in module.globals:
        return module.globals["change"]
    fn, e, t, a = _range_function(module, "change", ir.VoidType(), [I64] * 4 + [PTR])
    _, start, end, become, left = fn.args
    lane = e.trunc(t.lane, I32)
    bit = e.shl(ir.Constant(I32, 1), lane)
    with _pages(e, start, end) as at:
        entry = a.entry(at)
        # other lanes of the group change their bits at the same time, and look at those that stay set
        for i, mask in enumerate((READ, WRITE, MAPPED)):
            on = e.shl(e.and_(e.trunc(e.lshr(become, _c(i)), I32), ir.Constant(I32, 1)), lane)
            e.atomic_rmw("and", e.at(entry, mask), e.or_(e.not_(bit), on), "monotonic")
            e.atomic_rmw("or", e.at(entry, mask), on, "monotonic")
        with e.if_then(e.not_(_has(e, become, KEEP))):
            before = e.atomic_rmw("and", e.at(entry, OWN), e.not_(bit), "monotonic")
            e.store(e.add(e.load(left, typ=I64), e.zext(a.bit(before), I64)), left)
            if module.readies:
                # the copy has what the lane wrote, and must be made again before it owns it again
                with e.if_then(a.bit(before)):
                    e.atomic_rmw("and", e.at(entry, SHARED), _c(~READY), "monotonic")
    e.ret_void()
    return fn


def show(module: ir.Module) -> ir.Function:
    """`show(params, start, end, become, left, content, size, rest)`: map pages that the lane has not mapped.

    Their first `size` bytes are those of a file at the device address `content`. The pages after those are
    zeros, or with FILE as `rest` past the file's end. False if some page shows something else to another
    lane; then nothing is mapped.
    """
    if "show" in module.globals:
        return module.globals["show"]
    fn, e, t, a = _range_function(module, "show", I1, [I64] * 4 + [PTR, I64, I64, I64])
    params, start, end, become, left, content, size, rest = fn.args
    after = e.or_(_zeros(e, t), rest)

    def wanted(at: ir.Value) -> ir.Value:
        done = e.sub(at, start)
        of_file = e.or_(e.add(content, done), _c(FILE))
        return e.select(e.icmp_unsigned("<", done, size), of_file, after)

    with _pages(e, start, end) as at:
        entry = a.entry(at)
        differs = e.icmp_unsigned("!=", _shown(e, e.load_at(entry, SHARED, I64)), wanted(at))
        with e.if_then(differs), e.if_then(e.not_(e.call(_claim(module), [entry, wanted(at)]))):
            e.ret(ir.Constant(I1, 0))
    e.call(change(module), [params, start, end, become, left])
    with e.if_then(_has(e, rest, FILE)):
        there = e.and_(e.add(size, _c(PAGE - 1)), _c(-PAGE))
        e.call(change(module), [params, e.add(start, there), end, _c(MAP), left])
    # a lane that has claimed a page since has seen that it is mapped, or is seen here
    _fence(e)
    with _pages(e, start, end) as at:
        differs = e.icmp_unsigned("!=", _shown(e, _shared(e, a.entry(at))), wanted(at))
        with e.if_then(differs):
            e.call(change(module), [params, start, end, _c(0), left])
            e.ret(ir.Constant(I1, 0))
    e.ret(ir.Constant(I1, 1))
    return fn


def _claim(module: ir.Module) -> ir.Function:
    """`claim(entry, wanted)`: have the page show what is wanted; false if it cannot.

    What is claimed is UNSURE until it is known that no lane had mapped what was there before. Lanes that find
    it so wait.
    """
    if "claim" in module.globals:
        return module.globals["claim"]
    fn = ir.Function(module, ir.FunctionType(I1, [PTR, I64]), "claim")
    fn.linkage = "internal"
    fn.attributes.add("noinline")  # called for each page in a loop of `show`, and rare: one copy
    entry, wanted = fn.args
    e = Emitter(fn.append_basic_block("entry"))
    look, differs, other, claim, claimed, yes, no = (
        e.append_basic_block(name) for name in ("look", "differs", "other", "claim", "claimed", "yes", "no")
    )
    e.branch(look)
    e.position_at_end(look)
    # in this order: what other lanes have mapped they have claimed before
    mapped, now = _is_mapped(e, entry), _shared(e, entry)
    e.cbranch(e.icmp_unsigned("==", _shown(e, now), wanted), yes, differs)
    e.position_at_end(differs)
    e.cbranch(_has(e, now, UNSURE), look, other)
    e.position_at_end(other)
    e.cbranch(mapped, no, claim)
    e.position_at_end(claim)
    swap = e.cmpxchg(e.at(entry, SHARED), now, e.or_(wanted, _c(UNSURE)), "monotonic", "monotonic")
    e.cbranch(e.extract_value(swap, 1), claimed, look)
    e.position_at_end(claimed)
    _fence(e)
    conflict = _is_mapped(e, entry)
    e.atomic_rmw("xchg", e.at(entry, SHARED), e.select(conflict, _shown(e, now), wanted), "monotonic")
    e.ret(e.not_(conflict))
    for block, result in ((yes, 1), (no, 0)):
        e.position_at_end(block)
        e.ret(ir.Constant(I1, result))
    return fn


def _fence(e: Emitter) -> None:
    """Of two lanes that each write one word and then read the other's, at least one sees the other's write.

    One maps a page and then looks whether its contents were claimed, the other claims them and then looks
    whether the page is mapped. Weaker orders let both read the old words, and the page would show one lane
    what the other has mapped. A group's lanes are of one block: no wider fence is needed.
    """
    e.fence("seq_cst", "block")


def _shared(e: Emitter, entry: ir.Value) -> ir.Value:
    """An entry's first word, which other lanes may be changing."""
    return e.load_atomic(e.at(entry, SHARED), "monotonic", 8, typ=I64)


def _shown(e: Emitter, shared: ir.Value) -> ir.Value:
    """An entry's first word, ready or not."""
    return e.and_(shared, _c(~READY)) if e.module.readies else shared


def _is_mapped(e: Emitter, entry: ir.Value) -> ir.Value:
    """Whether some lane of the group has the page mapped."""
    mapped = e.load_atomic(e.at(entry, MAPPED), "monotonic", 4, typ=I32)
    return e.icmp_unsigned("!=", mapped, ir.Constant(I32, 0))


def _has(e: Emitter, value: ir.Value, bit: int) -> ir.Value:
    return e.icmp_unsigned("!=", e.and_(value, _c(bit)), _c(0))


def is_beyond(e: Emitter, t: Thread, shared: ir.Value) -> ir.Value:
    """Whether a page, whose entry begins with this word, lies past the end of its file."""
    return e.icmp_unsigned("==", _shown(e, e.and_(shared, _c(~UNSURE))), e.or_(_zeros(e, t), _c(FILE)))


def _zeros(e: Emitter, t: Thread) -> ir.Value:
    """The address of the page of zeros."""
    process = pointer(e, e.load_at(t.params, 8 * Param.PROCESS, I64))
    return e.load_at(process, 8 * Fixed.ZEROS, I64)


def _range_function(
    module: ir.Module, name: str, result: ir.Type, arguments: list[ir.Type]
) -> tuple[ir.Function, Emitter, Thread, Access]:
    fn = ir.Function(module, ir.FunctionType(result, arguments), name)
    fn.linkage = "internal"
    fn.attributes.add("noinline")  # several system calls use it: one copy for all
    e = Emitter(fn.append_basic_block("entry"))
    t = Thread(e, fn.args[0])
    return fn, e, t, t.access(e)


@contextmanager
def _pages(e: Emitter, start: ir.Value, end: ir.Value) -> Iterator[ir.Value]:
    """The address of each page of a range."""
    first, last = e.lshr(start, _c(12)), e.lshr(end, _c(12))
    with e.repeat(e.sub(last, first)) as i:
        yield e.shl(e.add(first, i), _c(12))
