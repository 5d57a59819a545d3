"""Memory accesses of regions: places remember the page that they last used; all else is done elsewhere.

An access to a remembered page is a comparison and a load or store, in line. Any other calls a function that
finds the page, makes the access and tells what to remember: a region has many accesses, and what they take in
line is what its code takes of the GPU's instruction cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from kvrm.engine.emitter import I1, I32, I64, PTR, Emitter
from kvrm.engine.interpreter.abi import unlikely
from kvrm.memory import PAGE
from kvrm.target.cuda import memory
from kvrm.target.cuda.abi import LOCAL_POINTER, Var, pointer
from kvrm.target.cuda.memory import MASK, OWN, OWN_STRIDE, Access, inside, offset_of

REFUSED, DONE = 0, 1
"""What a far access returns, or else where its page begins, plus 1 if the page is the lane's own."""
WORD = 8
"""Bytes of what goes in registers to a far access and back."""


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
    e: Emitter, state: ir.Value, variables: ir.Value, address: ir.Value, t: ir.Type, site: Site
) -> tuple[ir.Value, ir.Value]:
    """A little-endian `t`, and whether it was refused."""
    size = t.width // 8
    near, far, done = (e.append_basic_block(name) for name in ("near", "far", "read"))
    unlikely(e.cbranch(_hits(e, address, size, site), near, far))
    e.position_at_end(near)
    where, stride = _place(e, address, site)
    value = memory.join(e, t, [e.load(pointer(e, p), typ=w) for p, w in memory.words(e, where, stride, t)])
    e.branch(done)
    e.position_at_end(far)
    arguments = [state, variables, address, _c(size)]
    if size <= WORD:
        both = e.call(_function(e.module, "far_read_word", RETURNS_WORD, ARGUMENTS, _read_word), arguments)
        status, word = (e.extract_value(both, i) for i in (0, 1))
        other = word if size == WORD else e.trunc(word, t)
    else:
        out = _buffer(e, size)
        status = e.call(_function(e.module, "far_read", I64, [*ARGUMENTS, PTR], _read), [*arguments, out])
        other = e.load(out, typ=t, align=16)
    _remember(e, address, status, site)
    e.branch(done)
    e.position_at_end(done)
    return _either(e, value, near, other, far), _refused(e, near, status, far)


def write(
    e: Emitter, state: ir.Value, variables: ir.Value, address: ir.Value, value: ir.Value, site: Site
) -> tuple[ir.Value, ir.Value]:
    """Store `value`; whether it was done by a far access, and whether it was refused.

    A far access may give the lane its own copy of a page.
    """
    t = value.type
    size = t.width // 8
    near, far, done = (e.append_basic_block(name) for name in ("near", "far", "written"))
    unlikely(e.cbranch(_hits(e, address, size, site), near, far))
    e.position_at_end(near)
    where, _ = _place(e, address, site)
    for i, (p, w) in enumerate(memory.words(e, where, _c(OWN_STRIDE), t)):
        part = value if w == t else e.trunc(e.lshr(value, ir.Constant(t, 64 * i)), w)
        e.store(part, pointer(e, p))
    e.branch(done)
    e.position_at_end(far)
    arguments = [state, variables, address, _c(size)]
    if size <= WORD:
        function = _function(e.module, "far_write_word", I64, [*ARGUMENTS, I64], _write_word)
        status = e.call(function, [*arguments, value if size == WORD else e.zext(value, I64)])
    else:
        data = _buffer(e, size)
        e.store(value, data, align=16)
        status = e.call(_function(e.module, "far_write", I64, [*ARGUMENTS, PTR], _write), [*arguments, data])
    _remember(e, address, status, site)
    e.branch(done)
    e.position_at_end(done)
    return _either(e, ir.Constant(I1, 0), near, ir.Constant(I1, 1), far), _refused(e, near, status, far)


def _buffer(e: Emitter, size: int) -> ir.Value:
    with e.goto_entry_block():
        return memory.local_words(e, -(-size // WORD))


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

ARGUMENTS = [LOCAL_POINTER, LOCAL_POINTER, I64, I64]
"""The lane's state and variables, the address, how many bytes."""
RETURNS_WORD = ir.LiteralStructType([I64, I64])
_Body = Callable[["_Far"], None]


def _function(
    module: ir.Module, name: str, result: ir.Type, arguments: list[ir.Type], body: _Body
) -> ir.Function:
    if name not in module.globals:
        fn = ir.Function(module, ir.FunctionType(result, arguments), name)
        fn.linkage = "internal"
        fn.attributes.add("noinline")
        body(_Far(fn))
    return module.globals[name]


class _Far:
    """A far access under construction."""

    def __init__(self, fn: ir.Function) -> None:
        self.e = e = Emitter(fn.append_basic_block("entry"))
        state, variables, self.address, self.size, *self.data = fn.args
        self._state = e.addrspacecast(state, PTR)
        self._words = [e.load_at(variables, 8 * v, I64) for v in (Var.PARAMS, Var.TABLE, Var.LANE)]
        root = pointer(e, e.load_at(variables, 8 * Var.ROOT, I64))
        self._access = Access(e, root, pointer(e, self._words[1]), self._words[2])
        self._offset = offset_of(e, self.address)

    def found(self, access: str) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Go on where the access lies in whole words of a page that it may access.

        Where its first byte is, how far the next word is, and what to return. Elsewhere comes `slow`.
        """
        e, a = self.e, self._access
        # in one word, or whole words
        within = e.icmp_unsigned("<=", e.add(e.and_(self._offset, _c(WORD - 1)), self.size), _c(WORD))
        whole = e.icmp_unsigned("==", e.and_(e.or_(self._offset, self.size), _c(WORD - 1)), _c(0))
        inside_page = e.icmp_unsigned("<=", e.add(self._offset, self.size), _c(PAGE))
        easy = e.and_(e.or_(within, whole), inside_page)
        entry = a.entry(self.address)
        own, mask = (e.load_at(entry, at, I32) for at in (OWN, MASK[access]))
        allowed = a.bit(mask if access == "R" else e.and_(mask, own))
        good, self.bad = e.append_basic_block("good"), e.append_basic_block("bad")
        e.cbranch(e.and_(easy, allowed), good, self.bad)
        e.position_at_end(good)
        is_own = a.bit(own)
        base, stride = a.base(entry, is_own)
        where = e.add(base, inside(e, self._offset, stride))
        return where, stride, e.or_(base, e.zext(is_own, I64))

    def slow(self, name: str, data: ir.Value) -> ir.Value:
        """Elsewhere: by the careful function; what to return."""
        e = self.e
        e.position_at_end(self.bad)
        function = memory.slow_function(e.module, name)
        reason = e.call(function, [self._state, *self._words, self.address, self.size, data])
        return e.select(e.icmp_unsigned("==", reason, _c(0)), _c(DONE), _c(REFUSED))

    def bit_offset(self) -> ir.Value:
        """How far into its word the access is, in bits."""
        return self.e.shl(self.e.and_(self._offset, _c(WORD - 1)), _c(3))


def _read_word(far: _Far) -> None:
    e, out = far.e, memory.local_words(far.e, 1)
    where, _, found = far.found("R")
    word = e.load(pointer(e, e.and_(where, _c(-WORD))), typ=I64)
    _return_word(e, found, e.lshr(word, far.bit_offset()))
    status = far.slow("read_slow", out)
    _return_word(e, status, e.load(out, typ=I64))


def _return_word(e: Emitter, status: ir.Value, word: ir.Value) -> None:
    both = e.insert_value(ir.Constant(RETURNS_WORD, ir.Undefined), status, 0)
    e.ret(e.insert_value(both, word, 1))


def _read(far: _Far) -> None:
    e, out = far.e, far.data[0]
    where, stride, found = far.found("R")
    with e.repeat(e.lshr(far.size, _c(3))) as i:
        word = e.load(pointer(e, e.add(where, e.mul(i, stride))), typ=I64)
        e.store(word, e.at(out, e.shl(i, _c(3))))
    e.ret(found)
    e.ret(far.slow("read_slow", out))


def _write_word(far: _Far) -> None:
    e, data = far.e, memory.local_words(far.e, 1)
    where, _, found = far.found("W")
    place, shift = pointer(e, e.and_(where, _c(-WORD))), far.bit_offset()
    mask = e.shl(e.lshr(_c(-1), e.sub(_c(64), e.shl(far.size, _c(3)))), shift)
    kept = e.and_(e.load(place, typ=I64), e.not_(mask))
    e.store(e.or_(kept, e.and_(e.shl(far.data[0], shift), mask)), place)
    e.ret(found)
    with e.goto_block(far.bad):
        e.store(far.data[0], data)
    e.ret(far.slow("write_slow", data))


def _write(far: _Far) -> None:
    e, data = far.e, far.data[0]
    where, stride, found = far.found("W")
    with e.repeat(e.lshr(far.size, _c(3))) as i:
        word = e.load(e.at(data, e.shl(i, _c(3))), typ=I64)
        e.store(word, pointer(e, e.add(where, e.mul(i, stride))))
    e.ret(found)
    e.ret(far.slow("write_slow", data))
