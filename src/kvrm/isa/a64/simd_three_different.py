"""Advanced SIMD three different, and scalar three different (Arm ARM C4.1.96): long, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import Operation, family, half, settle, widesize, write_half
from kvrm.isa.a64.simd_lanes import wide_signed, wide_unsigned
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, Static, insn
from kvrm.values import Bits
from kvrm.values.crypto import carryless_product

EXECUTION = Execution.ARITHMETIC

Plain = Callable[[Bits, Bits], Bits]


def _define(
    u: int,
    code: str,
    name: str,
    sizes: tuple[str, str],
    operation: Operation,
    operands: str,
    op: object,
    execution: Execution | None = None,
) -> None:
    diagrams = (
        f"0 Q {u} 01110 size:2 1 Rm:5 {code} 00 Rn:5 Rd:5",
        f"01 {u} 11110 size:2 1 Rm:5 {code} 00 Rn:5 Rd:5",
    )
    family(name, diagrams, "{:two} " + operands, sizes, operation, op, execution=execution)


# -- Long: halves of Rn and Rm, the whole of Rd ---------------------------------------------------------


def _long(m: Context, Q: Static, size: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: lanes.Binary) -> None:
    esize = 8 << size
    m.v[Rd, widesize(Q, 2 * esize)] = settle(m, op(half(m, Rn, Q, esize), half(m, Rm, Q, esize)))


def _long_accumulate(
    m: Context, Q: Static, size: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: lanes.Ternary
) -> None:
    esize, n = 8 << size, widesize(Q, 16 << size)
    d = m.v[Rd, n].split(2 * esize)
    m.v[Rd, n] = settle(m, op(d, half(m, Rn, Q, esize), half(m, Rm, Q, esize)))


LONG = "{Rd:vec_wide}, {Rn:vec}, {Rm:vec}"

# The distance of two numbers fits their own width as an unsigned number, hence `wide_unsigned` in SABDL too.
for _u, _code, _name, _op in (
    (0, "0000", "SADDL, SADDL2", lambda a, b: wide_signed(a) + wide_signed(b)),
    (1, "0000", "UADDL, UADDL2", lambda a, b: wide_unsigned(a) + wide_unsigned(b)),
    (0, "0010", "SSUBL, SSUBL2", lambda a, b: wide_signed(a) - wide_signed(b)),
    (1, "0010", "USUBL, USUBL2", lambda a, b: wide_unsigned(a) - wide_unsigned(b)),
    (0, "0111", "SABDL, SABDL2", lambda a, b: wide_unsigned(lanes.distance_signed(a, b))),
    (1, "0111", "UABDL, UABDL2", lambda a, b: wide_unsigned(lanes.distance_unsigned(a, b))),
):
    _define(_u, _code, _name, ("bhs", ""), _long, LONG, _op)
for _u, _code, _name, _sum in (
    (0, "0101", "SABAL, SABAL2", lambda d, a, b: d + wide_unsigned(lanes.distance_signed(a, b))),
    (1, "0101", "UABAL, UABAL2", lambda d, a, b: d + wide_unsigned(lanes.distance_unsigned(a, b))),
):
    _define(_u, _code, _name, ("bhs", ""), _long_accumulate, LONG, _sum)

PRODUCT = Execution.MULTIPLY_DIVIDE
for _u, _code, _name, _sizes, _op in (
    (0, "1100", "SMULL, SMULL2 (vector)", "bhs", lanes.product_signed),
    (1, "1100", "UMULL, UMULL2 (vector)", "bhs", lanes.product_unsigned),
    (0, "1110", "PMULL, PMULL2", "b", lanes.product_polynomial_wide),
):
    _define(_u, _code, _name, (_sizes, ""), _long, LONG, _op, PRODUCT)
for _u, _code, _name, _sum in (
    (0, "1000", "SMLAL, SMLAL2 (vector)", lanes.add_product_signed),
    (1, "1000", "UMLAL, UMLAL2 (vector)", lanes.add_product_unsigned),
    (0, "1010", "SMLSL, SMLSL2 (vector)", lanes.subtract_product_signed),
    (1, "1010", "UMLSL, UMLSL2 (vector)", lanes.subtract_product_unsigned),
):
    _define(_u, _code, _name, ("bhs", ""), _long_accumulate, LONG, _sum, PRODUCT)


@insn(
    "PMULL, PMULL2",
    "0 Q 0 01110 11 1 Rm:5 1110 00 Rn:5 Rd:5",
    "pmull{:two} v{Rd}.1q, {Rn:vec}, {Rm:vec}",
    feature="FEAT_PMULL",
    execution=PRODUCT,
    esize=64,
)
def pmull_64(m: Context, Q: Static, Rm: Bits, Rn: Bits, Rd: Bits, esize: int) -> None:
    m.v[Rd, 128] = carryless_product(half(m, Rn, Q, esize), half(m, Rm, Q, esize))


_define(0, "1101", "SQDMULL, SQDMULL2 (vector)", ("hs", "hs"), _long, LONG, lanes.product_doubled, PRODUCT)
for _code, _name, _clamped in (
    ("1001", "SQDMLAL, SQDMLAL2 (vector)", lanes.add_product_doubled),
    ("1011", "SQDMLSL, SQDMLSL2 (vector)", lanes.subtract_product_doubled),
):
    _define(0, _code, _name, ("hs", "hs"), _long_accumulate, LONG, _clamped, PRODUCT)

# -- Wide: the whole of Rn, half of Rm ------------------------------------------------------------------


def _wide(m: Context, Q: Static, size: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: Plain) -> None:
    esize = 8 << size
    m.v[Rd, 128] = op(m.v[Rn, 128].split(2 * esize), half(m, Rm, Q, esize))


WIDE = "{Rd:vec_wide}, {Rn:vec_wide}, {Rm:vec}"
for _u, _code, _name, _op in (
    (0, "0001", "SADDW, SADDW2", lambda a, b: a + wide_signed(b)),
    (1, "0001", "UADDW, UADDW2", lambda a, b: a + wide_unsigned(b)),
    (0, "0011", "SSUBW, SSUBW2", lambda a, b: a - wide_signed(b)),
    (1, "0011", "USUBW, USUBW2", lambda a, b: a - wide_unsigned(b)),
):
    _define(_u, _code, _name, ("bhs", ""), _wide, WIDE, _op)

# -- Narrow: the upper halves of sums and differences ---------------------------------------------------


def _narrow(m: Context, Q: Static, size: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: Plain) -> None:
    esize = 8 << size
    result = op(m.v[Rn, 128].split(2 * esize), m.v[Rm, 128].split(2 * esize))
    write_half(m, Rd, Q, result.lsr(esize).trunc(esize))


def _rounding(a: Bits) -> int:
    """Half of what the upper half counts in."""
    return 1 << (a.width // 2 - 1)


NARROW = "{Rd:vec}, {Rn:vec_wide}, {Rm:vec_wide}"
for _u, _code, _name, _op in (
    (0, "0100", "ADDHN, ADDHN2", lambda a, b: a + b),
    (1, "0100", "RADDHN, RADDHN2", lambda a, b: a + b + _rounding(a)),
    (0, "0110", "SUBHN, SUBHN2", lambda a, b: a - b),
    (1, "0110", "RSUBHN, RSUBHN2", lambda a, b: a - b + _rounding(a)),
):
    _define(_u, _code, _name, ("bhs", ""), _narrow, NARROW, _op)
