"""Guest memory as handlers see it: a checked fast path, and careful functions for accesses that straddle pages."""

from __future__ import annotations

from llvmlite import ir

from kvrm.engine.emitter import I1, I8, I64, PTR, Emitter
from kvrm.engine.interpreter.abi import Function, Reason, unlikely
from kvrm.machine import state as layout
from kvrm.memory import PAGE, R_BIT, VA_BITS, W_BIT, X_BIT, AccessKind

PERMISSION = {"R": R_BIT, "W": W_BIT, "X": X_BIT}
KIND = {"R": AccessKind.READ, "W": AccessKind.WRITE, "X": AccessKind.FETCH}


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def entry(e: Emitter, state: ir.Value, address: ir.Value, bad: ir.Block) -> ir.Value:
    """The page-table entry of `address`, its top byte ignored; `bad` where the address is out of range."""
    page = e.lshr(e.shl(address, _c(8)), _c(20))
    inside = e.append_basic_block("inside")
    unlikely(e.cbranch(e.icmp_unsigned(">=", page, _c(1 << (VA_BITS - 12))), bad, inside))
    e.position_at_end(inside)
    table = e.load_at(state, layout.PAGE_TABLE, PTR)
    return e.load_at(table, e.shl(page, _c(3)), I64)


def host_address(e: Emitter, entry_: ir.Value, offset: ir.Value) -> ir.Value:
    """The host address of a byte of the page that an entry points to."""
    return e.inttoptr(e.or_(e.and_(entry_, _c(-PAGE & (1 << 64) - 1)), offset), PTR)


def fast_address(f: Function, address: ir.Value, size: int, access: str, slow: ir.Function) -> ir.Value:
    """The host address of `size` guest bytes that lie on one filled page; else continue in `slow`."""
    e = f.e
    bad = e.append_basic_block("slow")
    found = entry(e, f.state, address, bad)
    allowed = e.append_basic_block("allowed")
    denied = e.icmp_unsigned("==", e.and_(found, _c(PERMISSION[access])), _c(0))
    unlikely(e.cbranch(denied, bad, allowed))
    e.position_at_end(allowed)
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
    found = entry(e, f.state, address, bad)
    good = e.append_basic_block("good")
    denied = e.icmp_unsigned("==", e.and_(found, _c(PERMISSION[access])), _c(0))
    unlikely(e.cbranch(denied, bad, good))
    e.position_at_end(bad)
    f.leave(Reason.MEMORY, f.ip, f.budget, ADDRESS=address, KIND=_c(KIND[access]))
    e.position_at_end(good)
    return found


def _bytes(f: Function, address: ir.Value, size: int, access: str) -> list[ir.Value]:
    """Host addresses of each byte of an access that may straddle two pages, both checked first."""
    e = f.e
    first = _check(f, address, access)
    if size == 1:
        return [host_address(e, first, e.and_(address, _c(PAGE - 1)))]
    end = e.add(address, _c(size - 1))
    straddles = e.icmp_unsigned("<", e.and_(end, _c(PAGE - 1)), e.and_(address, _c(PAGE - 1)))
    far = e.select(straddles, e.and_(end, _c(-PAGE & (1 << 64) - 1)), address)
    last = _check(f, far, access)
    out = []
    for i in range(size):
        at = e.add(address, _c(i))
        offset = e.and_(at, _c(PAGE - 1))
        beyond = e.icmp_unsigned("<", offset, e.and_(address, _c(PAGE - 1)))
        out.append(host_address(e, e.select(beyond, last, first), offset))
    return out


def read_slow(f: Function, address: ir.Value, t: ir.Type) -> ir.Value:
    """Little-endian bytes at `address`, one by one."""
    e = f.e
    value: ir.Value = ir.Constant(t, 0)
    for i, host in enumerate(_bytes(f, address, t.width // 8, "R")):
        byte = e.load(host, typ=I8, align=1)
        wide = byte if t.width == 8 else e.zext(byte, t)
        value = e.or_(value, e.shl(wide, ir.Constant(t, 8 * i)) if i else wide)
    return value


def write_slow(f: Function, address: ir.Value, value: ir.Value) -> None:
    """Store little-endian bytes, none of them unless all may be written."""
    e = f.e
    for i, host in enumerate(_bytes(f, address, value.type.width // 8, "W")):
        byte = value if value.type.width == 8 else e.trunc(e.lshr(value, ir.Constant(value.type, 8 * i)), I8)
        e.store(byte, host, align=1)
