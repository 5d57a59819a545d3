"""Conditions made of comparisons of the same two numbers: each is one comparison."""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir

from kvrm.staging.emitter import Emitter

PREDICATES = "false oeq ogt oge olt ole one ord uno ueq ugt uge ult ule une true".split()
"""By the cases that they hold in: equal 1, greater 2, less 4, unordered 8."""


class ConditionEmitter(Emitter):
    """An emitter whose logic on comparisons makes comparisons."""

    def and_(self, lhs: ir.Value, rhs: ir.Value, *rest: Any, **more: Any) -> ir.Value:
        return self._combined(operator.and_, lhs, rhs) or super().and_(lhs, rhs, *rest, **more)

    def or_(self, lhs: ir.Value, rhs: ir.Value, *rest: Any, **more: Any) -> ir.Value:
        """One of them, or both."""
        return self._combined(operator.or_, lhs, rhs) or super().or_(lhs, rhs, *rest, **more)

    def xor(self, lhs: ir.Value, rhs: ir.Value, *rest: Any, **more: Any) -> ir.Value:
        """One of them only; with 1, the opposite."""
        return self._combined(operator.xor, lhs, rhs) or super().xor(lhs, rhs, *rest, **more)

    def _combined(self, operation: Any, lhs: ir.Value, rhs: ir.Value) -> ir.Value | None:
        if not isinstance(lhs, ir.FCMPInstr):
            return None
        if isinstance(rhs, ir.FCMPInstr) and _numbers(lhs) == _numbers(rhs):
            cases = PREDICATES.index(rhs.op)
        elif self.known(rhs) == 1:
            cases = 15
        else:
            return None
        op = PREDICATES[operation(PREDICATES.index(lhs.op), cases)]
        made = ir.FCMPInstr(self.block, op, *lhs.operands)
        self._insert(made)
        return made


def _numbers(comparison: ir.FCMPInstr) -> list[tuple[ir.Type, ir.Value]]:
    sides = comparison.operands
    return [(o.type, o.operands[0] if getattr(o, "opname", "") == "bitcast" else o) for o in sides]
