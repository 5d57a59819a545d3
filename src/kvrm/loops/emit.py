"""Structured control flow for the functions that skip iterations, and what each target has of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from llvmlite import ir

from kvrm.memory import PAGE, VA_BITS
from kvrm.staging.emitter import I64, Emitter

UNTAGGED = (1 << 56) - 1
Operand: TypeAlias = "ir.Value | int"
Place: TypeAlias = "tuple[ir.Value, ir.Value]"
"""A page, and an offset in it."""


class Span(NamedTuple):
    """`size` bytes from `address` on, and as many in each of `count` - 1 steps further."""

    address: ir.Value
    step: ir.Value
    size: ir.Value
    count: ir.Value


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
        return self._e.load(self._place, typ=I64)

    def set(self, value: Operand) -> None:
        self._e.store(c(value) if isinstance(value, int) else value, self._place)


class Code:
    """A C function under construction: `result (state, site, ...)`, all of 64 bits but the pointers.

    The methods at its end are what each target has of its own. They know a *page* of the guest's memory by a
    value of 64 bits, and what is in it by its offset there.
    """

    claims = False
    """Whether a lane must get pages of its own before it stores to them; else they are its own already."""

    def __init__(self, module: ir.Module, name: str, arguments: Sequence[ir.Type]) -> None:
        self.fn = ir.Function(module, ir.FunctionType(I64, list(arguments)), name)
        self.fn.linkage = "internal"
        entry, body = self.fn.append_basic_block("entry"), self.fn.append_basic_block("body")
        Emitter(entry).branch(body)
        self.e = Emitter(body)

    # -- control ---------------------------------------------------------------------------------------------
    def ret(self, value: Operand) -> None:
        self.e.ret(c(value) if isinstance(value, int) else value)

    def ret_if(self, condition: ir.Value, value: Operand) -> None:
        """Return under a condition."""
        with self.e.if_then(condition):
            self.ret(value)

    @contextmanager
    def loop(self, condition: Callable[[], ir.Value]) -> Iterator[ir.Block]:
        """While a condition holds; gives the block after it, to leave by."""
        e = self.e
        test, body, done = (e.append_basic_block(name) for name in ("test", "iteration", "done"))
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
        return Variable(self, value)

    def word(self, base: ir.Value, offset: Operand, t: ir.Type = I64) -> ir.Value:
        """What is stored `offset` bytes after `base`."""
        return self.e.load_at(base, offset, t)

    def put(self, value: Operand, base: ir.Value, offset: Operand) -> None:
        """Store 64 bits."""
        self.e.store_at(c(value) if isinstance(value, int) else value, base, offset)

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

    # -- addresses -------------------------------------------------------------------------------------------
    def within(self, address: ir.Value) -> ir.Value:
        """How far into its page an address is."""
        return self.e.and_(address, c(PAGE - 1))

    def room(self, address: ir.Value) -> ir.Value:
        """Bytes from an address to the end of its page."""
        return self.e.sub(c(PAGE), self.within(address))

    def untagged(self, address: ir.Value) -> ir.Value:
        """Without the top byte."""
        return self.e.and_(address, c(UNTAGGED))

    def outside(self, address: ir.Value) -> ir.Value:
        """Whether an untagged address is in no page."""
        return self.test(">=", address, 1 << VA_BITS)

    # -- what each target has of its own ---------------------------------------------------------------------
    def register(self, state: ir.Value, offset: ir.Value) -> ir.Value:
        """The host address of a register that may be a SIMD register."""
        raise NotImplementedError

    def refused(
        self, state: ir.Value, address: ir.Value, asked: ir.Value, wanted: ir.Value, new: Variable
    ) -> ir.Value:
        """Whether the page of an untagged address that is in range may not be accessed.

        The `asked` bits of its permissions must be the `wanted` ones. `new` counts pages that the lane must
        get of its own for that.
        """
        raise NotImplementedError

    def unowned(self, state: ir.Value, span: Span) -> ir.Value:
        """How many pages a lane still must get to store there (only if it `claims`)."""
        raise NotImplementedError

    def own(self, state: ir.Value, span: Span) -> ir.Value:
        """Get these pages; 1 if the lane has them all now (only if it `claims`)."""
        raise NotImplementedError

    def pages_left(self, state: ir.Value) -> ir.Value:
        """How many pages the lane may get (only if it `claims`)."""
        raise NotImplementedError

    def page(self, state: ir.Value, address: ir.Value) -> ir.Value:
        """The page of an address, which may be accessed."""
        raise NotImplementedError

    def local(self, buffer: ir.Value) -> ir.Value:
        """A place of the site, as a page."""
        raise NotImplementedError

    def load(self, page: ir.Value, offset: ir.Value, t: ir.IntType) -> ir.Value:
        """What is in a page."""
        raise NotImplementedError

    def store(self, value: ir.Value, page: ir.Value, offset: ir.Value) -> None:
        """Store to a page of guest memory."""
        raise NotImplementedError

    def move(self, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """Copy bytes between the state and the site."""
        raise NotImplementedError

    def carry(self, target: Place, source: Place, size: ir.Value, down: bool) -> None:
        """Copy bytes between two pages, which may be one: from the last byte on, if it goes down."""
        raise NotImplementedError

    def tile(self, target: Place, size: ir.Value, buffer: Place, period: ir.Value) -> None:
        """Store what is in the buffer, from a place in its first period on, again and again."""
        raise NotImplementedError

    def find(self, page: ir.Value, offset: ir.Value, byte: ir.Value, count: ir.Value) -> ir.Value:
        """How many bytes are before the first that is that one, `count` if none is."""
        raise NotImplementedError

    def gathered(self, state: ir.Value, to: ir.Value, address: ir.Value, size: ir.Value) -> None:
        """Copy guest bytes that may lie on two pages to the host address `to`."""
        raise NotImplementedError

    def scattered(self, state: ir.Value, address: ir.Value, source: ir.Value, size: ir.Value) -> None:
        """Copy bytes from the host address `source` to guest memory, on one page or two."""
        raise NotImplementedError
