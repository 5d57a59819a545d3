"""Random programs against QEMU: basic blocks of 5 to 50 instructions, the state compared at the end.

`KVRM_TEST_BLOCKS` sets their number, `KVRM_TEST_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random

import pytest

from kvrm.isa.a64 import Definition, decode, definitions, disassemble
from kvrm.isa.probe import effects_of
from oracle import operands
from oracle.case import DATA_BASE, DATA_SIZE, Case, Kind
from oracle.kvrm_side import KvrmSide
from oracle.qemu import QemuOracle
from qemu_faults import FCVTZS_FIXED
from test_differential import CACHES, CPU, PINNED, compare
from words import random_word

SEED = int(os.environ.get("KVRM_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
BLOCKS = int(os.environ.get("KVRM_TEST_BLOCKS", 10_000))
PARTS = 10
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


def _word(rng: random.Random) -> int:
    """A word of any definition that keeps the base register and accesses memory through it alone."""
    while True:
        d = rng.choice(USABLE)
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
        if BASE not in effects_of(decoded).x_written:
            return word


def _block(rng: random.Random) -> Case:
    words = tuple(_word(rng) for _ in range(rng.randint(5, 50)))
    fp = rng.random() < 0.5
    esize = rng.choice((16, 32, 64) if fp else (8, 16, 32, 64))
    case = operands.random_case(rng, words, esize=esize, fp=fp, data_seed=7)
    case.x[BASE] = DATA_BASE + DATA_SIZE // 2 + rng.randrange(-2048, 2048) // 16 * 16
    if fp:
        case.fpcr = 0
    return case


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
@pytest.mark.parametrize("part", range(PARTS))
def test_blocks(part: int, engine: str) -> None:
    if reason := QemuOracle.unavailable():
        pytest.skip(reason)
    rng = random.Random(f"{SEED} {part}")
    cases = [_block(rng) for _ in range(BLOCKS // PARTS)]
    bad = []
    ended = 0
    for case, want, got in zip(cases, QemuOracle(CPU).run(cases), KvrmSide(engine).run(cases), strict=True):
        ended += want.kind is Kind.BRK
        lines = compare(definitions[0], want, got)
        if want.kind is not Kind.BROKEN and lines:
            text = [f"  {w:08x} {disassemble(w)}" for w in case.words]
            bad.append("\n".join(["; ".join(lines[:4]), *text]))
    assert not bad, f"seed {SEED}: {len(bad)} of {len(cases)} blocks differ:\n" + "\n".join(bad[:2])
    assert ended > len(cases) // 2, "most blocks must run to their end"
