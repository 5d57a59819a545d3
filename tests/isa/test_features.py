"""The feature set decides what is allocated, and everything that announces it agrees."""

from __future__ import annotations

import struct

import pytest

import kvrm
from kvrm.isa import features as table
from kvrm.isa.a64 import definitions
from kvrm.isa.context import System

LDADD = 0xB8210041  # ldadd w1, w1, [x2]
FCADD = 0x6E44E420  # fcadd v0.8h, v1.8h, v4.8h, #90
CODE, DATA = 0x1_0000, 0x2_0000


def machine(engine, features):
    m = kvrm.Machine(engine=engine, features=features)
    m.write_memory(CODE, struct.pack("<2I", LDADD, 0xD4200000), prot="rx")
    m.write_memory(DATA, bytes(8), prot="rw")
    m.set_pc(CODE)
    m.x[1], m.x[2] = 5, DATA
    return m


def test_definitions_name_known_features():
    assert {name for d in definitions for name in (d.feature or "").split()} <= table.ALL


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
@pytest.mark.parametrize(
    ("features", "there"), [("armv8.0", False), ("cortex-a76", True), ("armv8.0", False)]
)
def test_an_atomic_needs_its_feature(engine, features, there):
    m = machine(engine, features)
    stop = m.run(max_instructions=10).stop
    assert stop is (kvrm.Stop.BRK if there else kvrm.Stop.UNDEFINED)
    assert m.memory[DATA : DATA + 4] == struct.pack("<I", 5 if there else 0)


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
@pytest.mark.parametrize("features", [["FEAT_FCMA"], ["FEAT_FP16"], ["FEAT_FCMA", "FEAT_FP16"]])
def test_complex_halves_need_two_features(engine, features):
    m = kvrm.Machine(engine=engine, features=features)
    m.write_memory(CODE, struct.pack("<2I", FCADD, 0xD4200000), prot="rx")
    m.set_pc(CODE)
    assert m.run().stop is (kvrm.Stop.BRK if len(features) == 2 else kvrm.Stop.UNDEFINED)


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
@pytest.mark.parametrize("fp_flags", [False, True])
@pytest.mark.parametrize(("features", "kept"), [("armv8.0", 0x07C0_0000), ("cortex-a76", 0x07C8_0000)])
def test_fpcr_keeps_what_there_is(engine, fp_flags, features, kept):
    m = kvrm.Machine(engine=engine, features=features, fp_flags=fp_flags)
    m.write_memory(CODE, struct.pack("<3I", 0xD51B4400, 0xD53B4401, 0xD4200000), prot="rx")  # msr, mrs fpcr
    m.set_pc(CODE)
    m.x[0] = -1
    m.run()
    assert m.x[1] == m.fpcr == kept


def test_the_default_is_a_cortex_a76():
    assert kvrm.Machine().features == table.CORTEX_A76


@pytest.mark.parametrize("bad", ["cortex-m0", ["FEAT_SVE"]])
def test_unknown_features(bad):
    with pytest.raises(kvrm.UsageError, match="no feature"):
        kvrm.Machine(features=bad)


@pytest.mark.parametrize("name", table.SETS)
def test_announcements_agree(name):
    chosen = table.feature_set(name)
    hwcap, hwcap2 = table.hwcaps(chosen)
    names = table.cpuinfo_features(chosen).split()
    assert len(names) == hwcap.bit_count() + hwcap2.bit_count()
    ids = table.identification(chosen)
    assert ids[System.ID_AA64PFR0_EL1] & 0xFF == 0x11
    for feature in chosen:
        for register, low, value in table.FEATURES[feature].fields:
            assert ids[register] >> low & 15 >= value
    assert ("atomics" in names) == (ids[System.ID_AA64ISAR0_EL1] >> 20 & 15 == 2)


ID_AA64ISAR0 = table.identification(table.ALL)[System.ID_AA64ISAR0_EL1]


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
@pytest.mark.parametrize(
    ("word", "value"),
    [
        (0xD5380600, ID_AA64ISAR0),  # mrs x0, id_aa64isar0_el1
        (0xD5380700, 0xFF00_0000),  # mrs x0, id_aa64mmfr0_el1
        (0xD53BE000, 1_000_000_000),  # mrs x0, cntfrq_el0: a retired instruction is a nanosecond
        (0xD5380000, 0x000F_0000),  # mrs x0, midr_el1: the ID registers tell the architecture
        (0xD50B7C20, DATA),  # dc cvap, x0
        (0xD50B7D20, DATA),  # dc cvadp, x0
    ],
)
def test_what_no_outside_oracle_shares(engine, word, value):
    """What this machine says of itself, and cleaning to persistence, which has no effect."""
    m = kvrm.Machine(engine=engine, features="all")
    m.write_memory(CODE, struct.pack("<2I", word, 0xD4200000), prot="rx")
    m.set_pc(CODE)
    m.x[0] = DATA
    assert m.run().stop is kvrm.Stop.BRK
    assert m.x[0] == value
