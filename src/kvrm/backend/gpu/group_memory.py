"""Guest memory on the device: entries for groups, pages that are shared until written, interleaved copies.

An entry is 32 bytes: address of the shared page, address of the slab (0: none yet), and four masks of 32
bits, one bit for each lane: may read, may write, is mapped, has its own copy. Five low bits of the first word
are marks: PRIVATE if the lanes began with a private page there, so that own copies of it do not count against
their limits, CODE if it is executable, FILE if it is of a file that a lane has mapped, UNSURE while that is
not settled (`kvrm.backend.gpu.ranges`), and READY if the slab has all copies of what lanes began with, though
they own theirs only when they write. A slab has the 32 copies of a page interleaved by 8-byte words.

The entry of an address is found through ROOT, which all groups share: which *chunk* of the group's table, 512
entries, its 2 MiB have. Chunk 0 is empty, so an address that nothing is mapped at needs no test of its own.
"""

from __future__ import annotations

from contextlib import nullcontext

from llvmlite import ir

from kvrm.backend.gpu.device_abi import PAGES_LEFT, Param, pointer
from kvrm.machine import state as layout
from kvrm.memory import PAGE, VA_BITS, AccessKind
from kvrm.staging.emitter import I1, I8, I32, I64, PTR, Emitter

SHARED, SLAB, READ, WRITE, MAPPED, OWN = 0, 8, 16, 20, 24, 28
"""Offsets in an entry."""
ENTRY_BYTES = 32
PRIVATE, CODE, UNSURE, READY, ADDRESS = 1, 2, 8, 16, -32
"""Marks in its first word besides FILE (`kvrm.linux.resident.layout`), and the bits of the address."""
CHUNK = 512
"""Entries of a chunk."""
SLAB_BYTES = 32 * PAGE
OWN_STRIDE = 8 * 32
"""Bytes from a word to the next in a slab."""
LARGEST = 64
"""Bytes of the largest access."""
BUSY = 1
"""Instead of a slab's address while a lane takes one."""

MASK = {"R": READ, "W": WRITE}
_KIND = {"R": AccessKind.READ, "W": AccessKind.WRITE}


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value & (1 << 64) - 1)


class Access:
    """Finds pages of one lane, in a function under construction that has the roots and the group's table."""

    def __init__(self, e: Emitter, root: ir.Value, table: ir.Value, lane: ir.Value) -> None:
        self.e, self._root, self._table, self._lane = e, root, table, lane

    def entry(self, address: ir.Value) -> ir.Value:
        """Where the entry of an address is, its top byte ignored; chunk 0 has those that are out of range."""
        e = self.e
        page = e.lshr(e.shl(address, _c(8)), _c(20))
        out = e.icmp_unsigned(">=", page, _c(1 << (VA_BITS - 12)))
        safe = e.select(out, _c(0), page)
        found = e.load_at(self._root, e.shl(e.lshr(safe, _c(9)), _c(2)), I32)
        chunk = e.select(out, ir.Constant(I32, 0), found)
        number = e.add(e.shl(e.zext(chunk, I64), _c(9)), e.and_(safe, _c(CHUNK - 1)))
        return e.at(self._table, e.shl(number, _c(5)))

    def bit(self, mask: ir.Value) -> ir.Value:
        """The lane's bit of a mask."""
        return _bit(self.e, mask, self._lane)

    def base(self, entry: ir.Value, own: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where the first byte of the lane's page is, and how far apart its words are."""
        e = self.e
        slab = e.add(e.load_at(entry, SLAB, I64), e.shl(self._lane, _c(3)))
        shared = e.and_(e.load_at(entry, SHARED, I64), _c(ADDRESS))
        return e.select(own, slab, shared), e.select(own, _c(OWN_STRIDE), _c(8))

    def place(self, entry: ir.Value, own: ir.Value, offset: ir.Value) -> ir.Value:
        """Where byte `offset` of the lane's page is."""
        base, stride = self.base(entry, own)
        return self.e.add(base, inside(self.e, offset, stride))


def _bit(e: Emitter, mask: ir.Value, lane: ir.Value) -> ir.Value:
    return e.trunc(e.lshr(mask, e.trunc(lane, I32)), I1)


def offset_of(e: Emitter, address: ir.Value) -> ir.Value:
    """How far into its page an address is."""
    return e.and_(address, _c(PAGE - 1))


def inside(e: Emitter, offset: ir.Value, stride: ir.Value) -> ir.Value:
    """How far from a page's first byte byte `offset` is, where words are `stride` bytes apart."""
    return e.or_(e.mul(e.lshr(offset, _c(3)), stride), e.and_(offset, _c(7)))


def fast(size: int) -> bool:
    """Whether there is a fast way for accesses of that many bytes: not for those of three registers."""
    return size in (1, 2, 4) or size % 8 == 0


def is_easy(e: Emitter, offset: ir.Value, size: int) -> ir.Value:
    """Whether an access lies in whole words (one, if it is small) of one page."""
    if size == 1:
        return ir.Constant(I1, 1)
    whole = e.and_(offset, _c(min(size, 8) - 1))
    aligned = e.icmp_unsigned("==", whole, _c(0))
    return aligned if size <= 8 else e.and_(aligned, e.icmp_unsigned("<=", offset, _c(PAGE - size)))


def words(e: Emitter, where: ir.Value, stride: ir.Value, t: ir.Type) -> list[tuple[ir.Value, ir.Type]]:
    """Addresses and types of the words that a `t` is in."""
    if t.width < 64:
        return [(where, t)]
    out = []
    for _ in range(t.width // 64):
        out.append((where, I64))
        where = e.add(where, stride)
    return out


def join(e: Emitter, t: ir.Type, parts: list[ir.Value]) -> ir.Value:
    """A `t` of its words."""
    if len(parts) == 1:
        return parts[0]
    value = e.zext(parts[0], t)
    for i, word in enumerate(parts[1:], 1):
        value = e.or_(value, e.shl(e.zext(word, t), ir.Constant(t, 64 * i)))
    return value


def local_words(e: Emitter, count: int) -> ir.Value:
    """The address of `count` words of the thread's own."""
    words = e.alloca(ir.ArrayType(I64, count))
    words.type, words.align = PTR, 16
    return words


SLOW = ir.FunctionType(I64, [PTR, I64, I64, I64, I64, I64, PTR])
"""Arguments: state, parameters, table, lane, address, bytes, where they are or go to. 0 if all was done."""


def slow_function(module: ir.Module, name: str) -> ir.Function:
    """`read_slow` or `write_slow` of the module."""
    if name not in module.globals:
        fn = ir.Function(module, SLOW, name)
        fn.linkage = "internal"
        fn.attributes.add("noinline")  # one rare copy: in line it would push hot code out of the cache
        _build_slow(fn, "W" if name == "write_slow" else "R")
    return module.globals[name]


def _build_slow(fn: ir.Function, access: str) -> None:
    """Byte by byte, once all of it is allowed."""
    state, params, table, lane, address, size, data = fn.args
    e = Emitter(fn.append_basic_block("entry"))
    block = pointer(e, params)
    a = Access(e, pointer(e, e.load_at(block, 8 * Param.ROOT, I64)), pointer(e, table), lane)
    last = e.add(address, e.sub(size, _c(1)))
    bad = e.append_basic_block("bad")
    refused: list[tuple[ir.Value, ir.Block]] = []
    crosses = e.icmp_unsigned("!=", e.lshr(address, _c(12)), e.lshr(last, _c(12)))
    for at in (address, e.select(crosses, e.and_(last, _c(-PAGE)), address)):
        entry = a.entry(at)
        allowed = a.bit(e.load_at(entry, MASK[access], I32))
        refused.append((at, e.block))
        good = e.append_basic_block("good")
        e.cbranch(allowed, good, bad)
        e.position_at_end(good)
        if access == "W":
            left = e.at(state, PAGES_LEFT)
            got = e.call(own_function(fn.module), [params, lane, entry, left])
            owned = e.append_basic_block("owned")
            refused.append((at, e.block))
            e.cbranch(got, owned, bad)
            e.position_at_end(owned)
    with e.repeat(size) as i:
        at = e.add(address, i)
        entry = a.entry(at)
        own = ir.Constant(I1, 1) if access == "W" else a.bit(e.load_at(entry, OWN, I32))
        here, there = pointer(e, a.place(entry, own, offset_of(e, at))), e.at(data, i)
        e.store(e.load(there if access == "W" else here, typ=I8), here if access == "W" else there)
    e.ret(_c(0))
    e.position_at_end(bad)
    where = e.phi(I64)
    for value, block in refused:
        where.add_incoming(value, block)
    e.store_at(where, state, layout.ADDRESS)
    e.store_at(_c(_KIND[access]), state, layout.KIND)
    e.ret(_c(1))


def own_function(module: ir.Module) -> ir.Function:
    """`own(params, lane, entry, left)`: give the lane its own copy of a page that it has not executed.

    0 if it may not have one: the pool has run out, the lane's limit (a word at `left`) is reached, or the
    page is code, which only the host changes.
    """
    if "own" not in module.globals:
        fn = ir.Function(module, ir.FunctionType(I1, [I64, I64, PTR, PTR]), "own")
        fn.linkage = "internal"
        fn.attributes.add("noinline")  # one rare copy: in line it would push hot code out of the cache
        _build_own(fn)
    return module.globals["own"]


def _build_own(fn: ir.Function) -> None:
    params, lane, entry, left = fn.args
    e = Emitter(fn.append_basic_block("entry"))
    block = pointer(e, params)
    mine, ask, may, no = (e.append_basic_block(n) for n in ("mine", "ask", "may", "no"))
    e.cbranch(_bit(e, e.load_at(entry, OWN, I32), lane), mine, ask)
    e.position_at_end(mine)
    e.ret(ir.Constant(I1, 1))
    e.position_at_end(no)
    e.ret(ir.Constant(I1, 0))
    e.position_at_end(ask)
    marks = e.load_at(entry, SHARED, I64)
    counts = e.icmp_unsigned("==", e.and_(marks, _c(PRIVATE)), _c(0))
    code = e.icmp_unsigned("!=", e.and_(marks, _c(CODE)), _c(0))
    pages = e.load(left, typ=I64)
    full = e.and_(counts, e.icmp_unsigned("==", pages, _c(0)))
    e.cbranch(e.or_(full, code), no, may)
    e.position_at_end(may)
    base = _slab(e, block, entry, no)
    shared = e.and_(e.load_at(entry, SHARED, I64), _c(ADDRESS))
    with e.if_then(e.not_(is_ready(e, marks))) if fn.module.readies else nullcontext():
        _copy_page(e, shared, e.add(base, e.shl(lane, _c(3))))
    e.store(e.sub(pages, e.zext(counts, I64)), left)
    bit = e.shl(ir.Constant(I32, 1), e.trunc(lane, I32))
    e.atomic_rmw("or", e.at(entry, OWN), bit, "monotonic")
    e.ret(ir.Constant(I1, 1))


def is_ready(e: Emitter, marks: ir.Value) -> ir.Value:
    """Whether the first word of an entry says that copies have been made."""
    return e.icmp_unsigned("!=", e.and_(marks, _c(READY)), _c(0))


def make_ready(e: Emitter, block: ir.Value, entry: ir.Value, lane: ir.Value) -> None:
    """Make the lane's copy of a page, before lanes run; nothing happens if the pool has none."""
    after = e.append_basic_block("after")
    base = _slab(e, block, entry, after)
    shared = e.and_(e.load_at(entry, SHARED, I64), _c(ADDRESS))
    _copy_page(e, shared, e.add(base, e.shl(lane, _c(3))))
    e.atomic_rmw("or", e.at(entry, SHARED), _c(READY), "monotonic")
    e.branch(after)
    e.position_at_end(after)


def _slab(e: Emitter, block: ir.Value, entry: ir.Value, none: ir.Block) -> ir.Value:
    """The entry's slab; it gets one from the pool if need be, or `none` is next.

    Lanes of a group can ask at the same moment: one takes a slab, the others wait for it.
    """
    take, wait, there, got, back, have = map(
        e.append_basic_block, ("take", "wait", "there", "got", "back", "have")
    )
    slab = e.at(entry, SLAB)
    before = e.extract_value(e.cmpxchg(slab, _c(0), _c(BUSY), "monotonic", "monotonic"), 0)
    e.cbranch(e.icmp_unsigned("==", before, _c(0)), take, wait)
    e.position_at_end(take)
    counter = pointer(e, e.load_at(block, 8 * Param.SLAB_NEXT, I64))
    number = e.atomic_rmw("add", counter, _c(1), "monotonic")
    fits = e.icmp_unsigned("<", number, e.load_at(block, 8 * Param.SLAB_LIMIT, I64))
    e.cbranch(fits, got, back)
    e.position_at_end(back)
    e.atomic_rmw("sub", counter, _c(1), "monotonic")
    e.atomic_rmw("xchg", slab, _c(0), "monotonic")
    e.branch(none)
    e.position_at_end(got)
    address = e.add(e.load_at(block, 8 * Param.SLABS, I64), e.mul(number, _c(SLAB_BYTES)))
    e.atomic_rmw("xchg", slab, address, "monotonic")
    e.branch(have)
    e.position_at_end(wait)
    now = e.atomic_rmw("add", slab, _c(0), "monotonic")
    e.cbranch(e.icmp_unsigned("==", now, _c(BUSY)), wait, there)
    e.position_at_end(there)
    e.cbranch(e.icmp_unsigned("==", now, _c(0)), none, have)
    e.position_at_end(have)
    base = e.phi(I64)
    base.add_incoming(address, got)
    base.add_incoming(now, there)
    return base


def pool_is_used_up(e: Emitter, block: ir.Value) -> ir.Value:
    """Whether no slab is left in the pool."""
    taken = e.load(pointer(e, e.load_at(block, 8 * Param.SLAB_NEXT, I64)), typ=I64)
    return e.icmp_unsigned(">=", taken, e.load_at(block, 8 * Param.SLAB_LIMIT, I64))


def _copy_page(e: Emitter, source: ir.Value, to: ir.Value) -> None:
    """From a shared page into the lane's words of a slab."""
    with e.repeat(PAGE // 8) as i:
        value = e.load(pointer(e, e.add(source, e.shl(i, _c(3)))), typ=I64)
        e.store(value, pointer(e, e.add(to, e.mul(i, _c(OWN_STRIDE)))))
