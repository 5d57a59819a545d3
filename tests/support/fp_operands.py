"""Operands at which floating-point instructions differ: their own format's NaNs side by side, ties, twins."""

from __future__ import annotations

from random import Random

from kvrm.isa.a64 import decode
from kvrm.isa.definition import Decoded
from oracle.case import Case
from oracle.operands import FRACTION_BITS, chosen_float, chosen_v, named_registers, random_case

FTYPE = {0: 32, 1: 64, 3: 16}
ROUNDING = ("FCVT", "FRINT", "FJCVT")
"""How the names of what rounds to integers begin."""
LONG = ("FMLAL", "FMLSL")
"""How those of what multiplies halves begin."""


def element_bits(d: Decoded) -> int | None:
    """Bits of the format that the word works on, where its fields or the definition name one."""
    bound = d.definition.bound
    if "ftype" in d.fields:
        return FTYPE.get(d.ftype)
    if "size" in d.fields:
        return 8 << d.size
    if d.definition.key.endswith("_half") or d.definition.name.startswith(LONG):
        return 16
    return bound.get("esize") or FTYPE.get(d.fields.get("sz", bound.get("sz", 2)))


def random_fp_case(rng: Random, words: tuple[int, ...]) -> Case:
    """A case for the last of `words`, mostly in its own format; its registers are often related."""
    d = decode(words[-1])
    assert d is not None
    esize = (element_bits(d) if rng.random() < 0.75 else None) or rng.choice((16, 32, 64))
    case = random_case(rng, words, esize=esize, fp=True, data_seed=7)
    pick = rng.random()
    if pick < 0.2:
        twins(rng, case, esize)
    elif pick < 0.4:
        nans(rng, case, esize)
    elif pick < 0.6 and d.definition.name.startswith(ROUNDING):
        ties(rng, case, esize)
    return case


def twins(rng: Random, case: Case, esize: int) -> None:
    """Give the named vector registers the same lanes, zeros now and then, with random signs."""
    value = rng.choice((0, chosen_v(rng, esize, fp=True)))
    for r in named_registers(case.words[-1]):
        case.v[r] = value ^ sum(rng.getrandbits(1) << at for at in range(esize - 1, 128, esize))


def nans(rng: Random, case: Case, esize: int) -> None:
    """Make most lanes of the named vector registers NaNs, quiet or signalling, each with a payload."""
    for r in named_registers(case.words[-1]):
        lanes = (
            nan(rng, esize) if rng.random() < 0.8 else chosen_float(rng, esize) for _ in range(0, 128, esize)
        )
        case.v[r] = sum(lane << at for at, lane in zip(range(0, 128, esize), lanes, strict=True))


def nan(rng: Random, esize: int) -> int:
    """A NaN of `esize` bits with a random sign and payload."""
    fraction = FRACTION_BITS[esize]
    exponent = (1 << esize - 1 - fraction) - 1
    return rng.getrandbits(1) << esize - 1 | exponent << fraction | rng.getrandbits(fraction) | 1


def ties(rng: Random, case: Case, esize: int) -> None:
    """Put values halfway between two integers into all lanes of the named vector registers."""
    for r in named_registers(case.words[-1]):
        case.v[r] = sum(tie(rng, esize) << at for at in range(0, 128, esize))


def tie(rng: Random, esize: int) -> int:
    """An odd multiple of one half, of either sign."""
    fraction = FRACTION_BITS[esize]
    bias = (1 << esize - 2 - fraction) - 1
    bits = rng.randint(1, min(fraction + 1, 34))
    odd = rng.getrandbits(bits) | 1 << bits - 1 | 1
    magnitude = (bias + bits - 2 << fraction) + (odd << fraction + 1 - bits) - (1 << fraction)
    return rng.getrandbits(1) << esize - 1 | magnitude
