"""Skipping iterations on a GPU: the function that replaces the handler of a loop's head in the kernel.

Sites are words that all lanes read (`kvrm.loops.plan`). A lane copies one to memory of its own, has
iterations skipped, and goes on with plain execution in a second copy of the page's slots.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from llvmlite import ir

from kvrm.backend.gpu import group_memory
from kvrm.backend.gpu.device_abi import (
    PAGES_LEFT,
    SCRATCH,
    DeviceFunction,
    Module,
    Own,
    Param,
    lane_number,
    pointer,
)
from kvrm.backend.gpu.group_memory import CODE as EXECUTED
from kvrm.backend.gpu.group_memory import OWN, OWN_STRIDE, PRIVATE, READ, SHARED, WRITE
from kvrm.backend.gpu.skipping import SITE_BYTES
from kvrm.loops import plan, skip
from kvrm.loops.emit import Code, Place, Span, Variable, c
from kvrm.loops.plan import BLOCK, WORD
from kvrm.machine import state as layout
from kvrm.memory import PAGE, W_BIT
from kvrm.staging.emitter import I1, I8, I32, I64, PTR

Build = Callable[["DeviceCode"], None]


class DeviceCode(Code):
    """The device's half: `state` is the thread's words at hand, the general registers first.

    A page is the device address of its first byte, plus 1 if its words are those of a slab, side by side with
    other lanes'.
    """

    claims = True

    # -- registers and pages ---------------------------------------------------------------------------------
    def register(self, state: ir.Value, offset: ir.Value) -> ir.Value:
        """General ones are at hand, the others in the lane's state."""
        e = self.e
        general = self.test("<", offset, layout.V_OFFSET)
        return e.at(e.select(general, state, self._state(state)), offset)

    def refused(
        self, state: ir.Value, address: ir.Value, asked: ir.Value, wanted: ir.Value, new: Variable
    ) -> ir.Value:
        """By the masks of the group's entry; as many pages may be new as the lane may still get."""
        e, a = self.e, self._access(state)
        entry = a.entry(address)
        read, write, own = (a.bit(e.load_at(entry, mask, I32)) for mask in (READ, WRITE, OWN))
        code = e.trunc(e.lshr(e.load_at(entry, SHARED, I64), c(EXECUTED.bit_length() - 1)), I1)
        bits = [e.shl(e.zext(flag, I64), c(at)) for at, flag in enumerate((read, write, code))]
        permissions = e.or_(e.or_(bits[0], bits[1]), bits[2])
        stores = self.test("!=", e.and_(wanted, c(W_BIT)), 0)
        new.set(e.add(new.get(), e.zext(e.and_(stores, e.not_(own)), I64)))
        denied = self.test("!=", e.and_(permissions, asked), wanted)
        return e.or_(denied, self.test(">", new.get(), self.pages_left(state)))

    def pages_left(self, state: ir.Value) -> ir.Value:
        """From the lane's state."""
        return self.word(self._state(state), PAGES_LEFT)

    def unowned(self, state: ir.Value, span: Span) -> ir.Value:
        """Those that count against the lane's limit."""
        return self._call("unowned", _unowned, [state, *span])

    def own(self, state: ir.Value, span: Span) -> ir.Value:
        """As the first store to each would."""
        return self._call("claim", _claim, [state, *span])

    def page(self, state: ir.Value, address: ir.Value) -> ir.Value:
        """By the group's entry."""
        return self._call("page", _page, [state, address])

    # -- bytes -----------------------------------------------------------------------------------------------
    def local(self, buffer: ir.Value) -> ir.Value:
        """Its address: words follow each other as in a page that all lanes share."""
        return self.e.ptrtoint(buffer, I64)

    def load(self, page: ir.Value, offset: ir.Value, t: ir.IntType) -> ir.Value:
        """Out of the one or two words that it is in, without a branch."""
        e = self.e
        if t == I8:
            return e.load(self._at(page, offset), typ=I8)
        value = self._words(page, offset, 1, t.width // 8)[0]
        return value if t == I64 else e.trunc(value, t)

    def store(self, value: ir.Value, page: ir.Value, offset: ir.Value) -> None:
        """In whole words, or byte by byte."""
        e, t = self.e, value.type
        if t.width > 64:
            for at in range(0, t.width, 64):
                word = e.trunc(e.lshr(value, ir.Constant(t, at)), I64)
                self.store(word, page, e.add(offset, c(at // 8)))
            return
        size = t.width // 8
        aligned = self.test("==", e.and_(offset, c(size - 1)), 0)
        with e.if_else(aligned, likely=True) as (then, otherwise):
            with then:
                e.store(value, self._at(page, offset))
            with otherwise:
                for i in range(size):
                    byte = e.trunc(e.lshr(value, ir.Constant(t, 8 * i)), I8) if size > 1 else value
                    e.store(byte, self._at(page, e.add(offset, c(i))))

    def move(self, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """Byte by byte."""
        self._call("move", _move, [target, source, size])

    def carry(self, target: Place, source: Place, size: ir.Value, down: bool) -> None:
        """By words of the target."""
        name, build = ("carry_down", _carry_down) if down else ("carry_up", _carry_up)
        self._call(name, build, [*target, *source, size])

    def tile(self, target: Place, size: ir.Value, buffer: Place, period: ir.Value) -> None:
        """By words of the target; the period, of 8 bytes at least, is in the buffer twice."""
        self._call("tile", _tile, [*target, size, *buffer, period])

    def find(self, page: ir.Value, offset: ir.Value, byte: ir.Value, count: ir.Value) -> ir.Value:
        """By whole words, as far as they have it not."""
        return self._call("find", _find, [page, offset, byte, count])

    def gathered(self, state: ir.Value, to: ir.Value, address: ir.Value, size: ir.Value) -> None:
        """Byte by byte."""
        self._call("gathered", _gathered, [state, to, address, size])

    def scattered(self, state: ir.Value, address: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """Byte by byte."""
        self._call("scattered", _scattered, [state, address, source, size])

    # -- helpers ---------------------------------------------------------------------------------------------
    def _call(self, name: str, build: Build, arguments: Sequence[ir.Value]) -> ir.Value:
        """Call a function of the module, which `build` emits when it is first called."""
        known = self.fn.module.globals.get(f"loops_{name}")
        if known is None:
            k = DeviceCode(self.fn.module, f"loops_{name}", [a.type for a in arguments])
            k.fn.attributes.add("noinline")  # several effects call it: one copy for all
            build(k)
            known = k.fn
        return self.e.call(known, arguments)

    def _state(self, own: ir.Value) -> ir.Value:
        return self.word(own, Own.STATE, PTR)

    def _access(self, own: ir.Value) -> group_memory.Access:
        e = self.e
        root, table = (pointer(e, self.word(own, at)) for at in (Own.ROOT, Own.TABLE))
        return group_memory.Access(e, root, table, lane_number(e))

    def _words(self, page: ir.Value, offset: ir.Value, count: int, size: int = WORD) -> list[ir.Value]:
        """Words that begin at any byte; of the last only `size` bytes count."""
        e = self.e
        last = e.and_(e.add(offset, c(WORD * (count - 1) + size - 1)), c(-WORD))
        places = [*self._places(page, offset, count), self._at(page, last)]
        found = [e.load(place, typ=I64) for place in places]
        shift = e.shl(e.and_(offset, c(WORD - 1)), c(3))
        back = e.sub(c(63), shift)
        pairs = itertools.pairwise(found)
        return [e.or_(e.lshr(low, shift), e.shl(e.shl(high, c(1)), back)) for low, high in pairs]

    def _places(self, page: ir.Value, offset: ir.Value, count: int) -> list[ir.Value]:
        """The generic addresses of the word that a byte is in, and of those after it."""
        e = self.e
        stride = e.select(e.trunc(page, I1), c(OWN_STRIDE), c(WORD))
        first = self._at(page, e.and_(offset, c(-WORD)))
        return [e.at(first, e.mul(stride, c(i))) if i else first for i in range(count)]

    def _at(self, page: ir.Value, offset: ir.Value) -> ir.Value:
        """The generic address of a byte of a page."""
        e = self.e
        shift = e.select(e.trunc(page, I1), c(OWN_STRIDE.bit_length() - 1), c(3))
        word = e.shl(e.lshr(offset, c(3)), shift)
        within = e.or_(word, e.and_(offset, c(WORD - 1)))
        return e.inttoptr(e.add(e.and_(page, c(-2)), within), PTR)


# -- functions -----------------------------------------------------------------------------------------------
def _page(k: DeviceCode) -> None:
    own, address = k.fn.args
    e, a = k.e, k._access(own)
    entry = a.entry(address)
    mine = a.bit(e.load_at(entry, OWN, I32))
    base, _ = a.base(entry, mine)
    k.ret(e.or_(base, e.zext(mine, I64)))


def _pages(k: DeviceCode, body: Callable[[group_memory.Access, ir.Value, Variable], None]) -> Variable:
    """Emit `body` for each page of a span; what it counts."""
    own, address, step, size, count = k.fn.args
    e, found = k.e, k.variable(0)
    travel = e.mul(e.sub(count, c(1)), step)
    low = e.select(k.negative(step), e.add(address, travel), address)
    high = e.add(e.select(k.negative(step), address, e.add(address, travel)), size)
    at = k.variable(e.and_(low, c(-PAGE)))
    with k.loop(lambda: k.test("<", at.get(), high)):
        a = k._access(own)
        body(a, a.entry(at.get()), found)
        at.set(e.add(at.get(), c(PAGE)))
    return found


def _unowned(k: DeviceCode) -> None:
    def look(a: group_memory.Access, entry: ir.Value, found: Variable) -> None:
        e = k.e
        own = a.bit(e.load_at(entry, OWN, I32))
        free = k.test("!=", e.and_(e.load_at(entry, SHARED, I64), c(PRIVATE)), 0)
        found.set(e.add(found.get(), e.zext(e.not_(e.or_(own, free)), I64)))

    k.ret(_pages(k, look).get())


def _claim(k: DeviceCode) -> None:
    def take(_: group_memory.Access, entry: ir.Value, found: Variable) -> None:
        e, own = k.e, k.fn.args[0]
        left = e.at(k._state(own), PAGES_LEFT)
        got = e.call(
            group_memory.own_function(k.fn.module), [k.word(own, Own.PARAMS), lane_number(e), entry, left]
        )
        k.ret_if(e.not_(got), 0)

    _pages(k, take)
    k.ret(1)


def _move(k: DeviceCode) -> None:
    target, source, size = k.fn.args
    with k.e.repeat(size) as i:
        k.e.store(k.e.load(k.e.at(source, i), typ=I8), k.e.at(target, i))
    k.ret(0)


def _gathered(k: DeviceCode) -> None:
    state, to, address, size = k.fn.args
    with k.e.repeat(size) as i:
        at = k.e.add(address, i)
        k.e.store(k.load(k.page(state, at), k.within(at), I8), k.e.at(to, i))
    k.ret(0)


def _scattered(k: DeviceCode) -> None:
    state, address, source, size = k.fn.args
    with k.e.repeat(size) as i:
        at = k.e.add(address, i)
        k.store(k.e.load(k.e.at(source, i), typ=I8), k.page(state, at), k.within(at))
    k.ret(0)


Part = tuple[int, ir.Value, ir.Value]
"""A number of bytes, where in some range they begin that often one after the other, and how often."""


def _parts(k: DeviceCode, offset: ir.Value, size: ir.Value, blocks: ir.Value) -> tuple[Part, ...]:
    """A range cut up: bytes up to a whole word, at most that many blocks, whole words, bytes again."""
    e = k.e
    head = k.least(e.and_(e.sub(c(0), offset), c(WORD - 1)), size)
    end = e.add(head, e.and_(e.sub(size, head), c(-WORD)))
    count = k.least(blocks, e.udiv(e.sub(end, head), c(BLOCK)))
    middle = e.add(head, e.mul(count, c(BLOCK)))
    words = e.lshr(e.sub(end, middle), c(3))
    return (1, c(0), head), (BLOCK, head, count), (WORD, middle, words), (1, end, e.sub(size, end))


def _store_words(k: DeviceCode, page: ir.Value, offset: ir.Value, words: Sequence[ir.Value]) -> None:
    for word, place in zip(words, k._places(page, offset, len(words)), strict=True):
        k.e.store(word, place)


def _carry_up(k: DeviceCode) -> None:
    _carry(k, down=False)


def _carry_down(k: DeviceCode) -> None:
    _carry(k, down=True)


def _carry(k: DeviceCode, down: bool) -> None:
    page, offset, source, start, size = k.fn.args
    e = k.e
    parts = _parts(k, offset, size, c(PAGE))
    for unit, first, count in reversed(parts) if down else parts:
        with e.repeat(count) as i:
            number = e.sub(e.sub(count, c(1)), i) if down else i
            at = e.add(first, e.mul(number, c(unit)))
            to, of = e.add(offset, at), e.add(start, at)
            if unit == 1:
                e.store(k.load(source, of, I8), k._at(page, to))
            else:
                _store_words(k, page, to, k._words(source, of, unit // WORD))
    k.ret(0)


def _tile(k: DeviceCode) -> None:
    """A block is one period, if the period is as long as a block."""
    page, offset, size, buffer, first, period = k.fn.args
    e, phase = k.e, k.variable(first)
    usual = k.test("==", period, BLOCK)
    for unit, begin, count in _parts(k, offset, size, e.select(usual, c(PAGE), c(0))):
        if unit == BLOCK:
            with e.if_then(usual):
                words = k._words(buffer, phase.get(), BLOCK // WORD)
                with e.repeat(count) as i:
                    _store_words(k, page, e.add(offset, e.add(begin, e.mul(i, c(unit)))), words)
            continue
        with e.repeat(count) as i:
            to, now = e.add(offset, e.add(begin, e.mul(i, c(unit)))), phase.get()
            e.store(k.load(buffer, now, ir.IntType(8 * unit)), k._at(page, to))
            following = e.add(now, c(unit))
            over = k.test(">=", following, period)
            phase.set(e.select(over, e.sub(following, period), following))
    k.ret(0)


def _find(k: DeviceCode) -> None:
    """A word has a zero byte if (word - 0x01...01) & ~word & 0x80...80 is not zero."""
    page, offset, byte, count = k.fn.args
    e, at = k.e, k.variable(0)
    ones = (1 << 64) // 255
    pattern = e.mul(byte, c(ones))

    def here() -> ir.Value:
        return e.add(offset, at.get())

    def look(step: int, test: Callable[[], ir.Value]) -> None:
        with k.loop(lambda: k.test("<=", e.add(at.get(), c(step)), count)) as done:
            with e.if_then(test()):
                e.branch(done)
            at.set(e.add(at.get(), c(step)))

    def has_it() -> ir.Value:
        word = e.xor(k.load(page, here(), I64), pattern)
        zeros = e.and_(e.and_(e.sub(word, c(ones)), e.not_(word)), c(ones << 7))
        return k.test("!=", zeros, 0)

    def is_it() -> ir.Value:
        return k.test("==", e.zext(k.load(page, here(), I8), I64), byte)

    look(WORD, has_it)
    look(1, is_it)
    k.ret(at.get())


# -- the kernel's handler ------------------------------------------------------------------------------------
def emit(module: Module) -> ir.Function:
    """`skip_iterations`, a handler whose first operand is the number of a site."""
    skipped = skip.build(module, DeviceCode)
    # large and rare: in the kernel's loop they would cost all handlers registers and instruction cache
    skipped.attributes.add("noinline")
    f = DeviceFunction(module, "skip_iterations")
    f.fn.attributes.add("noinline")
    e = f.e
    params = pointer(e, f.parameters())
    site = pointer(e, e.add(e.load_at(params, 8 * Param.SITES, I64), e.mul(f.operands[0], c(SITE_BYTES))))
    mine = e.at(f.state, SCRATCH)
    with e.repeat(e.udiv(e.add(e.load_at(site, plan.LENGTH, I64), c(3)), c(4))) as i:
        places = [e.add(e.shl(i, c(5)), c(half)) for half in (0, 16)]
        pairs = [e.load_at(site, at, ir.VectorType(I64, 2), align=16) for at in places]
        for pair, at in zip(pairs, places, strict=True):
            e.store_at(pair, mine, at, align=16)
    iterations = e.call(skipped, [e.addrspacecast(f.registers, PTR), mine, f.budget])
    any_ = e.zext(e.icmp_unsigned("!=", iterations, c(0)), I64)
    for place, by in ((plan.ENTRIES, c(1)), (plan.SKIPS, any_), (plan.ITERATIONS, iterations)):
        e.atomic_rmw("add", e.at(site, place), by, "monotonic")
    spent = e.mul(iterations, e.load_at(mine, plan.COST, I64))
    f.go_on(e.load_at(mine, plan.HEAD, I64), e.sub(f.budget, spent))
    return f.fn
