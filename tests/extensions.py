"""Encodings of extensions that KVRM does not have: another disassembler may know their words."""

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
