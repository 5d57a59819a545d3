"""Random programs against QEMU: basic blocks of 5 to 50 instructions, the state compared at the end.

`KVRM_TEST_BLOCKS` sets their number, `KVRM_TEST_TRANSLATED_BLOCKS` that of blocks that are compiled, each of
which runs from several states. `KVRM_TEST_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random

import pytest

from against_qemu import SEED, compare, qemu_oracle
from block_words import BASE, random_word_with_base
from kvrm.isa.a64 import definitions, disassemble
from oracle import operands
from oracle.case import DATA_BASE, DATA_SIZE, Case, Kind, Outcome
from oracle.kvrm_side import KvrmSide
from oracle.translator_side import TranslatorSide, use_memory_store

BLOCKS = int(os.environ.get("KVRM_TEST_BLOCKS", 1_000))
TRANSLATED = int(os.environ.get("KVRM_TEST_TRANSLATED_BLOCKS", 40))
STATES = 4
FEW = 50
"""How many of fewer blocks fault is chance."""
PARTS = 2


def _block(rng: random.Random, states: int = 1) -> list[Case]:
    """A random block and that many states to run it from."""
    words = tuple(random_word_with_base(rng) for _ in range(rng.randint(5, 50)))
    return [_case(rng, words) for _ in range(states)]


def _case(rng: random.Random, words: tuple[int, ...]) -> Case:
    fp = rng.random() < 0.5
    esize = rng.choice((16, 32, 64) if fp else (8, 16, 32, 64))
    case = operands.random_case(rng, words, esize=esize, fp=fp, data_seed=7)
    case.x[BASE] = DATA_BASE + DATA_SIZE // 2 + rng.randrange(-2048, 2048) // 16 * 16
    if fp:
        case.fpcr = 0
    return case


def _differing(cases: list[Case], wanted: list[Outcome], got: list[Outcome]) -> list[str]:
    """The blocks that differ, with what differs; many of many must have run to their end."""
    bad = []
    for case, want, have in zip(cases, wanted, got, strict=True):
        lines = compare(definitions[0], want, have)
        if want.kind is not Kind.BROKEN and lines:
            text = [f"  {w:08x} {disassemble(w)}" for w in case.words]
            bad.append("\n".join(["; ".join(lines[:4]), *text]))
    if len(cases) >= FEW:
        assert sum(want.kind is Kind.BRK for want in wanted) > len(cases) // 4
    return bad


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
@pytest.mark.parametrize("part", range(PARTS))
def test_blocks(part: int, engine: str) -> None:
    rng = random.Random(f"{SEED} {part}")
    cases = [case for _ in range(BLOCKS // PARTS) for case in _block(rng)]
    bad = _differing(cases, qemu_oracle().run(cases), KvrmSide(engine).run(cases))
    assert not bad, f"seed {SEED}: {len(bad)} of {len(cases)} blocks differ:\n" + "\n".join(bad[:2])


@pytest.mark.parametrize("part", range(PARTS))
def test_translated_blocks(part: int) -> None:
    """One region each; the retired counts are the interpreter's."""
    rng = random.Random(f"{SEED} translated {part}")
    cases = [case for _ in range(TRANSLATED // PARTS) for case in _block(rng, STATES)]
    translator, interpreter = TranslatorSide(), KvrmSide("interpreter")
    bad = _differing(cases, qemu_oracle().run(cases), translator.run(cases))
    assert not bad, f"seed {SEED}: {len(bad)} of {len(cases)} blocks differ:\n" + "\n".join(bad[:2])
    interpreter.run(cases)
    assert translator.retired == interpreter.retired
    if len(cases) >= FEW:
        assert translator.interpreted.count(0) > len(cases) // 5


def test_blocks_with_engines_that_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a slice ends, a region is left, and another entered."""
    monkeypatch.setattr("kvrm.engine.stress.LONGEST_SLICE", 20)
    rng = random.Random(f"{SEED} iterations")
    cases = [case for _ in range(TRANSLATED // 10) for case in _block(rng)]
    stress, interpreter = KvrmSide("stress"), KvrmSide("interpreter")
    use_memory_store(stress._machine)
    bad = _differing(cases, qemu_oracle().run(cases), stress.run(cases))
    assert not bad, f"seed {SEED}: {len(bad)} of {len(cases)} blocks differ:\n" + "\n".join(bad[:2])
    interpreter.run(cases)
    assert stress.retired == interpreter.retired
