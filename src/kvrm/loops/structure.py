"""What a policy says about a loop: its structure, and never how often it iterates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Condition(IntEnum):
    """When another iteration follows; numbers up to 13 are those of B.cond."""

    EQ = 0
    NE = 1
    HS = 2
    LO = 3
    MI = 4
    PL = 5
    HI = 8
    LS = 9
    GE = 10
    LT = 11
    GT = 12
    LE = 13


CONDITIONS = tuple(Condition)
"""By the number that tables and networks have for each."""


class Bound(IntEnum):
    """What the counter is compared with."""

    ZERO = 0
    CONSTANT = 1
    REGISTER = 2


class Effect(IntEnum):
    """What an iteration does besides counting."""

    PURE = 0
    FILL = 1
    COPY = 2
    REDUCTION = 3
    SEARCH = 4


@dataclass(frozen=True, slots=True)
class Structure:
    """A proposal.

    `counted`: the exit depends on a register that goes in equal steps, `counter`; else on loaded data, and
    that is None. `step` is the register that has the step, None if it is a constant; `bound_register` is None
    unless `bound` is REGISTER. Registers are numbers, 32 is SP.
    """

    counted: bool
    counter: int | None
    step: int | None
    bound: Bound
    bound_register: int | None
    condition: Condition
    effect: Effect
