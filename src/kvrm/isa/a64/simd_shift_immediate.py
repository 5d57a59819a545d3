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
from kvrm.isa.definition import Alias, Decoded, Execution, Static, insn
from kvrm.values import Bits, bits

EXECUTION = Execution.EXTEND_SHIFT

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
    aliases: Sequence[Alias] = (),
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
            aliases=aliases,
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
SIGNED, UNSIGNED = lanes.shift_right_by(signed=True), lanes.shift_right_by(signed=False)
SIGNED_ROUNDED = lanes.shift_right_by(signed=True, rounding=True)
UNSIGNED_ROUNDED = lanes.shift_right_by(signed=False, rounding=True)
RIGHT = " {Rd:vec}, {Rn:vec}, {imm:shift_right}"
LEFT = " {Rd:vec}, {Rn:vec}, {imm:shift_left}"

# -- Elements of one size -------------------------------------------------------------------------------


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


for _u, _code, _name, _operation, _shift in (
    (0, "00000", "SSHR", _shift_right, SIGNED),
    (1, "00000", "USHR", _shift_right, UNSIGNED),
    (0, "00010", "SSRA", _accumulate, SIGNED),
    (1, "00010", "USRA", _accumulate, UNSIGNED),
    (0, "00100", "SRSHR", _shift_right, SIGNED_ROUNDED),
    (1, "00100", "URSHR", _shift_right, UNSIGNED_ROUNDED),
    (0, "00110", "SRSRA", _accumulate, SIGNED_ROUNDED),
    (1, "00110", "URSRA", _accumulate, UNSIGNED_ROUNDED),
):
    _define(_u, _code, _name, (ANY, D), _operation, RIGHT, _shift)

_define(0, "01010", "SHL", (ANY, D), _shift_left, LEFT, Bits.lsl)
_define(1, "01100", "SQSHLU", (ANY, ANY), _shift_left, LEFT, lanes.shift_left_to_unsigned)
_define(0, "01110", "SQSHL (immediate)", (ANY, ANY), _shift_left, LEFT, lanes.shift_left_signed)
_define(1, "01110", "UQSHL (immediate)", (ANY, ANY), _shift_left, LEFT, lanes.shift_left_unsigned)

# -- Inserting: the bits that the shift vacates stay ----------------------------------------------------


def _insert(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: bool) -> None:
    n = datasize(Q, esize)
    d, a = m.v[Rd, n].split(esize), m.v[Rn, n].split(esize)
    shift = Bits.lsr if op else Bits.lsl
    amount = _right(imm, bits(esize, 0), esize) if op else imm.zext(esize)
    kept = ~shift(bits(esize, -1), amount)
    m.v[Rd, n] = (d & kept.splat(a.lanes)) | shift(a, amount.splat(a.lanes))


_define(1, "01000", "SRI", (ANY, D), _insert, RIGHT, True)
_define(1, "01010", "SLI", (ANY, D), _insert, LEFT, False)

# -- To elements half as wide ---------------------------------------------------------------------------


def _narrow(m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Shift) -> None:
    a = m.v[Rn, widesize(Q, 2 * esize)].split(2 * esize)
    write_half(m, Rd, Q, settle(m, op(a, _right(imm, a, esize))))


def _then(shift: Callable[[Bits, Bits], Bits], op: lanes.Unary) -> Shift:
    return lambda a, n: op(shift(a, n))


NARROWED = "{:two} {Rd:vec}, {Rn:vec_wide}, {imm:shift_right}"
for _u, _code, _name, _scalar_sizes, _op in (
    (0, "10000", "SHRN, SHRN2", NONE, _then(UNSIGNED, lanes.narrow)),
    (0, "10001", "RSHRN, RSHRN2", NONE, _then(UNSIGNED_ROUNDED, lanes.narrow)),
    (0, "10010", "SQSHRN, SQSHRN2", NARROW, _then(SIGNED, lanes.narrow_signed)),
    (0, "10011", "SQRSHRN, SQRSHRN2", NARROW, _then(SIGNED_ROUNDED, lanes.narrow_signed)),
    (1, "10000", "SQSHRUN, SQSHRUN2", NARROW, _then(SIGNED, lanes.narrow_to_unsigned)),
    (1, "10001", "SQRSHRUN, SQRSHRUN2", NARROW, _then(SIGNED_ROUNDED, lanes.narrow_to_unsigned)),
    (1, "10010", "UQSHRN, UQSHRN2", NARROW, _then(UNSIGNED, lanes.narrow_unsigned)),
    (1, "10011", "UQRSHRN, UQRSHRN2", NARROW, _then(UNSIGNED_ROUNDED, lanes.narrow_unsigned)),
):
    _define(_u, _code, _name, (NARROW, _scalar_sizes), _narrow, NARROWED, _op)

# -- To elements twice as wide --------------------------------------------------------------------------


def _long(
    m: Context, Q: Static, imm: Bits, Rn: Bits, Rd: Bits, esize: int, op: Callable[[Bits], Bits]
) -> None:
    a = op(half(m, Rn, Q, esize))
    m.v[Rd, 128] = a.lsl(_left(imm, a))


LONG = "{:two} {Rd:vec_wide}, {Rn:vec}"
for _u, _name, _alias, _widen in (
    (0, "SSHLL, SSHLL2", "sxtl", lanes.wide_signed),
    (1, "USHLL, USHLL2", "uxtl", lanes.wide_unsigned),
):
    _shifts_nothing = Alias(_alias + LONG, lambda d: d.imm == 0)
    _text = LONG + ", {imm:shift_left}"
    _define(_u, "10100", _name, (NARROW, NONE), _long, _text, _widen, [_shifts_nothing])
