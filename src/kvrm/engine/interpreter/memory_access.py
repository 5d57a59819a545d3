"""Guest memory as handlers see it: a checked fast path, and a careful one across pages."""

from __future__ import annotations

from llvmlite import ir

from kvrm.engine.interpreter.abi import Function, unlikely
from kvrm.lane.stops import Reason
from kvrm.machine import state as layout
from kvrm.memory import PAGE, R_BIT, VA_BITS, W_BIT, X_BIT, AccessKind
from kvrm.staging.emitter import I64, PTR, Emitter

PERMISSION = {"R": R_BIT, "W": W_BIT, "X": X_BIT}
KIND = {"R": AccessKind.READ, "W": AccessKind.WRITE, "X": AccessKind.FETCH}


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def page_table(e: Emitter, state: ir.Value) -> ir.Value:
    """The host address of the lane's page table."""
    return e.load_at(state, layout.PAGE_TABLE, PTR)


def entry(e: Emitter, table: ir.Value, address: ir.Value, bad: ir.Block) -> ir.Value:
    """The page-table entry of `address`, its top byte ignored; `bad` where the address is out of range."""
    page = e.lshr(e.shl(address, _c(8)), _c(20))
    inside = e.append_basic_block("inside")
    unlikely(e.cbranch(e.icmp_unsigned(">=", page, _c(1 << (VA_BITS - 12))), bad, inside))
    e.position_at_end(inside)
    return e.load_at(table, e.shl(page, _c(3)), I64)


def allowed_entry(e: Emitter, state: ir.Value, address: ir.Value, access: str, bad: ir.Block) -> ir.Value:
    """The same if the page is filled and allows the access; else `bad`."""
    found = entry(e, page_table(e, state), address, bad)
    allowed = e.append_basic_block("allowed")
    denied = e.icmp_unsigned("==", e.and_(found, _c(PERMISSION[access])), _c(0))
    unlikely(e.cbranch(denied, bad, allowed))
    e.position_at_end(allowed)
    return found


def host_address(e: Emitter, entry_: ir.Value, offset: ir.Value) -> ir.Value:
    """The host address of a byte of the page that an entry points to."""
    return e.inttoptr(e.or_(e.and_(entry_, _c(-PAGE & (1 << 64) - 1)), offset), PTR)


def fast_address(f: Function, address: ir.Value, size: int, access: str, slow: ir.Function) -> ir.Value:
    """The host address of `size` guest bytes that lie on one filled page; else continue in `slow`."""
    e = f.e
    bad = e.append_basic_block("slow")
    found = allowed_entry(e, f.state, address, access, bad)
    offset = e.and_(address, _c(PAGE - 1))
    if size > 1:
        fits = e.append_basic_block("fits")
        unlikely(e.cbranch(e.icmp_unsigned(">", offset, _c(PAGE - size)), bad, fits))
        e.position_at_end(fits)
    here = e.block
    e.position_at_end(bad)
    f.tail(slow, f.ip, f.budget)
    e.position_at_end(here)
    return host_address(e, found, offset)


def _check(f: Function, address: ir.Value, access: str) -> ir.Value:
    """The entry of one byte's page; leaves with MEMORY where it is not filled or not allowed."""
    e = f.e
    bad = e.append_basic_block("fault")
    found = allowed_entry(e, f.state, address, access, bad)
    good = e.block
    e.position_at_end(bad)
    f.leave(Reason.MEMORY, f.ip, f.budget, ADDRESS=address, KIND=_c(KIND[access]))
    e.position_at_end(good)
    return found


def _parts(f: Function, address: ir.Value, size: int, access: str) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Head, tail and bytes on the second page of an access that may straddle two, both checked.

    Head is the host address of `size` bytes of the first page, which end at its end if there is a second one;
    tail is that of the second page's beginning (of the first page again, if there is none).
    """
    e = f.e
    first = _check(f, address, access)
    offset = e.and_(address, _c(PAGE - 1))
    over = e.intrinsic("usub.sat", I64, offset, _c(PAGE - size))
    end = e.and_(e.add(address, _c(size - 1)), _c(-PAGE & (1 << 64) - 1))
    last = _check(f, e.select(e.icmp_unsigned("!=", over, _c(0)), end, address), access)
    return host_address(e, first, e.sub(offset, over)), host_address(e, last, _c(0)), over


def _bits(e: Emitter, count: ir.Value, t: ir.Type) -> ir.Value:
    """8 times a number of bytes, as an amount to shift a `t` by."""
    amount = e.shl(count, _c(3))
    return e.trunc(amount, t) if t.width < 64 else e.zext(amount, t) if t.width > 64 else amount


def read_slow(f: Function, address: ir.Value, t: ir.Type) -> ir.Value:
    """A little-endian `t` at `address`, on one page or two."""
    e, size = f.e, t.width // 8
    if size == 1:
        return e.load(host_address(e, _check(f, address, "R"), e.and_(address, _c(PAGE - 1))), typ=t, align=1)
    head, tail, over = _parts(f, address, size, "R")
    straddles = e.icmp_unsigned("!=", over, _c(0))
    low = e.lshr(e.load(head, typ=t, align=1), _bits(e, over, t))
    shift = e.select(straddles, _bits(e, e.sub(_c(size), over), t), ir.Constant(t, 0))
    high = e.shl(e.load(tail, typ=t, align=1), shift)
    return e.or_(low, e.select(straddles, high, ir.Constant(t, 0)))


def write_slow(f: Function, address: ir.Value, value: ir.Value) -> None:
    """Store `value` on one page or two, nothing unless all of it may be written."""
    e, t = f.e, value.type
    size = t.width // 8
    if size == 1:
        e.store(value, host_address(e, _check(f, address, "W"), e.and_(address, _c(PAGE - 1))), align=1)
        return
    head, tail, over = _parts(f, address, size, "W")
    shift = _bits(e, over, t)
    kept = e.sub(e.shl(ir.Constant(t, 1), shift), ir.Constant(t, 1))
    e.store(e.or_(e.and_(e.load(head, typ=t, align=1), kept), e.shl(value, shift)), head, align=1)
    with e.if_then(e.icmp_unsigned("!=", over, _c(0)), likely=False):
        rest = e.lshr(value, _bits(e, e.sub(_c(size), over), t))
        e.store(e.or_(e.and_(e.load(tail, typ=t, align=1), e.not_(kept)), rest), tail, align=1)
