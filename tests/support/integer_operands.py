"""Operands at which integer instructions differ: registers equal or nearly so, or near the immediate."""

from __future__ import annotations

from random import Random

from kvrm.isa.a64 import decode
from kvrm.isa.definition import Decoded
from oracle.case import Case
from oracle.operands import MASK64, chosen_x, named_registers, random_case


def random_integer_case(rng: Random, words: tuple[int, ...]) -> Case:
    """A case for the last of `words`; its registers are often related."""
    d = decode(words[-1])
    assert d is not None
    case = random_case(rng, words, esize=rng.choice((8, 16, 32, 64)), data_seed=7)
    pick = rng.random()
    if pick < 0.15 and (value := immediate(d)) is not None and d.Rn < 31:
        case.x[d.Rn] = near(rng, rng.choice((value, -value)))
    elif pick < 0.25:
        value = chosen_x(rng)
        for r in set(named_registers(words[-1])) - {31}:
            case.x[r] = near(rng, value)
    return case


def immediate(d: Decoded) -> int | None:
    """What an addition, subtraction or comparison with an immediate adds, or None for other words."""
    if "imm12" in d.fields:
        return d.imm12 << 12 * d.fields.get("sh", 0)
    return d.fields.get("imm5") if "nzcv" in d.fields else None


def near(rng: Random, value: int) -> int:
    """The value or one beside it, as 64 bits or in the low 32 of them."""
    value += rng.choice((-1, 0, 0, 0, 1))
    return (value if rng.getrandbits(1) else value & 0xFFFF_FFFF | rng.getrandbits(32) << 32) & MASK64
