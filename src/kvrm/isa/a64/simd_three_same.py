"""Advanced SIMD three same, and scalar three same: the integer part (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import Operation, family, key_of, mnemonic_of, settle, shape
from kvrm.isa.a64.simd_lanes import even_odd, mask_if
from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Execution, Static, insn
from kvrm.values import Bits

EXECUTION = Execution.ARITHMETIC


def _same(m: Context, Q: Static, size: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: lanes.Binary) -> None:
    n, esize = shape(Q, size)
    m.v[Rd, n] = settle(m, op(m.v[Rn, n].split(esize), m.v[Rm, n].split(esize)))


def _accumulate(m: Context, Q: Static, size: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: lanes.Ternary) -> None:
    n, esize = shape(Q, size)
    d, a, b = (m.v[r, n].split(esize) for r in (Rd, Rn, Rm))
    m.v[Rd, n] = settle(m, op(d, a, b))


def _define(
    u: int,
    code: str,
    name: str,
    sizes: str,
    scalar_sizes: str,
    op: object,
    operation: Operation = _same,
    execution: Execution | None = None,
) -> None:
    diagrams = (
        f"0 Q {u} 01110 size:2 1 Rm:5 {code} 1 Rn:5 Rd:5",
        f"01 {u} 11110 size:2 1 Rm:5 {code} 1 Rn:5 Rd:5",
    )
    asm = " {Rd:vec}, {Rn:vec}, {Rm:vec}"
    family(name, diagrams, asm, (sizes, scalar_sizes), operation, op, execution=execution)


# -- Element by element ---------------------------------------------------------------------------------

Row = tuple[int, str, str, str, str, lanes.Binary]
"""U, opcode, name, element sizes of the vector form and of the scalar form, what to do with two elements."""

ROWS: Sequence[Row] = (
    (0, "00000", "SHADD", "bhs", "", lambda a, b: (a & b) + (a ^ b).asr(1)),
    (1, "00000", "UHADD", "bhs", "", lambda a, b: (a & b) + (a ^ b).lsr(1)),
    (0, "00001", "SQADD", "bhsd", "bhsd", lanes.add_signed),
    (1, "00001", "UQADD", "bhsd", "bhsd", lanes.add_unsigned),
    (0, "00010", "SRHADD", "bhs", "", lambda a, b: (a | b) - (a ^ b).asr(1)),
    (1, "00010", "URHADD", "bhs", "", lambda a, b: (a | b) - (a ^ b).lsr(1)),
    (0, "00100", "SHSUB", "bhs", "", lambda a, b: (a ^ b).asr(1) - (~a & b)),
    (1, "00100", "UHSUB", "bhs", "", lambda a, b: (a ^ b).lsr(1) - (~a & b)),
    (0, "00101", "SQSUB", "bhsd", "bhsd", lanes.subtract_signed),
    (1, "00101", "UQSUB", "bhsd", "bhsd", lanes.subtract_unsigned),
    (0, "00110", "CMGT (register)", "bhsd", "d", lambda a, b: mask_if(a.sgt(b), a.width)),
    (1, "00110", "CMHI (register)", "bhsd", "d", lambda a, b: mask_if(a.ugt(b), a.width)),
    (0, "00111", "CMGE (register)", "bhsd", "d", lambda a, b: mask_if(a.sge(b), a.width)),
    (1, "00111", "CMHS (register)", "bhsd", "d", lambda a, b: mask_if(a.uge(b), a.width)),
    (0, "10001", "CMTST", "bhsd", "d", lambda a, b: mask_if((a & b).ne(0), a.width)),
    (1, "10001", "CMEQ (register)", "bhsd", "d", lambda a, b: mask_if(a.eq(b), a.width)),
    (0, "01100", "SMAX", "bhs", "", Bits.smax),
    (1, "01100", "UMAX", "bhs", "", Bits.umax),
    (0, "01101", "SMIN", "bhs", "", Bits.smin),
    (1, "01101", "UMIN", "bhs", "", Bits.umin),
    (0, "01110", "SABD", "bhs", "", lanes.distance_signed),
    (1, "01110", "UABD", "bhs", "", lanes.distance_unsigned),
    (0, "10000", "ADD (vector)", "bhsd", "d", lambda a, b: a + b),
    (1, "10000", "SUB (vector)", "bhsd", "d", lambda a, b: a - b),
)
SHIFTS: Sequence[Row] = (
    (0, "01000", "SSHL", "bhsd", "d", lanes.shift_by_register(signed=True)),
    (1, "01000", "USHL", "bhsd", "d", lanes.shift_by_register(signed=False)),
    (0, "01010", "SRSHL", "bhsd", "d", lanes.shift_by_register(signed=True, rounding=True)),
    (1, "01010", "URSHL", "bhsd", "d", lanes.shift_by_register(signed=False, rounding=True)),
    (0, "01001", "SQSHL (register)", "bhsd", "bhsd", lanes.saturating_shift_by_register(signed=True)),
    (1, "01001", "UQSHL (register)", "bhsd", "bhsd", lanes.saturating_shift_by_register(signed=False)),
    (0, "01011", "SQRSHL", "bhsd", "bhsd", lanes.saturating_shift_by_register(signed=True, rounding=True)),
    (1, "01011", "UQRSHL", "bhsd", "bhsd", lanes.saturating_shift_by_register(signed=False, rounding=True)),
)
PRODUCTS: Sequence[Row] = (
    (0, "10011", "MUL (vector)", "bhs", "", lambda a, b: a * b),
    (1, "10011", "PMUL", "b", "", lanes.product_polynomial),
    (0, "10110", "SQDMULH (vector)", "hs", "hs", lanes.doubled_high),
    (1, "10110", "SQRDMULH (vector)", "hs", "hs", lanes.doubled_high_rounded),
)

for _row in ROWS:
    _define(*_row)
for _row in SHIFTS:
    _define(*_row, execution=Execution.EXTEND_SHIFT)
for _row in PRODUCTS:
    _define(*_row, execution=Execution.MULTIPLY_DIVIDE)
for _u, _code, _name, _sum, _work in (
    (0, "01111", "SABA", lambda d, a, b: d + lanes.distance_signed(a, b), Execution.ARITHMETIC),
    (1, "01111", "UABA", lambda d, a, b: d + lanes.distance_unsigned(a, b), Execution.ARITHMETIC),
    (0, "10010", "MLA (vector)", lambda d, a, b: d + a * b, Execution.MULTIPLY_DIVIDE),
    (1, "10010", "MLS (vector)", lambda d, a, b: d - a * b, Execution.MULTIPLY_DIVIDE),
):
    _define(_u, _code, _name, "bhs", "", _sum, _accumulate, _work)

# -- Pairs: neighbours of Rn, then of Rm ----------------------------------------------------------------


def _pairwise(op: Callable[[Bits, Bits], Bits]) -> lanes.Binary:
    return lambda a, b: op(*even_odd(a, b))


_define(0, "10111", "ADDP (vector)", "bhsd", "", _pairwise(lambda a, b: a + b))
_define(0, "10100", "SMAXP", "bhs", "", _pairwise(Bits.smax))
_define(1, "10100", "UMAXP", "bhs", "", _pairwise(Bits.umax))
_define(0, "10101", "SMINP", "bhs", "", _pairwise(Bits.smin))
_define(1, "10101", "UMINP", "bhs", "", _pairwise(Bits.umin))


@insn("ADDP (scalar)", "01 0 11110 11 11000 11011 10 Rn:5 Rd:5", "addp d{Rd}, v{Rn}.2d")
def addp_scalar(m: Context, Rn: Bits, Rd: Bits) -> None:
    a = m.v[Rn, 128].split(64)
    m.v[Rd, 64] = a.lane(0) + a.lane(1)


# -- Whole registers ------------------------------------------------------------------------------------


def _logical(m: Context, Q: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: Callable[[Bits, Bits], Bits]) -> None:
    n = 64 << Q
    m.v[Rd, n] = op(m.v[Rn, n].split(64), m.v[Rm, n].split(64))


def _select(
    m: Context, Q: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: Callable[[Bits, Bits, Bits], Bits]
) -> None:
    n = 64 << Q
    m.v[Rd, n] = op(*(m.v[r, n].split(64) for r in (Rd, Rn, Rm)))


def _define_logical(u: int, code: str, name: str, operation: Operation, op: object, *aliases: Alias) -> None:
    insn(
        name,
        f"0 Q {u} 01110 {code} 1 Rm:5 00011 1 Rn:5 Rd:5",
        mnemonic_of(name) + " {Rd:vec_bytes}, {Rn:vec_bytes}, {Rm:vec_bytes}",
        key=key_of(name),
        aliases=aliases,
        execution=Execution.LOGICAL,
        op=op,
    )(operation)


MOV = Alias("mov {Rd:vec_bytes}, {Rn:vec_bytes}", lambda d: d.Rn == d.Rm)
_define_logical(0, "00", "AND (vector)", _logical, lambda a, b: a & b)
_define_logical(0, "01", "BIC (vector, register)", _logical, lambda a, b: a & ~b)
_define_logical(0, "10", "ORR (vector, register)", _logical, lambda a, b: a | b, MOV)
_define_logical(0, "11", "ORN (vector)", _logical, lambda a, b: a | ~b)
_define_logical(1, "00", "EOR (vector)", _logical, lambda a, b: a ^ b)
_define_logical(1, "01", "BSL", _select, lambda d, a, b: b ^ ((b ^ a) & d))
_define_logical(1, "10", "BIT", _select, lambda d, a, b: d ^ ((d ^ a) & b))
_define_logical(1, "11", "BIF", _select, lambda d, a, b: d ^ ((d ^ a) & ~b))
