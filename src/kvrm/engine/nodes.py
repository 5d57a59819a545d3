"""The two binding times of the interpreter.

*Predecode* values depend on the instruction word and its address only; expressions over them are kept as a
graph and computed once, when a word is predecoded. Where one meets a run-time value, it becomes an *operand*:
a few bytes of the predecoded slot that the handler loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvrm.staging.emitter import Emitter, Value, constant, integer
from kvrm.values import Bits, Node, Primitive


class StaticNode(Node):
    """A value known at predecode: a leaf (a field, the pc) or a primitive over such values."""

    __slots__ = ("args", "attrs", "lanes", "row", "width")

    def __init__(
        self,
        stage: StaticStage,
        row: Primitive | str,
        width: int,
        lanes: int,
        args: Sequence[Bits],
        attrs: Any,
    ) -> None:
        self.stage, self.row, self.width, self.lanes, self.args, self.attrs = (
            stage,
            row,
            width,
            lanes,
            args,
            attrs,
        )


class StaticStage:
    """Builds the graph of predecode values; equal expressions are one node."""

    level = 1

    def __init__(self) -> None:
        self._nodes: dict[Any, StaticNode] = {}

    def leaf(self, name: str, width: int) -> Bits:
        """A field of the word, or the pc."""
        return Bits(width, self._node(name, width, 1, (), ()))

    def apply(
        self, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> Node:
        return self._node(row, width, lanes, args, attrs)

    def _node(
        self, row: Primitive | str, width: int, lanes: int, args: Sequence[Bits], attrs: Any
    ) -> StaticNode:
        name = row if isinstance(row, str) else row.name
        shapes = tuple((a.width, a.lanes, a.payload if a.known else id(a.payload)) for a in args)
        key = (name, width, lanes, shapes, attrs)
        if key not in self._nodes:
            self._nodes[key] = StaticNode(self, row, width, lanes, args, attrs)
        return self._nodes[key]


def compute(e: Emitter, leaves: dict[str, Value], value: Bits, memo: dict[int, Value]) -> Value:
    """Emit the code that computes a predecode value from its leaves."""
    node = value.payload
    if not isinstance(node, StaticNode):
        return constant(integer(value.width, value.lanes), node)
    if id(node) not in memo:
        t = integer(node.width, node.lanes)
        if isinstance(node.row, str):
            memo[id(node)] = leaves[node.row]
        else:
            args = [compute(e, leaves, a, memo) for a in node.args]
            memo[id(node)] = node.row.emit(e, t, *args, *node.attrs)
    return memo[id(node)]


class RunNode(Node):
    """A run-time value: an LLVM value in the handler being built, and the primitive that made it."""

    __slots__ = ("args", "row", "value")

    def __init__(self, stage: Any, value: Value, row: str = "", args: Sequence[Bits] = ()) -> None:
        self.stage, self.value, self.row, self.args = stage, value, row, args
