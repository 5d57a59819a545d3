"""Skipping iterations on the CPU: the handler that stands where an accepted loop begins.

It has iterations skipped and goes on with plain execution, which runs at least one whole iteration more: that
leaves flags and loaded registers as they must be.
"""

from __future__ import annotations

import functools

from llvmlite import ir

from kvrm.engine.interpreter.abi import Function
from kvrm.engine.interpreter.slots import CLASS, OPERANDS
from kvrm.loops import plan, skip
from kvrm.loops.emit import Code, Place, Variable, c
from kvrm.loops.plan import BLOCK, FIND, MOVE, WORD
from kvrm.machine import state as layout
from kvrm.memory import PAGE
from kvrm.staging import native
from kvrm.staging.emitter import I32, I64, PTR, Callee

_MEMMOVE = ir.FunctionType(PTR, [PTR, PTR, I64])
_MEMCHR = ir.FunctionType(PTR, [PTR, I32, I64])


class HostCode(Code):
    """The CPU's half: a page is the host address of its first byte, which the page table has."""

    def register(self, state: ir.Value, offset: ir.Value) -> ir.Value:
        """Where it is in the state."""
        return self.e.at(state, offset)

    def refused(
        self, state: ir.Value, address: ir.Value, asked: ir.Value, wanted: ir.Value, new: Variable
    ) -> ir.Value:
        """By the page table's entry: a page that may be written is the lane's own."""
        return self.test("!=", self.e.and_(self._entry(state, address), asked), wanted)

    def page(self, state: ir.Value, address: ir.Value) -> ir.Value:
        """From the page table."""
        return self.e.and_(self._entry(state, address), c(-PAGE))

    def local(self, buffer: ir.Value) -> ir.Value:
        """Its address."""
        return self.e.ptrtoint(buffer, I64)

    def load(self, page: ir.Value, offset: ir.Value, t: ir.IntType) -> ir.Value:
        """At any address."""
        return self.e.load_at(self._base(page), offset, t, align=1)

    def store(self, value: ir.Value, page: ir.Value, offset: ir.Value) -> None:
        """At any address."""
        self.e.store_at(value, self._base(page), offset, align=1)

    def move(self, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """By the C library; places may overlap."""
        function = Callee(self.word(self.fn.args[1], MOVE, PTR), _MEMMOVE)
        self.e.call(function, [target, source, size])

    def carry(self, target: Place, source: Place, size: ir.Value, down: bool) -> None:
        """By the C library, whatever the direction."""
        self.move(self._at(target), self._at(source), size)

    def tile(self, target: Place, size: ir.Value, buffer: Place, period: ir.Value) -> None:
        """Whole periods, then what is left."""
        e, source, to = self.e, self._at(buffer), self._at(target)
        at, block = self.variable(0), ir.VectorType(I64, BLOCK // WORD)
        value = e.load_at(source, 0, block, align=1)
        usual = self.test("==", period, BLOCK)

        def whole() -> ir.Value:
            return self.test("<=", e.add(at.get(), period), size)

        with self.loop(lambda: e.and_(usual, whole())):
            e.store_at(value, to, at.get(), align=1)
            at.set(e.add(at.get(), c(BLOCK)))
        with self.loop(whole):
            self.move(e.at(to, at.get()), source, period)
            at.set(e.add(at.get(), period))
        self.move(e.at(to, at.get()), source, e.sub(size, at.get()))

    def find(self, page: ir.Value, offset: ir.Value, byte: ir.Value, count: ir.Value) -> ir.Value:
        """By the C library."""
        e, start = self.e, self._at((page, offset))
        function = Callee(self.word(self.fn.args[1], FIND, PTR), _MEMCHR)
        at = e.call(function, [start, e.trunc(byte, I32), count])
        none = e.icmp_unsigned("==", at, ir.Constant(PTR, None))
        return e.select(none, count, e.sub(e.ptrtoint(at, I64), e.ptrtoint(start, I64)))

    def gathered(self, state: ir.Value, to: ir.Value, address: ir.Value, size: ir.Value) -> None:
        """In one piece or two."""
        e = self.e
        head = self.least(size, self.room(address))
        self.move(to, self._host(state, address), head)
        with e.if_then(self.test("!=", head, size), likely=False):
            rest = self._host(state, e.add(address, head))
            self.move(e.at(to, head), rest, e.sub(size, head))

    def scattered(self, state: ir.Value, address: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """In one piece or two."""
        e = self.e
        head = self.least(size, self.room(address))
        self.move(self._host(state, address), source, head)
        with e.if_then(self.test("!=", head, size), likely=False):
            rest = self._host(state, e.add(address, head))
            self.move(rest, e.at(source, head), e.sub(size, head))

    def _entry(self, state: ir.Value, address: ir.Value) -> ir.Value:
        table = self.word(state, layout.PAGE_TABLE, PTR)
        return self.word(table, self.e.shl(self.e.lshr(address, c(12)), c(3)))

    def _base(self, page: ir.Value) -> ir.Value:
        return self.e.inttoptr(page, PTR)

    def _at(self, place: Place) -> ir.Value:
        return self.e.at(self._base(place[0]), place[1])

    def _host(self, state: ir.Value, address: ir.Value) -> ir.Value:
        return self._at((self.page(state, address), self.within(address)))


@functools.cache
def handler() -> tuple[int, native.Loader]:
    """The address of the handler that stands in the slot of a loop's head, and what keeps it."""
    loader = native.load_kept("loops", _text)
    return loader.address("skip_iterations"), loader


def _text() -> str:
    module = ir.Module(name="loops")
    _skip(module, skip.build(module, HostCode))
    return str(module)


def _skip(module: ir.Module, skipped: ir.Function) -> None:
    """`skip_iterations`: skip what can be skipped, count it, then plain execution.

    Where that does not pay, the slot is as it was before.
    """
    f = Function(module, "skip_iterations", linkage="external")
    e = f.e
    site = e.load_at(f.ip, OPERANDS, PTR)
    head = e.load_at(site, plan.HEAD, PTR)
    iterations = e.call(skipped, [f.state, site, f.budget])

    def count(place: int, by: ir.Value) -> None:
        e.store_at(e.add(e.load_at(site, place, I64), by), site, place)

    count(plan.ENTRIES, c(1))
    any_ = e.icmp_unsigned("!=", iterations, c(0))
    count(plan.SKIPS, e.zext(any_, I64))
    count(plan.ITERATIONS, iterations)
    spent = e.mul(iterations, e.load_at(site, plan.COST, I64))
    earned = e.select(any_, e.sub(spent, c(plan.WORTH)), c(-plan.LOOK))
    credit = e.add(e.load_at(site, plan.CREDIT, I64), earned)
    credit = e.intrinsic("smin", I64, credit, c(plan.LARGEST_CREDIT))
    e.store_at(e.intrinsic("smax", I64, credit, c(0)), site, plan.CREDIT)
    with e.if_then(e.icmp_signed("<=", credit, c(0)), likely=False):
        for to, place in ((0, plan.UNDECODED), (OPERANDS, plan.PC), (CLASS, plan.CLASS_WORD)):
            e.store_at(e.load_at(site, place, I64), f.ip, to)
    f.tail(e.load_at(head, 0, PTR), head, e.sub(f.budget, spent))
