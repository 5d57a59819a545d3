"""The A64 encoding index of the manual (Arm ARM C4.1): its groups and classes, and what is in them.

Patterns are those of the manual's tables, from bit 31 down; what is missing at the end is x. Counts are of
Arm's machine-readable edition of March 2026 (AARCHMRS): an encoding is a row of a decode table, such as "ADD
(immediate), 64-bit". `left_out` counts the encodings that have no word in common with any definition, by the
feature that they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvrm.isa.encoding import Cube


@dataclass(frozen=True)
class Class:
    """A row of a group's table; its words have one of the patterns (none are given where all is left out)."""

    title: str
    patterns: str
    encodings: int
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def cubes(self) -> list[Cube]:
        """The words of the class, as disjoint cubes."""
        return [_cube(pattern.ljust(32, "x")) for pattern in self.patterns.split()]

    @property
    def defined(self) -> int:
        """Encodings that are defined."""
        return self.encodings - sum(self.left_out.values())


def _cube(pattern: str) -> Cube:
    mask = pattern.replace("0", "1").replace("x", "0")
    return Cube(int(mask, 2), int(pattern.replace("x", "0"), 2))


GROUPS: dict[str, list[Class]] = {
    "Reserved": [
        Class("Permanently undefined", "0000000000000000", 1),
    ],
    "Data processing, immediate": [
        Class("PC-relative addressing", "xxx10000", 2),
        Class("Add/subtract (immediate)", "xxx100010", 8),
        Class("Logical (immediate)", "xxx100100", 8),
        Class("Move wide (immediate)", "xxx100101", 6),
        Class("Bitfield", "xxx100110", 6),
        Class("Extract", "xxx100111", 2),
        Class("Add/subtract (immediate, with tags)", "", 2, {"FEAT_MTE": 2}),
        Class("Data processing (1 source immediate)", "", 2, {"FEAT_PAuth_LR": 2}),
        Class("Min/max (immediate)", "", 8, {"FEAT_CSSC": 8}),
    ],
    "Branches, exception generation and system instructions": [
        Class("Conditional branch (immediate)", "0101010", 2, {"FEAT_HBC": 1}),
        Class("Exception generation", "11010100", 9, {"debug state": 3, "TCHANGE, TENTER, TEXIT": 1}),
        Class("Hints", "11010101000000110010xxxxxxx11111", 33),
        Class("Barriers", "11010101000000110011", 6, {"FEAT_XS": 1}),
        Class("PSTATE", "1101010100000xxx0100", 4),
        Class("System instructions", "1101010100x01", 2),
        Class("System register move", "1101010100x1", 2),
        Class(
            "Unconditional branch (register)",
            "1101011",
            20,
            {
                "FEAT_PAuth": 12,
                "FEAT_PAuth_LR": 2,
                "EL1 and above": 1,
                "TCHANGE, TENTER, TEXIT": 1,
                "debug state": 1,
            },
        ),
        Class("Unconditional branch (immediate)", "x00101", 2),
        Class("Compare and branch (immediate)", "x011010", 4),
        Class("Test and branch (immediate)", "x011011", 2),
        Class("Compare registers and branch, with immediates", "", 12, {"FEAT_CMPBR": 12}),
        Class("Compare registers and branch", "", 12, {"FEAT_CMPBR": 12}),
        Class("Compare bytes or halfwords and branch", "", 12, {"FEAT_CMPBR": 12}),
        Class("Miscellaneous branch (immediate)", "", 2, {"FEAT_PAuth_LR": 2}),
        Class("System pair instructions", "", 1, {"FEAT_SYSINSTR128": 1}),
        Class("System instructions with register argument", "", 2, {"FEAT_WFxT": 2}),
        Class("System register pair move", "", 2, {"FEAT_SYSREG128": 2}),
        Class("System with result", "", 2, {"FEAT_TME": 2}),
        Class("TCHANGE (immediate)", "", 2, {"TCHANGE, TENTER, TEXIT": 2}),
        Class("TCHANGE (register)", "", 2, {"TCHANGE, TENTER, TEXIT": 2}),
    ],
    "Loads and stores": [
        Class("Compare and swap pair", "0x0010000x1", 8),
        Class("Advanced SIMD load/store multiple structures", "0x0011000x000000", 14),
        Class("Advanced SIMD load/store multiple structures (post-indexed)", "0x0011001x0", 28),
        Class("Advanced SIMD load/store single structure", "0x0011010", 38, {"FEAT_LRCPC3": 2}),
        Class("Advanced SIMD load/store single structure (post-indexed)", "0x0011011", 72),
        Class("Load/store exclusive pair", "1x0010000x1", 8),
        Class("Load/store exclusive register", "xx0010000x0", 16),
        Class("Load/store ordered", "xx0010001x0", 16),
        Class("Compare and swap", "xx0010001x1", 16),
        Class("LDAPR/STLR (unscaled immediate)", "xx011001xx0xxxxxxxxx00", 13),
        Class("Load register (literal)", "xx011x00", 7),
        Class("Load/store no-allocate pair (offset)", "xx101x000", 14, {"FEAT_LSUI": 4}),
        Class("Load/store register pair (post-indexed)", "xx101x001", 16, {"FEAT_MTE": 1, "FEAT_LSUI": 4}),
        Class("Load/store register pair (offset)", "xx101x010", 16, {"FEAT_MTE": 1, "FEAT_LSUI": 4}),
        Class("Load/store register pair (pre-indexed)", "xx101x011", 16, {"FEAT_MTE": 1, "FEAT_LSUI": 4}),
        Class("Load/store register (unscaled immediate)", "xx111x00xx0xxxxxxxxx00", 24),
        Class("Load/store register (immediate post-indexed)", "xx111x00xx0xxxxxxxxx01", 23),
        Class("Load/store register (unprivileged)", "xx111x00xx0xxxxxxxxx10", 13),
        Class("Load/store register (immediate pre-indexed)", "xx111x00xx0xxxxxxxxx11", 23),
        Class(
            "Atomic memory operations",
            "xx111x00xx1xxxxxxxxx00",
            296,
            {"FEAT_THE": 24, "FEAT_LS64": 4, "FEAT_LSFE": 120},
        ),
        Class("Load/store register (register offset)", "xx111x00xx1xxxxxxxxx10", 31),
        Class("Load/store register (unsigned immediate)", "xx111x01", 24),
        Class("Compare and swap (unprivileged)", "", 4, {"FEAT_LSUI": 4}),
        Class("Compare and swap pair (unprivileged)", "", 4, {"FEAT_LSUI": 4}),
        Class("LDAPR/STLR (SIMD&FP)", "", 10, {"FEAT_LRCPC3": 10}),
        Class("LDAPR/STLR (writeback)", "", 4, {"FEAT_LRCPC3": 4}),
        Class("LDIAPP/STILP", "", 11, {"FEAT_LRCPC3": 8, "LDAP, LDAPP, STLP": 3}),
        Class("GCS load/store", "", 2, {"FEAT_GCS": 2}),
        Class("Load/store register (pac)", "", 4, {"FEAT_PAuth": 4}),
        Class("Load/store exclusive register (unprivileged)", "", 8, {"FEAT_LSUI": 8}),
        Class("Load/store memory tags", "", 16, {"FEAT_MTE": 16}),
        Class("Memory copy and memory set", "", 120, {"FEAT_MOPS": 108, "FEAT_MOPS, FEAT_MTE": 12}),
        Class("128-bit atomic memory operations", "", 36, {"FEAT_LSE128": 12, "FEAT_THE, FEAT_D128": 24}),
        Class("Atomic memory operations (unprivileged)", "", 32, {"FEAT_LSUI": 32}),
        Class("Memory set (SETGO)", "", 12, {"SETGO": 12}),
        Class("RCW compare and swap", "", 8, {"FEAT_THE": 8}),
        Class("RCW compare and swap pair", "", 8, {"FEAT_THE, FEAT_D128": 8}),
    ],
    "Data processing, register": [
        Class(
            "Data processing (2 source)", "x0x11010110", 33, {"FEAT_CSSC": 8, "FEAT_MTE": 4, "FEAT_PAuth": 1}
        ),
        Class(
            "Data processing (1 source)",
            "x1x11010110",
            45,
            {"FEAT_CSSC": 6, "FEAT_PAuth": 18, "FEAT_PAuth_LR": 10},
        ),
        Class("Logical (shifted register)", "xxx01010", 16),
        Class("Add/subtract (shifted register)", "xxx01011xx0", 8),
        Class("Add/subtract (extended register)", "xxx01011xx1", 8),
        Class("Add/subtract (with carry)", "xxx11010000xxxxx000000", 8),
        Class("Rotate right into flags", "xxx11010000xxxxxx00001", 1),
        Class("Evaluate into flags", "xxx11010000xxxxxxx0010", 2),
        Class("Conditional compare (register)", "xxx11010010xxxxxxxxx0", 4),
        Class("Conditional compare (immediate)", "xxx11010010xxxxxxxxx1", 4),
        Class("Conditional select", "xxx11010100", 8),
        Class("Data processing (3 source)", "xxx11011", 12, {"FEAT_CPA": 2}),
        Class("Add/subtract (checked pointer)", "", 2, {"FEAT_CPA": 2}),
    ],
    "Scalar floating point and Advanced SIMD": [
        Class("Cryptographic AES", "01001110xx10100xxxxx10", 4),
        Class("Cryptographic three-register SHA", "01011110xx0xxxxx0xxx00", 7),
        Class("Cryptographic two-register SHA", "01011110xx10100xxxxx10", 3),
        Class("Advanced SIMD scalar copy", "01x11110000xxxxx0xxxx1", 1),
        Class("Advanced SIMD scalar three same FP16", "01x11110x10xxxxx00xxx1", 9),
        Class("Advanced SIMD scalar two-register miscellaneous FP16", "01x11110x111100xxxxx10", 20),
        Class("Advanced SIMD scalar three same extra", "01x11110xx0xxxxx1xxxx1", 2),
        Class("Advanced SIMD scalar two-register miscellaneous", "01x11110xx10000xxxxx10", 35),
        Class("Advanced SIMD scalar pairwise", "01x11110xx11000xxxxx10", 11),
        Class("Advanced SIMD scalar three different", "01x11110xx1xxxxxxxxx00", 3),
        Class("Advanced SIMD scalar three same", "01x11110xx1xxxxxxxxxx1", 31),
        Class("Advanced SIMD scalar shift by immediate", "01x111110xxxxxxxxxxxx1", 24),
        Class("Advanced SIMD scalar x indexed element", "01x11111xxxxxxxxxxxxx0", 15),
        Class("Advanced SIMD table lookup", "0x001110xx0xxxxx0xxx00", 12, {"FEAT_LUT": 4}),
        Class("Advanced SIMD permute", "0x001110xx0xxxxx0xxx10", 6),
        Class("Advanced SIMD extract", "0x101110xx0xxxxx0xxxx0", 1),
        Class("Advanced SIMD copy", "0xx01110000xxxxx0xxxx1", 8),
        Class(
            "Advanced SIMD three same (FP16)",
            "0xx01110x10xxxxx00xxx1",
            27,
            {"FEAT_FAMINMAX": 2, "FEAT_FP8 and its relatives": 1},
        ),
        Class("Advanced SIMD two-register miscellaneous (FP16)", "0xx01110x111100xxxxx10", 29),
        Class(
            "Advanced SIMD three-register extension",
            "0xx01110xx0xxxxx1xxxx1",
            28,
            {"FEAT_FP8 and its relatives": 15},
        ),
        Class(
            "Advanced SIMD two-register miscellaneous",
            "0xx01110xx10000xxxxx10",
            71,
            {"FEAT_FP8 and its relatives": 4},
        ),
        Class("Advanced SIMD across lanes", "0xx01110xx11000xxxxx10", 15),
        Class("Advanced SIMD three different", "0xx01110xx1xxxxxxxxx00", 26),
        Class(
            "Advanced SIMD three same",
            "0xx01110xx1xxxxxxxxxx1",
            84,
            {"FEAT_FAMINMAX": 2, "FEAT_FP8 and its relatives": 1},
        ),
        Class("Advanced SIMD modified immediate", "0xx0111100000xxxxxxxx1", 16),
        Class(
            "Advanced SIMD shift by immediate",
            "0xx0111101xxxxxxxxxxx1 0xx01111001xxxxxxxxxx1 0xx011110001xxxxxxxxx1 0xx0111100001xxxxxxxx1",
            28,
        ),
        Class(
            "Advanced SIMD vector x indexed element",
            "0xx01111xxxxxxxxxxxxx0",
            44,
            {"FEAT_FP8 and its relatives": 9},
        ),
        Class("Cryptographic three-register, imm2", "11001110010xxxxx10xxxx", 4),
        Class("Cryptographic three-register SHA 512", "11001110011xxxxx1x00xx", 7),
        Class("Cryptographic four-register", "110011100xxxxxxx0xxxxx", 3),
        Class("XAR", "11001110100xxxxxxxxxxx", 1),
        Class("Cryptographic two-register SHA 512", "11001110110000001000xx", 2),
        Class("Conversion between floating point and fixed point", "x0x11110xx0xxxxxxxxxxx", 24),
        Class(
            "Conversion between floating point and integer",
            "x0x11110xx1xxxxx000000",
            131,
            {"FEAT_FPRCVT": 48},
        ),
        Class("Floating-point data processing (1 source)", "x0x11110xx1xxxxxx10000", 48),
        Class("Floating-point compare", "x0x11110xx1xxxxxxx1000", 12),
        Class("Floating-point immediate", "x0x11110xx1xxxxxxxx100", 3),
        Class("Floating-point conditional compare", "x0x11110xx1xxxxxxxxx01", 6),
        Class("Floating-point data processing (2 source)", "x0x11110xx1xxxxxxxxx10", 27),
        Class("Floating-point conditional select", "x0x11110xx1xxxxxxxxx11", 3),
        Class("Floating-point data processing (3 source)", "x0x11111xxxxxxxxxxxxxx", 12),
    ],
    "SVE encodings": [Class("SVE", "xxx0010", 1328, {"SVE": 1328})],
    "SME encodings": [Class("SME", "1xx0000", 838, {"SME": 838})],
}
