"""Definitions inside a compiled region, against QEMU; it is asserted that the region ran them.

`KVRM_TEST_SEED` repeats a run; `KVRM_TEST_CASES` sets the number of words per definition, to a hundredth
of it. Below 100 it is the percentage of the definitions that are chosen, others by each seed.
Each word is compiled once and runs from several states. Registers are constants to the compiler now and then,
because the words before have set them.
"""

from __future__ import annotations

import random

import pytest

from against_qemu import CACHES, CASES, CPU, NOP, SEED, compare, excluded, is_float, qemu_oracle
from aiming import accesses, aim
from fp_operands import random_fp_case
from integer_operands import random_integer_case
from kvrm.engine.translator.survey import flow_of
from kvrm.isa.a64 import Definition, decode, definitions, disassemble
from kvrm.isa.features import ALL
from kvrm.isa.probe import effects_of
from oracle.case import ENTRY, PAGE, Case, Kind, Outcome
from oracle.translator_side import TranslatorSide
from qemu_faults import put_right
from words import random_words

WORDS = max(1, CASES // 100)
STATES = 6
PARTS = 24
ADDRESS_TAG = 0.2
"""The part of cases whose base register has a random top byte."""

# Words that leave register Rd as a constant.
_MOVZ, _MOVN = 0xD2800000, 0x92800000
_MOVI_2D, _FMOV_4S, _FMOV_2D, _MOVI_4S = 0x6F00E400, 0x4F00F400, 0x6F00F400, 0x4F000400


def _constant_x(rng: random.Random, r: int) -> int:
    hw, imm = rng.randrange(4), rng.choice((0, 1, 0x7FFF, 0x8000, 0xFFFF, rng.getrandbits(16)))
    return rng.choice((_MOVZ, _MOVN)) | hw << 21 | imm << 5 | r


def _constant_v(rng: random.Random, r: int) -> int:
    imm = rng.getrandbits(8)
    return rng.choice((_MOVI_2D, _FMOV_4S, _FMOV_2D, _MOVI_4S)) | imm >> 5 << 16 | (imm & 31) << 5 | r


def _before(rng: random.Random, word: int) -> list[int]:
    """Up to two words before the one under test: they do nothing, or make constants of its operands."""
    if rng.random() < 0.6:
        return [NOP] * rng.randrange(3)
    decoded = decode(word)
    assert decoded is not None
    effects = effects_of(decoded)
    fixed = {31}
    if effects.memory or effects.branches:
        fixed |= {decoded.fields.get("Rn", 31), decoded.fields.get("Rm", 31)}
    general = sorted({r for r in effects.x_read if isinstance(r, int)} - fixed)
    vectors = sorted({r for r in effects.v_read if isinstance(r, int)})
    makers = [(_constant_x, r) for r in general] + [(_constant_v, r) for r in vectors]
    return [make(rng, r) for make, r in rng.sample(makers, min(len(makers), rng.randint(1, 3)))]


def _case(d: Definition, rng: random.Random, words: tuple[int, ...]) -> Case:
    case = (random_fp_case if is_float(d) else random_integer_case)(rng, words)
    if rng.random() < 0.8:
        case.fpcr = 0
    aim(rng, case)
    decoded = decode(words[-1])
    if decoded is not None and rng.random() < ADDRESS_TAG and effects_of(decoded).memory:
        r = decoded.fields.get("Rn", 31)
        if r != 31 and decoded.fields.get("Rm") != r:
            case.x[r] ^= rng.getrandbits(8) << 56
    return case


def translatable(case: Case, outcome: Outcome, filled: bool) -> bool:
    """Whether a region must have run the last word of a case: the cases in which it may leave are few."""
    word, pc = case.words[-1], ENTRY + 4 * (len(case.words) - 1)
    decoded, flow = decode(word), flow_of(word, pc, ALL)
    if decoded is None or not flow.stays or outcome.kind is not Kind.BRK or (flow.floating and case.fpcr):
        return False
    if not effects_of(decoded).memory:
        return True
    seen, _ = accesses(decoded, case)
    return filled and all(address // PAGE == (address + size - 1) // PAGE for address, size in seen)


def differing(d: Definition) -> list[str]:
    """What a region does otherwise than QEMU with words of a definition, or leaves to the interpreter."""
    qemu = qemu_oracle("cortex-a57" if d.key in CACHES else CPU)
    rng = random.Random(f"{SEED} region {d.key}")
    cases: list[Case] = []
    for word in random_words(d, rng, WORDS):
        words = (*_before(rng, word), word)
        cases += [_case(d, rng, words) for _ in range(STATES)]
    side = TranslatorSide()
    answers = zip(cases, qemu.run(cases), side.run(cases), side.filled, side.interpreted, strict=True)
    bad = []
    for case, want, got, filled, interpreted in answers:
        lines = compare(d, put_right(case, want), got) if want.kind is not Kind.BROKEN else []
        if interpreted and translatable(case, got, filled):
            lines.append("left to the interpreter")
        if lines:
            text = [disassemble(w, ENTRY + 4 * i) or "?" for i, w in enumerate(case.words)]
            bad.append(f"{d.source}: {case.words[-1]:08x} {' / '.join(text)}: " + "; ".join(lines))
    return bad


@pytest.mark.parametrize("part", range(PARTS))
def test_definitions_in_a_region(part: int) -> None:
    compared = [d for d in definitions[part::PARTS] if not excluded(d)]
    chosen = random.Random(f"{SEED} {part}").sample(compared, len(compared) * min(CASES, 100) // 100)
    assert chosen
    bad = [line for d in chosen for line in differing(d)]
    assert not bad, f"seed {SEED}: {len(bad)} differ:\n" + "\n".join(bad[:5])
