"""What instructions of a region act on: LLVM values, registers and flags in SSA, pages by permission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from kvrm.engine.nodes import RunNode
from kvrm.engine.translator.deferred import Deferred
from kvrm.engine.translator.lazy_flags import signed_less
from kvrm.engine.translator.linear import linear
from kvrm.engine.translator.page_sites import Accesses
from kvrm.engine.translator.registers import Registers
from kvrm.engine.translator.shapes import shaped
from kvrm.isa.context import Context, Flags, System
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.staging.emitter import I64, constant, i64, integer
from kvrm.values import Bits, Lift, Node, Primitive, StagingError, bits


class RegionValues(Context):
    """The context of a region's instructions. Where they are in it, the stage says that derives from this."""

    level = 2
    e: Any
    state: ir.Value
    _deferred: Deferred
    registers: Registers
    accesses: Accesses
    present: int
    """The address of the instruction that is being emitted."""
    _left: ir.Value
    """Of the budget, when the block that runs began; `_retired` instructions have since."""

    def __init__(self) -> None:
        super().__init__()
        self.present = self._retired = 0
        self.next: tuple[Bits, Bits | None] | None = None
        self._aligned: set[tuple[tuple[tuple[int, int], ...], int]] = set()

    def leave_plain(self) -> None:
        """Have the interpreter run the present instruction."""
        raise NotImplementedError

    # -- values ----------------------------------------------------------------------------------------------
    def apply(
        self, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> Node:
        if row.name == "xor" and width == 1 and lanes == 1 and (pair := signed_less(*args)) is not None:
            less = self.e.icmp_signed("<", *(self.value(b) for b in pair))
            return RunNode(self, less)
        if (same := shaped(row, width, args)) is not None:
            if (same.width, same.lanes) == (width, lanes) and isinstance(same.payload, Node):
                return same.payload
            args = [same]
        node = self._deferred.apply(self, row, width, lanes, args, attrs)
        if node is not None:
            return node
        values = [self.value(a) for a in args]
        return RunNode(self, row.emit(self.e, integer(width, lanes), *values, *attrs), row.name, args)

    def value(self, b: Bits) -> ir.Value:
        p = b.payload
        if self._deferred.holds(b):
            self._deferred.settle()
        return p.value if isinstance(p, RunNode) else constant(integer(b.width, b.lanes), p)

    def wrap(self, value: ir.Value, width: int) -> Bits:
        return Bits(width, RunNode(self, value))

    # -- the machine -----------------------------------------------------------------------------------------
    @property
    def pc(self) -> Bits:
        return bits(64, self.present)

    @property
    def fpcr(self) -> int:
        """Zero: the region is entered only then, and ends before the register changes."""
        return 0

    @property
    def retired(self) -> Bits:
        """Horizon minus what is left of the budget."""
        e = self.e
        horizon = e.load_at(self.state, layout.HORIZON, I64)
        return self.wrap(e.sub(horizon, e.sub(self._left, i64(self._retired))), 64)

    def read_x(self, r: Bits, n: int, sp: bool) -> Bits:
        number = int(r)
        if number == 31 and not sp:
            return bits(n, 0)
        return self.registers.x(layout.SP if number == 31 else number).trunc(n)

    def write_x(self, r: Bits, value: Bits, sp: bool) -> None:
        number = int(r)
        if number != 31 or sp:
            self.registers.set_x(layout.SP if number == 31 else number, value)

    def read_v(self, r: Bits, n: int) -> Bits:
        return self.registers.v(int(r)).trunc(n)

    def write_v(self, r: Bits, value: Bits) -> None:
        self.registers.set_v(int(r), value)

    def read_flags(self) -> Flags:
        return self.registers.flags

    def write_flags(self, nzcv: Flags) -> None:
        self.registers.flags = nzcv

    def read_system(self, register: System) -> Bits:
        return self.wrap(self.e.load_at(self.state, layout.SYSTEM_OFFSET + 8 * register, I64), 64)

    def write_system(self, register: System, value: Bits) -> None:
        self.e.store_at(self.value(value), self.state, layout.SYSTEM_OFFSET + 8 * register)

    # -- memory ----------------------------------------------------------------------------------------------
    def require_aligned(self, address: Bits, size: int, store: bool) -> None:
        """The interpreter tells of what is not."""
        if size > 1:
            self._deferred.settle()
            with self.e.if_then(self.value((address & (size - 1)).ne(0)), likely=False):
                self.leave_plain()

    def require_sp_aligned(self, r: Bits, address: Bits) -> None:
        """The interpreter tells of it. Where SP was right in a block, it is 16 bytes further too."""
        if int(r) != 31:
            return
        form = linear(address, self.registers.origin)
        if form is None:
            self.require_aligned(address, 16, store=False)
            return
        known = form.terms, form.constant % 16
        if known not in self._aligned:
            self.require_aligned(address, 16, store=False)
            self._aligned.add(known)

    def branch(self, target: Bits, condition: Bits | None = None) -> None:
        """Noted; the block ends with it."""
        self.next = (target, condition)

    def event(self, event: Reason, value: Lift = 0) -> None:
        """Blocks end before instructions that have one."""
        raise StagingError(f"{event.name} inside a region")
