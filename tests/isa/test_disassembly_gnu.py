"""Assembly text against binutils: objdump prints the same, and as makes the same word of it again."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

import gnu
import kvrm
from divergences import OBJDUMP, divergence
from gnu import Words
from kvrm.isa.a64 import decode, decode_many, definitions
from kvrm.isa.assembly import text_of
from kvrm.isa.definition import Decoded
from words import random_word, simd_space, system_space

SEED = random.SystemRandom().randrange(1 << 32)
RANDOM = int(os.environ.get("KVRM_TEST_WORDS", 20_000_000)) // 100
CODE, DATA = 0x1_0000, 0x2_0000

REFUSED = {
    "msr_spsel": "as takes 0 and 1 only",
    "sys": "as does not know BRB",
    "hint": "as does not know DGH",
}
"""Definitions of which as refuses words that objdump does not know."""


def aliases() -> Words:
    """Words of every definition, with the operands that aliases ask for."""
    rng = random.Random(SEED)
    return np.array([random_word(d, rng) for d in definitions for _ in range(100)], np.uint32)


def random_words() -> Words:
    rng = np.random.default_rng(SEED)
    return rng.integers(0, 1 << 32, RANDOM, dtype=np.uint64).astype(np.uint32)


SPACES = {space.__name__: space for space in (system_space, simd_space, aliases, random_words)}


def defined(words: Words) -> Iterator[tuple[int, Decoded]]:
    """Index and decoding, each at address 0, of the words that have a definition."""
    for at, (word, index) in enumerate(zip(words.tolist(), decode_many(words).tolist(), strict=True)):
        if index >= 0:
            yield at, Decoded(word, definitions[index], definitions[index].diagram.values(word))


def report(what: list[str]) -> str:
    return f"seed {SEED}, {len(what)} differ:\n" + "\n".join(what[:20])


@pytest.mark.parametrize("space", SPACES)
def test_objdump_prints_the_same(space: str) -> None:
    gnu.require()
    words, bad = SPACES[space](), []
    others = gnu.disassemble(words)
    for at, d in defined(words):
        d.pc = 4 * at
        mine, other = gnu.normal(text_of(d)), gnu.normal(others[at])
        if mine != other:
            verdict = "" if other.startswith(".inst") else other
            if not divergence(d, mine, verdict, OBJDUMP):
                bad.append(f"{d.word:08x} ({d.definition.source}): {mine!r}, objdump {other!r}")
    assert not bad, report(bad)


@pytest.mark.parametrize("space", SPACES)
def test_the_text_is_of_that_word_alone(space: str) -> None:
    """As makes the word of it, or one that differs in fields that the instruction does not look at."""
    gnu.require()
    found = [d for _, d in defined(SPACES[space]()) if d.definition.key != "adrp"]
    bad, others = [], defaultdict(list)
    for d, word in zip(found, gnu.assemble([text_of(d) for d in found]), strict=True):
        if word is None and d.definition.key not in REFUSED:
            bad.append(f"{d.word:08x} ({d.definition.source}): as refuses {text_of(d)!r}")
        elif word not in (None, d.word):
            others[d.definition].append((d.word, word))
    for definition, pairs in others.items():
        for one, other in random.Random(SEED).sample(pairs, min(len(pairs), 30)):
            again = decode(other)
            if again is None or again.definition is not definition or effect(one) != effect(other):
                bad.append(f"{one:08x} ({definition.source}): as makes {other:08x} of its text")
    assert not bad, report(bad)


def effect(word: int) -> tuple[object, ...]:
    """What an instruction does to a machine in which no two registers are equal."""
    rng = random.Random(SEED)
    m = kvrm.Machine(engine="reference", features="all")
    m.write_memory(CODE, word.to_bytes(4, "little"), prot="rx")
    m.write_memory(DATA, rng.randbytes(4096), prot="rw")
    m.set_pc(CODE)
    for i in range(31):
        m.x[i] = DATA + 64 * i
    for i in range(32):
        m.v[i] = rng.getrandbits(128)
    m.sp = DATA + 64 * 31
    r = m.run(max_instructions=1)
    return r.stop, r.fault, m.state.save(), m.memory[DATA : DATA + 4096]


def test_no_two_words_of_the_system_space_have_one_text() -> None:
    texts = defaultdict(list)
    for _, d in defined(system_space()):
        texts[text_of(d)].append(d.word)
    same = [f"{text}: {[hex(word) for word in words]}" for text, words in texts.items() if len(words) > 1]
    assert not same, report(same)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x0F20_A400, "sxtl v0.2d, v0.2s"),
        (0x4F08_A422, "sxtl2 v2.8h, v1.16b"),
        (0x2F10_A422, "uxtl v2.4s, v1.4h"),
        (0x6F20_A422, "uxtl2 v2.2d, v1.4s"),
        (0x0F21_A400, "sshll v0.2d, v0.2s, #1"),
        (0xD508_7500, "sys #0, c7, c5, #0, x0"),
        (0xD508_751F, "ic iallu"),
        (0xD508_8700, "sys #0, c8, c7, #0, x0"),
        (0xD508_871F, "tlbi vmalle1"),
        (0xD508_8720, "tlbi vae1, x0"),
        (0xD508_873F, "tlbi vae1, xzr"),
        (0xD50B_7380, "cfp rctx, x0"),
        (0xD503_3C9F, "dsb #0xc"),
        (0xD503_309F, "ssbb"),
        (0x3218_5FFB, "orr w27, wzr, #0xffffff00"),  # MOVN makes that of 0xff
        (0xB27A_E7F5, "orr x21, xzr, #0xffffffffffffffc0"),
        (0x3201_F3E0, "mov w0, #-0x55555556"),
    ],
)
def test_preferred_texts(word: int, text: str) -> None:
    assert kvrm.isa.a64.disassemble(word) == text
