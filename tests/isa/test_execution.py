"""Execution classes: one for each of the 2^32 words, decided by twenty bits, as capstone sees it."""

from __future__ import annotations

import random
import re

import capstone
import numpy as np
import pytest

from kvrm.isa import definition as definition_module
from kvrm.isa import execution
from kvrm.isa.a64 import decode_many, definitions
from kvrm.isa.definition import DefinitionError, Execution, insn
from kvrm.isa.execution import CELLS, CLASS_BITS, FREE, class_table, execution_of
from words import random_word

SEED = random.SystemRandom().randrange(1 << 32)
CHOSEN = {"add_imm": 0x110003EF, "orr_imm": 0x320003FF}
"""Words that random ones are rarely, by a definition's key: mov w15, wsp and mov wsp, #1."""

MNEMONICS = [
    (Execution.LOAD_STORE, r"(ld|st|prf|cas|swp).*"),
    (Execution.BRANCH, r"b|b\..*|blr?|br|ret|cbn?z|tbn?z"),
    (
        Execution.SYSTEM,
        "svc|brk|hvc|smc|hlt|udf|hint|nop|yield|wf[ei]|sevl?|mrs|msr|sysl?|dc|ic|at|tlbi|clrex|d[sfm]b|isb|sb"
        "|cfinv|xaflag|axflag|bti|pac.*|aut.*|xpac.*|esb|psb|tsb|csdb|dgh|ssbb|pssbb|dvp|cfp|cpp",
    ),
    (
        Execution.MULTIPLY_DIVIDE,
        "[su]?(m(ul|neg)l?|m(add|sub)l|mulh|div)|m(add|sub)|(f|fn)m(ul|add|sub)x?|fdiv|p?mull?2?|.*ml[as].*"
        "|[su]mnegl|sq(r?d)mul.*|[su]mull2?|pmull?2?|.*dot|.*mmla",
    ),
    (
        Execution.EXTEND_SHIFT,
        "bf(m|i|c|xil)|[su]bf(m|x|iz)|[su]xt.*|lsl|lsr|asr|ror|extr|rev.*|rbit|[su]?q?r?sh(l|r|ll|rn|ru?n)u?n?2?"
        "|[su]q?r?shlu?|[su]r?(shr|sra)|sl?[lr]i|[su]shll2?|shll2?|sq?r?shru?n2?|[su]q?xtu?n2?|xtn2?|sqxtun2?"
        "|[su]qr?shrn2?|sqr?shrun2?|r?shrn2?|ext|zip.|uzp.|trn.|tb[lx]|dup|ins|[su]mov",
    ),
    (
        Execution.LOGICAL,
        "and|ands|orr|eor|bics?|orn|eon|tst|mvn|mov[znki]?|mvni|bsl|bit|bif|not|aes.*|sha(1|256|512).*|sm[34].*|eor3|bcax"
        "|rax1|xar|crc32.*",
    ),
]


def theirs(mnemonic: str, operands: str) -> Execution:
    """The class by mnemonic; moves of lanes, of constants to vectors and of SP show in the operands."""
    if mnemonic == "mov" and "[" in operands:
        return Execution.EXTEND_SHIFT
    if mnemonic == "mov" and "sp" in operands and "#" not in operands:  # an addition of 0
        return Execution.ARITHMETIC
    if mnemonic == "fmov" and operands.startswith("v") and "#" in operands:
        return Execution.LOGICAL
    found = [work for work, pattern in MNEMONICS if re.fullmatch(pattern, mnemonic)]
    assert len(found) < 2, mnemonic
    return found[0] if found else Execution.ARITHMETIC


def test_the_independent_decoder_agrees() -> None:
    cs = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    rng = random.Random(SEED)
    seen: set[Execution] = set()
    wrong = set()
    for d in definitions:
        rare = [CHOSEN[d.key]] if d.key in CHOSEN else []
        for word in [*rare, *(random_word(d, rng) for _ in range(8))]:
            for _, _, mnemonic, operands in cs.disasm_lite(word.to_bytes(4, "little"), 0):
                seen.add(d.execution)
                if theirs(mnemonic, operands) is not d.execution:
                    wrong.add((mnemonic, d.name, d.execution.name, hex(word)))
    assert not wrong, f"seed {SEED}: {sorted(wrong)}"
    assert seen == set(Execution)


def test_every_word_has_the_class_of_its_definition() -> None:
    words = np.random.default_rng(SEED).integers(0, 1 << 32, 1 << 22, np.uint32)
    found = decode_many(words)
    mine = np.array([d.execution for d in definitions], np.uint8)[found]
    hit = found >= 0
    assert (execution_of(words)[hit] == mine[hit]).all(), f"seed {SEED}"
    assert hit.mean() > 0.25


def test_words_without_a_definition_nearby_are_system() -> None:
    assert execution_of(np.array([0x0000_0000, 0xFFFF_FFFF, 0x0200_0000], np.uint32)).tolist() == [6, 6, 6]


def test_cells_and_words_are_inverse() -> None:
    cells = np.arange(CELLS, dtype=np.uint32)
    words = execution.words_of(cells)
    assert (execution.cells_of(words) == cells).all()
    other = words | np.uint32(sum(1 << b for b in range(32) if b not in CLASS_BITS))
    assert (execution.cells_of(other) == cells).all() and len(CLASS_BITS) == 20


def test_each_bit_decides_but_one() -> None:
    """Without any one of them but bit 23, two definitions of different classes would be the same."""
    for bit in CLASS_BITS:
        rest = tuple(b for b in CLASS_BITS if b != bit)
        if bit == 23:
            assert (class_table(rest) != FREE).any()
            continue
        with pytest.raises(DefinitionError, match="do not differ"):
            class_table(rest)


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> list[definition_module.Definition]:
    found: list[definition_module.Definition] = []
    monkeypatch.setattr(definition_module, "definitions", found)
    monkeypatch.setattr(execution, "definitions", found)
    monkeypatch.setattr(definition_module, "_keys", {})
    return found


def test_a_definition_without_a_class_fails_at_import(scratch: object) -> None:
    def operation(m: object) -> None: ...

    with pytest.raises(DefinitionError, match="which execution class"):
        insn("BAD", "Rn:5 " + "0" * 27, "bad")(operation)


def test_a_class_that_other_bits_decide_is_an_error(scratch: object) -> None:
    def one(m: object) -> None: ...

    def two(m: object) -> None: ...

    insn("ONE", "0" * 31 + "0", "one", execution=Execution.BRANCH)(one)
    insn("TWO", "0" * 31 + "1", "two", execution=Execution.LOGICAL)(two)
    with pytest.raises(DefinitionError, match=r"TWO is LOGICAL and ONE .* is BRANCH"):
        class_table()
