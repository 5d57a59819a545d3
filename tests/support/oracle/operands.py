"""Machine states worth trying: the values at which instructions change behaviour, the rest random.

Registers that a case does not name stay random, so that reading a wrong one shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from .case import CODE_BASE, CODE_SIZE, DATA_BASE, DATA_END, DATA_SIZE, ENTRY, PAGE, Case

MASK64: Final = (1 << 64) - 1
FRACTION_BITS: Final = {16: 10, 32: 23, 64: 52}
NARROWER: Final = ((7, -126), (10, -14), (23, -126))
"""Fraction bits and least normal exponent of bfloat16, half and single precision."""
_EDGES: Final[tuple[int, ...]] = (
    *range(DATA_BASE, DATA_END + 1, PAGE),
    CODE_BASE,
    ENTRY,
    CODE_BASE + CODE_SIZE,
)

FPCR_AHP: Final = 1 << 26
FPCR_DN: Final = 1 << 25
FPCR_FZ: Final = 1 << 24
FPCR_FZ16: Final = 1 << 19


def chosen_integer(rng: Random, bits: int) -> int:
    """An unsigned integer of `bits`: an extreme, near a power of two, short, a byte pattern, or random."""
    mask = (1 << bits) - 1
    pick = rng.randrange(10)
    if pick < 4:
        value = rng.choice((0, 0, 1, -1, -1, -2, 2, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits - 1) + 1))
    elif pick < 6:
        value = rng.choice((1, -1)) * ((1 << rng.randrange(bits)) + rng.randint(-1, 1))
    elif pick < 7:
        value = rng.choice((1, -1)) * rng.getrandbits(rng.randint(1, bits))
    elif pick < 8:
        value = int.from_bytes(bytes([rng.choice((0, 0x55, 0x7F, 0x80, 0xFF))]) * (bits // 8), "little")
    else:
        value = rng.getrandbits(bits)
    return value & mask


def chosen_x(rng: Random) -> int:
    """A 64-bit register: a chosen integer of 64 bits, two of 32 bits, or an edge of the data or code area."""
    pick = rng.randrange(16)
    if pick == 0:
        return rng.choice(_EDGES) + rng.choice((-16, -8, -4, -1, 0, 0, 1, 4, 8))
    if pick < 5:
        return chosen_integer(rng, 32) | chosen_integer(rng, 32) << 32
    return chosen_integer(rng, 64)


def chosen_float(rng: Random, bits: int) -> int:
    """An IEEE encoding of 16, 32 or 64 bits: any class of number, rounding ties, conversion limits."""
    fraction = FRACTION_BITS[bits]
    top_exponent = (1 << bits - 1 - fraction) - 1
    bias = top_exponent >> 1
    low = rng.getrandbits(fraction)
    exponent = rng.randrange(1, top_exponent)
    sign = rng.getrandbits(1) << bits - 1
    quiet = 1 << fraction - 1
    pick = rng.randrange(20)
    if pick < 10:
        magnitude = rng.choice(
            (
                0,
                0,
                1,
                low,
                (1 << fraction) - 1,
                1 << fraction,
                (top_exponent << fraction) - 1,
                top_exponent << fraction,
                top_exponent << fraction | quiet,
                top_exponent << fraction | quiet | low,
                top_exponent << fraction | 1,
                top_exponent << fraction | (low & (quiet - 1) or 1),
                bias << fraction,
                (bias << fraction) + rng.choice((-1, 1)),
            )
        )
    elif pick < 13:
        magnitude = _rounding_tie(rng, fraction, bias, top_exponent)
    elif pick < 15:
        limit = bias + rng.choice((0, 7, 8, 15, 16, 31, 32, 63, 64))
        magnitude = (min(limit, top_exponent - 1) << fraction) + rng.randint(-1, 1)
    elif pick < 18:
        magnitude = min(max(bias + rng.randint(-4, 4), 1), top_exponent - 1) << fraction | low
    else:
        magnitude = exponent << fraction | low
    return sign | magnitude


def _rounding_tie(rng: Random, fraction: int, bias: int, top_exponent: int) -> int:
    """A magnitude at, or one unit beside, a tie in rounding to integer or to a narrower format."""
    if rng.getrandbits(1):
        exponent = rng.randint(-2, fraction)
        tie_at = fraction - 1 - exponent
    else:
        kept, least_exponent = rng.choice(NARROWER)
        exponent = rng.choice((rng.randint(0, 15), least_exponent + rng.randint(-kept - 2, 3)))
        tie_at = fraction - 1 - kept + max(least_exponent - exponent, 0)
    tie_at = min(max(tie_at, 0), fraction)
    biased = min(max(bias + exponent, 0), top_exponent - 1)
    tie = (rng.getrandbits(fraction) >> tie_at | 1) << tie_at & (1 << fraction) - 1
    return max((biased << fraction | tie) + rng.choice((0, 0, -1, 1)), 0)


def chosen_v(rng: Random, esize: int, fp: bool = False) -> int:
    """A 128-bit vector of lanes of `esize` bits (8 to 128), each chosen alike; `fp` takes 16, 32 or 64."""
    if esize == 128:
        return chosen_integer(rng, 64) | chosen_integer(rng, 64) << 64
    choose = chosen_float if fp else chosen_integer
    value = 0
    for at in range(0, 128, esize):
        value |= choose(rng, esize) << at
    return value


def chosen_fpcr(rng: Random) -> int:
    """Any rounding mode; flush-to-zero, default-NaN and alternative half precision now and then."""
    if rng.getrandbits(1):
        return 0
    flags = sum(flag for flag in (FPCR_AHP, FPCR_DN, FPCR_FZ, FPCR_FZ16) if rng.randrange(3) == 0)
    return rng.randrange(4) << 22 | flags


def named_registers(word: int) -> tuple[int, int, int, int]:
    """The fields of `word` where register numbers usually stand: Rd or Rt, Rn, Ra or Rt2, Rm or Rs."""
    return word & 31, word >> 5 & 31, word >> 10 & 31, word >> 16 & 31


def random_case(
    rng: Random, words: tuple[int, ...], esize: int = 64, fp: bool = False, data_seed: int | None = None
) -> Case:
    """A case for `words`: chosen values in all registers that they may name, the rest random.

    `esize` and `fp` say what vector lanes hold. One case in eight repeats values among the named registers.
    FPCR is chosen if `fp`, else 0. `data_seed` random by default; oracles are faster while it stays the same.
    """
    case = Case(
        words,
        x=[rng.getrandbits(64) for _ in range(31)],
        sp=rng.choice((DATA_BASE + DATA_SIZE // 2, rng.getrandbits(64) & ~15)),
        v=[rng.getrandbits(128) for _ in range(32)],
        nzcv=rng.getrandbits(4),
        fpcr=chosen_fpcr(rng) if fp else 0,
        fpsr=rng.choice((0, 0, 0x0800_009F)),
        tpidr=rng.getrandbits(64),
        data_seed=rng.getrandbits(64) if data_seed is None else data_seed,
    )
    named = sorted({register for word in words for register in named_registers(word)})
    pool_x, pool_v = chosen_x(rng), chosen_v(rng, esize, fp)
    repeat = rng.randrange(8) == 0
    for register in named:
        if register < 31:
            case.x[register] = pool_x if repeat and rng.getrandbits(1) else chosen_x(rng)
        case.v[register] = pool_v if repeat and rng.getrandbits(1) else chosen_v(rng, esize, fp)
    return case


@dataclass(frozen=True)
class Index:
    """The index register of a register-offset access: `option` as encoded (2 UXTW, 3 LSL, 6 SXTW, 7 SXTX)."""

    register: int
    option: int
    shift: int

    def extended(self, value: int) -> int:
        """What register value `value` adds to the base (Arm ARM, ExtendReg), modulo 2^64."""
        if self.register == 31:
            return 0
        if not self.option & 1:
            value &= 0xFFFF_FFFF
            if self.option == 6 and value >> 31:
                value -= 1 << 32
        return value << self.shift & MASK64


def chosen_address(rng: Random, size: int, align: int = 1, miss: float = 0.15) -> int:
    """The address of an access of `size` bytes: mostly in the data area, aligned or not or over a page edge.

    With probability `miss` it meets a guard page, often with its first or last bytes only. In nine of ten
    cases it is a multiple of `align`, the alignment that the instruction demands.
    """
    last = DATA_END - size
    if rng.random() < miss:
        over = rng.randint(1, size) if rng.getrandbits(1) else rng.randint(1, PAGE)
        address = rng.choice((DATA_BASE - over, last + over))
    else:
        pick = rng.randrange(10)
        if pick < 4:
            address = rng.randrange(DATA_BASE, last + 1) // size * size
        elif pick < 7:
            address = rng.randint(DATA_BASE, last)
        elif pick < 9:
            address = rng.randrange(DATA_BASE + PAGE, DATA_END, PAGE) - rng.randint(0, size)
        else:
            address = rng.choice((DATA_BASE, last))
    return address if align == 1 or rng.randrange(10) == 0 else address // align * align


def aim_memory(
    rng: Random,
    case: Case,
    base: int,
    *,
    size: int,
    offset: int = 0,
    index: Index | None = None,
    align: int = 1,
    miss: float = 0.15,
    tag: float = 0.0,
) -> int:
    """Sets register `base` (31 is sp) so that base + offset + index is a `chosen_address`; returns that.

    `size` is that of the whole access in bytes, `offset` what the addressing form adds (0 for post-index).
    The index register keeps the value it has. sp stays a multiple of 16 (the address gives way). With
    probability `tag` the top byte, which data accesses ignore, is random.
    """
    target = chosen_address(rng, size, align, miss)
    added = offset
    if index is not None and index.register < 31 and index.register != base:
        added += index.extended(case.x[index.register])
    value = target - added & MASK64
    if base == 31:
        towards_middle = 15 if target < DATA_BASE + DATA_SIZE // 2 else 0
        case.sp = value + towards_middle & MASK64 & ~15
        return case.sp + added & MASK64
    if rng.random() < tag:
        value ^= rng.getrandbits(8) << 56
    case.x[base] = value
    return target
