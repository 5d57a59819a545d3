"""Skipping turns on a GPU: the function that the kernel runs in place of the handler of a loop's head.

Sites are words that all lanes read (`kvrm.neural.loops.plan`). A lane copies one to memory of its own, has
turns skipped, and goes on with plain execution in a second copy of the page's slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from kvrm.engine.emitter import I1, I8, I32, I64, PTR
from kvrm.machine import state as layout
from kvrm.memory import PAGE, W_BIT
from kvrm.neural.loops import plan, skip
from kvrm.neural.loops.emit import Code, Place, Span, Variable, c
from kvrm.neural.loops.plan import WORD
from kvrm.target.cuda import memory
from kvrm.target.cuda.abi import PAGES_LEFT, SCRATCH, DeviceFunction, Module, Own, Param, lane_number, pointer
from kvrm.target.cuda.memory import CODE as EXECUTED
from kvrm.target.cuda.memory import OWN, OWN_STRIDE, PRIVATE, READ, SHARED, WRITE
from kvrm.target.cuda.skipping import SITE_BYTES

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
        last = e.add(offset, c(t.width // 8 - 1))
        low, high = (e.load(self._at(page, e.and_(at, c(-WORD))), typ=I64) for at in (offset, last))
        shift = e.shl(e.and_(offset, c(WORD - 1)), c(3))
        value = e.or_(e.lshr(low, shift), e.shl(e.shl(high, c(1)), e.sub(c(63), shift)))
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
            k.fn.attributes.add("noinline")
            build(k)
            known = k.fn
        return self.e.call(known, arguments)

    def _state(self, own: ir.Value) -> ir.Value:
        return self.word(own, Own.STATE, PTR)

    def _access(self, own: ir.Value) -> memory.Access:
        e = self.e
        root, table = (pointer(e, self.word(own, at)) for at in (Own.ROOT, Own.TABLE))
        return memory.Access(e, root, table, lane_number(e))

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


def _pages(k: DeviceCode, body: Callable[[memory.Access, ir.Value, Variable], None]) -> Variable:
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
    def look(a: memory.Access, entry: ir.Value, found: Variable) -> None:
        e = k.e
        own = a.bit(e.load_at(entry, OWN, I32))
        free = k.test("!=", e.and_(e.load_at(entry, SHARED, I64), c(PRIVATE)), 0)
        found.set(e.add(found.get(), e.zext(e.not_(e.or_(own, free)), I64)))

    k.ret(_pages(k, look).get())


def _claim(k: DeviceCode) -> None:
    def take(_: memory.Access, entry: ir.Value, found: Variable) -> None:
        e, own = k.e, k.fn.args[0]
        left = e.at(k._state(own), PAGES_LEFT)
        got = e.call(memory.own_function(k.fn.module), [k.word(own, Own.PARAMS), lane_number(e), entry, left])
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


def _parts(k: DeviceCode, offset: ir.Value, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Bytes before the first whole word, and bytes in whole words."""
    e = k.e
    head = k.least(e.and_(e.sub(c(0), offset), c(WORD - 1)), size)
    return head, e.and_(e.sub(size, head), c(-WORD))


def _carry_up(k: DeviceCode) -> None:
    page, offset, source, start, size = k.fn.args
    e = k.e
    head, words = _parts(k, offset, size)

    def carry(t: ir.IntType, done: ir.Value, count: ir.Value) -> None:
        with e.repeat(count) as i:
            at = e.add(done, e.mul(i, c(t.width // 8)))
            value = k.load(source, e.add(start, at), t)
            e.store(value, k._at(page, e.add(offset, at)))

    carry(I8, c(0), head)
    carry(I64, head, e.lshr(words, c(3)))
    done = e.add(head, words)
    carry(I8, done, e.sub(size, done))
    k.ret(0)


def _carry_down(k: DeviceCode) -> None:
    page, offset, source, start, size = k.fn.args
    e = k.e
    head, words = _parts(k, offset, size)

    def carry(t: ir.IntType, end: ir.Value, count: ir.Value) -> None:
        with e.repeat(count) as i:
            at = e.sub(end, e.mul(e.add(i, c(1)), c(t.width // 8)))
            value = k.load(source, e.add(start, at), t)
            e.store(value, k._at(page, e.add(offset, at)))

    done = e.add(head, words)
    carry(I8, size, e.sub(size, done))
    carry(I64, done, e.lshr(words, c(3)))
    carry(I8, head, head)
    k.ret(0)


def _tile(k: DeviceCode) -> None:
    page, offset, size, buffer, first, period = k.fn.args
    e, phase = k.e, k.variable(first)
    head, words = _parts(k, offset, size)

    def tile(t: ir.IntType, done: ir.Value, count: ir.Value) -> None:
        with e.repeat(count) as i:
            at, now = e.add(done, e.mul(i, c(t.width // 8))), phase.get()
            e.store(k.load(buffer, now, t), k._at(page, e.add(offset, at)))
            following = e.add(now, c(t.width // 8))
            over = k.test(">=", following, period)
            phase.set(e.select(over, e.sub(following, period), following))

    tile(I8, c(0), head)
    tile(I64, head, e.lshr(words, c(3)))
    done = e.add(head, words)
    tile(I8, done, e.sub(size, done))
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
    """`skip_turns`, a handler whose first operand is the number of a site."""
    skipped = skip.build(module, DeviceCode)
    skipped.attributes.add("noinline")
    f = DeviceFunction(module, "skip_turns")
    f.fn.attributes.add("noinline")
    e = f.e
    params = pointer(e, f.parameters())
    site = pointer(e, e.add(e.load_at(params, 8 * Param.SITES, I64), e.mul(f.operands[0], c(SITE_BYTES))))
    mine = e.at(f.state, SCRATCH)
    with e.repeat(e.load_at(site, plan.LENGTH, I64)) as i:
        at = e.shl(i, c(3))
        e.store_at(e.load_at(site, at, I64), mine, at)
    turns = e.call(skipped, [e.addrspacecast(f.registers, PTR), mine, f.budget])
    any_ = e.zext(e.icmp_unsigned("!=", turns, c(0)), I64)
    for place, by in ((plan.ENTRIES, c(1)), (plan.SKIPS, any_), (plan.TURNS, turns)):
        e.atomic_rmw("add", e.at(site, place), by, "monotonic")
    spent = e.mul(turns, e.load_at(mine, plan.COST, I64))
    f._return(e.load_at(mine, plan.HEAD, I64), e.sub(f.budget, spent))
    return f.fn
