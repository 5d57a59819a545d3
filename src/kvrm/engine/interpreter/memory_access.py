"""Guest memory as handlers see it: a checked fast path by hand, and the staged accesses across pages.

`entry`, `allowed_entry` and `host_address` are `kvrm.memory.flat` for an emitter, with ways out that handlers
and regions want: `tests/engine/test_accesses.py` compares them with the staged text.
"""

from __future__ import annotations

from llvmlite import ir

from kvrm.engine.interpreter import state_space
from kvrm.engine.interpreter.abi import HandlerFunction, unlikely
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE, R_BIT, VA_BITS, W_BIT, X_BIT, AccessKind
from kvrm.staging.emitter import I32, I64, PTR, Emitter, i64
from kvrm.staging.translation import define

PERMISSION = {"R": R_BIT, "W": W_BIT, "X": X_BIT}
KIND = {"R": AccessKind.READ, "W": AccessKind.WRITE, "X": AccessKind.FETCH}


def page_table(e: Emitter, state: ir.Value) -> ir.Value:
    """The host address of the lane's page table."""
    return e.load_at(state, layout.PAGE_TABLE, PTR)


def entry(e: Emitter, table: ir.Value, address: ir.Value, bad: ir.Block) -> ir.Value:
    """The page-table entry of `address`, its top byte ignored; `bad` where the address is out of range."""
    page = e.lshr(e.shl(address, i64(8)), i64(20))
    inside = e.append_basic_block("inside")
    unlikely(e.cbranch(e.icmp_unsigned(">=", page, i64(1 << (VA_BITS - 12))), bad, inside))
    e.position_at_end(inside)
    return e.load_at(table, e.shl(page, i64(3)), I64)


def allowed_entry(e: Emitter, state: ir.Value, address: ir.Value, access: str, bad: ir.Block) -> ir.Value:
    """The same if the page is filled and allows the access; else `bad`."""
    found = entry(e, page_table(e, state), address, bad)
    allowed = e.append_basic_block("allowed")
    denied = e.icmp_unsigned("==", e.and_(found, i64(PERMISSION[access])), i64(0))
    unlikely(e.cbranch(denied, bad, allowed))
    e.position_at_end(allowed)
    return found


def allowed_page(
    e: Emitter, table: ir.Value, address: ir.Value, kinds: int, size: int, bad: ir.Block
) -> tuple[ir.Value, ir.Value]:
    """The host address of the page of `address`, and how far into it that is.

    `bad` unless the page is filled, allows all these kinds of access, and has `size` bytes from there on.
    """
    found = entry(e, table, address, bad)
    offset = e.and_(address, i64(PAGE - 1))
    denied = e.icmp_unsigned("!=", e.and_(found, i64(kinds)), i64(kinds))
    over = e.icmp_unsigned(">", offset, i64(PAGE - size))
    good = e.append_basic_block("good")
    unlikely(e.cbranch(e.or_(denied, over), bad, good))
    e.position_at_end(good)
    return e.and_(found, i64(-PAGE)), offset


def host_address(e: Emitter, entry_: ir.Value, offset: ir.Value) -> ir.Value:
    """The host address of a byte of the page that an entry points to."""
    return e.inttoptr(e.or_(e.and_(entry_, i64(-PAGE)), offset), PTR)


def fetched(e: Emitter, state: ir.Value, pc: ir.Value, lost: ir.Block) -> ir.Value:
    """The word at `pc`, a multiple of 4; `lost` where none can be executed, or the host must look first."""
    found = allowed_entry(e, state, pc, "X", lost)
    return e.load(host_address(e, found, e.and_(pc, i64(PAGE - 1))), typ=I32, align=4)


def fast_address(
    f: HandlerFunction, address: ir.Value, size: int, access: str, slow: ir.Function
) -> ir.Value:
    """The host address of `size` guest bytes that lie on one filled page; else continue in `slow`."""
    e = f.e
    bad = e.append_basic_block("slow")
    found = allowed_entry(e, f.state, address, access, bad)
    offset = e.and_(address, i64(PAGE - 1))
    if size > 1:
        fits = e.append_basic_block("fits")
        unlikely(e.cbranch(e.icmp_unsigned(">", offset, i64(PAGE - size)), bad, fits))
        e.position_at_end(fits)
    here = e.block
    e.position_at_end(bad)
    f.tail(slow, f.ip, f.budget)
    e.position_at_end(here)
    return host_address(e, found, offset)


def read_slow(f: HandlerFunction, address: ir.Value, t: ir.Type) -> ir.Value:
    """A little-endian `t` at `address`, on one page or two."""
    data = _buffer(f, t)
    _transfer(f, address, t, data, "R")
    return f.e.load(data, typ=t, align=1)


def write_slow(f: HandlerFunction, address: ir.Value, value: ir.Value) -> None:
    """Store `value` on one page or two, nothing unless all of it may be written."""
    data, words = _buffer(f, value.type), ir.IntType(-(-value.type.width // 64) * 64)
    f.e.store(f.e.zext(value, words) if words != value.type else value, data, align=8)
    _transfer(f, address, value.type, data, "W")


def _buffer(f: HandlerFunction, t: ir.Type) -> ir.Value:
    with f.e.goto_block(f.fn.entry_basic_block):
        return f.e.words(-(-t.width // 64))


def _transfer(f: HandlerFunction, address: ir.Value, t: ir.Type, data: ir.Value, access: str) -> None:
    """By the staged text; leave with MEMORY where the page of a byte is not filled or not allowed."""
    e, size = f.e, i64(t.width // 8)
    kernel = state_space.read if access == "R" else state_space.write
    staged = define(f.fn.module, kernel, state_space.OPERATIONS, f"staged.{kernel.__name__}")
    staged.linkage = "internal"  # each module of handlers has its own
    done = e.call(staged, [f.state, address, size, e.ptrtoint(data, I64)])
    with e.if_then(e.icmp_unsigned("!=", done, size), likely=False):
        f.leave(Reason.MEMORY, f.ip, f.budget, ADDRESS=e.add(address, done), KIND=i64(KIND[access]))
