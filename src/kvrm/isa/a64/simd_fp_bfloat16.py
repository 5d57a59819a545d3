"""bfloat16, FEAT_BF16: conversions, dot products, multiply-add of every other element (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import elements
from kvrm.isa.a64.simd_common import write_half
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits, concat
from kvrm.values.bfloat import bfadd, bfcvt, bfmul
from kvrm.values.fp import fmuladd

EXECUTION = Execution.MULTIPLY_DIVIDE

BF16 = "FEAT_BF16"
VECTOR = "0 {} 1 01110 {} 0 Rm:5 1 {} 1 Rn:5 Rd:5"
BY_ELEMENT = "0 Q 0 01111 {} L M Rm:4 1111 H 0 Rn:5 Rd:5"

# -- Conversions ------------------------------------------------------------------------------------------


@insn(
    "BFCVT",
    "000 11110 01 1 000110 10000 Rn:5 Rd:5",
    "bfcvt h{Rd}, s{Rn}",
    feature=BF16,
    execution=Execution.ARITHMETIC,
)
def bfcvt_scalar(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.v[Rd, 16] = bfcvt(m.v[Rn, 32], m.fpcr)


@printer
def bf_half(d: Decoded, r: int) -> str:
    """Vector of halfwords, its length by `Q`."""
    return f"v{r}.{4 << d.Q}h"


@insn(
    "BFCVTN, BFCVTN2",
    "0 Q 0 01110 10 10000 10110 10 Rn:5 Rd:5",
    "bfcvtn{:two} {Rd:bf_half}, v{Rn}.4s",
    feature=BF16,
    execution=Execution.ARITHMETIC,
)
def bfcvtn(m: Context, Q: Static, Rn: Bits, Rd: Bits) -> None:
    write_half(m, Rd, Q, bfcvt(elements(m, Rn, 128, 32), m.fpcr))


# -- Dot products: neighbours are multiplied and added, then the accumulator -------------------------------


def _upper(a: Bits) -> Bits:
    """The odd elements as singles."""
    return a & 0xFFFF_0000


def _lower(a: Bits) -> Bits:
    """The even elements as singles."""
    return a.lsl(16)


def add_dot_product(d: Bits, a: Bits, b: Bits) -> Bits:
    """BFDotAdd(): each lane of `a` and `b` holds two numbers."""
    return bfadd(d, bfadd(bfmul(_lower(a), _lower(b)), bfmul(_upper(a), _upper(b))))


@insn(
    "BFDOT (vector)",
    VECTOR.format("Q", "01", "1111"),
    "bfdot {Rd:vec_words}, {Rn:bf_half}, {Rm:bf_half}",
    feature=BF16,
)
def bfdot_vector(m: Context, Q: Static, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 << Q
    m.v[Rd, n] = add_dot_product(*(elements(m, r, n, 32) for r in (Rd, Rn, Rm)))


@printer
def bf_pair(d: Decoded, _: int) -> str:
    """Two elements of Rm."""
    return f"v{d.M << 4 | d.Rm}.2h[{d.H << 1 | d.L}]"


@insn(
    "BFDOT (by element)",
    BY_ELEMENT.format("01"),
    "bfdot {Rd:vec_words}, {Rn:bf_half}, {:bf_pair}",
    feature=BF16,
)
def bfdot_by_element(m: Context, Q: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 << Q
    d, a = elements(m, Rd, n, 32), elements(m, Rn, n, 32)
    pair = elements(m, concat(M, Rm), 128, 32).lane(concat(H, L))
    m.v[Rd, n] = add_dot_product(d, a, pair.splat(a.lanes))


@insn("BFMMLA", VECTOR.format("1", "01", "1101"), "bfmmla v{Rd}.4s, v{Rn}.8h, v{Rm}.8h", feature=BF16)
def bfmmla(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """A 2 by 2 matrix plus the product of a 2 by 4 matrix with another one transposed."""
    d, a, b = (elements(m, r, 128, 32) for r in (Rd, Rn, Rm))
    for half in (0, 1):
        left = a.shuffle([half, half, 2 + half, 2 + half])
        d = add_dot_product(d, left, b.shuffle([half, 2 + half, half, 2 + half]))
    m.v[Rd, 128] = d


# -- Multiply-add, fused, by FPCR ---------------------------------------------------------------------------


@printer
def bottom_top(d: Decoded, q: int) -> str:
    """Which elements are used: bottom (even) or top (odd) ones."""
    return "bt"[q]


@insn(
    "BFMLALB, BFMLALT (vector)",
    VECTOR.format("Q", "11", "1111"),
    "bfmlal{Q:bottom_top} v{Rd}.4s, v{Rn}.8h, v{Rm}.8h",
    feature=BF16,
)
def bfmlal_vector(m: Context, Q: Static, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    half = _upper if Q else _lower
    d, a, b = (elements(m, r, 128, 32) for r in (Rd, Rn, Rm))
    m.v[Rd, 128] = fmuladd(d, half(a), half(b), m.fpcr)


@printer
def bf_element(d: Decoded, _: int) -> str:
    """One element of Rm, which is one of 16 registers."""
    return f"v{d.Rm}.h[{d.H << 2 | d.L << 1 | d.M}]"


@insn(
    "BFMLALB, BFMLALT (by element)",
    BY_ELEMENT.format("11"),
    "bfmlal{Q:bottom_top} v{Rd}.4s, v{Rn}.8h, {:bf_element}",
    feature=BF16,
)
def bfmlal_by_element(m: Context, Q: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits) -> None:
    d, a = elements(m, Rd, 128, 32), elements(m, Rn, 128, 32)
    one = elements(m, Rm.zext(5), 128, 16).lane(concat(H, L, M)).zext(32).lsl(16)
    m.v[Rd, 128] = fmuladd(d, (_upper if Q else _lower)(a), one.splat(4), m.fpcr)
