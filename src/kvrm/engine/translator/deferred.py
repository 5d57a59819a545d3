"""Floating-point operations whose NaNs are looked for once for several of them.

The host's result is Arm's, except for a NaN. A NaN operand makes every result that depends on it one, so the
last results of a chain tell whether all of it is right. Only such operations see a result before that
is known; where it is wrong, all are computed again, the careful way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from kvrm.engine.nodes import RunNode
from kvrm.engine.translator.comparisons import ConditionEmitter
from kvrm.staging.emitter import UNLIKELY, integer
from kvrm.values import Bits, Primitive

NUMBERS = frozenset(("fadd", "fsub", "fmul", "fdiv", "fsqrt", "fmuladd"))
"""Operations that give a NaN for any NaN."""


class RegionEmitter(ConditionEmitter):
    """An emitter that can leave the rare case out, or compute both cases."""

    rare_as: Callable[[Callable[[], ir.Value], ir.Value], ir.Value] | None = None

    def rare(self, condition: ir.Value, other: Callable[[], ir.Value], value: ir.Value) -> ir.Value:
        """As a branch; or one of the two, the usual value or that of `other`, which holds in any case."""
        if self.rare_as is None:
            return super().rare(condition, other, value)
        return self.rare_as(other, value)


def _usual(other: Callable[[], ir.Value], value: ir.Value) -> ir.Value:
    return value


def _careful(other: Callable[[], ir.Value], value: ir.Value) -> ir.Value:
    return other()


@dataclass(slots=True)
class _Operation:
    """`result` is that of an operation of which this only moves bits, `covered` whether another needs it."""

    row: Primitive
    width: int
    lanes: int
    args: Sequence[Bits]
    attrs: tuple[Any, ...]
    result: RunNode | None
    covered: bool = False


class Deferred:
    """The operations of a block under construction whose results may still be wrong."""

    def __init__(self, e: RegionEmitter, value: Callable[[Bits], ir.Value]) -> None:
        self._e, self._value = e, value
        self._pending: dict[RunNode, _Operation] = {}

    def begin(self) -> None:
        """A new block: results that were not asked for are not needed."""
        self._pending.clear()

    def holds(self, b: Bits) -> bool:
        """Whether a value may still be wrong."""
        return self._waiting(b) is not None

    def _waiting(self, b: Bits) -> RunNode | None:
        p = b.payload
        return p if isinstance(p, RunNode) and p in self._pending else None

    def apply(
        self, stage: Any, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> RunNode | None:
        """The node of an operation that can wait; None for any other."""
        moved = self._waiting(args[0]) if row.name == "reshape" else None
        if moved is None and (row.name not in NUMBERS or width == 16):
            return None
        result = None if moved is None else self._pending[moved].result or moved
        op = _Operation(row, width, lanes, args, attrs, result)
        node = RunNode(stage, self._emit(op, _usual, self._present), row.name, args)
        for waiting in filter(None, map(self._waiting, args)) if moved is None else ():
            before = self._pending[waiting]
            before = before if before.result is None else self._pending[before.result]
            before.covered |= (before.width, before.lanes) == (width, lanes)
        self._pending[node] = op
        return node

    def _emit(
        self, op: _Operation, rare_as: Callable[..., ir.Value], value: Callable[[Bits], ir.Value]
    ) -> ir.Value:
        args = [value(a) for a in op.args]
        self._e.rare_as = rare_as
        out = op.row.emit(self._e, integer(op.width, op.lanes), *args, *op.attrs)
        self._e.rare_as = None
        return out

    def _present(self, b: Bits) -> ir.Value:
        node = self._waiting(b)
        return self._value(b) if node is None else node.value

    def settle(self) -> None:
        """From here on all values are right."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        e = self._e
        last = [(op, node) for node, op in pending.items() if op.result is None and not op.covered]
        wrong = self._wrong(last)
        usual, cold, after = e.block, e.append_basic_block("careful"), e.append_basic_block("usual")
        e.cbranch(wrong, cold, after).set_weights(list(UNLIKELY))
        e.position_at_end(cold)
        careful: dict[Any, ir.Value] = {}
        for node, op in pending.items():
            careful[node] = self._emit(op, _careful, lambda b: careful.get(b.payload) or self._value(b))
        e.branch(after)
        e.position_at_end(after)
        for node in pending:
            merged = e.phi(node.value.type)
            merged.add_incoming(node.value, usual)
            merged.add_incoming(careful[node], cold)
            node.value = merged

    def _wrong(self, last: list[tuple[_Operation, RunNode]]) -> ir.Value:
        """Whether one of the results is a NaN: two of a shape are looked at in one comparison."""
        e, alone = self._e, dict[tuple[int, int], ir.Value]()
        tests: list[ir.Value] = []
        for op, node in last:
            number, shape = e.real(node.value), (op.width, op.lanes)
            if shape in alone:
                tests.append(e.any(e.fcmp_unordered("uno", alone.pop(shape), number)))
            else:
                alone[shape] = number
        tests += [e.any(e.fcmp_unordered("uno", number, number)) for number in alone.values()]
        return functools.reduce(e.or_, tests)
