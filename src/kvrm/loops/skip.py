"""The function that skips iterations, the same for all targets except for `kvrm.loops.emit`.

It decides from registers, budget and permissions how many iterations can be skipped at this entry, and has
the effect of these iterations. The words of a site are in `kvrm.loops.plan`.
"""

from __future__ import annotations

from llvmlite import ir

from kvrm.loops import plan
from kvrm.loops.bulk import Bulk
from kvrm.loops.emit import Code, c
from kvrm.loops.plan import WORD
from kvrm.loops.structure import Effect
from kvrm.memory import PAGE, VA_BITS
from kvrm.staging.emitter import I64, PTR

MOST_ITERATIONS = 1 << 24
"""Iterations that are skipped at once, at most: no product with a step that is allowed overflows."""
MOST_STEP = 1 << 38


def build(module: ir.Module, code: type[Code]) -> ir.Function:
    """`skipped(state, site, budget)`: skip iterations; how many, 0 if not worth it or not allowed."""
    form = _form(module, code)
    iterations = _iterations(module, code, form)
    permitted = _permitted(module, code)
    return _skipped(module, code, form, iterations, permitted)


def _form(module: ir.Module, code: type[Code]) -> ir.Function:
    """`form(state, site, at)`: the value of a sum."""
    k = code(module, "form", [PTR, PTR, I64])
    state, site, at = k.fn.args
    e, row = k.e, k.e.at(site, at)
    total = k.variable(k.word(row, WORD))
    with e.repeat(k.word(row, 0)) as i:
        term = e.at(row, e.add(c(2 * WORD), e.mul(i, c(plan.TERM_ROW))))
        register = k.word(state, k.word(term, 0))
        narrow = e.and_(e.add(register, k.word(term, WORD)), k.word(term, 2 * WORD))
        sign = k.word(term, 3 * WORD)
        value = e.sub(e.xor(narrow, sign), sign)
        total.set(e.add(total.get(), e.mul(value, k.word(term, 4 * WORD))))
    k.ret(total.get())
    return k.fn


def _iterations(module: ir.Module, code: type[Code], form: ir.Function) -> ir.Function:
    """`iterations(state, site, interval)`: how long the distance surely stays in the interval."""
    k = code(module, "iterations", [PTR, PTR, PTR])
    state, site, row = k.fn.args
    e = k.e
    distance, length, step = (e.call(form, [state, site, k.word(row, WORD * i)]) for i in range(3))
    mask, shift = k.word(row, 3 * WORD), k.word(row, 4 * WORD)
    distance, length = e.and_(distance, mask), e.and_(length, mask)
    step = e.ashr(e.shl(step, shift), shift)
    empty = e.and_(k.test("!=", k.word(row, 5 * WORD), 0), k.test("==", length, mask))
    k.ret_if(e.or_(empty, k.test(">", distance, length)), 0)
    k.ret_if(k.test("==", step, 0), MOST_ITERATIONS)
    ahead = e.select(k.negative(step), distance, e.sub(length, distance))
    whole = e.udiv(ahead, k.distance(step))
    k.ret(e.add(k.least(whole, MOST_ITERATIONS - 1), c(1)))
    return k.fn


def _permitted(module: ir.Module, code: type[Code]) -> ir.Function:
    """`permitted(state, address, step, size, iterations, asked, wanted)`: how many iterations may access.

    At most `iterations` + 1; the `asked` bits of a page must be the `wanted` ones.
    """
    k = code(module, "permitted", [PTR, *[I64] * 6])
    state, address, step, size, iterations, asked, wanted = k.fn.args
    e, new = k.e, k.variable(0)

    def denied(place: ir.Value) -> ir.Value:
        return k.refused(state, place, asked, wanted, new)

    end, travel = e.add(address, size), e.mul(iterations, k.distance(step))
    k.ret_if(k.outside(address), 0)
    page = e.and_(address, c(-PAGE))
    up = e.select(k.negative(step), end, e.add(end, travel))
    high = k.variable(page)
    goal = k.least(up, 1 << VA_BITS)
    with k.loop(lambda: k.test("<", high.get(), goal)) as done:
        with e.if_then(denied(high.get())):
            e.branch(done)
        high.set(e.add(high.get(), c(PAGE)))
    reached = k.least(high.get(), up)
    k.ret_if(k.test("<", reached, end), 0)
    k.ret_if(k.test("==", step, 0), e.add(iterations, c(1)))
    with e.if_then(e.not_(k.negative(step))):
        k.ret(e.add(e.udiv(e.sub(reached, end), step), c(1)))
    down = e.sub(address, k.least(travel, address))
    low = k.variable(page)
    with k.loop(lambda: k.test(">", low.get(), down)) as done:
        with e.if_then(denied(e.sub(low.get(), c(PAGE)))):
            e.branch(done)
        low.set(e.sub(low.get(), c(PAGE)))
    k.ret(e.add(e.udiv(e.sub(address, k.greatest(low.get(), down)), k.distance(step)), c(1)))
    return k.fn


def _skipped(
    module: ir.Module, code: type[Code], form: ir.Function, iterations: ir.Function, permitted: ir.Function
) -> ir.Function:
    bulk = Bulk(module, code, form)
    k = code(module, "skipped", [PTR, PTR, I64])
    state, site, budget = k.fn.args
    e, fewest = k.e, k.word(site, plan.LEAST)
    affordable = e.udiv(budget, k.word(site, plan.COST))
    k.ret_if(k.test("<=", affordable, fewest), 0)
    count = k.variable(k.least(e.sub(affordable, c(1)), MOST_ITERATIONS))

    def limit(most: ir.Value) -> None:
        count.set(k.least(count.get(), most))
        k.ret_if(k.test("<", count.get(), fewest), 0)

    leaves = k.word(site, plan.EXIT)
    with e.if_then(k.test("!=", leaves, 0)):
        limit(e.call(iterations, [state, site, e.at(site, leaves)]))
    with k.rows(site, plan.GUARDS, plan.INTERVAL_ROW) as row:
        inside = e.call(iterations, [state, site, row])
        limit(e.sub(inside, k.least(inside, 1)))
    with k.rows(site, plan.STREAMS, plan.STREAM_ROW) as row:
        address = k.untagged(e.call(form, [state, site, k.word(row, 0)]))
        step = e.call(form, [state, site, k.word(row, WORD)])
        k.put(address, row, plan.STREAM_ADDRESS)
        k.put(step, row, plan.STREAM_STEP)
        k.ret_if(k.test(">=", k.distance(step), MOST_STEP), 0)
        with e.if_then(k.test("!=", k.word(site, plan.EFFECT), Effect.SEARCH)):
            before = k.word(row, 5 * WORD)
            start = e.sub(address, e.mul(before, step))
            size, asked, wanted = (k.word(row, WORD * i) for i in (2, 3, 4))
            most = e.call(
                permitted, [state, k.untagged(start), step, size, e.add(count.get(), before), asked, wanted]
            )
            taken = e.add(before, c(1))
            limit(e.sub(most, k.least(most, taken)))
    done = bulk.emit(k, state, site, count.get())
    k.ret_if(k.test("<", done, 1), 0)
    with k.rows(site, plan.MOVING, plan.MOVING_ROW) as row:
        place, mask = k.word(row, 0), k.word(row, WORD)
        step = e.call(form, [state, site, k.word(row, 2 * WORD)])
        k.put(e.and_(e.add(k.word(state, place), e.mul(step, done)), mask), state, place)
    k.ret(done)
    return k.fn
