"""Every definition against QEMU: chosen operands, the whole state compared, on both engines.

`KVRM_TEST_SEED` repeats a run; `KVRM_TEST_CASES` sets the number of words per definition.
"""

from __future__ import annotations

import random

import pytest

from against_qemu import CACHES, CASES, CPU, NOP, SEED, compare, excluded, is_float, qemu_oracle
from aiming import aim
from extensions import QEMU_ALONE
from fp_operands import random_fp_case
from integer_operands import random_integer_case
from kvrm.isa import decoder
from kvrm.isa import definition as definition_module
from kvrm.isa.a64 import Definition, definitions, disassemble
from oracle.case import ENTRY, Case, Kind, Outcome
from oracle.kvrm_side import KvrmSide
from oracle.qemu import QemuOracle
from qemu_faults import put_right
from words import random_words


def make_case(d: Definition, rng: random.Random) -> Case:
    """A case for a random word of `d`, after up to two NOPs, so that its address varies."""
    (word,) = random_words(d, rng, 1)
    words = (NOP,) * rng.randrange(3) + (word,)
    case = (random_fp_case if is_float(d) else random_integer_case)(rng, words)
    aim(rng, case)
    return case


@pytest.fixture
def qemu(request: pytest.FixtureRequest) -> QemuOracle:
    d = request.node.callspec.params.get("d")
    return qemu_oracle("cortex-a57" if d is not None and d.key in CACHES else CPU)


def answered(d: Definition, qemu: QemuOracle) -> list[tuple[Case, Outcome]]:
    """Cases for random words of `d`, and what QEMU makes of them."""
    rng = random.Random(f"{SEED} {d.key}")
    cases = [make_case(d, rng) for _ in range(CASES)]
    return list(zip(cases, qemu.run(cases), strict=True))


def check(d: Definition, answers: list[tuple[Case, Outcome]], engine: str) -> None:
    bad = []
    found = KvrmSide(engine).run([case for case, _ in answers])
    for (case, want), got in zip(answers, found, strict=True):
        if want.kind is Kind.BROKEN or case.words[-1] | 31 in QEMU_ALONE:
            continue
        if lines := compare(d, put_right(case, want), got):
            text = disassemble(case.words[-1], ENTRY)
            bad.append(f"{case.words[-1]:08x} {text}: " + "; ".join(lines))
    assert not bad, f"seed {SEED} {engine}, {d.source}: {len(bad)} of {len(answers)} differ:\n" + "\n".join(
        bad[:5]
    )


@pytest.mark.parametrize("d", definitions, ids=lambda d: d.key)
def test_definition(d: Definition, qemu: QemuOracle) -> None:
    if reason := excluded(d):
        pytest.skip(reason)
    answers = answered(d, qemu)
    for engine in ("reference", "interpreter"):
        check(d, answers, engine)


def planted(monkeypatch, key: str, operation) -> Definition:
    """The definition with another operation in its place, which its words find from now on."""
    d, find = definition_module._keys[key], decoder.definition_for
    wrong = definition_module.Definition(**{f: getattr(d, f) for f in d.__slots__} | {"operation": operation})
    monkeypatch.setitem(definition_module._keys, key, wrong)
    monkeypatch.setattr(decoder, "definition_for", lambda word: wrong if (f := find(word)) is d else f)
    return wrong


def udiv_swapped(m, sf, Rm, Rn, Rd):
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rm, n].udiv(m.x[Rn, n])


def add_imm_with_zr(m, sf, sh, imm12, Rn, Rd):
    n = 64 if sf else 32
    m.xsp[Rd, n] = m.x[Rn, n] + imm12.zext(n).lsl(sh.zext(n) * 12)


@pytest.mark.parametrize(("key", "wrong"), [("udiv", udiv_swapped), ("add_imm", add_imm_with_zr)])
def test_a_planted_error_is_found(key, wrong, qemu, monkeypatch) -> None:
    d = planted(monkeypatch, key, wrong)
    answers = answered(d, qemu)
    with pytest.raises(AssertionError, match="differ"):
        check(d, answers, "reference")
