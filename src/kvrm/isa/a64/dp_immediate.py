"""Data processing, immediate (Arm ARM C4.1.86)."""

from __future__ import annotations

from kvrm.isa.a64.common import add_flags, decode_bit_masks, logic_flags, sub_flags
from kvrm.isa.assembly import general, number, printer, signed_field
from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Decoded, Execution, Static, insn
from kvrm.values import Bits, bits, concat, cond

EXECUTION = Execution.ARITHMETIC

# -- PC-relative addressing ----------------------------------------------------------------------------------


@printer
def adr(d: Decoded, _: int) -> str:
    """The address that ADR forms."""
    return number(d.pc + signed_field(d.immhi << 2 | d.immlo, 21) & (1 << 64) - 1)


@printer
def adrp_(d: Decoded, _: int) -> str:
    """The page that ADRP forms."""
    return number((d.pc & ~4095) + (signed_field(d.immhi << 2 | d.immlo, 21) << 12) & (1 << 64) - 1)


@insn("ADR", "0 immlo:2 10000 immhi:19 Rd:5", "adr {Rd:X}, {:adr}")
def adr_(m: Context, immlo: Bits, immhi: Bits, Rd: Bits) -> None:
    m.x[Rd, 64] = m.pc + concat(immhi, immlo).sext(64)


@insn("ADRP", "1 immlo:2 10000 immhi:19 Rd:5", "adrp {Rd:X}, {:adrp}")
def adrp(m: Context, immlo: Bits, immhi: Bits, Rd: Bits) -> None:
    m.x[Rd, 64] = (m.pc & ~4095) + concat(immhi, immlo, bits(12, 0)).sext(64)


# -- Add/subtract (immediate) --------------------------------------------------------------------------------


@printer
def lsl12(d: Decoded, sh: int) -> str:
    """Nothing, or the shift by 12."""
    return ", lsl #12" if sh else ""


def _imm12(imm12: Bits, sh: Bits, n: int) -> Bits:
    return imm12.zext(n).lsl(cond(sh, bits(n, 12), 0))


def _moves_sp(d: Decoded) -> bool:
    return not d.imm12 and not d.sh and 31 in (d.Rn, d.Rd)


@insn(
    "ADD (immediate)",
    "sf 0 0 100010 sh imm12:12 Rn:5 Rd:5",
    "add {Rd:Rsp}, {Rn:Rsp}, {imm12:imm}{sh:lsl12}",
    aliases=[Alias("mov {Rd:Rsp}, {Rn:Rsp}", _moves_sp)],
)
def add_imm(m: Context, sf: Static, sh: Bits, imm12: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.xsp[Rd, n] = m.xsp[Rn, n] + _imm12(imm12, sh, n)


@insn(
    "SUB (immediate)", "sf 1 0 100010 sh imm12:12 Rn:5 Rd:5", "sub {Rd:Rsp}, {Rn:Rsp}, {imm12:imm}{sh:lsl12}"
)
def sub_imm(m: Context, sf: Static, sh: Bits, imm12: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.xsp[Rd, n] = m.xsp[Rn, n] - _imm12(imm12, sh, n)


@insn(
    "ADDS (immediate)",
    "sf 0 1 100010 sh imm12:12 Rn:5 Rd:5",
    "adds {Rd:R}, {Rn:Rsp}, {imm12:imm}{sh:lsl12}",
    aliases=[Alias("cmn {Rn:Rsp}, {imm12:imm}{sh:lsl12}", lambda d: d.Rd == 31)],
)
def adds_imm(m: Context, sf: Static, sh: Bits, imm12: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n], m.flags = add_flags(m.xsp[Rn, n], _imm12(imm12, sh, n))


@insn(
    "SUBS (immediate)",
    "sf 1 1 100010 sh imm12:12 Rn:5 Rd:5",
    "subs {Rd:R}, {Rn:Rsp}, {imm12:imm}{sh:lsl12}",
    aliases=[Alias("cmp {Rn:Rsp}, {imm12:imm}{sh:lsl12}", lambda d: d.Rd == 31)],
)
def subs_imm(m: Context, sf: Static, sh: Bits, imm12: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n], m.flags = sub_flags(m.xsp[Rn, n], _imm12(imm12, sh, n))


# -- Logical (immediate) -------------------------------------------------------------------------------------

RESERVED_MASKS = " | ".join(
    ["sf=0 N=1", "N=1 imms=111111"]
    + [f"N=0 imms={'1' * k}0{'1' * (5 - k)}" for k in range(5)]
    + ["N=0 imms=11111x"]
)


def bit_mask(n_bit: int, imms: int, immr: int, n: int) -> int:
    """The immediate that a logical instruction encodes."""
    return int(decode_bit_masks(bits(1, n_bit), bits(6, imms), bits(6, immr), n)[0])


@printer
def bitmask(d: Decoded, _: int) -> str:
    """A logical immediate."""
    return number(bit_mask(d.N, d.imms, d.immr, 64 if d.sf else 32))


def _move_wide_preferred(d: Decoded) -> bool:
    """MoveWidePreferred(): whether MOVZ or MOVN can make the immediate.

    All but one of its halfwords are zeros, or ones. The manual's pseudocode refuses MOVN where one zero to 14
    zeros end in the upper bits of a halfword, so that two words would have the text of that MOVN.
    """
    width = 64 if d.sf else 32
    value, ones = bit_mask(d.N, d.imms, d.immr, width), (1 << width) - 1
    halfwords = [0xFFFF << at for at in range(0, width, 16)]
    return any(value & ~h == 0 or ~value & ones & ~h == 0 for h in halfwords)


def _wmask(N: Bits, imms: Bits, immr: Bits, n: int) -> Bits:
    return decode_bit_masks(N, imms, immr, n)[0]


@insn(
    "AND (immediate)",
    "sf 00 100100 N immr:6 imms:6 Rn:5 Rd:5",
    "and {Rd:Rsp}, {Rn:R}, {:bitmask}",
    unallocated=RESERVED_MASKS,
    execution=Execution.LOGICAL,
)
def and_imm(m: Context, sf: Static, N: Bits, immr: Bits, imms: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.xsp[Rd, n] = m.x[Rn, n] & _wmask(N, imms, immr, n)


@insn(
    "ORR (immediate)",
    "sf 01 100100 N immr:6 imms:6 Rn:5 Rd:5",
    "orr {Rd:Rsp}, {Rn:R}, {:bitmask}",
    unallocated=RESERVED_MASKS,
    aliases=[Alias("mov {Rd:Rsp}, {:mov_bitmask}", lambda d: d.Rn == 31 and not _move_wide_preferred(d))],
    execution=Execution.LOGICAL,
)
def orr_imm(m: Context, sf: Static, N: Bits, immr: Bits, imms: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.xsp[Rd, n] = m.x[Rn, n] | _wmask(N, imms, immr, n)


@insn(
    "EOR (immediate)",
    "sf 10 100100 N immr:6 imms:6 Rn:5 Rd:5",
    "eor {Rd:Rsp}, {Rn:R}, {:bitmask}",
    unallocated=RESERVED_MASKS,
    execution=Execution.LOGICAL,
)
def eor_imm(m: Context, sf: Static, N: Bits, immr: Bits, imms: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.xsp[Rd, n] = m.x[Rn, n] ^ _wmask(N, imms, immr, n)


@insn(
    "ANDS (immediate)",
    "sf 11 100100 N immr:6 imms:6 Rn:5 Rd:5",
    "ands {Rd:R}, {Rn:R}, {:bitmask}",
    unallocated=RESERVED_MASKS,
    aliases=[Alias("tst {Rn:R}, {:bitmask}", lambda d: d.Rd == 31)],
    execution=Execution.LOGICAL,
)
def ands_imm(m: Context, sf: Static, N: Bits, immr: Bits, imms: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    result = m.x[Rn, n] & _wmask(N, imms, immr, n)
    m.flags = logic_flags(result)
    m.x[Rd, n] = result


# -- Move wide (immediate) -----------------------------------------------------------------------------------


@printer
def lsl16(d: Decoded, hw: int) -> str:
    """Nothing, or the shift of a 16-bit immediate."""
    return f", lsl #{16 * hw}" if hw else ""


def _signed(d: Decoded, value: int) -> str:
    """A value of the register's size, as MOV shows it."""
    width = 64 if d.sf else 32
    return number(signed_field(value & (1 << width) - 1, width))


@printer
def movz_value(d: Decoded, _: int) -> str:
    """The value that MOVZ makes."""
    return _signed(d, d.imm16 << 16 * d.hw)


@printer
def movn_value(d: Decoded, _: int) -> str:
    """The value that MOVN makes."""
    return _signed(d, ~(d.imm16 << 16 * d.hw))


@printer
def mov_bitmask(d: Decoded, _: int) -> str:
    """The value that ORR with the zero register makes."""
    return _signed(d, bit_mask(d.N, d.imms, d.immr, 64))


def _movz_is_mov(d: Decoded) -> bool:
    return bool(d.imm16) or not d.hw


def _movn_is_mov(d: Decoded) -> bool:
    return _movz_is_mov(d) and (bool(d.sf) or d.imm16 != 0xFFFF)


@insn(
    "MOVN",
    "sf 00 100101 hw:2 imm16:16 Rd:5",
    "movn {Rd:R}, {imm16:imm}{hw:lsl16}",
    unallocated="sf=0 hw=1x",
    aliases=[Alias("mov {Rd:R}, {:movn_value}", _movn_is_mov)],
    execution=Execution.LOGICAL,
)
def movn(m: Context, sf: Static, hw: Bits, imm16: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = ~imm16.zext(n).lsl(hw.zext(n) * 16)


@insn(
    "MOVZ",
    "sf 10 100101 hw:2 imm16:16 Rd:5",
    "movz {Rd:R}, {imm16:imm}{hw:lsl16}",
    unallocated="sf=0 hw=1x",
    aliases=[Alias("mov {Rd:R}, {:movz_value}", _movz_is_mov)],
    execution=Execution.LOGICAL,
)
def movz(m: Context, sf: Static, hw: Bits, imm16: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = imm16.zext(n).lsl(hw.zext(n) * 16)


@insn(
    "MOVK",
    "sf 11 100101 hw:2 imm16:16 Rd:5",
    "movk {Rd:R}, {imm16:imm}{hw:lsl16}",
    unallocated="sf=0 hw=1x",
    execution=Execution.LOGICAL,
)
def movk(m: Context, sf: Static, hw: Bits, imm16: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    at = hw.zext(n) * 16
    m.x[Rd, n] = (m.x[Rd, n] & ~bits(n, 0xFFFF).lsl(at)) | imm16.zext(n).lsl(at)


# -- Bitfield ------------------------------------------------------------------------------------------------

BITFIELD = "N immr:6 imms:6 Rn:5 Rd:5"
NOT_BITFIELD = "sf=0 N=1 | sf=1 N=0 | sf=0 immr=1xxxxx | sf=0 imms=1xxxxx"


def _last(d: Decoded) -> int:
    return 63 if d.sf else 31


@printer
def bf_shift(d: Decoded, _: int) -> str:
    """Shift amount of LSL by UBFM."""
    return number(_last(d) - d.imms)


@printer
def bf_insert(d: Decoded, _: int) -> str:
    """lsb and width of the inserting forms."""
    return f"{number(-d.immr & _last(d))}, {number(d.imms + 1)}"


@printer
def bf_extract(d: Decoded, _: int) -> str:
    """lsb and width of the extracting forms."""
    return f"{number(d.immr)}, {number(d.imms - d.immr + 1)}"


@printer
def narrow(d: Decoded, v: int) -> str:
    """The 32-bit source of an extension."""
    return general(v, 0)


def _extension(d: Decoded, imms: int) -> bool:
    return not d.immr and d.imms == imms


@insn(
    "SBFM",
    f"sf 00 100110 {BITFIELD}",
    "sbfm {Rd:R}, {Rn:R}, {immr:imm}, {imms:imm}",
    unallocated=NOT_BITFIELD,
    aliases=[
        Alias("asr {Rd:R}, {Rn:R}, {immr:imm}", lambda d: d.imms == _last(d)),
        Alias("sbfiz {Rd:R}, {Rn:R}, {:bf_insert}", lambda d: d.imms < d.immr),
        Alias("sxtb {Rd:R}, {Rn:narrow}", lambda d: _extension(d, 7)),
        Alias("sxth {Rd:R}, {Rn:narrow}", lambda d: _extension(d, 15)),
        Alias("sxtw {Rd:R}, {Rn:narrow}", lambda d: _extension(d, 31)),
        Alias("sbfx {Rd:R}, {Rn:R}, {:bf_extract}", lambda d: True),
    ],
    execution=Execution.EXTEND_SHIFT,
)
def sbfm(m: Context, sf: Static, N: Bits, immr: Bits, imms: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    wmask, tmask = decode_bit_masks(N, imms, immr, n)
    source = m.x[Rn, n]
    top = cond(source.lsr(imms.zext(n))[0], bits(n, -1), 0)
    m.x[Rd, n] = (top & ~tmask) | (source.ror(immr.zext(n)) & (wmask & tmask))


@insn(
    "BFM",
    f"sf 01 100110 {BITFIELD}",
    "bfm {Rd:R}, {Rn:R}, {immr:imm}, {imms:imm}",
    unallocated=NOT_BITFIELD,
    aliases=[
        Alias("bfc {Rd:R}, {:bf_insert}", lambda d: d.imms < d.immr and d.Rn == 31),
        Alias("bfi {Rd:R}, {Rn:R}, {:bf_insert}", lambda d: d.imms < d.immr),
        Alias("bfxil {Rd:R}, {Rn:R}, {:bf_extract}", lambda d: True),
    ],
    execution=Execution.EXTEND_SHIFT,
)
def bfm(m: Context, sf: Static, N: Bits, immr: Bits, imms: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    wmask, tmask = decode_bit_masks(N, imms, immr, n)
    mask = wmask & tmask
    m.x[Rd, n] = (m.x[Rd, n] & ~mask) | (m.x[Rn, n].ror(immr.zext(n)) & mask)


@insn(
    "UBFM",
    f"sf 10 100110 {BITFIELD}",
    "ubfm {Rd:R}, {Rn:R}, {immr:imm}, {imms:imm}",
    unallocated=NOT_BITFIELD,
    aliases=[
        Alias("lsl {Rd:R}, {Rn:R}, {:bf_shift}", lambda d: d.imms != _last(d) and d.imms + 1 == d.immr),
        Alias("lsr {Rd:R}, {Rn:R}, {immr:imm}", lambda d: d.imms == _last(d)),
        Alias("ubfiz {Rd:R}, {Rn:R}, {:bf_insert}", lambda d: d.imms < d.immr),
        Alias("uxtb {Rd:R}, {Rn:narrow}", lambda d: not d.sf and _extension(d, 7)),
        Alias("uxth {Rd:R}, {Rn:narrow}", lambda d: not d.sf and _extension(d, 15)),
        Alias("ubfx {Rd:R}, {Rn:R}, {:bf_extract}", lambda d: True),
    ],
    execution=Execution.EXTEND_SHIFT,
)
def ubfm(m: Context, sf: Static, N: Bits, immr: Bits, imms: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    wmask, tmask = decode_bit_masks(N, imms, immr, n)
    m.x[Rd, n] = m.x[Rn, n].ror(immr.zext(n)) & (wmask & tmask)


# -- Extract -------------------------------------------------------------------------------------------------


@insn(
    "EXTR",
    "sf 00 100111 N 0 Rm:5 imms:6 Rn:5 Rd:5",
    "extr {Rd:R}, {Rn:R}, {Rm:R}, {imms:imm}",
    unallocated="sf=0 N=1 | sf=1 N=0 | sf=0 imms=1xxxxx",
    aliases=[Alias("ror {Rd:R}, {Rn:R}, {imms:imm}", lambda d: d.Rn == d.Rm)],
    execution=Execution.EXTEND_SHIFT,
)
def extr(m: Context, sf: Static, Rm: Bits, imms: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    low = imms.zext(n)
    m.x[Rd, n] = m.x[Rm, n].lsr(low) | m.x[Rn, n].lsl(bits(n, n) - low)
