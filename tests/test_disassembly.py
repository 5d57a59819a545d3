"""Decoder and assembly text against capstone: the same verdict and the same text for every defined
instruction."""

from __future__ import annotations

import random
import re

import capstone
import pytest

from kvrm.isa.a64 import decode, definitions, disassemble
from words import random_word

PC = 0x40_0000
SEED = random.SystemRandom().randrange(1 << 32)


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


def divergence(word: int, mine: str | None, other: str | None) -> str | None:
    """Why the two texts may differ, if they may."""
    d = decode(word)
    assert d is not None
    for reason, applies in DIVERGENCES.items():
        if applies(d, mine, other):
            return reason
    return None


def prefers_orr(d, mine, other):
    return d.definition.key == "orr_imm" and d.Rn == 31 and other is not None and other.startswith("mov ")


DIVERGENCES = {
    "the manual prefers ORR where MOVZ or MOVN can make the immediate; capstone prints MOV": prefers_orr,
}


@pytest.mark.parametrize("d", definitions, ids=lambda d: d.key)
def test_text(d, cs):
    rng = random.Random(f"{SEED} {d.key}")
    bad = []
    for _ in range(300):
        word = random_word(d, rng)
        mine, other = normal(disassemble(word, PC)), normal(theirs(cs, word))
        if mine != other and not divergence(word, mine, other):
            bad.append(f"{word:08x}: {mine!r}, capstone {other!r}")
    assert not bad, f"seed {SEED}, {d.source}: {len(bad)} differ:\n" + "\n".join(bad[:5])
