"""Advanced SIMD copy, and scalar copy (Arm ARM C4.1.96): DUP, INS, SMOV, UMOV.

The lowest one of imm5 chooses the element size and the bits above it are the lane. Each size is its own
definition, so that the lane (`index`) is a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvrm.isa.a64.simd_common import LETTERS, SCALAR, Operation, datasize, element_size
from kvrm.isa.assembly import general, number, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits

EXECUTION = Execution.EXTEND_SHIFT

INDEX = {8: "index:4 1", 16: "index:3 10", 32: "index:2 100", 64: "index:1 1000"}
"""imm5 for each element size."""


def index_text(index: int) -> str:
    """A lane number in brackets."""
    return number(index)[1:]


@printer
def element(d: Decoded, r: int) -> str:
    """One lane of a vector register: ``v1.s[3]``, ``v1.b[0xa]``."""
    return f"v{r}.{LETTERS[element_size(d)]}[{index_text(d.index)}]"


@printer
def element_source(d: Decoded, r: int) -> str:
    """The lane of INS (element) that is read; the low bits of imm4 are ignored."""
    return f"v{r}.{LETTERS[element_size(d)]}[{index_text(d.imm4 // (element_size(d) // 8))}]"


@printer
def general_element(d: Decoded, r: int) -> str:
    """A general register that holds an element."""
    return general(r, element_size(d) == 64)


@printer
def general_q(d: Decoded, r: int) -> str:
    """A general register, its size by `Q`."""
    return general(r, d.Q)


def _define(
    name: str, key: str, diagram: str, sizes: Sequence[int], asm: str, operation: Operation, **bound: Any
) -> None:
    """A definition for each element size. A vector of one D is not allocated."""
    for esize in sizes:
        d = diagram.format(INDEX[esize])
        holes = "Q=0" if esize == 64 and " Q " in diagram else ""
        insn(name, d, asm, key=f"{key}_{LETTERS[esize]}", unallocated=holes, esize=esize, **bound)(operation)


ANY = (8, 16, 32, 64)

# -- DUP ------------------------------------------------------------------------------------------------


def _dup_element(m: Context, Q: Static, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    n = datasize(Q, esize)
    m.v[Rd, n] = m.v[Rn, 128].split(esize).lane(index).splat(n // esize)


def _dup_general(m: Context, Q: Static, Rn: Bits, Rd: Bits, esize: int) -> None:
    n = datasize(Q, esize)
    m.v[Rd, n] = m.x[Rn, esize].splat(n // esize)


DUP = "0 Q 0 01110000 {} 0 0000 1 Rn:5 Rd:5"
DUP_SCALAR = "01 0 11110000 {} 0 0000 1 Rn:5 Rd:5"
DUP_GENERAL = "0 Q 0 01110000 {} 0 0001 1 Rn:5 Rd:5"
TO_SCALAR = "mov {Rd:vec}, {Rn:element}"
_define("DUP (element)", "dup_element", DUP, ANY, "dup {Rd:vec}, {Rn:element}", _dup_element)
_define("DUP (element)", "dup_element_scalar", DUP_SCALAR, ANY, TO_SCALAR, _dup_element, Q=SCALAR)
_define("DUP (general)", "dup_general", DUP_GENERAL, ANY, "dup {Rd:vec}, {Rn:general_element}", _dup_general)

# -- INS ------------------------------------------------------------------------------------------------


def _ins_general(m: Context, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    m.v[Rd, 128] = m.v[Rd, 128].split(esize).with_lane(index, m.x[Rn, esize])


def _ins_element(m: Context, index: Bits, imm4: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    source = m.v[Rn, 128].split(esize).lane(imm4.lsr((esize // 8).bit_length() - 1))
    m.v[Rd, 128] = m.v[Rd, 128].split(esize).with_lane(index, source)


INS_GENERAL = "0 1 0 01110000 {} 0 0011 1 Rn:5 Rd:5"
INS_ELEMENT = "0 1 1 01110000 {} 0 imm4:4 1 Rn:5 Rd:5"
_define(
    "INS (general)", "ins_general", INS_GENERAL, ANY, "mov {Rd:element}, {Rn:general_element}", _ins_general
)
_define(
    "INS (element)", "ins_element", INS_ELEMENT, ANY, "mov {Rd:element}, {Rn:element_source}", _ins_element
)

# -- To general registers -------------------------------------------------------------------------------


def _smov(m: Context, Q: Static, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    n = 32 << Q
    m.x[Rd, n] = m.v[Rn, 128].split(esize).lane(index).sext(n)


def _umov(m: Context, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    m.x[Rd, esize] = m.v[Rn, 128].split(esize).lane(index)


SMOV = "0 {} 0 01110000 {{}} 0 0101 1 Rn:5 Rd:5"
UMOV = "0 {} 0 01110000 {{}} 0 0111 1 Rn:5 Rd:5"
_define("SMOV", "smov", SMOV.format("Q"), (8, 16), "smov {Rd:general_q}, {Rn:element}", _smov)
_define("SMOV", "smov", SMOV.format("1"), (32,), "smov {Rd:X}, {Rn:element}", _smov, Q=1)
_define("UMOV", "umov", UMOV.format("0"), (8, 16), "umov {Rd:W}, {Rn:element}", _umov)
_define("UMOV", "umov", UMOV.format("0"), (32,), "mov {Rd:W}, {Rn:element}", _umov)
_define("UMOV", "umov", UMOV.format("1"), (64,), "mov {Rd:X}, {Rn:element}", _umov)
