"""Advanced SIMD modified immediate (Arm ARM C4.1.96): MOVI, MVNI, ORR, BIC, FMOV.

AdvSIMDExpandImm() by cases: each form of the eight immediate bits `abc:defgh` is its own definition, and the
element that it expands to is known when the word is.
"""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.simd_common import key_of, mnemonic_of
from kvrm.isa.assembly import number, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Decoded, Execution, Static, insn
from kvrm.values import Bits, bits, concat

EXECUTION = Execution.LOGICAL

# -- Text -----------------------------------------------------------------------------------------------


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
    return f", lsl #{8 * hw}" if hw else ""


@printer
def imm8_msl(d: Decoded, hw: int) -> str:
    """The shift of the immediate that fills with ones."""
    return f", msl #{8 * hw + 8}"


@printer
def imm64(d: Decoded, _: int) -> str:
    """The number in which each bit of the immediate is a byte; C's ``%#016x``, which has no 0x in zero."""
    value = int(spread(bits(8, immediate(d))))
    return f"#{value:#016x}" if value else "#0000000000000000"


@printer
def imm_fp(d: Decoded, _: int) -> str:
    """The floating-point number that the immediate encodes."""
    value = immediate(d)
    exponent = (value >> 4 & 7 ^ 4) - 3
    magnitude = (16 + (value & 15)) / 16 * 2.0**exponent
    return f"#{-magnitude if value >> 7 else magnitude:.8f}"


# -- Elements -------------------------------------------------------------------------------------------

Expand = Callable[[Bits, Bits, int], Bits]
"""An element of some width from the eight bits and the shift field `hw`."""


def shifted(imm8: Bits, hw: Bits, esize: int) -> Bits:
    """The immediate at byte `hw`."""
    return imm8.zext(esize).lsl(hw.zext(esize) * 8)


def shifted_ones(imm8: Bits, hw: Bits, esize: int) -> Bits:
    """The immediate at byte `hw` + 1, above ones."""
    return (imm8.zext(esize) + 1).lsl(hw.zext(esize) * 8 + 8) - 1


def spread(imm8: Bits) -> Bits:
    """64 bits: each bit of the immediate as a byte."""
    return concat(*(imm8[i].sext(8) for i in range(7, -1, -1)))


def expand_fp(imm8: Bits, esize: int) -> Bits:
    """VFPExpandImm(): a sign, an exponent of which three bits are given, and four bits of fraction."""
    copies = {16: 2, 32: 5, 64: 8}[esize]
    exponent = concat(~imm8[6], imm8[6].sext(copies), imm8[5:4])
    return concat(imm8[7], exponent, imm8[3:0], bits(esize - 8 - copies, 0))


# -- Shifted immediates ---------------------------------------------------------------------------------


def _move(
    m: Context,
    Q: Static,
    abc: Bits,
    hw: Bits,
    defgh: Bits,
    Rd: Bits,
    esize: int,
    expand: Expand,
    invert: bool,
) -> None:
    n = 64 << Q
    value = expand(concat(abc, defgh), hw, esize)
    m.v[Rd, n] = (~value if invert else value).splat(n // esize)


def _set(m: Context, Q: Static, abc: Bits, hw: Bits, defgh: Bits, Rd: Bits, esize: int, clear: bool) -> None:
    n = 64 << Q
    value = shifted(concat(abc, defgh), hw, esize).splat(n // esize)
    d = m.v[Rd, n].split(esize)
    m.v[Rd, n] = d & ~value if clear else d | value


def _diagram(op: int, cmode: str) -> str:
    return f"0 Q {op} 0111100000 abc:3 {cmode} 01 defgh:5 Rd:5"


LSL = " {Rd:vec}, {:imm8}{hw:imm8_lsl}"
MSL = " {Rd:vec}, {:imm8}{hw:imm8_msl}"
for _op, _name in ((0, "MOVI"), (1, "MVNI")):
    for _key, _esize, _cmode, _expand, _text in (
        ("s", 32, "0 hw:2 0", shifted, LSL),
        ("h", 16, "10 hw 0", shifted, LSL),
        ("msl", 32, "110 hw", shifted_ones, MSL),
    ):
        insn(
            _name,
            _diagram(_op, _cmode),
            mnemonic_of(_name) + _text,
            key=key_of(_name, _key),
            esize=_esize,
            expand=_expand,
            invert=bool(_op),
        )(_move)
for _op, _name in ((0, "ORR (vector, immediate)"), (1, "BIC (vector, immediate)")):
    for _key, _esize, _cmode in (("s", 32, "0 hw:2 1"), ("h", 16, "10 hw 1")):
        insn(
            _name,
            _diagram(_op, _cmode),
            mnemonic_of(_name) + LSL,
            key=key_of(_name, _key),
            esize=_esize,
            clear=bool(_op),
        )(_set)

# -- Immediates of other kinds --------------------------------------------------------------------------


@insn("MOVI", _diagram(0, "1110"), "movi {Rd:vec_bytes}, {:imm8}")
def movi_b(m: Context, Q: Static, abc: Bits, defgh: Bits, Rd: Bits) -> None:
    n = 64 << Q
    m.v[Rd, n] = concat(abc, defgh).splat(n // 8)


@insn(
    "MOVI",
    _diagram(1, "1110"),
    "movi v{Rd}.2d, {:imm64}",
    aliases=[Alias("movi d{Rd}, {:imm64}", lambda d: not d.Q)],
)
def movi_d(m: Context, Q: Static, abc: Bits, defgh: Bits, Rd: Bits) -> None:
    n = 64 << Q
    m.v[Rd, n] = spread(concat(abc, defgh)).splat(n // 64)


def _fmov(m: Context, Q: Static, abc: Bits, defgh: Bits, Rd: Bits, esize: int) -> None:
    n = 64 << Q
    m.v[Rd, n] = expand_fp(concat(abc, defgh), esize).splat(n // esize)


FMOV = "fmov {Rd:vec}, {:imm_fp}"
insn("FMOV (vector, immediate)", _diagram(0, "1111"), FMOV, key="fmov_vector_immediate_s", esize=32)(_fmov)
insn(
    "FMOV (vector, immediate)",
    "0 Q 0 0111100000 abc:3 1111 11 defgh:5 Rd:5",
    FMOV,
    key="fmov_vector_immediate_h",
    feature="FEAT_FP16",
    esize=16,
)(_fmov)
insn(
    "FMOV (vector, immediate)",
    _diagram(1, "1111"),
    FMOV,
    key="fmov_vector_immediate_d",
    unallocated="Q=0",
    esize=64,
)(_fmov)
