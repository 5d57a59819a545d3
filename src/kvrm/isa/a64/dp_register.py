"""Data processing, register (Arm ARM C4.1.89)."""

from __future__ import annotations

from kvrm.isa.a64.common import add_flags, add_with_carry, condition_holds, logic_flags, sub_flags
from kvrm.isa.assembly import EXTENDS, general, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Decoded, Execution, Static, insn
from kvrm.values import Bits
from kvrm.values import cond as choose

EXECUTION = Execution.ARITHMETIC

# -- Shifted and extended operands ---------------------------------------------------------------------------


@printer
def shifted(d: Decoded, _: int) -> str:
    """Rm with its shift."""
    suffix = f", {('lsl', 'lsr', 'asr', 'ror')[d.shift]} #{d.imm6}" if d.imm6 or d.shift else ""
    return general(d.Rm, d.sf) + suffix


@printer
def extended(d: Decoded, _: int) -> str:
    """Rm with its extension; a plain shift where an operand is the stack pointer."""
    wide = int(d.sf and d.option & 3 == 3)
    name = EXTENDS[d.option]
    plain = 3 if d.sf else 2
    destination_sp = d.Rd == 31 and not d.word >> 29 & 1
    if d.option == plain and (d.Rn == 31 or destination_sp):
        return general(d.Rm, wide) + (f", lsl #{d.imm3}" if d.imm3 else "")
    return general(d.Rm, wide) + f", {name}" + (f" #{d.imm3}" if d.imm3 else "")


def shift_operand(m: Context, Rm: Bits, shift: int, imm6: Bits, n: int) -> Bits:
    """ShiftReg()."""
    value, amount = m.x[Rm, n], imm6.zext(n)
    return (value.lsl, value.lsr, value.asr, value.ror)[shift](amount)


def extend_operand(m: Context, Rm: Bits, option: int, imm3: Bits, n: int) -> Bits:
    """ExtendReg()."""
    size = min(8 << (option & 3), n)
    value = m.x[Rm, n].trunc(size)
    return (value.sext(n) if option & 4 else value.zext(n)).lsl(imm3.zext(n))


# -- Logical (shifted register) ------------------------------------------------------------------------------

LOGICAL = "01010 shift:2 {} Rm:5 imm6:6 Rn:5 Rd:5"
NO_WIDE_SHIFT = "sf=0 imm6=1xxxxx"


def _logical(
    m: Context, sf: Static, shift: Static, Rm: Bits, imm6: Bits, Rn: Bits, Rd: Bits, op: str
) -> None:
    n = 64 if sf else 32
    a, b = m.x[Rn, n], shift_operand(m, Rm, shift, imm6, n)
    if op in ("bic", "orn", "eon", "bics"):
        b = ~b
    result = a & b if op in ("and", "bic", "ands", "bics") else a | b if op in ("orr", "orn") else a ^ b
    if op in ("ands", "bics"):
        m.flags = logic_flags(result)
    m.x[Rd, n] = result


def _no_shift(d: Decoded) -> bool:
    return not d.shift and not d.imm6


_ALIASES = {
    "orr": [Alias("mov {Rd:R}, {Rm:R}", lambda d: d.Rn == 31 and _no_shift(d))],
    "orn": [Alias("mvn {Rd:R}, {:shifted}", lambda d: d.Rn == 31)],
    "ands": [Alias("tst {Rn:R}, {:shifted}", lambda d: d.Rd == 31)],
}

for _opc, _n, _op in (
    ("00", "0", "and"),
    ("00", "1", "bic"),
    ("01", "0", "orr"),
    ("01", "1", "orn"),
    ("10", "0", "eor"),
    ("10", "1", "eon"),
    ("11", "0", "ands"),
    ("11", "1", "bics"),
):
    insn(
        f"{_op.upper()} (shifted register)",
        f"sf {_opc} {LOGICAL.format(_n)}",
        f"{_op} {{Rd:R}}, {{Rn:R}}, {{:shifted}}",
        unallocated=NO_WIDE_SHIFT,
        aliases=_ALIASES.get(_op, ()),
        key=f"{_op}_shift",
        execution=Execution.LOGICAL,
        op=_op,
    )(_logical)

# -- Add/subtract (shifted register, extended register) ------------------------------------------------------

SHIFTED = "01011 shift:2 0 Rm:5 imm6:6 Rn:5 Rd:5"
EXTENDED = "01011 00 1 Rm:5 option:3 imm3:3 Rn:5 Rd:5"
NO_ROR = f"shift=11 | {NO_WIDE_SHIFT}"
NO_BIG_SHIFT = "imm3=11x | imm3=101"


@insn("ADD (shifted register)", f"sf 0 0 {SHIFTED}", "add {Rd:R}, {Rn:R}, {:shifted}", unallocated=NO_ROR)
def add_shift(m: Context, sf: Static, shift: Static, Rm: Bits, imm6: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rn, n] + shift_operand(m, Rm, shift, imm6, n)


@insn(
    "ADDS (shifted register)",
    f"sf 0 1 {SHIFTED}",
    "adds {Rd:R}, {Rn:R}, {:shifted}",
    unallocated=NO_ROR,
    aliases=[Alias("cmn {Rn:R}, {:shifted}", lambda d: d.Rd == 31)],
)
def adds_shift(m: Context, sf: Static, shift: Static, Rm: Bits, imm6: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n], m.flags = add_flags(m.x[Rn, n], shift_operand(m, Rm, shift, imm6, n))


@insn(
    "SUB (shifted register)",
    f"sf 1 0 {SHIFTED}",
    "sub {Rd:R}, {Rn:R}, {:shifted}",
    unallocated=NO_ROR,
    aliases=[Alias("neg {Rd:R}, {:shifted}", lambda d: d.Rn == 31)],
)
def sub_shift(m: Context, sf: Static, shift: Static, Rm: Bits, imm6: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rn, n] - shift_operand(m, Rm, shift, imm6, n)


@insn(
    "SUBS (shifted register)",
    f"sf 1 1 {SHIFTED}",
    "subs {Rd:R}, {Rn:R}, {:shifted}",
    unallocated=NO_ROR,
    aliases=[
        Alias("cmp {Rn:R}, {:shifted}", lambda d: d.Rd == 31),
        Alias("negs {Rd:R}, {:shifted}", lambda d: d.Rn == 31),
    ],
)
def subs_shift(m: Context, sf: Static, shift: Static, Rm: Bits, imm6: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n], m.flags = sub_flags(m.x[Rn, n], shift_operand(m, Rm, shift, imm6, n))


@insn(
    "ADD (extended register)",
    f"sf 0 0 {EXTENDED}",
    "add {Rd:Rsp}, {Rn:Rsp}, {:extended}",
    unallocated=NO_BIG_SHIFT,
)
def add_ext(m: Context, sf: Static, Rm: Bits, option: Static, imm3: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.xsp[Rd, n] = m.xsp[Rn, n] + extend_operand(m, Rm, option, imm3, n)


@insn(
    "ADDS (extended register)",
    f"sf 0 1 {EXTENDED}",
    "adds {Rd:R}, {Rn:Rsp}, {:extended}",
    unallocated=NO_BIG_SHIFT,
    aliases=[Alias("cmn {Rn:Rsp}, {:extended}", lambda d: d.Rd == 31)],
)
def adds_ext(m: Context, sf: Static, Rm: Bits, option: Static, imm3: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n], m.flags = add_flags(m.xsp[Rn, n], extend_operand(m, Rm, option, imm3, n))


@insn(
    "SUB (extended register)",
    f"sf 1 0 {EXTENDED}",
    "sub {Rd:Rsp}, {Rn:Rsp}, {:extended}",
    unallocated=NO_BIG_SHIFT,
)
def sub_ext(m: Context, sf: Static, Rm: Bits, option: Static, imm3: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.xsp[Rd, n] = m.xsp[Rn, n] - extend_operand(m, Rm, option, imm3, n)


@insn(
    "SUBS (extended register)",
    f"sf 1 1 {EXTENDED}",
    "subs {Rd:R}, {Rn:Rsp}, {:extended}",
    unallocated=NO_BIG_SHIFT,
    aliases=[Alias("cmp {Rn:Rsp}, {:extended}", lambda d: d.Rd == 31)],
)
def subs_ext(m: Context, sf: Static, Rm: Bits, option: Static, imm3: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n], m.flags = sub_flags(m.xsp[Rn, n], extend_operand(m, Rm, option, imm3, n))


# -- Add/subtract (with carry) -------------------------------------------------------------------------------

CARRY = "11010000 Rm:5 000000 Rn:5 Rd:5"


def _carry(m: Context, sf: Static, Rm: Bits, Rn: Bits, Rd: Bits, subtract: bool, sets: bool) -> None:
    n = 64 if sf else 32
    b = m.x[Rm, n]
    result, flags = add_with_carry(m.x[Rn, n], ~b if subtract else b, m.flags[2])
    if sets:
        m.flags = flags
    m.x[Rd, n] = result


for _bits, _op, _subtract, _sets in (
    ("0 0", "adc", False, False),
    ("0 1", "adcs", False, True),
    ("1 0", "sbc", True, False),
    ("1 1", "sbcs", True, True),
):
    _ngc = _op.replace("sbc", "ngc")
    insn(
        _op.upper(),
        f"sf {_bits} {CARRY}",
        f"{_op} {{Rd:R}}, {{Rn:R}}, {{Rm:R}}",
        aliases=[Alias(f"{_ngc} {{Rd:R}}, {{Rm:R}}", lambda d: d.Rn == 31)] if _subtract else (),
        key=_op,
        subtract=_subtract,
        sets=_sets,
    )(_carry)

# -- Conditional compare -------------------------------------------------------------------------------------


def _compare_if(m: Context, condition: int, a: Bits, b: Bits, nzcv: Bits, negative: bool) -> None:
    holds = condition_holds(m, condition)
    _, flags = add_flags(a, b) if negative else sub_flags(a, b)
    n, z, c, v = (choose(holds, flag, nzcv.lsr(3 - i).trunc(1)) for i, flag in enumerate(flags))
    m.flags = n, z, c, v


def _ccmp_register(
    m: Context, sf: Static, Rm: Bits, cond: Static, Rn: Bits, nzcv: Bits, negative: bool
) -> None:
    n = 64 if sf else 32
    _compare_if(m, cond, m.x[Rn, n], m.x[Rm, n], nzcv, negative)


def _ccmp_immediate(
    m: Context, sf: Static, imm5: Bits, cond: Static, Rn: Bits, nzcv: Bits, negative: bool
) -> None:
    n = 64 if sf else 32
    _compare_if(m, cond, m.x[Rn, n], imm5.zext(n), nzcv, negative)


for _bit, _op in (("0", "ccmn"), ("1", "ccmp")):
    insn(
        f"{_op.upper()} (register)",
        f"sf {_bit} 1 11010010 Rm:5 cond:4 0 0 Rn:5 0 nzcv:4",
        f"{_op} {{Rn:R}}, {{Rm:R}}, {{nzcv:imm}}, {{cond:cond}}",
        key=f"{_op}_register",
        negative=_op == "ccmn",
    )(_ccmp_register)
    insn(
        f"{_op.upper()} (immediate)",
        f"sf {_bit} 1 11010010 imm5:5 cond:4 1 0 Rn:5 0 nzcv:4",
        f"{_op} {{Rn:R}}, {{imm5:imm}}, {{nzcv:imm}}, {{cond:cond}}",
        key=f"{_op}_immediate",
        negative=_op == "ccmn",
    )(_ccmp_immediate)

# -- Conditional select --------------------------------------------------------------------------------------

SELECT = "11010100 Rm:5 cond:4 0 {} Rn:5 Rd:5"


def _select(m: Context, sf: Static, Rm: Bits, cond: Static, Rn: Bits, Rd: Bits, op: str) -> None:
    n = 64 if sf else 32
    other = m.x[Rm, n]
    if op in ("csinv", "csneg"):
        other = ~other
    if op in ("csinc", "csneg"):
        other = other + 1
    m.x[Rd, n] = choose(condition_holds(m, cond), m.x[Rn, n], other)


def _same(d: Decoded) -> bool:
    return d.Rn == d.Rm and d.cond < 14


_SELECT_ALIASES = {
    "csinc": [
        Alias("cset {Rd:R}, {cond:inverted}", lambda d: _same(d) and d.Rn == 31),
        Alias("cinc {Rd:R}, {Rn:R}, {cond:inverted}", _same),
    ],
    "csinv": [
        Alias("csetm {Rd:R}, {cond:inverted}", lambda d: _same(d) and d.Rn == 31),
        Alias("cinv {Rd:R}, {Rn:R}, {cond:inverted}", _same),
    ],
    "csneg": [Alias("cneg {Rd:R}, {Rn:R}, {cond:inverted}", _same)],
}

for _bit, _bit2, _op in (("0", "0", "csel"), ("0", "1", "csinc"), ("1", "0", "csinv"), ("1", "1", "csneg")):
    insn(
        _op.upper(),
        f"sf {_bit} 0 {SELECT.format(_bit2)}",
        f"{_op} {{Rd:R}}, {{Rn:R}}, {{Rm:R}}, {{cond:cond}}",
        aliases=_SELECT_ALIASES.get(_op, ()),
        key=_op,
        op=_op,
    )(_select)
