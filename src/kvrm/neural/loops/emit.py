"""Structured control flow and guest memory for the functions that skip turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from llvmlite import ir

from kvrm.engine.emitter import I32, I64, PTR, Emitter
from kvrm.engine.interpreter.abi import Callee
from kvrm.machine import state as layout
from kvrm.memory import PAGE, VA_BITS
from kvrm.neural.loops.plan import FIND, MOVE

UNTAGGED = (1 << 56) - 1
_MEMMOVE = ir.FunctionType(PTR, [PTR, PTR, I64])
_MEMCHR = ir.FunctionType(PTR, [PTR, I32, I64])
Operand: TypeAlias = "ir.Value | int"


def c(value: int) -> ir.Constant:
    """64 bits."""
    return ir.Constant(I64, value & (1 << 64) - 1)


class Variable:
    """A 64-bit variable of a function."""

    def __init__(self, code: Code, value: Operand) -> None:
        self._e = code.e
        with code.e.goto_entry_block():
            self._place = code.e.alloca(I64)
        self.set(value)

    def get(self) -> ir.Value:
        """Its value."""
        return self._e.load(self._place, typ=I64)

    def set(self, value: Operand) -> None:
        """Assign."""
        self._e.store(c(value) if isinstance(value, int) else value, self._place)


class Code:
    """A C function under construction: `result (state, site, ...)`, all of 64 bits but the pointers."""

    def __init__(self, module: ir.Module, name: str, arguments: list[ir.Type]) -> None:
        self.fn = ir.Function(module, ir.FunctionType(I64, arguments), name)
        self.fn.linkage = "internal"
        self._site = self.fn.args[1]
        entry, body = self.fn.append_basic_block("entry"), self.fn.append_basic_block("body")
        Emitter(entry).branch(body)
        self.e = Emitter(body)

    # -- control ---------------------------------------------------------------------------------------------
    def ret(self, value: Operand) -> None:
        """Return."""
        self.e.ret(c(value) if isinstance(value, int) else value)

    def ret_if(self, condition: ir.Value, value: Operand) -> None:
        """Return under a condition."""
        with self.e.if_then(condition):
            self.ret(value)

    @contextmanager
    def loop(self, condition: Callable[[], ir.Value]) -> Iterator[ir.Block]:
        """While a condition holds; gives the block behind it, to leave by."""
        e = self.e
        test, body, done = (e.append_basic_block(name) for name in ("test", "turn", "done"))
        e.branch(test)
        e.position_at_end(test)
        e.cbranch(condition(), body, done)
        e.position_at_end(body)
        yield done
        if not e.block.is_terminated:
            e.branch(test)
        e.position_at_end(done)

    @contextmanager
    def rows(self, site: ir.Value, table: int, size: int) -> Iterator[ir.Value]:
        """For each row of a table of the site; gives its address."""
        e = self.e
        first = e.at(site, self.word(site, table))
        with e.repeat(self.word(site, table + 8)) as i:
            yield e.at(first, e.mul(i, c(size)))

    # -- values ----------------------------------------------------------------------------------------------
    def variable(self, value: Operand) -> Variable:
        """A new variable."""
        return Variable(self, value)

    def word(self, base: ir.Value, offset: Operand, t: ir.Type = I64) -> ir.Value:
        """What is stored `offset` bytes behind `base`."""
        return self.e.load_at(base, offset, t, align=1)

    def put(self, value: Operand, base: ir.Value, offset: Operand) -> None:
        """Store 64 bits."""
        self.e.store_at(c(value) if isinstance(value, int) else value, base, offset, align=1)

    def test(self, op: str, a: ir.Value, b: Operand) -> ir.Value:
        """Compare, unsigned."""
        return self.e.icmp_unsigned(op, a, c(b) if isinstance(b, int) else b)

    def least(self, a: ir.Value, b: Operand) -> ir.Value:
        """The smaller one, unsigned."""
        return self.e.intrinsic("umin", I64, a, c(b) if isinstance(b, int) else b)

    def greatest(self, a: ir.Value, b: Operand) -> ir.Value:
        """The greater one, unsigned."""
        return self.e.intrinsic("umax", I64, a, c(b) if isinstance(b, int) else b)

    def distance(self, a: ir.Value) -> ir.Value:
        """Absolute value of a signed number."""
        return self.e.intrinsic("abs", I64, a, Emitter.false)

    def negative(self, a: ir.Value) -> ir.Value:
        """Whether a signed number is."""
        return self.e.icmp_signed("<", a, c(0))

    # -- guest memory ----------------------------------------------------------------------------------------
    def entry(self, state: ir.Value, address: ir.Value) -> ir.Value:
        """The page table entry of an address that has no tag and is in range."""
        table = self.word(state, layout.PAGE_TABLE, PTR)
        return self.word(table, self.e.shl(self.e.lshr(address, c(12)), c(3)))

    def host(self, state: ir.Value, address: ir.Value) -> ir.Value:
        """The host address of a guest byte whose page is filled."""
        e = self.e
        page = e.and_(self.entry(state, address), c(-PAGE))
        return e.inttoptr(e.or_(page, e.and_(address, c(PAGE - 1))), PTR)

    def room(self, address: ir.Value) -> ir.Value:
        """Bytes from an address to the end of its page."""
        return self.e.sub(c(PAGE), self.e.and_(address, c(PAGE - 1)))

    def untagged(self, address: ir.Value) -> ir.Value:
        """Without the top byte."""
        return self.e.and_(address, c(UNTAGGED))

    def outside(self, address: ir.Value) -> ir.Value:
        """Whether an untagged address is in no page."""
        return self.test(">=", address, 1 << VA_BITS)

    def move(self, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """Copy bytes, of places that may overlap."""
        function = Callee(self.word(self._site, MOVE, PTR), _MEMMOVE)
        self.e.call(function, [target, source, size])

    def find(self, start: ir.Value, byte: ir.Value, size: ir.Value) -> ir.Value:
        """Where a byte first is; the null pointer if nowhere."""
        function = Callee(self.word(self._site, FIND, PTR), _MEMCHR)
        return self.e.call(function, [start, self.e.trunc(byte, I32), size])

    def gathered(self, state: ir.Value, to: ir.Value, address: ir.Value, size: ir.Value) -> None:
        """Copy guest bytes that may lie on two pages to the host address `to`."""
        e = self.e
        head = self.least(size, self.room(address))
        self.move(to, self.host(state, address), head)
        with e.if_then(self.test("!=", head, size), likely=False):
            rest = self.host(state, e.add(address, head))
            self.move(e.at(to, head), rest, e.sub(size, head))

    def scattered(self, state: ir.Value, address: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """Copy bytes from the host address `source` to guest memory, on one page or two."""
        e = self.e
        head = self.least(size, self.room(address))
        self.move(self.host(state, address), source, head)
        with e.if_then(self.test("!=", head, size), likely=False):
            rest = self.host(state, e.add(address, head))
            self.move(rest, e.at(source, head), e.sub(size, head))
