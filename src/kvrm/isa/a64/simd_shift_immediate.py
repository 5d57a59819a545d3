"""Advanced SIMD shift by immediate, and scalar shift by immediate: the integer part (Arm ARM C4.1.96).

The highest one of immh chooses the element size and the bits below it, with immb, are the amount. Each size is its own
definition, so that the amount (`imm`) is a field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import (
    LETTERS,
    element_size,
    half,
    key_of,
    mnemonic_of,
    settle,
    write_half,
)
from kvrm.isa.assembly import number, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Decoded, Static, insn
from kvrm.values import Bits, bits

SIZES = {8: "0001 imm:3", 16: "001 imm:4", 32: "01 imm:5", 64: "1 imm:6"}
"""immh:immb for each element size."""

VECTOR = "0 Q {} 011110 {} {} 1 Rn:5 Rd:5"
SCALAR = "01 {} 111110 {} {} 1 Rn:5 Rd:5"

Operation = Callable[..., None]
Shift = lanes.Binary
"""What to do with a and the amount n, which has the shape of a."""


@printer
def shift_left(d: Decoded, imm: int) -> str:
    """Amount of a left shift."""
    return number(imm)


@printer
def shift_right(d: Decoded, imm: int) -> str:
    """Amount of a right shift."""
    return number(element_size(d) - imm)


def _left(imm: Bits, a: Bits) -> Bits:
    return imm.zext(a.width).splat(a.lanes)


def _right(imm: Bits, a: Bits, esize: int) -> Bits:
    return (bits(7, esize) - imm.zext(7)).zext(a.width).splat(a.lanes)


def _define(
    u: int, code: str, name: str, sizes: Sequence[int], operation: Operation, operands: str, scalar: bool = False,
    aliases: Sequence[Alias] = (), **bound: object,
) -> None:  # fmt: skip
    """One definition for each element size."""
    diagram, suffix = (SCALAR, ["scalar"]) if scalar else (VECTOR, [])
    for esize in sizes:
        insn(
            name,
            diagram.format(u, SIZES[esize], code),
            mnemonic_of(name) + operands,
            key=key_of(name, *suffix, LETTERS[esize]),
            unallocated="Q=0" if esize == 64 and not scalar else "",
            aliases=aliases,
            esize=esize,
            **bound,
        )(operation)


# -- Elements of one size -------------------------------------------------------------------------------------

ALL, NARROW, D = (8, 16, 32, 64), (8, 16, 32), (64,)


def _vector_right(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    n = 128 if Q else 64
    a = m.v[Rn, n].split(esize)
    m.v[Rd, n] = settle(m, op(a, _right(imm, a, esize)))


def _scalar_right(m: Context, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    a = m.v[Rn, esize]
    m.v[Rd, esize] = settle(m, op(a, _right(imm, a, esize)))


def _vector_left(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    n = 128 if Q else 64
    a = m.v[Rn, n].split(esize)
    m.v[Rd, n] = settle(m, op(a, _left(imm, a)))


def _scalar_left(m: Context, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    a = m.v[Rn, esize]
    m.v[Rd, esize] = settle(m, op(a, _left(imm, a)))


def _vector_sum(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Callable[..., Bits]) -> None:
    n = 128 if Q else 64
    a = m.v[Rn, n].split(esize)
    m.v[Rd, n] = m.v[Rd, n].split(esize) + op(a, _right(imm, a, esize))


def _scalar_sum(m: Context, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Callable[..., Bits]) -> None:
    a = m.v[Rn, esize]
    m.v[Rd, esize] = m.v[Rd, esize] + op(a, _right(imm, a, esize))


def _shift(signed: bool, rounding: bool) -> Callable[[Bits, Bits], Bits]:
    return lambda a, n: lanes.shift_right(a, n, signed, rounding)


RIGHT = " {Rd:vector}, {Rn:vector}, {imm:shift_right}"
RIGHT_SCALAR = " {Rd:scalar}, {Rn:scalar}, {imm:shift_right}"
LEFT = " {Rd:vector}, {Rn:vector}, {imm:shift_left}"
LEFT_SCALAR = " {Rd:scalar}, {Rn:scalar}, {imm:shift_left}"

for _u, _code, _name, _rounding in (
    (0, "00000", "SSHR", False),
    (1, "00000", "USHR", False),
    (0, "00100", "SRSHR", True),
    (1, "00100", "URSHR", True),
):
    _op = _shift(not _u, _rounding)
    _define(_u, _code, _name, ALL, _vector_right, RIGHT, op=_op)
    _define(_u, _code, _name, D, _scalar_right, RIGHT_SCALAR, scalar=True, op=_op)
for _u, _code, _name, _rounding in (
    (0, "00010", "SSRA", False),
    (1, "00010", "USRA", False),
    (0, "00110", "SRSRA", True),
    (1, "00110", "URSRA", True),
):
    _op = _shift(not _u, _rounding)
    _define(_u, _code, _name, ALL, _vector_sum, RIGHT, op=_op)
    _define(_u, _code, _name, D, _scalar_sum, RIGHT_SCALAR, scalar=True, op=_op)

_define(0, "01010", "SHL", ALL, _vector_left, LEFT, op=Bits.lsl)
_define(0, "01010", "SHL", D, _scalar_left, LEFT_SCALAR, scalar=True, op=Bits.lsl)
for _u, _code, _name, _saturating in (
    (1, "01100", "SQSHLU", lanes.shift_left_to_unsigned),
    (0, "01110", "SQSHL (immediate)", lanes.shift_left_signed),
    (1, "01110", "UQSHL (immediate)", lanes.shift_left_unsigned),
):
    _define(_u, _code, _name, ALL, _vector_left, LEFT, op=_saturating)
    _define(_u, _code, _name, ALL, _scalar_left, LEFT_SCALAR, scalar=True, op=_saturating)

# -- Inserting: the bits that the shift vacates stay ----------------------------------------------------------


def _insert_right(d: Bits, a: Bits, imm: Bits, esize: int) -> Bits:
    n = bits(esize, esize) - imm.zext(esize)
    mask = bits(esize, -1).lsr(n).splat(a.lanes)
    return (d & ~mask) | a.lsr(n.splat(a.lanes))


def _insert_left(d: Bits, a: Bits, imm: Bits, esize: int) -> Bits:
    n = imm.zext(esize)
    mask = bits(esize, -1).lsl(n).splat(a.lanes)
    return (d & ~mask) | a.lsl(n.splat(a.lanes))


def _vector_insert(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Callable[..., Bits]) -> None:
    n = 128 if Q else 64
    m.v[Rd, n] = op(m.v[Rd, n].split(esize), m.v[Rn, n].split(esize), imm, esize)


def _scalar_insert(m: Context, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Callable[..., Bits]) -> None:
    m.v[Rd, esize] = op(m.v[Rd, esize], m.v[Rn, esize], imm, esize)


_define(1, "01000", "SRI", ALL, _vector_insert, RIGHT, op=_insert_right)
_define(1, "01000", "SRI", D, _scalar_insert, RIGHT_SCALAR, scalar=True, op=_insert_right)
_define(1, "01010", "SLI", ALL, _vector_insert, LEFT, op=_insert_left)
_define(1, "01010", "SLI", D, _scalar_insert, LEFT_SCALAR, scalar=True, op=_insert_left)

# -- To elements half as wide ---------------------------------------------------------------------------------


def _vector_narrow(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    a = m.v[Rn, 128].split(2 * esize)
    write_half(m, Rd, Q, settle(m, op(a, _right(imm, a, esize))))


def _scalar_narrow(m: Context, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    a = m.v[Rn, 2 * esize]
    m.v[Rd, esize] = settle(m, op(a, _right(imm, a, esize)))


def _and_then(narrow: lanes.Unary, signed: bool, rounding: bool) -> Shift:
    return lambda a, n: narrow(lanes.shift_right(a, n, signed, rounding))


def _truncate(a: Bits) -> Bits:
    return a.trunc(a.width // 2)


NARROWED = "{Q:two} {Rd:vector}, {Rn:vector_wide}, {imm:shift_right}"
NARROWED_SCALAR = " {Rd:scalar}, {Rn:scalar_wide}, {imm:shift_right}"

for _code, _name, _rounding in (("10000", "SHRN, SHRN2", False), ("10001", "RSHRN, RSHRN2", True)):
    _define(0, _code, _name, NARROW, _vector_narrow, NARROWED, op=_and_then(_truncate, False, _rounding))
for _u, _code, _name, _narrow, _signed, _rounding in (
    (0, "10010", "SQSHRN, SQSHRN2", lanes.narrow_signed, True, False),
    (0, "10011", "SQRSHRN, SQRSHRN2", lanes.narrow_signed, True, True),
    (1, "10000", "SQSHRUN, SQSHRUN2", lanes.narrow_to_unsigned, True, False),
    (1, "10001", "SQRSHRUN, SQRSHRUN2", lanes.narrow_to_unsigned, True, True),
    (1, "10010", "UQSHRN, UQSHRN2", lanes.narrow_unsigned, False, False),
    (1, "10011", "UQRSHRN, UQRSHRN2", lanes.narrow_unsigned, False, True),
):
    _both = _and_then(_narrow, _signed, _rounding)
    _define(_u, _code, _name, NARROW, _vector_narrow, NARROWED, op=_both)
    _define(_u, _code, _name, NARROW, _scalar_narrow, NARROWED_SCALAR, scalar=True, op=_both)

# -- To elements twice as wide --------------------------------------------------------------------------------


LONG = "{Q:two} {Rd:vector_wide}, {Rn:vector}, {imm:shift_left}"


def _long(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, extend: Callable[[Bits, int], Bits]) -> None:
    a = extend(half(m, Rn, Q, esize), 2 * esize)
    m.v[Rd, 128] = a.lsl(_left(imm, a))


for _u, _name, _extend in ((0, "SSHLL, SSHLL2", Bits.sext), (1, "USHLL, USHLL2", Bits.zext)):
    _define(_u, "10100", _name, NARROW, _long, LONG, extend=_extend)
