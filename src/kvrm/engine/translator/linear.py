"""Addresses as sums of what registers hold where a block begins, and a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvrm.engine.nodes import RunNode
from kvrm.values import Bits
from kvrm.values.primitives import signed

Origin = Callable[[RunNode], int | None]
"""The register whose value at the beginning of the block a node is; None for any other."""


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum of factors times registers (pairs, by register), plus a constant; modulo 2^64."""

    terms: tuple[tuple[int, int], ...]
    constant: int

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """This and `factor` times the other."""
        total = dict(self.terms)
        for register, times in other.terms:
            total[register] = total.get(register, 0) + factor * times
        terms = tuple(sorted((r, times) for r, times in total.items() if times))
        return Linear(terms, self.constant + factor * other.constant)


def linear(value: Bits, origin: Origin) -> Linear | None:
    """64 bits as such a sum, if they were computed as one."""
    if value.known:
        return Linear((), signed(64, int(value)))
    node = value.payload
    if not isinstance(node, RunNode):
        return None
    register = origin(node)
    if register is not None:
        return Linear(((register, 1),), 0)
    if node.row not in ("add", "sub", "lsl"):
        return None
    x, y = (linear(a, origin) for a in node.args)
    if x is None or y is None:
        return None
    if node.row == "lsl":
        return None if y.terms or y.constant > 4 else Linear((), 0).plus(x, 1 << y.constant)
    return x.plus(y, 1 if node.row == "add" else -1)
