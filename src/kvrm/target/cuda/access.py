"""Memory accesses of regions: near ones, to a page that their place remembers, and far ones.

A near access is a comparison and a load or store, in line. A far one calls a function that finds the page,
makes the access and tells what to remember. In line, both take some fifty of the GPU's instructions, and what
does not fit into its instruction cache costs more than that: only few regions have near accesses
(`kvrm.target.cuda.plan.ALL`), and handlers none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from kvrm.engine.emitter import I1, I32, I64, PTR, Emitter
from kvrm.engine.interpreter.abi import unlikely
from kvrm.target.cuda import memory
from kvrm.target.cuda.abi import SHARED_POINTER, TABLE, Common, common, lane_number, pointer
from kvrm.target.cuda.memory import MASK, OWN, OWN_STRIDE, SHARED, SLAB, Access, inside, offset_of

BUFFER = "buffer"
REFUSED, DONE = 0, 1
"""What a far access returns, or else where its page begins, plus 1 if the page is the lane's own."""
WORD, PAIR = 8, 16
"""Bytes of what goes in registers to a far access and back."""
ARGUMENTS = [SHARED_POINTER, I64]
"""Of a far access: the thread's words of shared memory, the address. What is larger than a word goes through memory."""
RETURNS_WORD, RETURNS_PAIR = (ir.LiteralStructType([I64] * n) for n in (2, 3))


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value & (1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a place of a region finds the page that it last used; each is a stack slot.

    They hold a page number, and what a far access returned.
    """

    page: ir.Value
    base: ir.Value

    def forget(self, e: Emitter) -> None:
        """Remember nothing."""
        e.store(_c(-1), self.page)


def read(
    e: Emitter, own: ir.Value, address: ir.Value, t: ir.Type, site: Site | None
) -> tuple[ir.Value, ir.Value]:
    """A little-endian `t`, and whether it was refused; without a `site` it is far."""
    if site is None:
        status, value = _far_read(e, own, address, t)
        return value, e.icmp_unsigned("==", status, _c(REFUSED))
    near, far, done = (e.append_basic_block(name) for name in ("near", "far", "read"))
    unlikely(e.cbranch(_hits(e, address, t.width // 8, site), near, far))
    e.position_at_end(near)
    where, stride = _place(e, address, site)
    value = memory.join(e, t, [e.load(pointer(e, p), typ=w) for p, w in memory.words(e, where, stride, t)])
    e.branch(done)
    e.position_at_end(far)
    status, other = _far_read(e, own, address, t)
    _remember(e, address, status, site)
    e.branch(done)
    e.position_at_end(done)
    return _either(e, value, near, other, far), _refused(e, near, status, far)


def write(
    e: Emitter, own: ir.Value, address: ir.Value, value: ir.Value, site: Site | None
) -> tuple[ir.Value, ir.Value]:
    """Store `value`; whether it was done by a far access, and whether it was refused.

    A far access may give the lane its own copy of a page.
    """
    if site is None:
        status = _far_write(e, own, address, value)
        return ir.Constant(I1, 1), e.icmp_unsigned("==", status, _c(REFUSED))
    t = value.type
    near, far, done = (e.append_basic_block(name) for name in ("near", "far", "written"))
    unlikely(e.cbranch(_hits(e, address, t.width // 8, site), near, far))
    e.position_at_end(near)
    where, _ = _place(e, address, site)
    for i, (p, w) in enumerate(memory.words(e, where, _c(OWN_STRIDE), t)):
        part = value if w == t else e.trunc(e.lshr(value, ir.Constant(t, 64 * i)), w)
        e.store(part, pointer(e, p))
    e.branch(done)
    e.position_at_end(far)
    status = _far_write(e, own, address, value)
    _remember(e, address, status, site)
    e.branch(done)
    e.position_at_end(done)
    return _either(e, ir.Constant(I1, 0), near, ir.Constant(I1, 1), far), _refused(e, near, status, far)


def _hits(e: Emitter, address: ir.Value, size: int, site: Site) -> ir.Value:
    """Whether an access lies in whole words (one, if it is small) of the page that is remembered."""
    if not memory.fast(size):
        return ir.Constant(I1, 0)
    hit = e.icmp_unsigned("==", e.lshr(address, _c(12)), e.load(site.page, typ=I64))
    return e.and_(hit, memory.is_easy(e, offset_of(e, address), size))


def _place(e: Emitter, address: ir.Value, site: Site) -> tuple[ir.Value, ir.Value]:
    """Where an access is on the device, and how far the next word is."""
    base = e.load(site.base, typ=I64)
    stride = e.select(e.trunc(base, I1), _c(OWN_STRIDE), _c(WORD))
    return e.add(e.and_(base, _c(-2)), inside(e, offset_of(e, address), stride)), stride


def _remember(e: Emitter, address: ir.Value, status: ir.Value, site: Site) -> None:
    known = e.icmp_unsigned(">", status, _c(DONE))
    e.store(e.select(known, e.lshr(address, _c(12)), _c(-1)), site.page)
    e.store(status, site.base)


def _either(e: Emitter, one: ir.Value, there: ir.Block, other: ir.Value, elsewhere: ir.Block) -> ir.Value:
    value = e.phi(one.type)
    value.add_incoming(one, there)
    value.add_incoming(other, elsewhere)
    return value


def _refused(e: Emitter, near: ir.Block, status: ir.Value, far: ir.Block) -> ir.Value:
    return e.icmp_unsigned("==", _either(e, _c(DONE), near, status, far), _c(REFUSED))


# -- far accesses ------------------------------------------------------------------------------------------


def _far_read(e: Emitter, own: ir.Value, address: ir.Value, t: ir.Type) -> tuple[ir.Value, ir.Value]:
    """What a far access returned, and the value."""
    size = t.width // 8
    if size <= WORD:
        function = _function(e.module, f"far_read_{size}", RETURNS_WORD, ARGUMENTS, _read_word, size)
        both = e.call(function, [own, address])
        status, word = (e.extract_value(both, i) for i in (0, 1))
        return status, word if size == WORD else e.trunc(word, t)
    if size == PAIR:
        function = _function(e.module, f"far_read_{size}", RETURNS_PAIR, ARGUMENTS, _read_pair, size)
        all_three = e.call(function, [own, address])
        status, *words = (e.extract_value(all_three, i) for i in range(3))
        return status, memory.join(e, t, words)
    out = _buffer(e)
    function = _function(e.module, f"far_read_{size}", I64, [*ARGUMENTS, PTR], _read, size)
    status = e.call(function, [own, address, out])
    return status, e.load(out, typ=t, align=16)


def _far_write(e: Emitter, own: ir.Value, address: ir.Value, value: ir.Value) -> ir.Value:
    """What a far access returned."""
    size = value.type.width // 8
    if size <= WORD:
        function = _function(e.module, f"far_write_{size}", I64, [*ARGUMENTS, I64], _write_word, size)
        return e.call(function, [own, address, value if size == WORD else e.zext(value, I64)])
    if size == PAIR:
        function = _function(e.module, f"far_write_{size}", I64, [*ARGUMENTS, I64, I64], _write_pair, size)
        halves = e.trunc(value, I64), e.trunc(e.lshr(value, ir.Constant(value.type, 64)), I64)
        return e.call(function, [own, address, *halves])
    data = _buffer(e)
    e.store(value, data, align=16)
    function = _function(e.module, f"far_write_{size}", I64, [*ARGUMENTS, PTR], _write, size)
    return e.call(function, [own, address, data])


def _buffer(e: Emitter) -> ir.Value:
    """A function has one: no two of its accesses are made at once."""
    entry = e.function.entry_basic_block
    made = next((i for i in entry.instructions if i.name == BUFFER), None)
    if made is None:
        with e.goto_entry_block():
            made = memory.local_words(e, memory.LARGEST // WORD)
        made.name = BUFFER
    return made


def _function(
    module: ir.Module,
    name: str,
    result: ir.Type,
    arguments: list[ir.Type],
    body: Callable[[_Far], None],
    size: int,
) -> ir.Function:
    if name not in module.globals:
        fn = ir.Function(module, ir.FunctionType(result, arguments), name)
        fn.linkage = "internal"
        fn.attributes.add("noinline")
        body(_Far(fn, size))
    return module.globals[name]


class _Far:
    """A far access of `size` bytes under construction."""

    def __init__(self, fn: ir.Function, size: int) -> None:
        self.e = e = Emitter(fn.append_basic_block("entry"))
        own, self.address, *self.data = fn.args
        params, root = (e.load(common(e, word), typ=I64) for word in (Common.PARAMS, Common.ROOT))
        self._words = [params, e.load_at(own, TABLE, I64), lane_number(e)]
        self._state = e.load(common(e, Common.STATE), typ=PTR)
        self._access = Access(e, pointer(e, root), pointer(e, self._words[1]), self._words[2])
        self._offset, self.size = offset_of(e, self.address), size

    def found(self, access: str) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Go on where the access lies in whole words of a page that it may access.

        Where its first byte is, how far the next word is, and what to return. Elsewhere comes `slow`.
        """
        e, a = self.e, self._access
        easy = memory.is_easy(e, self._offset, self.size) if memory.fast(self.size) else ir.Constant(I1, 0)
        entry = a.entry(self.address)
        own, mask = (e.load_at(entry, at, I32) for at in (OWN, MASK[access]))
        slab, image = (self._now(e.load_at(entry, at, I64)) for at in (SLAB, SHARED))
        allowed = a.bit(mask if access == "R" else e.and_(mask, own))
        good, self.bad = e.append_basic_block("good"), e.append_basic_block("bad")
        e.cbranch(e.and_(easy, allowed), good, self.bad)
        e.position_at_end(good)
        is_own = a.bit(own) if access == "R" else ir.Constant(I1, 1)
        base, stride = a.base(slab, image, is_own)
        where = e.add(base, inside(e, self._offset, stride))
        return where, stride, e.or_(base, e.zext(is_own, I64))

    def _now(self, word: ir.Value) -> ir.Value:
        """The same word, loaded here, at the same time as others, and not later where it is used."""
        return self.e.asm(ir.FunctionType(I64, [I64]), "", "=l,0", [word], side_effect=True)

    def slow(self, name: str, data: ir.Value) -> ir.Value:
        """Elsewhere: by the careful function; what to return."""
        e = self.e
        e.position_at_end(self.bad)
        function = memory.slow_function(e.module, name)
        reason = e.call(function, [self._state, *self._words, self.address, _c(self.size), data])
        return e.select(e.icmp_unsigned("==", reason, _c(0)), _c(DONE), _c(REFUSED))


def _read_word(far: _Far) -> None:
    e, out, t = far.e, memory.local_words(far.e, 1), ir.IntType(8 * far.size)
    where, _, found = far.found("R")
    word = e.load(pointer(e, where), typ=t)
    _return(e, found, word if far.size == WORD else e.zext(word, I64))
    status = far.slow("read_slow", out)
    _return(e, status, e.load(out, typ=I64))


def _return(e: Emitter, status: ir.Value, *words: ir.Value) -> None:
    out = ir.Constant(ir.LiteralStructType([I64] * (1 + len(words))), ir.Undefined)
    for i, value in enumerate((status, *words)):
        out = e.insert_value(out, value, i)
    e.ret(out)


def _read_pair(far: _Far) -> None:
    e, out = far.e, memory.local_words(far.e, 2)
    where, stride, found = far.found("R")
    _return(e, found, *(e.load(pointer(e, at), typ=I64) for at in (where, e.add(where, stride))))
    status = far.slow("read_slow", out)
    _return(e, status, *(e.load_at(out, at, I64) for at in (0, WORD)))


def _read(far: _Far) -> None:
    e, out = far.e, far.data[0]
    where, stride, found = far.found("R")
    for i in range(far.size // WORD):
        e.store_at(e.load(pointer(e, where), typ=I64), out, WORD * i)
        where = e.add(where, stride)
    e.ret(found)
    e.ret(far.slow("read_slow", out))


def _write_word(far: _Far) -> None:
    e, data = far.e, memory.local_words(far.e, 1)
    where, _, found = far.found("W")
    value = far.data[0]
    e.store(value if far.size == WORD else e.trunc(value, ir.IntType(8 * far.size)), pointer(e, where))
    e.ret(found)
    with e.goto_block(far.bad):
        e.store(value, data)
    e.ret(far.slow("write_slow", data))


def _write_pair(far: _Far) -> None:
    e, data = far.e, memory.local_words(far.e, 2)
    where, stride, found = far.found("W")
    for value, at in zip(far.data, (where, e.add(where, stride)), strict=True):
        e.store(value, pointer(e, at))
    e.ret(found)
    with e.goto_block(far.bad):
        for i, value in enumerate(far.data):
            e.store_at(value, data, WORD * i)
    e.ret(far.slow("write_slow", data))


def _write(far: _Far) -> None:
    e, data = far.e, far.data[0]
    where, stride, found = far.found("W")
    for i in range(far.size // WORD):
        e.store(e.load_at(data, WORD * i, I64), pointer(e, where))
        where = e.add(where, stride)
    e.ret(found)
    e.ret(far.slow("write_slow", data))
