"""Integer arithmetic on lanes, for vectors and scalars alike (the manual's element operations)."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.simd_common import Saturated
from kvrm.values import Bits, cond
from kvrm.values.vectors import sqadd, sqsub, uqadd, uqsub

Unary = Callable[[Bits], "Bits | Saturated"]
Binary = Callable[[Bits, Bits], "Bits | Saturated"]
Ternary = Callable[[Bits, Bits, Bits], "Bits | Saturated"]
Shift = Callable[[Bits, int], Bits]


def mask_if(test: Bits, width: int) -> Bits:
    """All ones where the test holds."""
    return test.sext(width)


def even_odd(a: Bits, b: Bits | None = None) -> tuple[Bits, Bits]:
    """The lanes with even and with odd numbers, of `a` followed by `b`."""
    lanes = range(0, a.lanes if b is None else 2 * a.lanes, 2)
    return a.shuffle([*lanes], b), a.shuffle([i + 1 for i in lanes], b)


def least(width: int) -> int:
    """The most negative number of that width, as a bit pattern."""
    return 1 << (width - 1)


# -- Saturation -----------------------------------------------------------------------------------------


def saturating(exact: Bits, clamped: Bits) -> Saturated:
    """A clamped result, where the wrapped result `exact` differs from it exactly when it overflowed."""
    return Saturated(clamped, clamped.ne(exact))


def add_signed(a: Bits, b: Bits) -> Saturated:
    """SQADD."""
    return saturating(a + b, sqadd(a, b))


def add_unsigned(a: Bits, b: Bits) -> Saturated:
    """UQADD."""
    return saturating(a + b, uqadd(a, b))


def subtract_signed(a: Bits, b: Bits) -> Saturated:
    """SQSUB."""
    return saturating(a - b, sqsub(a, b))


def subtract_unsigned(a: Bits, b: Bits) -> Saturated:
    """UQSUB."""
    return saturating(a - b, uqsub(a, b))


def accumulate_unsigned(d: Bits, a: Bits) -> Saturated:
    """SUQADD: signed d plus unsigned a; an unsigned sum, once d is counted from the least number on."""
    return saturating(d + a, uqadd(d ^ least(d.width), a) ^ least(d.width))


def accumulate_signed(d: Bits, a: Bits) -> Saturated:
    """USQADD: unsigned d plus signed a, of which one of two parts is zero."""
    negative = mask_if(a.sign, a.width)
    return saturating(d + a, uqsub(uqadd(d, a & ~negative), -a & negative))


def absolute(a: Bits) -> Saturated:
    """SQABS."""
    return saturating(cond(a.sign, -a, a), a.smax(sqsub(a.like(0), a)))


def negated(a: Bits) -> Saturated:
    """SQNEG."""
    return saturating(-a, sqsub(a.like(0), a))


def narrow(a: Bits) -> Bits:
    """XTN: the lower half of each lane."""
    return a.trunc(a.width // 2)


def _narrowed(a: Bits, clamped: Bits) -> Saturated:
    return Saturated(narrow(clamped), clamped.ne(a))


def narrow_signed(a: Bits) -> Saturated:
    """SQXTN: signed to signed, half as wide."""
    limit = least(a.width // 2)
    return _narrowed(a, a.smin(limit - 1).smax(-limit))


def narrow_to_unsigned(a: Bits) -> Saturated:
    """SQXTUN: signed to unsigned, half as wide."""
    return _narrowed(a, a.smax(0).smin((1 << a.width // 2) - 1))


def narrow_unsigned(a: Bits) -> Saturated:
    """UQXTN: unsigned to unsigned, half as wide."""
    return _narrowed(a, a.umin((1 << a.width // 2) - 1))


# -- Twice as wide, and multiplication ------------------------------------------------------------------


def wide_signed(a: Bits) -> Bits:
    """Each lane sign-extended to twice its width."""
    return a.sext(2 * a.width)


def wide_unsigned(a: Bits) -> Bits:
    """Each lane zero-extended to twice its width."""
    return a.zext(2 * a.width)


def product_signed(a: Bits, b: Bits) -> Bits:
    """SMULL: the whole signed product."""
    return wide_signed(a) * wide_signed(b)


def product_unsigned(a: Bits, b: Bits) -> Bits:
    """UMULL: the whole unsigned product."""
    return wide_unsigned(a) * wide_unsigned(b)


def add_product_signed(d: Bits, a: Bits, b: Bits) -> Bits:
    """SMLAL."""
    return d + product_signed(a, b)


def add_product_unsigned(d: Bits, a: Bits, b: Bits) -> Bits:
    """UMLAL."""
    return d + product_unsigned(a, b)


def subtract_product_signed(d: Bits, a: Bits, b: Bits) -> Bits:
    """SMLSL."""
    return d - product_signed(a, b)


def subtract_product_unsigned(d: Bits, a: Bits, b: Bits) -> Bits:
    """UMLSL."""
    return d - product_unsigned(a, b)


def product_doubled(a: Bits, b: Bits) -> Saturated:
    """SQDMULL: twice the whole signed product, which only the square of the least number overflows."""
    p = product_signed(a, b)
    return add_signed(p, p)


def _upper(p: Saturated, width: int) -> Saturated:
    return Saturated(p.value.lsr(width).trunc(width), p.clamped)


def doubled_high(a: Bits, b: Bits) -> Saturated:
    """SQDMULH: the upper half of twice the product."""
    return _upper(product_doubled(a, b), a.width)


def doubled_high_rounded(a: Bits, b: Bits) -> Saturated:
    """SQRDMULH: the upper half of twice the product, rounded; it overflows where SQDMULH does."""
    p = product_doubled(a, b)
    return _upper(Saturated(sqadd(p.value, least(a.width)), p.clamped), a.width)


def add_product_doubled(d: Bits, a: Bits, b: Bits) -> Saturated:
    """SQDMLAL: both the product and the sum are clamped."""
    p = product_doubled(a, b)
    total = add_signed(d, p.value)
    return Saturated(total.value, total.clamped | p.clamped)


def subtract_product_doubled(d: Bits, a: Bits, b: Bits) -> Saturated:
    """SQDMLSL: both the product and the difference are clamped."""
    p = product_doubled(a, b)
    total = subtract_signed(d, p.value)
    return Saturated(total.value, total.clamped | p.clamped)


def _high_rounded(d: Bits, product: Bits) -> Saturated:
    """The upper half of d:0 plus twice the product, rounded: all of it halved, so that it fits."""
    total = wide_signed(d).lsl(d.width - 1) + product + least(d.width - 1)
    return narrow_signed(total.asr(d.width - 1))


def add_product_high_rounded(d: Bits, a: Bits, b: Bits) -> Saturated:
    """SQRDMLAH."""
    return _high_rounded(d, product_signed(a, b))


def subtract_product_high_rounded(d: Bits, a: Bits, b: Bits) -> Saturated:
    """SQRDMLSH."""
    return _high_rounded(d, -product_signed(a, b))


def add_dot_product(d: Bits, a: Bits, b: Bits, extend_a: Shift, extend_b: Shift) -> Bits:
    """d plus the products of the four bytes of each lane; bytes extend by sign (asr) or by zero (lsr)."""
    for at in (24, 16, 8, 0):
        d = d + extend_a(a.lsl(at), 24) * extend_b(b.lsl(at), 24)
    return d


def product_polynomial(a: Bits, b: Bits) -> Bits:
    """PMUL of bytes: the low bits of a product without carries. Only the low eight bits of b count."""
    result = a.like(0)
    for i in range(8):
        result = result ^ cond((b & 1 << i).ne(0), a.lsl(i), 0)
    return result


def product_polynomial_wide(a: Bits, b: Bits) -> Bits:
    """PMULL of bytes: the whole product without carries."""
    return product_polynomial(wide_unsigned(a), wide_unsigned(b))


# -- Distances ------------------------------------------------------------------------------------------


def distance_signed(a: Bits, b: Bits) -> Bits:
    """SABD: |a - b|, which fits the lanes as an unsigned number."""
    return a.smax(b) - a.smin(b)


def distance_unsigned(a: Bits, b: Bits) -> Bits:
    """UABD: |a - b|."""
    return a.umax(b) - a.umin(b)


# -- Shifts ---------------------------------------------------------------------------------------------


def shift_right_by(signed: bool, rounding: bool = False) -> Callable[[Bits, Bits], Bits]:
    """SSHR, USHR, SRSHR, URSHR: shift right by n > 0; rounding adds the last bit that falls off."""
    shift = Bits.asr if signed else Bits.lsr
    return (lambda a, n: shift(a, n) + (shift(a, n - 1) & 1)) if rounding else shift


def shift_left_signed(a: Bits, n: Bits) -> Saturated:
    """SQSHL to the left: clamped towards the sign."""
    moved = a.lsl(n)
    lost = moved.asr(n).ne(a)
    return Saturated(cond(lost, a.asr(a.width - 1) ^ (least(a.width) - 1), moved), lost)


def shift_left_unsigned(a: Bits, n: Bits) -> Saturated:
    """UQSHL to the left."""
    moved = a.lsl(n)
    lost = moved.lsr(n).ne(a)
    return Saturated(cond(lost, a.like(-1), moved), lost)


def shift_left_to_unsigned(a: Bits, n: Bits) -> Saturated:
    """SQSHLU: a signed number to an unsigned one."""
    up = shift_left_unsigned(a, n)
    return Saturated(cond(a.sign, a.like(0), up.value), up.clamped | a.sign)


def shift_by_register(signed: bool, rounding: bool = False) -> Binary:
    """SSHL, USHL, SRSHL, URSHL: left by the signed low byte of each lane of b, right if it is negative."""
    right = shift_right_by(signed, rounding)

    def shift(a: Bits, b: Bits) -> Bits:
        n = b.trunc(8).sext(a.width)
        return cond(n.sign, right(a, -n), a.lsl(n))

    return shift


def saturating_shift_by_register(signed: bool, rounding: bool = False) -> Binary:
    """SQSHL, UQSHL, SQRSHL, UQRSHL: the same, clamped."""
    right = shift_right_by(signed, rounding)
    left = shift_left_signed if signed else shift_left_unsigned

    def shift(a: Bits, b: Bits) -> Saturated:
        n = b.trunc(8).sext(a.width)
        up = left(a, n)
        return Saturated(cond(n.sign, right(a, -n), up.value), up.clamped & ~n.sign)

    return shift
