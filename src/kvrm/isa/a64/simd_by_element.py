"""Advanced SIMD vector x indexed element, and the scalar form: the integer part (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import (
    LETTERS,
    Operation,
    element_size,
    family,
    half,
    key_of,
    mnemonic_of,
    settle,
    shape,
    widesize,
)
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits, concat

EXECUTION = Execution.MULTIPLY_DIVIDE


@printer
def indexed(d: Decoded, _: int) -> str:
    """The element of Rm; halfwords need M for the index, so they have 16 registers only."""
    if d.size == 1:
        return f"v{d.Rm}.h[{d.H << 2 | d.L << 1 | d.M}]"
    return f"v{d.M << 4 | d.Rm}.{LETTERS[element_size(d)]}[{d.H << 1 | d.L}]"


def _factor(m: Context, size: int, L: Bits, M: Bits, Rm: Bits, H: Bits, count: int) -> Bits:
    """The element of Rm that H, L and M choose, `count` times."""
    if size == 1:
        return m.v[Rm.zext(5), 128].split(16).lane(concat(H, L, M)).splat(count)
    return m.v[concat(M, Rm), 128].split(32).lane(concat(H, L)).splat(count)


def _define(
    u: int,
    code: str,
    name: str,
    scalar_sizes: str,
    operation: Operation,
    operands: str,
    op: object,
    feature: str | None = None,
) -> None:
    fields = f"size:2 L M Rm:4 {code} H 0 Rn:5 Rd:5"
    diagrams = f"0 Q {u} 01111 {fields}", f"01 {u} 11111 {fields}"
    family(name, diagrams, operands, ("hs", scalar_sizes), operation, op, feature)


# -- Elements of one size -------------------------------------------------------------------------------


def _same(
    m: Context,
    Q: Static,
    size: Static,
    L: Bits,
    M: Bits,
    Rm: Bits,
    H: Bits,
    Rn: Bits,
    Rd: Bits,
    op: lanes.Binary,
) -> None:
    n, esize = shape(Q, size)
    a = m.v[Rn, n].split(esize)
    m.v[Rd, n] = settle(m, op(a, _factor(m, size, L, M, Rm, H, a.lanes)))


def _accumulate(
    m: Context,
    Q: Static,
    size: Static,
    L: Bits,
    M: Bits,
    Rm: Bits,
    H: Bits,
    Rn: Bits,
    Rd: Bits,
    op: lanes.Ternary,
) -> None:
    n, esize = shape(Q, size)
    d, a = m.v[Rd, n].split(esize), m.v[Rn, n].split(esize)
    m.v[Rd, n] = settle(m, op(d, a, _factor(m, size, L, M, Rm, H, a.lanes)))


SAME = " {Rd:vec}, {Rn:vec}, {:indexed}"
_define(0, "1000", "MUL (by element)", "", _same, SAME, lambda a, b: a * b)
_define(1, "0000", "MLA (by element)", "", _accumulate, SAME, lambda d, a, b: d + a * b)
_define(1, "0100", "MLS (by element)", "", _accumulate, SAME, lambda d, a, b: d - a * b)
_define(0, "1100", "SQDMULH (by element)", "hs", _same, SAME, lanes.doubled_high)
_define(0, "1101", "SQRDMULH (by element)", "hs", _same, SAME, lanes.doubled_high_rounded)
for _code, _name, _clamped in (
    ("1101", "SQRDMLAH (by element)", lanes.add_product_high_rounded),
    ("1111", "SQRDMLSH (by element)", lanes.subtract_product_high_rounded),
):
    _define(1, _code, _name, "hs", _accumulate, SAME, _clamped, "FEAT_RDM")

# -- Products of bytes, added by fours ------------------------------------------------------------------


@printer
def indexed_bytes(d: Decoded, _: int) -> str:
    """Four bytes of Rm."""
    return f"v{d.M << 4 | d.Rm}.4b[{d.H << 1 | d.L}]"


def _dot(
    m: Context,
    Q: Static,
    L: Bits,
    M: Bits,
    Rm: Bits,
    H: Bits,
    Rn: Bits,
    Rd: Bits,
    signs: tuple[lanes.Shift, lanes.Shift],
) -> None:
    d, a = m.v[Rd, 64 << Q].split(32), m.v[Rn, 64 << Q].split(32)
    m.v[Rd, 64 << Q] = lanes.add_dot_product(d, a, _factor(m, 2, L, M, Rm, H, a.lanes), *signs)


for _u, _size, _code, _name, _feature, _signs in (
    (0, "10", "1110", "SDOT (by element)", "FEAT_DotProd", (Bits.asr, Bits.asr)),
    (1, "10", "1110", "UDOT (by element)", "FEAT_DotProd", (Bits.lsr, Bits.lsr)),
    (0, "10", "1111", "USDOT (by element)", "FEAT_I8MM", (Bits.lsr, Bits.asr)),
    (0, "00", "1111", "SUDOT (by element)", "FEAT_I8MM", (Bits.asr, Bits.lsr)),
):
    insn(
        _name,
        f"0 Q {_u} 01111 {_size} L M Rm:4 {_code} H 0 Rn:5 Rd:5",
        f"{mnemonic_of(_name)} {{Rd:vec_words}}, {{Rn:vec_bytes}}, {{:indexed_bytes}}",
        key=key_of(_name),
        feature=_feature,
        signs=_signs,
    )(_dot)

# -- Long: half of Rn, the whole of Rd ------------------------------------------------------------------


def _long(
    m: Context,
    Q: Static,
    size: Static,
    L: Bits,
    M: Bits,
    Rm: Bits,
    H: Bits,
    Rn: Bits,
    Rd: Bits,
    op: lanes.Binary,
) -> None:
    a = half(m, Rn, Q, 8 << size)
    m.v[Rd, widesize(Q, 16 << size)] = settle(m, op(a, _factor(m, size, L, M, Rm, H, a.lanes)))


def _long_accumulate(
    m: Context,
    Q: Static,
    size: Static,
    L: Bits,
    M: Bits,
    Rm: Bits,
    H: Bits,
    Rn: Bits,
    Rd: Bits,
    op: lanes.Ternary,
) -> None:
    n = widesize(Q, 16 << size)
    d, a = m.v[Rd, n].split(16 << size), half(m, Rn, Q, 8 << size)
    m.v[Rd, n] = settle(m, op(d, a, _factor(m, size, L, M, Rm, H, a.lanes)))


LONG = "{:two} {Rd:vec_wide}, {Rn:vec}, {:indexed}"
for _u, _code, _name, _scalar_sizes, _product in (
    (0, "1010", "SMULL, SMULL2 (by element)", "", lanes.product_signed),
    (1, "1010", "UMULL, UMULL2 (by element)", "", lanes.product_unsigned),
    (0, "1011", "SQDMULL, SQDMULL2 (by element)", "hs", lanes.product_doubled),
):
    _define(_u, _code, _name, _scalar_sizes, _long, LONG, _product)
for _u, _code, _name, _scalar_sizes, _sum in (
    (0, "0010", "SMLAL, SMLAL2 (by element)", "", lanes.add_product_signed),
    (1, "0010", "UMLAL, UMLAL2 (by element)", "", lanes.add_product_unsigned),
    (0, "0110", "SMLSL, SMLSL2 (by element)", "", lanes.subtract_product_signed),
    (1, "0110", "UMLSL, UMLSL2 (by element)", "", lanes.subtract_product_unsigned),
    (0, "0011", "SQDMLAL, SQDMLAL2 (by element)", "hs", lanes.add_product_doubled),
    (0, "0111", "SQDMLSL, SQDMLSL2 (by element)", "hs", lanes.subtract_product_doubled),
):
    _define(_u, _code, _name, _scalar_sizes, _long_accumulate, LONG, _sum)
