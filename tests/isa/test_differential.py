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
from kvrm.isa import definition as definition_module
from kvrm.isa.a64 import Definition, definitions, disassemble
from oracle.case import ENTRY, Case, Kind
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


def check(d: Definition, qemu: QemuOracle, engine: str, seed: int, count: int) -> None:
    rng = random.Random(f"{seed} {d.key}")
    cases = [make_case(d, rng) for _ in range(count)]
    bad = []
    for case, want, got in zip(cases, qemu.run(cases), KvrmSide(engine).run(cases), strict=True):
        if want.kind is Kind.BROKEN or case.words[-1] | 31 in QEMU_ALONE:
            continue
        if lines := compare(d, put_right(case, want), got):
            text = disassemble(case.words[-1], ENTRY)
            bad.append(f"{case.words[-1]:08x} {text}: " + "; ".join(lines))
    assert not bad, f"seed {seed}, {d.source}: {len(bad)} of {count} differ:\n" + "\n".join(bad[:5])


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
@pytest.mark.parametrize("d", definitions, ids=lambda d: d.key)
def test_definition(d: Definition, engine: str, qemu: QemuOracle) -> None:
    if reason := excluded(d):
        pytest.skip(reason)
    check(d, qemu, engine, SEED, CASES)


def planted(monkeypatch, key: str, operation) -> Definition:
    """The definition with another operation in its place."""
    d = definition_module._keys[key]
    wrong = definition_module.Definition(**{f: getattr(d, f) for f in d.__slots__} | {"operation": operation})
    monkeypatch.setitem(definition_module._keys, key, wrong)
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
    monkeypatch.setattr("kvrm.isa.decoder._find", lambda word, count: d)
    with pytest.raises(AssertionError, match="differ"):
        check(d, qemu, "reference", SEED, CASES)
