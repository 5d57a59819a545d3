"""What the comparisons with QEMU share: how much they do, and what QEMU does otherwise.

`KVRM_TEST_SEED` repeats a run; `KVRM_TEST_CASES` sets the number of words per definition.
"""

from __future__ import annotations

import os
import random

import pytest

from kvrm.isa.a64 import Definition, decode
from kvrm.isa.probe import effects_of
from kvrm.lane.stops import Reason
from oracle import operands
from oracle.case import Kind, Outcome, differences
from oracle.qemu import QemuOracle

SEED = int(os.environ.get("KVRM_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
CASES = int(os.environ.get("KVRM_TEST_CASES", 30))
NOP = 0xD503201F
CPU = "max,pauth=off"
"""The processor that QEMU plays: everything that KVRM has, and pointer authentication disabled as there."""
# FPSR's exception flags are tracked on request only (`isa/test_fp_flags.py`); QC and all the rest always.
EXCEPTION_FLAGS = 0x9F
NZCV_IN_FPSR = 0xF << 28
LEN_AND_STRIDE = 0x37 << 16
"""RES0 where AArch32 is not there; QEMU keeps what is written."""


def qemu_oracle(cpu: str = CPU) -> QemuOracle:
    """QEMU; the test skips where it cannot run."""
    if reason := QemuOracle.unavailable():
        pytest.skip(reason)
    return QemuOracle(cpu)


def is_float(d: Definition) -> bool:
    return d.source.rpartition("/")[2].startswith(("fp_", "simd_fp"))


def excluded(d: Definition) -> str | None:
    """Why a definition cannot be compared, if so."""
    word = d.diagram.cube.value
    if (decoded := decode(word)) and effects_of(decoded).event in (Reason.SVC, Reason.BRK):
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
