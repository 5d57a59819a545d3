"""The manual's shared pseudocode (Arm ARM J1.2, J1.3), over values."""

from __future__ import annotations

from kvrm.isa.context import Context, Flags
from kvrm.values import Bits, Lift, bits, cond

ONE, ZERO = bits(1, 1), bits(1, 0)


def add_with_carry(x: Bits, y: Bits, carry: Bits) -> tuple[Bits, Flags]:
    """AddWithCarry(): the sum and N, Z, C, V."""
    total = x + y + carry.zext(x.width)
    carried = cond(carry, total.ule(x), total.ult(x))
    overflow = ((x ^ total) & (y ^ total)).sign
    return total, (total.sign, total.eq(0), carried, overflow)


def add_flags(x: Bits, y: Lift) -> tuple[Bits, Flags]:
    """x + y and its flags."""
    total = x + y
    return total, (total.sign, total.eq(0), total.ult(x), ((x ^ total) & (x.like(y) ^ total)).sign)


def sub_flags(x: Bits, y: Lift) -> tuple[Bits, Flags]:
    """x - y and its flags; C is "no borrow"."""
    difference = x - y
    overflow = ((x ^ y) & (x ^ difference)).sign
    return difference, (difference.sign, difference.eq(0), x.uge(y), overflow)


def logic_flags(x: Bits) -> Flags:
    """Flags of a logical result."""
    return x.sign, x.eq(0), ZERO, ZERO


def condition_holds(m: Context, condition: int) -> Bits:
    """ConditionHolds(): one bit."""
    n, z, c, v = m.flags
    holds = {
        0: lambda: z,
        1: lambda: c,
        2: lambda: n,
        3: lambda: v,
        4: lambda: c & ~z,
        5: lambda: ~(n ^ v),
        6: lambda: ~(n ^ v) & ~z,
        7: lambda: ONE,
    }[condition >> 1]()
    return ~holds if condition & 1 and condition != 15 else holds


def replicate_ones(n: int, esize: int) -> int:
    """A one at the bottom of each esize-bit element of n bits."""
    return sum(1 << i for i in range(0, n, esize))


def decode_bit_masks(n_bit: Bits, imms: Bits, immr: Bits, n: int) -> tuple[Bits, Bits]:
    """DecodeBitMasks(): wmask and tmask of n bits, selected among the element sizes."""
    level = (n_bit.zext(7).lsl(6) | (~imms).zext(7)).clz()
    wmask = tmask = bits(n, 0)
    for size_log in range(1, 7):
        esize = 1 << size_log
        if esize > n:
            continue
        last, rotate = imms & (esize - 1), immr & (esize - 1)
        full = (1 << esize) - 1
        welem = _ones(last, n) & full
        rotated = (
            welem.lsr(rotate.zext(n)) | welem.lsl((bits(n, esize) - rotate.zext(n)) & (2 * esize - 1))
        ) & full
        top = (last - rotate) & (esize - 1)
        each = replicate_ones(n, esize)
        here = level.eq(6 - size_log)
        wmask = cond(here, rotated * each, wmask)
        tmask = cond(here, (_ones(top, n) & full) * each, tmask)
    return wmask, tmask


def _ones(last: Bits, n: int) -> Bits:
    """last + 1 ones, at the bottom of n bits."""
    return bits(n, -1).lsr(bits(n, n - 1) - last.zext(n))
