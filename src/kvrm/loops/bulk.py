"""The effects of many iterations at once: fills, copies, reductions and searches, on any target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from llvmlite import ir

from kvrm.loops import plan
from kvrm.loops.effects import Operation
from kvrm.loops.emit import Code, Place, Span, Variable, c
from kvrm.loops.plan import WORD
from kvrm.loops.structure import Effect
from kvrm.memory import PAGE
from kvrm.staging.emitter import I64, PTR

SIZES = (1, 2, 4, 8)
MOST_SEARCHED = 1 << 20


class Bulk:
    """Functions `(state, site, iterations)` that have the effect of at most that many, and say of how many.

    Where that is 0 nothing has happened. Streams have their addresses and steps, and are permitted for all
    these iterations and one more; a search checks permissions itself.
    """

    def __init__(self, module: ir.Module, code: type[Code], form: ir.Function) -> None:
        self._module, self._make, self._form = module, code, form
        self._functions = {
            Effect.FILL: self._fill(),
            Effect.COPY: self._copy(),
            Effect.REDUCTION: self._reduction(),
            Effect.SEARCH: self._search(),
        }

    def emit(self, k: Code, state: ir.Value, site: ir.Value, iterations: ir.Value) -> ir.Value:
        """Call the one of the site's effect."""
        done = k.variable(iterations)
        for effect, function in self._functions.items():
            with k.e.if_then(k.test("==", k.word(site, plan.EFFECT), effect)):
                done.set(k.e.call(function, [state, site, iterations]))
        return done.get()

    def _code(self, name: str, *more: ir.Type) -> Code:
        return self._make(self._module, name, [PTR, PTR, I64, *more])

    def _claim(self, k: Code, state: ir.Value, spans: Callable[[], AbstractContextManager[Span]]) -> None:
        """Have the lane own what it will store to, or return 0.

        It gets pages that plain execution would store to as well, and only if it may have all of them.
        """
        if not k.claims:
            return
        wanted = k.variable(0)
        with spans() as span:
            k.ret_if(k.test(">", k.distance(span.step), PAGE), 0)
            wanted.set(k.e.add(wanted.get(), k.unowned(state, span)))
        k.ret_if(k.test(">", wanted.get(), k.pages_left(state)), 0)
        with spans() as span:
            k.ret_if(k.test("==", k.own(state, span), 0), 0)

    # -- fills -----------------------------------------------------------------------------------------------
    def _fill(self) -> ir.Function:
        k = self._code("fill")
        state, site, iterations = k.fn.args
        e = k.e
        with k.rows(site, plan.PAIRS, plan.PAIR_ROW) as row:
            one, other = (self._span(k, e.at(site, k.word(row, WORD * i)), iterations) for i in range(2))
            meet = e.and_(k.test("<", one[0], other[1]), k.test("<", other[0], one[1]))
            k.ret_if(meet, 0)
        with k.rows(site, plan.PARTS, plan.FILL_ROW) as row:
            step = k.word(e.at(site, k.word(row, 0)), plan.STREAM_STEP)
            k.ret_if(k.test("<", k.distance(step), k.word(row, 4 * WORD)), 0)

        @contextmanager
        def stores() -> Iterator[Span]:
            with k.rows(site, plan.PARTS, plan.FILL_ROW) as row:
                place, step = self._begin(k, site, row)
                yield Span(place, step, k.word(row, 2 * WORD), iterations)

        self._claim(k, state, stores)
        with k.rows(site, plan.MORE, plan.GATHER_ROW) as row:
            to, offset, size = (k.word(row, WORD * i) for i in range(3))
            k.move(e.at(site, to), k.register(state, offset), size)
        period = k.word(site, plan.PERIOD)
        with e.if_then(k.test("!=", period, 0)):
            k.ret(e.call(self._pattern(), [state, site, iterations]))
        with k.rows(site, plan.PARTS, plan.FILL_ROW) as row:
            e.call(self._strided(), [state, site, iterations, row])
        k.ret(iterations)
        return k.fn

    def _begin(self, k: Code, site: ir.Value, row: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where the accesses of a part begin, and their step."""
        stream = k.e.at(site, k.word(row, 0))
        place = k.e.add(k.word(stream, plan.STREAM_ADDRESS), k.word(row, WORD))
        return place, k.word(stream, plan.STREAM_STEP)

    def _span(self, k: Code, stream: ir.Value, iterations: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first byte of a stream in iterations 0 to `iterations`, and the one after the last."""
        e = k.e
        address, step = k.word(stream, plan.STREAM_ADDRESS), k.word(stream, plan.STREAM_STEP)
        travel = e.mul(iterations, step)
        low = e.select(k.negative(step), e.add(address, travel), address)
        high = e.select(k.negative(step), address, e.add(address, travel))
        return low, e.add(high, k.word(stream, 2 * WORD))

    def _pattern(self) -> ir.Function:
        """Bytes that repeat, without gaps: what an iteration stores is spread over two periods first."""
        k = self._code("pattern")
        state, site, iterations = k.fn.args
        e = k.e
        period, buffer = k.word(site, plan.PERIOD), e.at(site, k.word(site, plan.BUFFER))
        stream = e.at(site, k.word(e.at(site, k.word(site, plan.PARTS)), 0))
        address, step = k.word(stream, plan.STREAM_ADDRESS), k.word(stream, plan.STREAM_STEP)
        iteration = k.distance(step)
        spread = k.variable(iteration)
        with k.loop(lambda: k.test("<", spread.get(), e.add(period, period))):
            k.move(e.at(buffer, spread.get()), buffer, iteration)
            spread.set(e.add(spread.get(), iteration))
        back = e.mul(e.sub(iterations, c(1)), iteration)
        start = e.select(k.negative(step), e.sub(address, back), address)
        end = e.add(start, e.mul(iterations, iteration))
        place = k.variable(start)
        with k.loop(lambda: k.test("<", place.get(), end)):
            size = k.least(k.room(place.get()), e.sub(end, place.get()))
            source = k.local(buffer), e.urem(e.sub(place.get(), start), period)
            k.tile((k.page(state, place.get()), k.within(place.get())), size, source, period)
            place.set(e.add(place.get(), size))
        k.ret(iterations)
        return k.fn

    def _strided(self) -> ir.Function:
        """One store, iteration by iteration."""
        k = self._code("strided", PTR)
        state, site, iterations, row = k.fn.args
        e = k.e
        size, source = k.word(row, 2 * WORD), e.at(site, k.word(row, 3 * WORD))
        place, step = self._begin(k, site, row)
        for bits in (8, 16, 32, 64, 128):
            with e.if_then(k.test("==", size, bits // 8)):
                value = e.load_at(source, 0, ir.IntType(bits), align=min(bits // 8, WORD))
                self._store_each(k, state, Span(place, step, size, iterations), source, value)
                k.ret(0)
        with e.repeat(iterations) as i:
            k.scattered(state, e.add(place, e.mul(i, step)), source, size)
        k.ret(0)
        return k.fn

    def _store_each(self, k: Code, state: ir.Value, span: Span, source: ir.Value, value: ir.Value) -> None:
        e, place, left = k.e, k.variable(span.address), k.variable(span.count)
        with k.loop(lambda: k.test("!=", left.get(), 0)):
            here = k.least(left.get(), self._here(k, place.get(), span.step, span.size))
            straddles = k.test("==", here, 0)
            with e.if_else(straddles, likely=False) as (then, otherwise):
                with then:
                    k.scattered(state, place.get(), source, span.size)
                with otherwise:
                    page, offset = k.page(state, place.get()), k.within(place.get())
                    with e.repeat(here) as i:
                        k.store(value, page, e.add(offset, e.mul(i, span.step)))
            count = e.select(straddles, c(1), here)
            place.set(e.add(place.get(), e.mul(count, span.step)))
            left.set(e.sub(left.get(), count))

    # -- copies ----------------------------------------------------------------------------------------------
    def _copy(self) -> ir.Function:
        k = self._code("copy")
        state, site, iterations = k.fn.args
        e = k.e
        row = e.at(site, k.word(site, plan.PARTS))
        source, target = (e.at(site, k.word(row, WORD * i)) for i in range(2))
        block, ways = k.word(row, 3 * WORD), k.word(row, 4 * WORD)
        base, step = k.word(source, plan.STREAM_ADDRESS), k.word(source, plan.STREAM_STEP)
        k.ret_if(e.not_(self._all_held(k, state, site, base)), 0)
        a = e.add(base, k.word(row, 2 * WORD))
        b = k.word(target, plan.STREAM_ADDRESS)
        size, backwards = e.mul(iterations, block), k.negative(step)
        low = [e.select(backwards, e.sub(x, e.sub(size, block)), x) for x in (a, b)]
        reach = e.add(size, block)
        first = e.select(backwards, e.sub(low[0], block), low[0])
        apart = e.or_(k.test(">=", low[1], e.add(first, reach)), k.test("<=", e.add(low[1], size), first))
        up = e.and_(k.test("!=", e.and_(ways, c(1)), 0), k.test("<=", b, a))
        down = e.and_(k.test("!=", e.and_(ways, c(2)), 0), k.test(">=", b, a))
        k.ret_if(e.not_(e.or_(apart, e.select(backwards, down, up))), 0)

        @contextmanager
        def stores() -> Iterator[Span]:
            yield Span(b, step, block, iterations)

        self._claim(k, state, stores)
        with e.if_else(backwards) as (then, otherwise):
            with then:
                self._move_down(k, state, e.add(low[0], size), e.add(low[1], size), size)
            with otherwise:
                self._move_up(k, state, low[0], low[1], size)
        travelled = e.add(base, e.mul(iterations, step))
        with k.rows(site, plan.MORE, plan.HELD_ROW) as held:
            place, whole, size, apart = (k.word(held, WORD * i) for i in range(4))
            self._hold(k, state, k.register(state, place), whole, e.add(travelled, apart), size)
        k.ret(iterations)
        return k.fn

    def _all_held(self, k: Code, state: ir.Value, site: ir.Value, base: ir.Value) -> ir.Value:
        """Whether registers hold what the iteration before would have loaded."""
        e, same = k.e, k.variable(1)
        buffer = e.at(site, k.word(site, plan.BUFFER))
        with k.rows(site, plan.MORE, plan.HELD_ROW) as row:
            place, whole, size, apart = (k.word(row, WORD * i) for i in range(4))
            self._hold(k, state, buffer, c(2 * WORD), e.add(base, apart), size)
            register = k.register(state, place)
            low = k.test("==", k.word(buffer, 0), k.word(register, 0))
            high = e.or_(
                k.test("==", whole, WORD), k.test("==", k.word(buffer, WORD), k.word(register, WORD))
            )
            same.set(e.and_(same.get(), e.zext(e.and_(low, high), I64)))
        return k.test("!=", same.get(), 0)

    def _hold(
        self, k: Code, state: ir.Value, to: ir.Value, whole: ir.Value, address: ir.Value, size: ir.Value
    ) -> None:
        """Load `size` guest bytes to `whole` bytes of the host, zeros above."""
        k.put(0, to, 0)
        with k.e.if_then(k.test(">", whole, WORD)):
            k.put(0, to, WORD)
        k.gathered(state, to, address, size)

    def _move_up(self, k: Code, state: ir.Value, a: ir.Value, b: ir.Value, size: ir.Value) -> None:
        e, done = k.e, k.variable(0)
        with k.loop(lambda: k.test("<", done.get(), size)):
            source, target = e.add(a, done.get()), e.add(b, done.get())
            most = k.least(k.least(k.room(source), k.room(target)), e.sub(size, done.get()))
            self._carry(k, state, target, source, most, down=False)
            done.set(e.add(done.get(), most))

    def _move_down(self, k: Code, state: ir.Value, a: ir.Value, b: ir.Value, size: ir.Value) -> None:
        """`a` and `b` are the ends."""
        e, left = k.e, k.variable(size)
        with k.loop(lambda: k.test("!=", left.get(), 0)):
            gone = e.sub(size, left.get())
            source, target = e.sub(a, gone), e.sub(b, gone)
            rooms = [e.add(k.within(e.sub(x, c(1))), c(1)) for x in (source, target)]
            most = k.least(k.least(rooms[0], rooms[1]), left.get())
            self._carry(k, state, e.sub(target, most), e.sub(source, most), most, down=True)
            left.set(e.sub(left.get(), most))

    def _carry(
        self, k: Code, state: ir.Value, target: ir.Value, source: ir.Value, size: ir.Value, down: bool
    ) -> None:
        to, of = ((k.page(state, x), k.within(x)) for x in (target, source))
        k.carry(to, of, size, down)

    # -- reductions ------------------------------------------------------------------------------------------
    def _reduction(self) -> ir.Function:
        k = self._code("reduction")
        state, site, iterations = k.fn.args
        e = k.e
        fold = self._fold()
        with k.rows(site, plan.PARTS, plan.FOLD_ROW) as row:
            e.call(fold, [state, site, iterations, row])
        k.ret(iterations)
        return k.fn

    def _fold(self) -> ir.Function:
        """One register takes in one load of each iteration, page by page."""
        k = self._code("fold", PTR)
        state, site, iterations, row = k.fn.args
        e = k.e
        first, step = self._begin(k, site, row)
        size, kind = k.word(row, 2 * WORD), k.word(row, 3 * WORD)
        place, total = k.variable(first), k.variable(k.word(row, 4 * WORD))
        left = k.variable(iterations)
        buffer = e.at(site, k.word(site, plan.BUFFER))
        with k.loop(lambda: k.test("!=", left.get(), 0)):
            here = k.least(left.get(), self._here(k, place.get(), step, size))
            straddles = k.test("==", here, 0)
            with e.if_then(straddles, likely=False):
                k.gathered(state, buffer, place.get(), size)
            count = e.select(straddles, c(1), here)
            page = e.select(straddles, k.local(buffer), k.page(state, place.get()))
            start = page, e.select(straddles, c(0), k.within(place.get()))
            self._fold_here(k, kind, start, step, count, total)
            place.set(e.add(place.get(), e.mul(count, step)))
            left.set(e.sub(left.get(), count))
        self._take_in(k, state, row, kind, total.get())
        k.ret(0)
        return k.fn

    def _here(self, k: Code, place: ir.Value, step: ir.Value, size: ir.Value) -> ir.Value:
        """How many accesses, one after another, are wholly on the page of the first; 0 if it is not."""
        e = k.e
        offset = k.within(place)
        last = e.sub(c(PAGE), size)
        room = e.select(k.negative(step), offset, e.sub(last, offset))
        count = e.add(e.udiv(room, k.greatest(k.distance(step), 1)), c(1))
        count = e.select(k.test("==", step, 0), c(1 << 32), count)
        return e.select(k.test(">", offset, last), c(0), count)

    def _fold_here(
        self, k: Code, kind: ir.Value, start: Place, step: ir.Value, count: ir.Value, total: Variable
    ) -> None:
        e, (page, offset) = k.e, start
        for operation in Operation:
            for size in SIZES:
                for signed in (False, True):
                    wanted = size | signed << 4 | operation << 5
                    with e.if_then(k.test("==", kind, wanted)), e.repeat(count) as i:
                        value = _loaded(k, page, e.add(offset, e.mul(i, step)), size, signed)
                        total.set(_operate(k, operation, total.get(), value))

    def _take_in(self, k: Code, state: ir.Value, row: ir.Value, kind: ir.Value, total: ir.Value) -> None:
        e = k.e
        times, place, mask = (k.word(row, WORD * i) for i in (5, 6, 7))
        for operation in Operation:
            with e.if_then(k.test("==", e.lshr(kind, c(5)), operation)):
                value = _operate(k, operation, k.word(state, place), e.mul(total, times))
                k.put(e.and_(value, mask), state, place)

    # -- searches --------------------------------------------------------------------------------------------
    def _search(self) -> ir.Function:
        """Iterations whose loaded value stays in the interval; one less where a page is not permitted."""
        k = self._code("search")
        state, site, iterations = k.fn.args
        e = k.e
        row = e.at(site, k.word(site, plan.PARTS))
        stream = e.at(site, k.word(row, 0))
        size, kind, times = (k.word(row, WORD * i) for i in (2, 3, 4))
        place = k.variable(k.untagged(e.add(k.word(stream, plan.STREAM_ADDRESS), k.word(row, WORD))))
        step = k.word(stream, plan.STREAM_STEP)
        mask = k.word(row, 7 * WORD)
        rest, length = (
            e.and_(e.call(self._form, [state, site, k.word(row, WORD * i)]), mask) for i in (5, 6)
        )
        empty = e.and_(k.test("!=", k.word(row, 8 * WORD), 0), k.test("==", length, mask))
        k.ret_if(empty, 0)
        asked, wanted = k.word(stream, 3 * WORD), k.word(stream, 4 * WORD)
        done, new = k.variable(0), k.variable(0)
        with k.loop(lambda: k.test("<", done.get(), iterations)):
            here = k.least(e.sub(iterations, done.get()), self._here(k, place.get(), step, size))
            missing = e.or_(k.outside(place.get()), k.test("==", here, 0))
            k.ret_if(missing, self._but_one(k, done.get()))
            refused = k.refused(state, place.get(), asked, wanted, new)
            k.ret_if(refused, self._but_one(k, done.get()))
            start = k.page(state, place.get()), k.within(place.get())
            within = self._staying(k, kind, start, (step, here), (times, rest, length, mask))
            done.set(e.add(done.get(), within))
            k.ret_if(k.test("!=", within, here), done.get())
            place.set(k.untagged(e.add(place.get(), e.mul(here, step))))
        k.ret(self._but_one(k, done.get()))
        return k.fn

    def _but_one(self, k: Code, count: ir.Value) -> ir.Value:
        return k.e.sub(count, k.least(count, 1))

    def _staying(
        self,
        k: Code,
        kind: ir.Value,
        start: Place,
        many: tuple[ir.Value, ir.Value],
        how: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
    ) -> ir.Value:
        """How many of some values, one after another, are in the interval."""
        e = k.e
        (page, offset), (step, count) = start, many
        times, rest, length, mask = how
        found = k.variable(0)
        sought = e.and_(e.mul(e.sub(mask, rest), times), mask)
        single = e.and_(k.test("==", length, e.sub(mask, c(1))), k.test("<", sought, 256))
        bytes_ = e.and_(k.test("==", kind, 1), k.test("==", step, 1))
        with e.if_else(e.and_(single, bytes_)) as (then, otherwise):
            with then:
                found.set(k.find(page, offset, sought, count))
            with otherwise:
                for size in SIZES:
                    for signed in (False, True):
                        with e.if_then(k.test("==", kind, size | signed << 4)):

                            def stays(size: int = size, signed: bool = signed) -> ir.Value:
                                at = e.add(offset, e.mul(found.get(), step))
                                value = e.mul(_loaded(k, page, at, size, signed), times)
                                return k.test("<=", e.and_(e.add(value, rest), mask), length)

                            with k.loop(lambda: k.test("<", found.get(), count)) as done:
                                with e.if_then(e.not_(stays())):
                                    e.branch(done)
                                found.set(e.add(found.get(), c(1)))
        return found.get()


def _loaded(k: Code, page: ir.Value, offset: ir.Value, size: int, signed: bool) -> ir.Value:
    value = k.load(page, offset, ir.IntType(8 * size))
    if size == WORD:
        return value
    return (k.e.sext if signed else k.e.zext)(value, I64)


def _operate(k: Code, operation: Operation, a: ir.Value, b: ir.Value) -> ir.Value:
    emit: Callable[..., ir.Value] = {
        Operation.ADD: k.e.add,
        Operation.XOR: k.e.xor,
        Operation.OR: k.e.or_,
        Operation.AND: k.e.and_,
    }[operation]
    return emit(a, b)
