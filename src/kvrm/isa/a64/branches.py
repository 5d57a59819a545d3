"""Branches, exception generation and system instructions (Arm ARM C4.1.87): the branches and exceptions."""

from __future__ import annotations

from kvrm.isa.a64.common import condition_holds
from kvrm.isa.assembly import number, printer, signed_field
from kvrm.isa.context import Context, System
from kvrm.isa.definition import Alias, Decoded, Execution, Static, insn
from kvrm.lane.stops import Reason
from kvrm.values import Bits, bits, concat

EXECUTION = Execution.BRANCH

# -- Conditional branch, compare and branch, test and branch -------------------------------------------------


def _target(d: Decoded, value: int, width: int) -> str:
    return number(d.pc + 4 * signed_field(value, width) & (1 << 64) - 1)


@printer
def label26(d: Decoded, v: int) -> str:
    """Target of B and BL."""
    return _target(d, v, 26)


@printer
def label19(d: Decoded, v: int) -> str:
    """Target of B.cond, CBZ and literal loads."""
    return _target(d, v, 19)


@printer
def label14(d: Decoded, v: int) -> str:
    """Target of TBZ."""
    return _target(d, v, 14)


def relative(m: Context, imm: Bits) -> Bits:
    """pc plus a word offset."""
    return m.pc + concat(imm, bits(2, 0)).sext(64)


@insn("B.cond", "01010100 imm19:19 0 cond:4", "b.{cond:cond} {imm19:label19}")
def b_cond(m: Context, imm19: Bits, cond: Static) -> None:
    m.branch(relative(m, imm19), condition_holds(m, cond))


@insn("CBZ", "sf 011010 0 imm19:19 Rt:5", "cbz {Rt:R}, {imm19:label19}")
def cbz(m: Context, sf: Static, imm19: Bits, Rt: Bits) -> None:
    m.branch(relative(m, imm19), m.x[Rt, 64 if sf else 32].eq(0))


@insn("CBNZ", "sf 011010 1 imm19:19 Rt:5", "cbnz {Rt:R}, {imm19:label19}")
def cbnz(m: Context, sf: Static, imm19: Bits, Rt: Bits) -> None:
    m.branch(relative(m, imm19), m.x[Rt, 64 if sf else 32].ne(0))


@printer
def tested(d: Decoded, r: int) -> str:
    """The register of TBZ, 64 bits only where bit 32 or above is tested."""
    return f"{'x' if d.b5 else 'w'}{'zr' if r == 31 else r}"


@printer
def test_bit(d: Decoded, _: int) -> str:
    """The bit that TBZ tests."""
    return number(d.b5 << 5 | d.b40)


def _tested(m: Context, b5: Bits, b40: Bits, Rt: Bits) -> Bits:
    return m.x[Rt, 64].lsr(concat(b5, b40).zext(64))[0]


@insn("TBZ", "b5 011011 0 b40:5 imm14:14 Rt:5", "tbz {Rt:tested}, {:test_bit}, {imm14:label14}")
def tbz(m: Context, b5: Bits, b40: Bits, imm14: Bits, Rt: Bits) -> None:
    m.branch(relative(m, imm14), ~_tested(m, b5, b40, Rt))


@insn("TBNZ", "b5 011011 1 b40:5 imm14:14 Rt:5", "tbnz {Rt:tested}, {:test_bit}, {imm14:label14}")
def tbnz(m: Context, b5: Bits, b40: Bits, imm14: Bits, Rt: Bits) -> None:
    m.branch(relative(m, imm14), _tested(m, b5, b40, Rt))


# -- Unconditional branch ------------------------------------------------------------------------------------


@insn("B", "0 00101 imm26:26", "b {imm26:label26}")
def b(m: Context, imm26: Bits) -> None:
    m.branch(relative(m, imm26))


@insn("BL", "1 00101 imm26:26", "bl {imm26:label26}")
def bl(m: Context, imm26: Bits) -> None:
    m.x[30, 64] = m.pc + 4
    m.branch(relative(m, imm26))


@insn("BR", "1101011 0000 11111 000000 Rn:5 00000", "br {Rn:X}")
def br(m: Context, Rn: Bits) -> None:
    m.branch(m.x[Rn, 64])


@insn("BLR", "1101011 0001 11111 000000 Rn:5 00000", "blr {Rn:X}")
def blr(m: Context, Rn: Bits) -> None:
    target = m.x[Rn, 64]
    m.x[30, 64] = m.pc + 4
    m.branch(target)


@insn(
    "RET",
    "1101011 0010 11111 000000 Rn:5 00000",
    "ret {Rn:X}",
    aliases=[Alias("ret", lambda d: d.Rn == 30)],
)
def ret(m: Context, Rn: Bits) -> None:
    m.branch(m.x[Rn, 64])


# -- Exception generation ------------------------------------------------------------------------------------


@insn("SVC", "11010100 000 imm16:16 000 01", "svc {imm16:imm}", execution=Execution.SYSTEM)
def svc(m: Context, imm16: Bits) -> None:
    """The return from the exception clears the local exclusive monitor."""
    m.sys[System.MONITOR_SIZE] = bits(64, 0)
    m.event(Reason.SVC, imm16.zext(64))


@insn("BRK", "11010100 001 imm16:16 000 00", "brk {imm16:imm}", execution=Execution.SYSTEM)
def brk(m: Context, imm16: Bits) -> None:
    m.event(Reason.BRK, imm16.zext(64))


def _undefined(m: Context) -> None:
    """These trap or are undefined at EL0."""
    m.event(Reason.UNDEFINED)


for _name, _diagram in (
    ("UDF", "0000000000000000 imm16:16"),
    ("HVC", "11010100 000 imm16:16 000 10"),
    ("SMC", "11010100 000 imm16:16 000 11"),
    ("HLT", "11010100 010 imm16:16 000 00"),
):
    insn(
        _name,
        _diagram,
        f"{_name.lower()} {{imm16:imm}}",
        key=_name.lower(),
        execution=Execution.SYSTEM,
    )(_undefined)
