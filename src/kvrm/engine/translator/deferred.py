"""Floating-point operations whose NaNs are looked for once for several of them.

The host's result is Arm's, except for a NaN. A NaN operand makes every result that depends on it one, so the
last results of a chain tell whether all of it is right. Nobody but such operations sees a result before that
is known; where it is wrong, all are computed again, the careful way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from kvrm.engine.emitter import UNLIKELY, integer
from kvrm.engine.nodes import RunNode
from kvrm.engine.translator.comparisons import ConditionEmitter
from kvrm.values import Bits, Primitive

NUMBERS = frozenset(("fadd", "fsub", "fmul", "fdiv", "fsqrt", "fmuladd"))
"""Operations that give a NaN for any NaN."""


class RegionEmitter(ConditionEmitter):
    """An emitter that can leave the rare case out, or compute both cases."""

    rare_as: Callable[[ir.Value, ir.Value], ir.Value] | None = None

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
    row: Primitive
    width: int
    lanes: int
    args: Sequence[Bits]
    attrs: tuple[Any, ...]
    source: RunNode
    covered: bool = False

    @property
    def number(self) -> bool:
        return self.row.name in NUMBERS

    @property
    def shape(self) -> tuple[int, int]:
        return self.width, self.lanes


class Deferred:
    """The operations of a block under construction whose results may still be wrong."""

    def __init__(self, e: RegionEmitter, value: Callable[[Bits], ir.Value]) -> None:
        self._e, self._value = e, value
        self._pending: dict[RunNode, _Operation] = {}

    def begin(self) -> None:
        """A new block: what nobody has asked for is not needed."""
        self._pending.clear()

    def holds(self, node: object) -> bool:
        """Whether a node's value may still be wrong."""
        return node in self._pending

    def apply(
        self, stage: Any, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> RunNode | None:
        """The node of an operation that can wait; None for any other."""
        moves = row.name == "reshape" and self.holds(args[0].payload)
        if not moves and (row.name not in NUMBERS or width == 16):
            return None
        op = _Operation(row, width, lanes, args, attrs, None)  # type: ignore[arg-type]
        node = RunNode(stage, self._emit(op, _usual, self._present), row.name, args)
        op.source = self._pending[args[0].payload].source if moves else node
        if not moves:
            for source in (self._pending[a.payload].source for a in args if self.holds(a.payload)):
                if self._pending[source].shape == op.shape:
                    self._pending[source].covered = True
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
        return b.payload.value if self.holds(b.payload) else self._value(b)

    def settle(self) -> None:
        """From here on all values are right."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        e = self._e
        wrong = self._wrong([(op, node.value) for node, op in pending.items() if op.number and not op.covered])
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

    def _wrong(self, results: list[tuple[_Operation, ir.Value]]) -> ir.Value:
        """Whether one of the results is a NaN: two of a shape are looked at in one comparison."""
        e, waiting = self._e, dict[tuple[int, int], ir.Value]()
        tests: list[ir.Value] = []
        for op, value in results:
            number = e.real(value)
            other = waiting.pop(op.shape, None)
            if other is None:
                waiting[op.shape] = number
            else:
                tests.append(e.any(e.fcmp_unordered("uno", other, number)))
        tests += [e.any(e.fcmp_unordered("uno", number, number)) for number in waiting.values()]
        wrong = tests[0]
        for test in tests[1:]:
            wrong = e.or_(wrong, test)
        return wrong
