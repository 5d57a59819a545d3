"""Words: drawn from the definitions, with the operands at which mistakes show, and whole groups."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import numpy.typing as npt

from kvrm.isa.a64 import Definition, decode


def random_word(definition: Definition, rng: Random) -> int:
    """An allocated word of `definition`: random fields; register 31, the link register, equal registers and
    short immediates more often than chance."""
    while True:
        word = definition.diagram.cube.value
        registers = [f for f in definition.diagram.fields if f.width == 5 and f.name.startswith("R")]
        same = rng.randrange(32)
        for f in definition.diagram.fields:
            value = rng.getrandbits(f.width)
            pick = rng.random()
            if f in registers:
                value = 31 if pick < 0.12 else 30 if pick < 0.16 else same if pick < 0.4 else value
            elif f.name == "cond":
                pass
            elif pick < 0.2:
                value = rng.choice((0, (1 << f.width) - 1, 1 << (f.width - 1), 1))
            elif pick < 0.4 and f.width > 4:
                value = rng.choice((1, -1)) * (value >> rng.randrange(f.width))
            word |= (value & (1 << f.width) - 1) << f.low
        d = decode(word)
        if d is not None and d.definition is definition:
            return word


def random_words(definition: Definition, rng: Random, count: int) -> Iterator[int]:
    """`count` words, none of them CONSTRAINED UNPREDICTABLE."""
    made = 0
    while made < count:
        word = random_word(definition, rng)
        d = decode(word)
        assert d is not None
        if definition.unpredictable is None or not definition.unpredictable(d):
            made += 1
            yield word


def system_space() -> npt.NDArray[np.uint32]:
    """Every operation of MRS, MSR, SYS, SYSL, hints, barriers and PSTATE, with two registers each."""
    operations = np.arange(0xD500_0000, 0xD540_0000, 32, dtype=np.uint32)
    return (operations[:, None] | np.array([0, 31], np.uint32)).reshape(-1)


def simd_space() -> npt.NDArray[np.uint32]:
    """Every word of the data-processing groups of SIMD and floating point that has Rn = 3 and Rd = 1."""
    words = np.arange(0, 1 << 32, 1 << 10, dtype=np.uint64).astype(np.uint32)
    return words[words >> 25 & 7 == 7] | np.uint32(3 << 5 | 1)
