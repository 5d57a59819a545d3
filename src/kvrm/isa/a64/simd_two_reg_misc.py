"""Advanced SIMD two-register miscellaneous, and its scalar forms: the integer part (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import Operation, family, half, settle, shape, widesize, write_half
from kvrm.isa.a64.simd_lanes import even_odd, mask_if, wide_signed, wide_unsigned
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Decoded, Execution, Static, insn
from kvrm.values import Bits, cond

EXECUTION = Execution.ARITHMETIC

SAME = " {Rd:vec}, {Rn:vec}"


def _same(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: lanes.Unary) -> None:
    n, esize = shape(Q, size)
    m.v[Rd, n] = settle(m, op(m.v[Rn, n].split(esize)))


def _accumulate(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: lanes.Binary) -> None:
    n, esize = shape(Q, size)
    m.v[Rd, n] = settle(m, op(m.v[Rd, n].split(esize), m.v[Rn, n].split(esize)))


def _define(
    u: int,
    code: str,
    name: str,
    sizes: str,
    scalar_sizes: str,
    op: object,
    operation: Operation = _same,
    asm: str = SAME,
    execution: Execution | None = None,
) -> None:
    diagrams = (
        f"0 Q {u} 01110 size:2 10000 {code} 10 Rn:5 Rd:5",
        f"01 {u} 11110 size:2 10000 {code} 10 Rn:5 Rd:5",
    )
    family(name, diagrams, asm, (sizes, scalar_sizes), operation, op, execution=execution)


# -- Element by element ---------------------------------------------------------------------------------


def _reversed(container: int) -> lanes.Unary:
    """REVn: the elements of each container in the opposite order."""

    def reverse(a: Bits) -> Bits:
        per = container // a.width
        return a.shuffle([i ^ (per - 1) for i in range(a.lanes)])

    return reverse


def _leading_signs(a: Bits) -> Bits:
    """CountLeadingSignBits(): leading zeros of what differs from its left neighbour, less the sign itself."""
    return (a ^ a.asr(1)).clz() - 1


Row = tuple[int, str, str, str, str, lanes.Unary]
"""U, opcode, name, element sizes of the vector form and of the scalar form, what to do with an element."""

REVERSALS: Sequence[Row] = (
    (0, "00000", "REV64", "bhs", "", _reversed(64)),
    (1, "00000", "REV32 (vector)", "bh", "", _reversed(32)),
    (0, "00001", "REV16 (vector)", "b", "", _reversed(16)),
)
ROWS: Sequence[Row] = (
    (0, "00100", "CLS (vector)", "bhs", "", _leading_signs),
    (1, "00100", "CLZ (vector)", "bhs", "", Bits.clz),
    (0, "00101", "CNT", "b", "", Bits.popcount),
    (0, "00111", "SQABS", "bhsd", "bhsd", lanes.absolute),
    (1, "00111", "SQNEG", "bhsd", "bhsd", lanes.negated),
    (0, "01011", "ABS", "bhsd", "d", lambda a: cond(a.sign, -a, a)),
    (1, "01011", "NEG (vector)", "bhsd", "d", lambda a: -a),
)
COMPARISONS: Sequence[Row] = (
    (0, "01000", "CMGT (zero)", "bhsd", "d", lambda a: mask_if(a.sgt(0), a.width)),
    (0, "01001", "CMEQ (zero)", "bhsd", "d", lambda a: mask_if(a.eq(0), a.width)),
    (0, "01010", "CMLT (zero)", "bhsd", "d", lambda a: mask_if(a.slt(0), a.width)),
    (1, "01000", "CMGE (zero)", "bhsd", "d", lambda a: mask_if(a.sge(0), a.width)),
    (1, "01001", "CMLE (zero)", "bhsd", "d", lambda a: mask_if(a.sle(0), a.width)),
)

for _row in REVERSALS:
    _define(*_row, execution=Execution.EXTEND_SHIFT)
for _row in ROWS:
    _define(*_row)
for _row in COMPARISONS:
    _define(*_row, asm=SAME + ", #0")
_define(0, "00011", "SUQADD", "bhsd", "bhsd", lanes.accumulate_unsigned, _accumulate)
_define(1, "00011", "USQADD", "bhsd", "bhsd", lanes.accumulate_signed, _accumulate)

# -- Bytes, whatever `size` selects ---------------------------------------------------------------------

BYTES = " {Rd:vec_bytes}, {Rn:vec_bytes}"


@insn(
    "NOT",
    "0 Q 1 01110 00 10000 00101 10 Rn:5 Rd:5",
    "not" + BYTES,
    aliases=[Alias("mvn" + BYTES, lambda d: True)],
    execution=Execution.LOGICAL,
)
def not_vector(m: Context, Q: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 << Q
    m.v[Rd, n] = ~m.v[Rn, n].split(64)


@insn(
    "RBIT (vector)",
    "0 Q 1 01110 01 10000 00101 10 Rn:5 Rd:5",
    "rbit" + BYTES,
    execution=Execution.EXTEND_SHIFT,
)
def rbit_vector(m: Context, Q: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 << Q
    m.v[Rd, n] = m.v[Rn, n].split(8).bit_reverse()


# -- Sums of neighbours ---------------------------------------------------------------------------------

Widen = Callable[[Bits], Bits]


def _pairs(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: Widen) -> None:
    n, esize = shape(Q, size)
    even, odd = even_odd(m.v[Rn, n].split(esize))
    m.v[Rd, n] = op(even) + op(odd)


def _pairs_accumulate(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: Widen) -> None:
    n, esize = shape(Q, size)
    even, odd = even_odd(m.v[Rn, n].split(esize))
    m.v[Rd, n] = m.v[Rd, n].split(2 * esize) + op(even) + op(odd)


PAIRS = " {Rd:vec_pairs}, {Rn:vec}"
_define(0, "00010", "SADDLP", "bhs", "", wide_signed, _pairs, PAIRS)
_define(1, "00010", "UADDLP", "bhs", "", wide_unsigned, _pairs, PAIRS)
_define(0, "00110", "SADALP", "bhs", "", wide_signed, _pairs_accumulate, PAIRS)
_define(1, "00110", "UADALP", "bhs", "", wide_unsigned, _pairs_accumulate, PAIRS)

# -- Half as wide, twice as wide ------------------------------------------------------------------------


def _narrow(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: lanes.Unary) -> None:
    write_half(m, Rd, Q, settle(m, op(m.v[Rn, widesize(Q, 16 << size)].split(16 << size))))


NARROW = "{:two} {Rd:vec}, {Rn:vec_wide}"
for _u, _code, _name, _scalar_sizes, _op in (
    (0, "10010", "XTN, XTN2", "", lanes.narrow),
    (0, "10100", "SQXTN, SQXTN2", "bhs", lanes.narrow_signed),
    (1, "10010", "SQXTUN, SQXTUN2", "bhs", lanes.narrow_to_unsigned),
    (1, "10100", "UQXTN, UQXTN2", "bhs", lanes.narrow_unsigned),
):
    _define(_u, _code, _name, "bhs", _scalar_sizes, _op, _narrow, NARROW, Execution.EXTEND_SHIFT)


@printer
def own_size(d: Decoded, size: int) -> str:
    """The element size, as the shift of SHLL."""
    return f"#{8 << size}"


@insn(
    "SHLL, SHLL2",
    "0 Q 1 01110 size:2 10000 10011 10 Rn:5 Rd:5",
    "shll{:two} {Rd:vec_wide}, {Rn:vec}, {size:own_size}",
    unallocated="size=11",
    execution=Execution.EXTEND_SHIFT,
)
def shll(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits) -> None:
    esize = 8 << size
    m.v[Rd, 128] = half(m, Rn, Q, esize).zext(2 * esize).lsl(esize)
