"""Advanced SIMD vector x indexed element, and its scalar forms: the integer part (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import LETTERS, element_size, half, key_of, mnemonic_of, settle, without_sizes
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Static, insn
from kvrm.values import Bits, concat

VECTOR = "0 Q {} 01111 size:2 L M Rm:4 {} H 0 Rn:5 Rd:5"
SCALAR = "01 {} 11111 size:2 L M Rm:4 {} H 0 Rn:5 Rd:5"


@printer
def indexed(d: Decoded, _: int) -> str:
    """The element of Rm; halfwords need M for the index, so they have 16 registers only."""
    if d.size == 1:
        return f"v{d.Rm}.h[{d.H << 2 | d.L << 1 | d.M}]"
    return f"v{d.M << 4 | d.Rm}.{LETTERS[element_size(d)]}[{d.H << 1 | d.L}]"


def element(m: Context, size: int, L: Bits, M: Bits, Rm: Bits, H: Bits) -> Bits:
    """The element of Rm that H, L and M choose."""
    if size == 1:
        return m.v[Rm.zext(5), 128].split(16).lane(concat(H, L, M))
    return m.v[concat(M, Rm), 128].split(32).lane(concat(H, L))


def _define(
    u: int, code: str, name: str, operation: Callable[..., None], operands: str, op: object, scalar: bool = False
) -> None:
    insn(
        name,
        (SCALAR if scalar else VECTOR).format(u, code),
        mnemonic_of(name) + operands,
        key=key_of(name, *["scalar"] * scalar),
        unallocated=without_sizes("hs", vector=False),
        op=op,
    )(operation)


# -- Elements of one size -------------------------------------------------------------------------------------

SAME = " {Rd:vector}, {Rn:vector}, {:indexed}"
SAME_SCALAR = " {Rd:scalar}, {Rn:scalar}, {:indexed}"


def _vector(
    m: Context, Q: Static, size: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, op: lanes.Binary
) -> None:
    n = 128 if Q else 64
    a = m.v[Rn, n].split(8 << size)
    m.v[Rd, n] = settle(m, op(a, element(m, size, L, M, Rm, H).splat(a.lanes)))


def _accumulate(
    m: Context, Q: Static, size: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, op: lanes.Ternary
) -> None:
    n = 128 if Q else 64
    d, a = m.v[Rd, n].split(8 << size), m.v[Rn, n].split(8 << size)
    m.v[Rd, n] = settle(m, op(d, a, element(m, size, L, M, Rm, H).splat(a.lanes)))


def _scalar(
    m: Context, size: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, op: lanes.Binary
) -> None:
    n = 8 << size
    m.v[Rd, n] = settle(m, op(m.v[Rn, n], element(m, size, L, M, Rm, H)))


_define(0, "1000", "MUL (by element)", _vector, SAME, lambda a, b: a * b)
_define(1, "0000", "MLA (by element)", _accumulate, SAME, lambda d, a, b: d + a * b)
_define(1, "0100", "MLS (by element)", _accumulate, SAME, lambda d, a, b: d - a * b)
for _code, _name, _high in (
    ("1100", "SQDMULH (by element)", lanes.doubled_high),
    ("1101", "SQRDMULH (by element)", lanes.doubled_high_rounded),
):
    _define(0, _code, _name, _vector, SAME, _high)
    _define(0, _code, _name, _scalar, SAME_SCALAR, _high, scalar=True)

# -- Long: half of Rn, the whole of Rd ------------------------------------------------------------------------

LONG = "{Q:two} {Rd:vector_wide}, {Rn:vector}, {:indexed}"
LONG_SCALAR = " {Rd:scalar_wide}, {Rn:scalar}, {:indexed}"


def _long(
    m: Context, Q: Static, size: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, op: lanes.Binary
) -> None:
    a = half(m, Rn, Q, 8 << size)
    m.v[Rd, 128] = settle(m, op(a, element(m, size, L, M, Rm, H).splat(a.lanes)))


def _long_accumulate(
    m: Context, Q: Static, size: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, op: lanes.Ternary
) -> None:
    d, a = m.v[Rd, 128].split(16 << size), half(m, Rn, Q, 8 << size)
    m.v[Rd, 128] = settle(m, op(d, a, element(m, size, L, M, Rm, H).splat(a.lanes)))


def _long_scalar(
    m: Context, size: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, op: lanes.Binary
) -> None:
    n = 8 << size
    m.v[Rd, 2 * n] = settle(m, op(m.v[Rn, n], element(m, size, L, M, Rm, H)))


def _long_scalar_accumulate(
    m: Context, size: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, op: lanes.Ternary
) -> None:
    n = 8 << size
    m.v[Rd, 2 * n] = settle(m, op(m.v[Rd, 2 * n], m.v[Rn, n], element(m, size, L, M, Rm, H)))


for _u, _code, _name, _product in (
    (0, "1010", "SMULL, SMULL2 (by element)", lanes.product_signed),
    (1, "1010", "UMULL, UMULL2 (by element)", lanes.product_unsigned),
    (0, "1011", "SQDMULL, SQDMULL2 (by element)", lanes.product_doubled),
):
    _define(_u, _code, _name, _long, LONG, _product)
for _u, _code, _name, _sum in (
    (0, "0010", "SMLAL, SMLAL2 (by element)", lanes.add_product_signed),
    (1, "0010", "UMLAL, UMLAL2 (by element)", lanes.add_product_unsigned),
    (0, "0110", "SMLSL, SMLSL2 (by element)", lanes.subtract_product_signed),
    (1, "0110", "UMLSL, UMLSL2 (by element)", lanes.subtract_product_unsigned),
    (0, "0011", "SQDMLAL, SQDMLAL2 (by element)", lanes.add_product_doubled),
    (0, "0111", "SQDMLSL, SQDMLSL2 (by element)", lanes.subtract_product_doubled),
):
    _define(_u, _code, _name, _long_accumulate, LONG, _sum)

_define(0, "1011", "SQDMULL, SQDMULL2 (by element)", _long_scalar, LONG_SCALAR, lanes.product_doubled, scalar=True)
for _code, _name, _clamped in (
    ("0011", "SQDMLAL, SQDMLAL2 (by element)", lanes.add_product_doubled),
    ("0111", "SQDMLSL, SQDMLSL2 (by element)", lanes.subtract_product_doubled),
):
    _define(0, _code, _name, _long_scalar_accumulate, LONG_SCALAR, _clamped, scalar=True)
