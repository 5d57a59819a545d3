"""Encodings of extensions that KVRM does not have: capstone or QEMU may know their words."""

from __future__ import annotations

from kvrm.isa.encoding import Cube, Diagram

DIAGRAMS = {
    "SME": ["1 x:2 0000 y:25"],
    "SVE": ["x:3 0010 y:25"],
    "FEAT_PAuth: pointer authentication with keys": [
        "11 111 0 00 M S 1 imm9:9 W 1 Rn:5 Rt:5",
        "1 1 0 11010110 00001 x:16",
        "1 0 0 11010110 Rm:5 001100 Rn:5 Rd:5",
        "1101011 Z 0 op:2 11111 00001 M Rn:5 Rm:5",
        "1101011 0 100 11111 00001 M 11111 11111",
    ],
    "FEAT_MTE: memory tags": [
        "11011001 x:2 1 y:21",
        "1 op 0 100011 0 imm6:6 00 imm4:4 Rn:5 Rd:5",
        "1 0 0 11010110 Rm:5 00010 x Rn:5 Rd:5",
        "1 0 S 11010110 Rm:5 000000 Rn:5 Rd:5",
        "0 1 101 0 0 x:2 0 imm7:7 Rt2:5 Rn:5 Rt:5",
    ],
    "FEAT_MOPS: memory copy and set": ["x:2 011 z 01 y:2 0 w:5 v:4 01 Rn:5 Rd:5"],
    "FEAT_HBC: hinted branches": ["01010100 imm19:19 1 cond:4"],
    "FEAT_LS64: 64-byte accesses": [
        "11 111 0 00 0 0 1 Rs:5 1 001 00 Rn:5 Rt:5",
        "11 111 0 00 0 0 1 Rs:5 1 01 x 00 Rn:5 Rt:5",
        "11 111 0 00 0 0 1 Rs:5 1 101 00 Rn:5 Rt:5",
    ],
    "FEAT_TME: transactions": [
        "1101010100 1 00 011 0011 000 x 011 Rt:5",
        "11010100 011 imm16:16 000 00",
        "1101010100 0 00 011 0011 0000 011 11111",
    ],
    "FEAT_WFxT: waiting with timeout": ["1101010100 0 00 011 0001 0000 00 x Rt:5"],
    "FEAT_SME: streaming mode": ["1101010100 0 00 011 0100 x:4 011 11111"],
    "FEAT_XS: barriers": ["1101010100 0 00 011 0011 x:2 10 001 11111"],
    "op0 = 0 outside the hints, barriers and PSTATE, which the manual does not allocate": [
        "1101010100 L 00 x:19"
    ],
    "debug state": [
        "11010100 101 imm16:16 000 01",
        "11010100 101 imm16:16 000 1 x",
        "1101011 0 101 11111 000000 11111 00000",
    ],
    "EL1 and above": ["1101011 0 100 11111 000000 11111 00000"],
}

EXTENSIONS: list[tuple[Cube, str]] = [
    (Diagram.parse(text).cube, reason) for reason, texts in DIAGRAMS.items() for text in texts
]

SYSTEM = {
    "FEAT_MTE: memory tags": [
        *(0xD50B747F, 0xD50B749F),  # DC GVA, DC GZVA
        *(0xD50B7A7F, 0xD50B7ABF, 0xD50B7C7F, 0xD50B7CBF, 0xD50B7D7F, 0xD50B7DBF, 0xD50B7E7F, 0xD50B7EBF),
        *(0xD53B42FF, 0xD51B42FF),  # TCO
    ],
    "FEAT_SME": [
        *(0xD53B425F, 0xD51B425F),  # SVCR
        *(0xD53BD0BF, 0xD51BD0BF),  # TPIDR2_EL0
    ],
    "FEAT_RNG": [0xD53B241F, 0xD53B243F],  # RNDR, RNDRRS
    "FEAT_DIT": [0xD53B42BF, 0xD51B42BF],
    "FEAT_SSBS": [0xD53B42DF, 0xD51B42DF],
    "FEAT_PMUv3": [0xD53B9E1F],  # PMUSERENR_EL0
    "Linux traps the debug communications channel (MDSCR_EL1.TDCC); QEMU does not": [
        0xD533011F
    ],  # MDCCSR_EL0
}
"""Words (with Rt = 31) of MRS, MSR and SYS that QEMU's largest processor has and KVRM does not."""
QEMU_ALONE = frozenset(word for words in SYSTEM.values() for word in words)
