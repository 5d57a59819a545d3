"""Every definition against QEMU: chosen operands, the whole state compared, on both engines.

`KVRM_TEST_SEED` repeats a run; `KVRM_TEST_CASES` sets the number of words per definition.
"""

from __future__ import annotations

import os
import random

import pytest

from aiming import aim
from extensions import QEMU_ALONE
from fp_operands import random_fp_case
from integer_operands import random_integer_case
from kvrm.isa import definition as definition_module
from kvrm.isa.a64 import Definition, decode, definitions, disassemble
from kvrm.isa.context import Event
from kvrm.isa.probe import effects_of
from oracle import operands
from oracle.case import ENTRY, Case, Kind, Outcome, differences
from oracle.kvrm_side import KvrmSide
from oracle.qemu import QemuOracle
from qemu_faults import put_right
from words import random_words

SEED = int(os.environ.get("KVRM_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
CASES = int(os.environ.get("KVRM_TEST_CASES", 100))
NOP = 0xD503201F
CPU = "max,pauth=off"
"""The processor that QEMU plays: everything that KVRM has, and pointer authentication disabled as there."""

# FPSR's exception flags are tracked on request only (tests/test_fp_flags.py); QC and all the rest always.
EXCEPTION_FLAGS = 0x9F
NZCV_IN_FPSR = 0xF << 28
LEN_AND_STRIDE = 0x37 << 16
"""RES0 where AArch32 is not there; QEMU keeps what is written."""


def is_float(d: Definition) -> bool:
    return d.source.rpartition("/")[2].startswith(("fp_", "simd_fp"))


def make_case(d: Definition, rng: random.Random) -> Case:
    """A case for a random word of `d`, behind up to two NOPs, so that its address varies."""
    (word,) = random_words(d, rng, 1)
    words = (NOP,) * rng.randrange(3) + (word,)
    case = (random_fp_case if is_float(d) else random_integer_case)(rng, words)
    aim(rng, case)
    return case


def excluded(d: Definition) -> str | None:
    """Why a definition cannot be compared, if so."""
    word = d.diagram.cube.value
    if (decoded := decode(word)) and effects_of(decoded).event in (Event.SVC, Event.BRK):
        return "leaves for the host"
    return PINNED.get(d.key)


PINNED = {
    "mrs_cntvct_el0": "QEMU's counter is the host's clock; ours counts retired instructions",
    "mrs_cntfrq_el0": "QEMU's counter runs at another frequency",
    "mrs_midr_el1": "the identity of this machine, not of QEMU's",
    "mrs_id": "the features of this machine, not of QEMU's",
    "dc_cvap": "QEMU 7.2 does not give it to user programs; no effect here, as any cleaning",
    "dc_cvadp": "QEMU 7.2 does not give it to user programs; no effect here, as any cleaning",
}


CACHES = ("mrs_ctr_el0", "mrs_dczid_el0", "dc_zva")
"""What depends on the sizes of caches: here those of a Cortex-A57, not of QEMU's largest processor."""


@pytest.fixture
def qemu(request: pytest.FixtureRequest) -> QemuOracle:
    if reason := QemuOracle.unavailable():
        pytest.skip(reason)
    d = request.node.callspec.params.get("d")
    return QemuOracle("cortex-a57" if d is not None and d.key in CACHES else CPU)


def compare(d: Definition, want: Outcome, got: Outcome) -> list[str]:
    """What differs, apart from what QEMU is known to do otherwise."""
    return [line for line in differences(want, got) if not allowed(d, want, got, line)]


def allowed(d: Definition, want: Outcome, got: Outcome, line: str) -> bool:
    if line.startswith("fpsr"):
        mask = EXCEPTION_FLAGS | (NZCV_IN_FPSR if d.key == "msr_fpsr" else 0)
        return not (want.fpsr ^ got.fpsr) & ~mask
    if line.startswith("fpcr") and d.key == "msr_fpcr":
        return not (want.fpcr ^ got.fpcr) & ~LEN_AND_STRIDE
    if d.key == "dc_zva" and want.kind is got.kind is Kind.FAULT and line.startswith("pc"):
        return True  # QEMU reports the beginning of the translated block
    if want.kind is got.kind is Kind.FAULT and line.startswith(("data", "x", "v")):
        return True  # QEMU may have done a part of an access that faults; here it is all or nothing
    if d.key in ("ldapr_w", "ldapr_x", "ldaprh_w"):
        return (
            got.kind is Kind.ALIGNMENT
        )  # QEMU 7.2 does not check it; an ordered access without FEAT_LSE2 faults
    if d.feature == "FEAT_JSCVT":
        return bool(want.fpcr & operands.FPCR_FZ) and line.startswith("nzcv")  # QEMU issue 2375
    # QEMU looks for the page first, the architecture at the alignment of the pc
    return got.kind is Kind.ALIGNMENT and want.kind is Kind.FAULT and bool(got.pc & 3)


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
