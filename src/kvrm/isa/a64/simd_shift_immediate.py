"""Advanced SIMD shift by immediate, and scalar shift by immediate: the integer part (Arm ARM C4.1.96).

The highest one of immh chooses the element size and the bits below it, with immb, are the amount. Each size
is its own definition, so that the amount (`imm`) is a field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import (
    LETTERS,
    SCALAR,
    Operation,
    datasize,
    element_size,
    half,
    key_of,
    mnemonic_of,
    settle,
    widesize,
    write_half,
)
from kvrm.isa.assembly import number, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Static, insn
from kvrm.values import Bits, bits

IMM = {8: "0001 imm:3", 16: "001 imm:4", 32: "01 imm:5", 64: "1 imm:6"}
"""immh:immb for each element size."""

Shift = lanes.Binary
"""What to do with elements and their shift amounts."""


@printer
def shift_left(d: Decoded, imm: int) -> str:
    """Amount of a left shift."""
    return number(imm)


@printer
def shift_right(d: Decoded, imm: int) -> str:
    """Amount of a right shift."""
    return number(element_size(d) - imm)


def _left(imm: Bits, a: Bits) -> Bits:
    """The amount of a left shift, for each lane of a."""
    return imm.zext(a.width).splat(a.lanes)


def _right(imm: Bits, a: Bits, esize: int) -> Bits:
    """The amount of a right shift, for each lane of a."""
    return (bits(7, esize) - imm.zext(7)).zext(a.width).splat(a.lanes)


def _define(
    u: int,
    code: str,
    name: str,
    sizes: tuple[Sequence[int], Sequence[int]],
    operation: Operation,
    operands: str,
    op: object,
) -> None:
    """A definition for each element size that the vector form has, and for each that the scalar form has."""
    text = mnemonic_of(name) + operands
    for esize in sizes[0]:
        insn(
            name,
            f"0 Q {u} 011110 {IMM[esize]} {code} 1 Rn:5 Rd:5",
            text,
            key=key_of(name, LETTERS[esize]),
            unallocated="Q=0" if esize == 64 else "",
            esize=esize,
            op=op,
        )(operation)
    for esize in sizes[1]:
        insn(
            name,
            f"01 {u} 111110 {IMM[esize]} {code} 1 Rn:5 Rd:5",
            text,
            key=key_of(name, "scalar", LETTERS[esize]),
            Q=SCALAR,
            esize=esize,
            op=op,
        )(operation)


ANY, NARROW, D, NONE = (8, 16, 32, 64), (8, 16, 32), (64,), ()
RIGHT = " {Rd:vec}, {Rn:vec}, {imm:shift_right}"
LEFT = " {Rd:vec}, {Rn:vec}, {imm:shift_left}"

# -- Elements of one size ---------------------------------------------------------------------------------------


def _shift_right(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    n = datasize(Q, esize)
    a = m.v[Rn, n].split(esize)
    m.v[Rd, n] = settle(m, op(a, _right(imm, a, esize)))


def _shift_left(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    n = datasize(Q, esize)
    a = m.v[Rn, n].split(esize)
    m.v[Rd, n] = settle(m, op(a, _left(imm, a)))


def _accumulate(
    m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Callable[[Bits, Bits], Bits]
) -> None:
    n = datasize(Q, esize)
    a = m.v[Rn, n].split(esize)
    m.v[Rd, n] = m.v[Rd, n].split(esize) + op(a, _right(imm, a, esize))


for _code, _name, _rounding, _operation in (
    ("00000", "{}SHR", False, _shift_right),
    ("00010", "{}SRA", False, _accumulate),
    ("00100", "{}RSHR", True, _shift_right),
    ("00110", "{}RSRA", True, _accumulate),
):
    for _u, _signed in ((0, True), (1, False)):
        _op = lanes.shift_right_by(_signed, _rounding)
        _define(_u, _code, _name.format("US"[_signed]), (ANY, D), _operation, RIGHT, _op)

_define(0, "01010", "SHL", (ANY, D), _shift_left, LEFT, Bits.lsl)
_define(1, "01100", "SQSHLU", (ANY, ANY), _shift_left, LEFT, lanes.shift_left_to_unsigned)
_define(0, "01110", "SQSHL (immediate)", (ANY, ANY), _shift_left, LEFT, lanes.shift_left_signed)
_define(1, "01110", "UQSHL (immediate)", (ANY, ANY), _shift_left, LEFT, lanes.shift_left_unsigned)

# -- Inserting: the bits that the shift vacates stay ------------------------------------------------------------


def _insert(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: bool) -> None:
    n = datasize(Q, esize)
    d, a = m.v[Rd, n].split(esize), m.v[Rn, n].split(esize)
    shift = Bits.lsr if op else Bits.lsl
    amount = _right(imm, bits(esize, 0), esize) if op else imm.zext(esize)
    kept = ~shift(bits(esize, -1), amount)
    m.v[Rd, n] = (d & kept.splat(a.lanes)) | shift(a, amount.splat(a.lanes))


_define(1, "01000", "SRI", (ANY, D), _insert, RIGHT, True)
_define(1, "01010", "SLI", (ANY, D), _insert, LEFT, False)

# -- To elements half as wide -----------------------------------------------------------------------------------


def _narrow(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    a = m.v[Rn, widesize(Q, 2 * esize)].split(2 * esize)
    write_half(m, Rd, Q, settle(m, op(a, _right(imm, a, esize))))


def _shift_and(narrow: lanes.Unary, signed: bool, rounding: bool) -> Shift:
    shift = lanes.shift_right_by(signed, rounding)
    return lambda a, n: narrow(shift(a, n))


for _u, _code, _name, _scalar_sizes, _op in (
    (0, "10000", "SHRN, SHRN2", NONE, _shift_and(lanes.narrow, False, False)),
    (0, "10001", "RSHRN, RSHRN2", NONE, _shift_and(lanes.narrow, False, True)),
    (0, "10010", "SQSHRN, SQSHRN2", NARROW, _shift_and(lanes.narrow_signed, True, False)),
    (0, "10011", "SQRSHRN, SQRSHRN2", NARROW, _shift_and(lanes.narrow_signed, True, True)),
    (1, "10000", "SQSHRUN, SQSHRUN2", NARROW, _shift_and(lanes.narrow_to_unsigned, True, False)),
    (1, "10001", "SQRSHRUN, SQRSHRUN2", NARROW, _shift_and(lanes.narrow_to_unsigned, True, True)),
    (1, "10010", "UQSHRN, UQSHRN2", NARROW, _shift_and(lanes.narrow_unsigned, False, False)),
    (1, "10011", "UQRSHRN, UQRSHRN2", NARROW, _shift_and(lanes.narrow_unsigned, False, True)),
):
    _define(
        _u,
        _code,
        _name,
        (NARROW, _scalar_sizes),
        _narrow,
        "{:two} {Rd:vec}, {Rn:vec_wide}, {imm:shift_right}",
        _op,
    )

# -- To elements twice as wide ----------------------------------------------------------------------------------


def _long(
    m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Callable[[Bits], Bits]
) -> None:
    a = op(half(m, Rn, Q, esize))
    m.v[Rd, 128] = a.lsl(_left(imm, a))


LONG = "{:two} {Rd:vec_wide}, {Rn:vec}, {imm:shift_left}"
_define(0, "10100", "SSHLL, SSHLL2", (NARROW, NONE), _long, LONG, lanes.wide_signed)
_define(1, "10100", "USHLL, USHLL2", (NARROW, NONE), _long, LONG, lanes.wide_unsigned)
