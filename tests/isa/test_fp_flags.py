"""Floating-point exceptions: every definition against QEMU, FPSR and all else compared, on both engines.

`KVRM_TEST_SEED` repeats a run; `KVRM_TEST_CASES` sets the number of words per definition.
"""

from __future__ import annotations

import random
import struct

import pytest

import kvrm
from against_qemu import CASES, SEED, qemu_oracle
from fp_operands import random_fp_case
from kvrm.isa.a64 import Definition, definitions, disassemble
from kvrm.isa.context import System
from kvrm.isa.probe import Probe
from oracle.case import Kind, differences
from oracle.kvrm_side import KvrmSide
from oracle.qemu import QemuOracle
from qemu_faults import put_right
from words import random_words

IOC, DZC, IXC, IDC = 1, 2, 16, 128


def uses_fpcr(d: Definition) -> bool:
    """Whether the operation asks for FPCR, as whatever may raise an exception does."""
    probe = Probe()
    fixed = {f.name: next(d.variants())[i] for i, f in enumerate(d.statics)}
    d.run(probe, {f.name: fixed.get(f.name, probe.leaf(f.name, f.width)) for f in d.parameters})
    return System.FPCR in probe.effects.system_read


FLOATING = [d for d in definitions if "MRS" not in d.name and "MSR" not in d.name and uses_fpcr(d)]


@pytest.fixture(scope="module")
def qemu() -> QemuOracle:
    return qemu_oracle("max")


@pytest.fixture(scope="module")
def sides() -> dict[str, KvrmSide]:
    return {engine: KvrmSide(engine, fp_flags=True) for engine in ("interpreter", "reference")}


@pytest.mark.parametrize("d", FLOATING, ids=lambda d: d.key)
def test_exceptions(d: Definition, qemu: QemuOracle, sides: dict[str, KvrmSide]) -> None:
    rng = random.Random(f"{SEED} {d.key}")
    cases = [random_fp_case(rng, (word,)) for word in random_words(d, rng, CASES)]
    wanted = [put_right(case, outcome) for case, outcome in zip(cases, qemu.run(cases), strict=True)]
    bad = []
    for engine, side in sides.items():
        for case, want, got in zip(cases, wanted, side.run(cases), strict=True):
            if want.kind is not Kind.BROKEN and (lines := differences(want, got)):
                bad.append(f"{engine}: {case.words[0]:08x} {disassemble(case.words[0])}: {'; '.join(lines)}")
    assert not bad, f"seed {SEED}, {d.source}: {len(bad)} differ:\n" + "\n".join(bad[:5])


def test_all_families_are_there() -> None:
    names = {d.name.split()[0].rstrip(",") for d in FLOATING}
    assert {"FADD", "FCMP", "FCCMPE", "FCVTZS", "SCVTF", "FMLAL", "FCMLA", "FMAXV", "FJCVTZS"} <= names
    assert not {"FMOV", "FABS", "FNEG", "FCSEL", "URECPE"} & names


def machine(engine: str, *words: int, **options) -> kvrm.Machine:
    m = kvrm.Machine(engine=engine, **options)
    m.write_memory(0x1000, struct.pack(f"<{len(words) + 1}I", *words, 0xD4200000), prot="rx")
    m.set_pc(0x1000)
    return m


FDIV_S0_S1_S2, FADD_V0_V1_V2 = 0x1E221820, 0x4E22D420
ONE, THREE, SMALLEST, SIGNALLING = 0x3F800000, 0x40400000, 1, 0x7F800001


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
@pytest.mark.parametrize(("fp_flags", "want"), [(False, 0), (True, IXC)])
def test_the_mode_is_off_unless_asked_for(engine: str, fp_flags: bool, want: int) -> None:
    m = machine(engine, FDIV_S0_S1_S2, fp_flags=fp_flags)
    m.v[1], m.v[2] = ONE, THREE
    m.run()
    assert m.fpsr == want
    assert m.v[0] == 0x3EAAAAAB


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
def test_lanes_add_up_and_flags_stay(engine: str) -> None:
    m = machine(engine, FADD_V0_V1_V2, FDIV_S0_S1_S2, fp_flags=True)
    m.fpcr = 1 << 24
    m.v[1] = ONE | SMALLEST << 32 | SIGNALLING << 64 | ONE << 96
    m.v[2] = 0 | ONE << 32 | ONE << 64 | 1 << 23 << 96
    m.run()
    assert m.fpsr == IOC | IXC | IDC | DZC
    assert m.fpcr == 1 << 24


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
def test_snapshots_keep_the_mode(engine: str) -> None:
    m = machine(engine, FDIV_S0_S1_S2, fp_flags=True)
    m.v[1], m.v[2] = ONE, 0
    before = m.snapshot()
    for _ in range(2):
        m.run()
        assert m.fpsr == DZC
        m.restore(before)
        assert m.fpsr == 0
