"""Advanced SIMD two-register miscellaneous, and its scalar forms: the integer part (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import half, key_of, mnemonic_of, settle, without_sizes, write_half
from kvrm.isa.a64.simd_lanes import even_odd, mask_if, wide_signed, wide_unsigned
from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Asm, Static, insn
from kvrm.values import Bits, cond

VECTOR = "0 Q {} 01110 size:2 10000 {} 10 Rn:5 Rd:5"
SCALAR = "01 {} 11110 size:2 10000 {} 10 Rn:5 Rd:5"
VECTORS = " {Rd:vector}, {Rn:vector}"
SCALARS = " {Rd:scalar}, {Rn:scalar}"

Operation = Callable[..., None]


def _vector(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: lanes.Unary) -> None:
    n = 128 if Q else 64
    m.v[Rd, n] = settle(m, op(m.v[Rn, n].split(8 << size)))


def _scalar(m: Context, size: Static, Rn: Bits, Rd: Bits, op: lanes.Unary) -> None:
    n = 8 << size
    m.v[Rd, n] = settle(m, op(m.v[Rn, n]))


def _accumulate(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: lanes.Binary) -> None:
    n = 128 if Q else 64
    m.v[Rd, n] = settle(m, op(m.v[Rd, n].split(8 << size), m.v[Rn, n].split(8 << size)))


def _accumulate_scalar(m: Context, size: Static, Rn: Bits, Rd: Bits, op: lanes.Binary) -> None:
    n = 8 << size
    m.v[Rd, n] = settle(m, op(m.v[Rd, n], m.v[Rn, n]))


def _define(
    u: int, code: str, name: str, sizes: str, op: object, operation: Operation = _vector, text: Asm = VECTORS
) -> None:
    asm = f"{mnemonic_of(name)}{text}"
    holes = without_sizes(sizes)
    insn(name, VECTOR.format(u, code), asm, key=key_of(name), unallocated=holes, op=op)(operation)


def _define_scalar(
    u: int, code: str, name: str, sizes: str, op: object, operation: Operation = _scalar, text: Asm = SCALARS
) -> None:
    asm = f"{mnemonic_of(name)}{text}"
    holes = without_sizes(sizes, vector=False)
    insn(name, SCALAR.format(u, code), asm, key=key_of(name, "scalar"), unallocated=holes, op=op)(operation)


# -- One operand, element by element --------------------------------------------------------------------------


def _reversed(container: int) -> lanes.Unary:
    """REVn: the elements of each container in the opposite order."""

    def reverse(a: Bits) -> Bits:
        per = container // a.width
        return a.shuffle([i ^ (per - 1) for i in range(a.lanes)])

    return reverse


def _leading_signs(a: Bits) -> Bits:
    """CountLeadingSignBits(): leading zeros of what differs from its left neighbour, less the sign itself."""
    return (a ^ a.asr(1)).clz() - 1


ROWS: Sequence[tuple[int, str, str, str, str, lanes.Unary]] = (
    (0, "00000", "REV64", "bhs", "", _reversed(64)),
    (1, "00000", "REV32 (vector)", "bh", "", _reversed(32)),
    (0, "00001", "REV16 (vector)", "b", "", _reversed(16)),
    (0, "00100", "CLS (vector)", "bhs", "", _leading_signs),
    (1, "00100", "CLZ (vector)", "bhs", "", Bits.clz),
    (0, "00101", "CNT", "b", "", Bits.popcount),
    (0, "00111", "SQABS", "bhsd", "bhsd", lanes.absolute),
    (1, "00111", "SQNEG", "bhsd", "bhsd", lanes.negated),
    (0, "01011", "ABS", "bhsd", "d", lambda a: cond(a.sign, -a, a)),
    (1, "01011", "NEG (vector)", "bhsd", "d", lambda a: -a),
)
COMPARISONS: Sequence[tuple[int, str, str, Callable[[Bits, int], Bits]]] = (
    (0, "01000", "CMGT (zero)", Bits.sgt),
    (0, "01001", "CMEQ (zero)", Bits.eq),
    (0, "01010", "CMLT (zero)", Bits.slt),
    (1, "01000", "CMGE (zero)", Bits.sge),
    (1, "01001", "CMLE (zero)", Bits.sle),
)


def _with_zero(compare: Callable[[Bits, int], Bits]) -> lanes.Unary:
    return lambda a: mask_if(compare(a, 0), a.width)


for _u, _code, _name, _sizes, _scalar_sizes, _op in ROWS:
    _define(_u, _code, _name, _sizes, _op)
    if _scalar_sizes:
        _define_scalar(_u, _code, _name, _scalar_sizes, _op)
for _u, _code, _name, _compare in COMPARISONS:
    _define(_u, _code, _name, "bhsd", _with_zero(_compare), text=VECTORS + ", #0")
    _define_scalar(_u, _code, _name, "d", _with_zero(_compare), text=SCALARS + ", #0")
for _u, _name, _add in ((0, "SUQADD", lanes.accumulate_unsigned), (1, "USQADD", lanes.accumulate_signed)):
    _define(_u, "00011", _name, "bhsd", _add, _accumulate)
    _define_scalar(_u, "00011", _name, "bhsd", _add, _accumulate_scalar)

# -- Bytes, whatever `size` selects ---------------------------------------------------------------------------


def _bytes(m: Context, Q: Static, Rn: Bits, Rd: Bits, op: Callable[[Bits], Bits]) -> None:
    n = 128 if Q else 64
    m.v[Rd, n] = op(m.v[Rn, n].split(8))


BYTES = "{} {{Rd:vector_bytes}}, {{Rn:vector_bytes}}"
_not = insn(
    "NOT",
    "0 Q 1 01110 00 10000 00101 10 Rn:5 Rd:5",
    BYTES.format("not"),
    key="not_vector",
    aliases=[Alias(BYTES.format("mvn"), lambda d: True)],
    op=lambda a: ~a,
)(_bytes)
insn(
    "RBIT (vector)",
    "0 Q 1 01110 01 10000 00101 10 Rn:5 Rd:5",
    BYTES.format("rbit"),
    key="rbit_vector",
    op=Bits.bit_reverse,
)(_bytes)

# -- Sums of neighbours ---------------------------------------------------------------------------------------


def _pair_sum(widen: Callable[[Bits], Bits]) -> Callable[[Bits], Bits]:
    def add(a: Bits) -> Bits:
        even, odd = even_odd(a)
        return widen(even) + widen(odd)

    return add


def _pairs(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: Callable[[Bits], Bits]) -> None:
    n = 128 if Q else 64
    m.v[Rd, n] = op(m.v[Rn, n].split(8 << size))


def _pairs_accumulate(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: Callable[[Bits], Bits]) -> None:
    n = 128 if Q else 64
    total = op(m.v[Rn, n].split(8 << size))
    m.v[Rd, n] = m.v[Rd, n].split(16 << size) + total


PAIRS = " {Rd:vector_pairs}, {Rn:vector}"
_define(0, "00010", "SADDLP", "bhs", _pair_sum(wide_signed), _pairs, PAIRS)
_define(1, "00010", "UADDLP", "bhs", _pair_sum(wide_unsigned), _pairs, PAIRS)
_define(0, "00110", "SADALP", "bhs", _pair_sum(wide_signed), _pairs_accumulate, PAIRS)
_define(1, "00110", "UADALP", "bhs", _pair_sum(wide_unsigned), _pairs_accumulate, PAIRS)

# -- Half as wide, twice as wide ------------------------------------------------------------------------------


def _narrow(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: lanes.Unary) -> None:
    write_half(m, Rd, Q, settle(m, op(m.v[Rn, 128].split(16 << size))))


def _narrow_scalar(m: Context, size: Static, Rn: Bits, Rd: Bits, op: lanes.Unary) -> None:
    m.v[Rd, 8 << size] = settle(m, op(m.v[Rn, 16 << size]))


NARROW = "{Q:two} {Rd:vector}, {Rn:vector_wide}"
NARROW_SCALAR = " {Rd:scalar}, {Rn:scalar_wide}"
_define(0, "10010", "XTN, XTN2", "bhs", lambda a: a.trunc(a.width // 2), _narrow, NARROW)
for _u, _code, _name, _op in (
    (0, "10100", "SQXTN, SQXTN2", lanes.narrow_signed),
    (1, "10010", "SQXTUN, SQXTUN2", lanes.narrow_to_unsigned),
    (1, "10100", "UQXTN, UQXTN2", lanes.narrow_unsigned),
):
    _define(_u, _code, _name, "bhs", _op, _narrow, NARROW)
    _define_scalar(_u, _code, _name, "bhs", _op, _narrow_scalar, NARROW_SCALAR)


@insn(
    "SHLL, SHLL2",
    VECTOR.format(1, "10011"),
    "shll{Q:two} {Rd:vector_wide}, {Rn:vector}, #{size:own_size}",
    unallocated="size=11",
)
def shll(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits) -> None:
    esize = 8 << size
    m.v[Rd, 128] = half(m, Rn, Q, esize).zext(2 * esize).lsl(esize)
