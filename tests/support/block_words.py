"""Words of straight code: they fall through, and access memory through one register that they keep."""

from __future__ import annotations

import random

from against_qemu import CACHES, PINNED
from kvrm.isa.a64 import Definition, decode, definitions
from kvrm.isa.probe import effects_of
from qemu_faults import FCVTZS_FIXED
from words import random_word

BASE = 28
"""The register that memory operands use; no instruction of a block writes it."""


def _usable(d: Definition) -> bool:
    """Definitions whose random words neither leave the block nor depend on the host.

    Store-exclusives are left out: whether stores in between disarm the monitor is IMPLEMENTATION DEFINED.
    """
    decoded = decode(random_word(d, random.Random(1)))
    assert decoded is not None
    effects = effects_of(decoded)
    return not (
        effects.branches
        or effects.event
        or d.key in (*PINNED, *CACHES, FCVTZS_FIXED)
        or d.key.startswith(("mrs", "msr", "stx", "stlx"))
    )


USABLE = [d for d in definitions if _usable(d)]


def random_word_with_base(
    rng: random.Random, kept: frozenset[int] = frozenset({BASE}), pool: list[Definition] = USABLE
) -> int:
    """A word of any definition that writes none of `kept` and accesses memory through the base alone."""
    while True:
        d = rng.choice(pool)
        word = random_word(d, rng)
        decoded = decode(word)
        assert decoded is not None
        if d.unpredictable is not None and d.unpredictable(decoded):
            continue
        if effects_of(decoded).memory:
            if "Rn" not in decoded.fields or "Rm" in decoded.fields:
                continue
            word = word & ~(31 << 5) | BASE << 5
            decoded = decode(word)
            if decoded is None or (d.unpredictable is not None and d.unpredictable(decoded)):
                continue
        if kept.isdisjoint(effects_of(decoded).x_written):
            return word
