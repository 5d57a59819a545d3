"""Exit conditions: of one bit that says whether another iteration follows, the comparison that makes it.

A comparison is found by running the manual's pseudocode for flags and conditions over the same sums: what
gives the identical bit is the comparison. It is then an *interval*: another iteration follows as long as
`distance`, modulo 2^width, is at most `length`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from kvrm.isa.a64.common import condition_holds, sub_flags
from kvrm.isa.context import Context, Flags
from kvrm.loops.iteration import Unsuitable
from kvrm.loops.structure import Condition
from kvrm.loops.sums import Atom, Sum, Sums, Value, atoms_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left` against `right`, of `width` bits; MI and PL are of their difference."""

    condition: Condition
    left: Value
    right: Value
    width: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Another iteration follows while `distance` <= `length`, both of `width` bits and unsigned.

    With `may_be_empty`, a length of all ones stands for an interval without members.
    """

    distance: Value
    length: Value
    width: int
    may_be_empty: bool = False


FLIPPED = {
    Condition.HI: Condition.LO,
    Condition.LO: Condition.HI,
    Condition.HS: Condition.LS,
    Condition.LS: Condition.HS,
    Condition.GT: Condition.LT,
    Condition.LT: Condition.GT,
    Condition.GE: Condition.LE,
    Condition.LE: Condition.GE,
}
"""Conditions that hold of y and x where these hold of x and y."""


def flipped(c: Comparison) -> Comparison:
    """The same comparison with its sides exchanged, where there is one."""
    if c.condition not in FLIPPED:
        return c
    return Comparison(FLIPPED[c.condition], c.right, c.left, c.width)


def comparison_of(sums: Sums, holds: Value) -> Comparison:
    """The comparison that gives a bit. Raises Unsuitable."""
    if isinstance(holds, int):
        raise Unsuitable("a branch that is always or never taken")
    for left, right in _candidates(holds):
        width = _width(left, right)
        if (condition := _condition(sums, holds, left, right, width)) is not None:
            return Comparison(condition, left, right, width)
    raise Unsuitable("an exit that is no single comparison")


def _condition(sums: Sums, holds: Sum, left: Value, right: Value, width: int) -> Condition | None:
    flags = sub_flags(sums.bits(width, left), sums.bits(width, right))[1]
    stub = cast("Context", _WithFlags(flags))
    for condition in Condition:
        if condition_holds(stub, condition).payload is holds:
            return condition
    return None


class _WithFlags:
    def __init__(self, flags: Flags) -> None:
        self.flags = flags


def _width(left: Value, right: Value) -> int:
    return left.width if isinstance(left, Sum) else cast("Sum", right).width


def _candidates(holds: Sum) -> Iterator[tuple[Value, Value]]:
    """Pairs that may have been compared: what is tested for zero or sign, then arguments further inside."""
    atom = holds.terms[0][0]
    if atom.kind == "zero" or atom.kind == "top":
        yield atom.args[0], 0
    elif atom.kind == "slice":
        yield holds.stage.slice(atom.args[0], 0, atom.detail + 1), 0
    for inner in atoms_of([holds]):
        yield from _pairs(inner)


def _pairs(atom: Atom) -> Iterator[tuple[Value, Value]]:
    args = atom.args
    if atom.kind in ("ule", "ult", "xor") and any(isinstance(a, Sum) and a.width > 1 for a in args):
        yield args[0], args[1]
        yield args[1], args[0]
    if atom.kind in ("zero", "top"):
        yield args[0], 0


def interval_of(sums: Sums, c: Comparison) -> Interval:
    """The interval in which the loop stays."""
    w, x, y = c.width, c.left, c.right
    half, zero = 1 << w - 1, 0

    def plus(a: Value, n: int) -> Value:
        return sums.add(w, a, n)

    difference = sums.add(w, x, y, -1)
    minus_y = sums.scaled(w, y, -1)
    k = Condition
    distance, length, empty = {
        k.EQ: (difference, zero, False),
        k.NE: (plus(difference, -1), -2, False),
        k.LO: (x, plus(y, -1), True),
        k.HS: (difference, plus(minus_y, -1), False),
        k.HI: (plus(difference, -1), plus(minus_y, -2), True),
        k.LS: (x, y, False),
        k.LT: (plus(x, half), plus(y, half - 1), True),
        k.GE: (difference, plus(minus_y, half - 1), False),
        k.GT: (plus(difference, -1), plus(minus_y, half - 2), True),
        k.LE: (plus(x, half), plus(y, half), False),
        k.MI: (plus(difference, half), half - 1, False),
        k.PL: (difference, half - 1, False),
    }[c.condition]
    return Interval(distance, sums.add(w, length, 0), w, empty)
