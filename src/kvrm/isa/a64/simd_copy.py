"""Advanced SIMD copy, and scalar copy (Arm ARM C4.1.96): DUP, INS, SMOV, UMOV.

The lowest one of imm5 chooses the element size and the bits above it are the lane. Each size is its own definition, so that
the lane (`index`) is a field.
"""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.simd_common import LETTERS, element_size
from kvrm.isa.assembly import general, number, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Asm, Static, Decoded, insn
from kvrm.values import Bits

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


def _define(name: str, key: str, diagram: str, sizes: tuple[int, ...], asm: Asm, operation: Callable[..., None]) -> None:
    for esize in sizes:
        d = diagram.format(INDEX[esize])
        one_d = "Q=0" if esize == 64 and " Q " in diagram else ""
        insn(name, d, asm, key=f"{key}_{LETTERS[esize]}", unallocated=one_d, esize=esize)(operation)


ALL = (8, 16, 32, 64)

# -- DUP ------------------------------------------------------------------------------------------------------


def _dup_element(m: Context, Q: Static, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    n = 128 if Q else 64
    m.v[Rd, n] = m.v[Rn, 128].split(esize).lane(index).splat(n // esize)


def _dup_scalar(m: Context, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    m.v[Rd, esize] = m.v[Rn, 128].split(esize).lane(index)


def _dup_general(m: Context, Q: Static, Rn: Bits, Rd: Bits, esize: int) -> None:
    n = 128 if Q else 64
    m.v[Rd, n] = m.x[Rn, esize].splat(n // esize)


_define(
    "DUP (element)",
    "dup_element",
    "0 Q 0 01110000 {} 0 0000 1 Rn:5 Rd:5",
    ALL,
    "dup {Rd:vector}, {Rn:element}",
    _dup_element,
)
_define(
    "DUP (element)",
    "dup_element_scalar",
    "01 0 11110000 {} 0 0000 1 Rn:5 Rd:5",
    ALL,
    "mov {Rd:scalar}, {Rn:element}",
    _dup_scalar,
)
_define(
    "DUP (general)",
    "dup_general",
    "0 Q 0 01110000 {} 0 0001 1 Rn:5 Rd:5",
    ALL,
    "dup {Rd:vector}, {Rn:general_element}",
    _dup_general,
)

# -- INS ------------------------------------------------------------------------------------------------------


def _ins_general(m: Context, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    m.v[Rd, 128] = m.v[Rd, 128].split(esize).with_lane(index, m.x[Rn, esize])


def _ins_element(m: Context, index: Bits, imm4: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    source = m.v[Rn, 128].split(esize).lane(imm4.lsr((esize // 8).bit_length() - 1))
    m.v[Rd, 128] = m.v[Rd, 128].split(esize).with_lane(index, source)


_define(
    "INS (general)",
    "ins_general",
    "0 1 0 01110000 {} 0 0011 1 Rn:5 Rd:5",
    ALL,
    "mov {Rd:element}, {Rn:general_element}",
    _ins_general,
)
_define(
    "INS (element)",
    "ins_element",
    "0 1 1 01110000 {} 0 imm4:4 1 Rn:5 Rd:5",
    ALL,
    "mov {Rd:element}, {Rn:element_source}",
    _ins_element,
)

# -- To general registers -------------------------------------------------------------------------------------


def _smov(m: Context, Q: Static, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    n = 64 if Q else 32
    m.x[Rd, n] = m.v[Rn, 128].split(esize).lane(index).sext(n)


def _umov(m: Context, index: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    m.x[Rd, esize] = m.v[Rn, 128].split(esize).lane(index)


@printer
def general_q(d: Decoded, r: int) -> str:
    """A general register, its size by `Q`."""
    return general(r, d.Q)


SMOV = "0 Q 0 01110000 {} 0 0101 1 Rn:5 Rd:5"
_define("SMOV", "smov", SMOV, (8, 16), "smov {Rd:general_q}, {Rn:element}", _smov)
insn(
    "SMOV",
    "0 1 0 01110000 index:2 100 0 0101 1 Rn:5 Rd:5",
    "smov {Rd:X}, {Rn:element}",
    key="smov_s",
    esize=32,
    Q=1,
)(_smov)
for _q, _sizes, _text in (("0", (8, 16), "umov"), ("0", (32,), "mov"), ("1", (64,), "mov")):
    _define(
        "UMOV",
        "umov",
        f"0 {_q} 0 01110000 {{}} 0 0111 1 Rn:5 Rd:5",
        _sizes,
        f"{_text} {{Rd:general_element}}, {{Rn:element}}",
        _umov,
    )
