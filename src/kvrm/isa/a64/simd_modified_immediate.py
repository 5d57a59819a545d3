"""Advanced SIMD modified immediate (Arm ARM C4.1.96): MOVI, MVNI, ORR, BIC, FMOV.

AdvSIMDExpandImm() by cases: each form of the eight immediate bits `abc:defgh` is its own definition, and the element that
it expands to is known when the word is.
"""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.assembly import number, printer
from kvrm.isa.a64.simd_common import LETTERS, arranged
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Static, insn
from kvrm.values import Bits, bits, concat, cond

DIAGRAM = "0 {} {} 0111100000 abc:3 {} 01 defgh:5 Rd:5"


# -- Text -----------------------------------------------------------------------------------------------------------------


def immediate(d: Decoded) -> int:
    """The eight bits abcdefgh."""
    return d.abc << 5 | d.defgh


@printer
def imm8(d: Decoded, _: int) -> str:
    """The eight bits as a number."""
    return number(immediate(d))


@printer
def imm8_lsl(d: Decoded, hw: int) -> str:
    """The shift of the immediate by whole bytes, if any."""
    return f", lsl {number(8 * hw)}" if hw else ""


@printer
def imm8_msl(d: Decoded, cmode: int) -> str:
    """The shift of the immediate that fills with ones."""
    return f", msl {number(16 if cmode else 8)}"


@printer
def imm64(d: Decoded, _: int) -> str:
    """The number in which each bit of the immediate is a byte."""
    return number(int(spread(bits(3, d.abc), bits(5, d.defgh))))


@printer
def imm_fp(d: Decoded, _: int) -> str:
    """The floating-point number that the immediate encodes."""
    value = immediate(d)
    exponent = (value >> 4 & 7 ^ 4) - 3
    magnitude = (16 + (value & 15)) / 16 * 2.0**exponent
    return f"#{-magnitude if value >> 7 else magnitude:.8f}"


@printer
def vector_imm(d: Decoded, r: int) -> str:
    """Vector register, its elements by the form."""
    return arranged(r, 128 if d.Q else 64, d.definition.bound["esize"])


# -- Elements -------------------------------------------------------------------------------------------------------------


def spread(abc: Bits, defgh: Bits) -> Bits:
    """Each of the eight bits as one byte."""
    imm8 = concat(abc, defgh)
    return concat(*(cond(imm8[i], bits(8, 0xFF), 0) for i in range(7, -1, -1)))


def fp_element(abc: Bits, defgh: Bits, esize: int) -> Bits:
    """VFPExpandImm(): a sign, an exponent of which three bits are given, and four bits of fraction."""
    imm8 = concat(abc, defgh)
    copies = 5 if esize == 32 else 8
    exponent = concat(~imm8[6], imm8[6].sext(copies), imm8[5:4])
    return concat(imm8[7], exponent, imm8[3:0], bits(esize - 8 - copies + 1 - 1, 0))
