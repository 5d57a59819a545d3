"""Architecture features: which instructions are allocated, and how a program is told.

One table says for each feature where Linux and the ID registers announce it (Linux Documentation/arch/arm64,
"ELF hwcaps"; Arm ARM, D23 "ID registers"). SVE and SME are not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvrm.isa.context import System

PFR0, ISAR0, ISAR1 = System.ID_AA64PFR0_EL1, System.ID_AA64ISAR0_EL1, System.ID_AA64ISAR1_EL1
Place = tuple[System, int, int]
"""ID register, lowest bit of a four-bit field, and the value that announces the feature there."""


@dataclass(frozen=True, slots=True)
class Feature:
    """How a feature is announced: /proc/cpuinfo names with HWCAP bits (HWCAP2's from 64 on), ID fields."""

    hwcaps: dict[str, int] = field(default_factory=dict)
    fields: tuple[Place, ...] = ()


BASE = Feature({"fp": 0, "asimd": 1, "cpuid": 11}, ((PFR0, 0, 1), (PFR0, 4, 1)))
"""What every machine has: AArch64 at EL0 and EL1, floating point and Advanced SIMD."""

FEATURES = {
    "FEAT_AES": Feature({"aes": 3}, ((ISAR0, 4, 1),)),
    "FEAT_PMULL": Feature({"pmull": 4}, ((ISAR0, 4, 2),)),
    "FEAT_SHA1": Feature({"sha1": 5}, ((ISAR0, 8, 1),)),
    "FEAT_SHA256": Feature({"sha2": 6}, ((ISAR0, 12, 1),)),
    "FEAT_SHA512": Feature({"sha512": 21}, ((ISAR0, 12, 2),)),
    "FEAT_CRC32": Feature({"crc32": 7}, ((ISAR0, 16, 1),)),
    "FEAT_LSE": Feature({"atomics": 8}, ((ISAR0, 20, 2),)),
    "FEAT_RDM": Feature({"asimdrdm": 12}, ((ISAR0, 28, 1),)),
    "FEAT_SHA3": Feature({"sha3": 17}, ((ISAR0, 32, 1),)),
    "FEAT_SM3": Feature({"sm3": 18}, ((ISAR0, 36, 1),)),
    "FEAT_SM4": Feature({"sm4": 19}, ((ISAR0, 40, 1),)),
    "FEAT_DotProd": Feature({"asimddp": 20}, ((ISAR0, 44, 1),)),
    "FEAT_FHM": Feature({"asimdfhm": 23}, ((ISAR0, 48, 1),)),
    "FEAT_FlagM": Feature({"flagm": 27}, ((ISAR0, 52, 1),)),
    "FEAT_FlagM2": Feature({"flagm2": 64 + 7}, ((ISAR0, 52, 2),)),
    "FEAT_FP16": Feature({"fphp": 9, "asimdhp": 10}, ((PFR0, 16, 1), (PFR0, 20, 1))),
    "FEAT_DPB": Feature({"dcpop": 16}, ((ISAR1, 0, 1),)),
    "FEAT_DPB2": Feature({"dcpodp": 64}, ((ISAR1, 0, 2),)),
    "FEAT_JSCVT": Feature({"jscvt": 13}, ((ISAR1, 12, 1),)),
    "FEAT_FCMA": Feature({"fcma": 14}, ((ISAR1, 16, 1),)),
    "FEAT_LRCPC": Feature({"lrcpc": 15}, ((ISAR1, 20, 1),)),
    "FEAT_LRCPC2": Feature({"ilrcpc": 26}, ((ISAR1, 20, 2),)),
    "FEAT_FRINTTS": Feature({"frint": 64 + 8}, ((ISAR1, 32, 1),)),
    "FEAT_SB": Feature({"sb": 29}, ((ISAR1, 36, 1),)),
    "FEAT_BF16": Feature({"bf16": 64 + 14}, ((ISAR1, 44, 1),)),
    "FEAT_I8MM": Feature({"i8mm": 64 + 13}, ((ISAR1, 52, 1),)),
    "FEAT_LOR": Feature(),
}

ARMV8_0 = frozenset({"FEAT_CRC32", "FEAT_AES", "FEAT_PMULL", "FEAT_SHA1", "FEAT_SHA256"})
"""Armv8.0-A with its optional parts, as a Cortex-A53 or A57."""
CORTEX_A76 = ARMV8_0 | {
    "FEAT_LSE",
    "FEAT_RDM",
    "FEAT_LOR",
    "FEAT_FP16",
    "FEAT_DotProd",
    "FEAT_LRCPC",
    "FEAT_DPB",
}
"""Armv8.2-A as a Cortex-A76 has it: the default."""
ALL = frozenset(FEATURES)
"""Everything that KVRM knows."""
SETS = {"armv8.0": ARMV8_0, "cortex-a76": CORTEX_A76, "all": ALL}


def feature_set(chosen: str | Iterable[str] | None) -> frozenset[str]:
    """A set by its name, by the names of its features, or the default. ValueError for others."""
    if chosen is None:
        return CORTEX_A76
    if isinstance(chosen, str):
        if chosen not in SETS:
            raise ValueError(f"no feature set {chosen!r}; there are {', '.join(SETS)}")
        return SETS[chosen]
    names = frozenset(chosen)
    if unknown := sorted(names - ALL):
        raise ValueError(f"no feature {unknown[0]!r}; there are {', '.join(FEATURES)}")
    return names


def allocates(features: frozenset[str], needed: str | None) -> bool:
    """Whether a machine with `features` has what a definition needs: no feature, or all those it names."""
    return not needed or features.issuperset(needed.split())


def announced(features: frozenset[str]) -> list[Feature]:
    """The base and the features of a set, in the order of the table."""
    return [BASE, *(f for name, f in FEATURES.items() if name in features)]


def hwcaps(features: frozenset[str]) -> tuple[int, int]:
    """AT_HWCAP and AT_HWCAP2."""
    bits = sum(1 << bit for f in announced(features) for bit in f.hwcaps.values())
    return bits & (1 << 64) - 1, bits >> 64


def cpuinfo_features(features: frozenset[str]) -> str:
    """The names in the Features line of /proc/cpuinfo, in the order of their bits."""
    named = {name: bit for f in announced(features) for name, bit in f.hwcaps.items()}
    return " ".join(sorted(named, key=named.__getitem__))


def identification(features: frozenset[str]) -> dict[System, int]:
    """Values of the ID registers that programs can read."""
    values = {PFR0: 0, ISAR0: 0, ISAR1: 0}
    fields: dict[tuple[System, int], int] = {}
    for f in announced(features):
        for register, low, value in f.fields:
            fields[register, low] = max(value, fields.get((register, low), 0))
    for (register, low), value in fields.items():
        values[register] |= value << low
    return values
