"""Decoder and assembly text against capstone: the same verdict and the same text for every defined
instruction."""

from __future__ import annotations

import os
import random
import re

import capstone
import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from divergences import CAPSTONE, divergence
from extensions import EXTENSIONS
from guests.fetch import program
from kvrm.isa.a64 import decode, decode_many, definitions
from kvrm.isa.assembly import text_of
from kvrm.isa.definition import Decoded
from words import random_word, simd_space, system_space

PC = 0x40_0000
SEED = random.SystemRandom().randrange(1 << 32)
WORDS = int(os.environ.get("KVRM_TEST_WORDS", 20_000_000))
PARTS, CHUNK = 16, 50_000
PROGRAMS = ["busybox", "bash-static", "sh"]


@pytest.fixture(scope="module")
def cs():
    return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)


def theirs(cs, word: int) -> str | None:
    for _, _, mnemonic, text in cs.disasm_lite(word.to_bytes(4, "little"), PC):
        return f"{mnemonic} {text}".strip()
    return None


def normal(text: str | None) -> str | None:
    """Negative immediates as 64-bit ones: capstone prints some as signed, others as unsigned."""
    return text and re.sub(r"#-(0x[0-9a-f]+|\d+)", lambda m: f"#{-int(m[1], 0) & (1 << 64) - 1:#x}", text)


def check(d: Decoded, other: str | None) -> str | None:
    """What is wrong with the text of a word, if anything."""
    mine = text_of(d)
    if mine == other:
        return None
    mine, other = normal(mine), other and normal(other)
    if mine == other or divergence(d, mine, other, CAPSTONE):
        return None
    return f"{d.word:08x} ({d.definition.source}): {mine!r}, capstone {other!r}"


@pytest.mark.parametrize("d", definitions, ids=lambda d: d.key)
def test_every_definition(d, cs):
    rng = random.Random(f"{SEED} {d.key}")
    words = [decode(random_word(d, rng), PC) for _ in range(300)]
    bad = [line for one in words if one and (line := check(one, theirs(cs, one.word)))]
    assert not bad, f"seed {SEED}: {len(bad)} differ:\n" + "\n".join(bad[:5])


# -- Random words and whole programs ----------------------------------------------------------------------


def not_defined(word: int) -> str | None:
    """Which extension that KVRM does not have allocates a word, if one does."""
    return next((reason for cube, reason in EXTENSIONS if word & cube.mask == cube.value), None)


def compare(words, cs) -> list[str]:
    """What differs between the two disassemblers on an array of words."""
    bad = []
    found = decode_many(words)
    texts = cs.disasm_lite(words.tobytes(), 0)
    for at, (word, index, (_, _, mnemonic, rest)) in enumerate(
        zip(words.tolist(), found.tolist(), texts, strict=True)
    ):
        allocated = mnemonic != ".byte"
        if index >= 0:
            d = definitions[index]
            line = check(
                Decoded(word, d, d.diagram.values(word), 4 * at),
                f"{mnemonic} {rest}".rstrip() if allocated else None,
            )
        else:
            known = not allocated or not_defined(word)
            line = None if known else f"{word:08x}: no definition, capstone {mnemonic} {rest}"
        if line:
            bad.append(line)
    return bad


@pytest.fixture(scope="module")
def skipping():
    """capstone, going on after words that it does not know."""
    cs = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    cs.skipdata = True
    return cs


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, PARTS))])
def test_random_words(part, skipping):
    rng = np.random.default_rng([SEED, part])
    bad: list[str] = []
    for _ in range(WORDS // PARTS // CHUNK):
        bad += compare(rng.integers(0, 1 << 32, CHUNK, dtype=np.uint64).astype(np.uint32), skipping)
    assert not bad, f"seed {SEED}, {len(bad)} differ:\n" + "\n".join(bad[:20])


@pytest.mark.parametrize("space", [system_space, simd_space])
def test_whole_groups(space, skipping):
    bad = compare(space(), skipping)
    assert not bad, f"{len(bad)} differ:\n" + "\n".join(bad[:20])


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_text(name, guest_root, skipping):
    """Every word of the text sections of real programs."""
    with program(guest_root, name).open("rb") as file:
        sections = [s.data() for s in ELFFile(file).iter_sections() if s["sh_flags"] & 4]
    words = np.frombuffer(b"".join(s[: len(s) & -4] for s in sections), "<u4").astype(np.uint32)
    assert len(words) > 1000
    bad = compare(np.unique(words), skipping)
    assert not bad, f"{len(bad)} differ:\n" + "\n".join(bad[:20])
