"""Data processing of one, two and three source registers (Arm ARM C4.1.89)."""

from __future__ import annotations

from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Execution, Static, insn
from kvrm.values import Bits

EXECUTION = Execution.ARITHMETIC

# -- Data-processing (1 source) ------------------------------------------------------------------------------

ONE_SOURCE = "1 0 11010110 00000 {} Rn:5 Rd:5"


@insn("RBIT", f"sf {ONE_SOURCE.format('000000')}", "rbit {Rd:R}, {Rn:R}", execution=Execution.EXTEND_SHIFT)
def rbit(m: Context, sf: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rn, n].bit_reverse()


@insn("REV16", f"sf {ONE_SOURCE.format('000001')}", "rev16 {Rd:R}, {Rn:R}", execution=Execution.EXTEND_SHIFT)
def rev16(m: Context, sf: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rn, n].split(16).byte_reverse().whole


@insn("REV32", f"1 {ONE_SOURCE.format('000010')}", "rev32 {Rd:X}, {Rn:X}", execution=Execution.EXTEND_SHIFT)
def rev32(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.x[Rd, 64] = m.x[Rn, 64].split(32).byte_reverse().whole


@insn(
    "REV",
    f"0 {ONE_SOURCE.format('000010')}",
    "rev {Rd:W}, {Rn:W}",
    key="rev_32",
    execution=Execution.EXTEND_SHIFT,
)
def rev_32(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.x[Rd, 32] = m.x[Rn, 32].byte_reverse()


@insn(
    "REV",
    f"1 {ONE_SOURCE.format('000011')}",
    "rev {Rd:X}, {Rn:X}",
    key="rev_64",
    execution=Execution.EXTEND_SHIFT,
)
def rev_64(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.x[Rd, 64] = m.x[Rn, 64].byte_reverse()


@insn("CLZ", f"sf {ONE_SOURCE.format('000100')}", "clz {Rd:R}, {Rn:R}")
def clz(m: Context, sf: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rn, n].clz()


@insn("CLS", f"sf {ONE_SOURCE.format('000101')}", "cls {Rd:R}, {Rn:R}")
def cls(m: Context, sf: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    value = m.x[Rn, n]
    m.x[Rd, n] = (value ^ value.asr(1)).clz() - 1


# -- Data-processing (2 source) ------------------------------------------------------------------------------

TWO_SOURCE = "0 0 11010110 Rm:5 {} Rn:5 Rd:5"


@insn(
    "UDIV",
    f"sf {TWO_SOURCE.format('000010')}",
    "udiv {Rd:R}, {Rn:R}, {Rm:R}",
    execution=Execution.MULTIPLY_DIVIDE,
)
def udiv(m: Context, sf: Static, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """Division by zero gives zero; `udiv` of values is total, as the manual's is."""
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rn, n].udiv(m.x[Rm, n])


@insn(
    "SDIV",
    f"sf {TWO_SOURCE.format('000011')}",
    "sdiv {Rd:R}, {Rn:R}, {Rm:R}",
    execution=Execution.MULTIPLY_DIVIDE,
)
def sdiv(m: Context, sf: Static, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rn, n].sdiv(m.x[Rm, n])


def _variable_shift(m: Context, sf: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: str) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = getattr(m.x[Rn, n], op)(m.x[Rm, n] & (n - 1))


for _code, _op in (("001000", "lsl"), ("001001", "lsr"), ("001010", "asr"), ("001011", "ror")):
    insn(
        f"{_op.upper()}V",
        f"sf {TWO_SOURCE.format(_code)}",
        f"{_op} {{Rd:R}}, {{Rn:R}}, {{Rm:R}}",
        key=f"{_op}v",
        execution=Execution.EXTEND_SHIFT,
        op=_op,
    )(_variable_shift)

# -- Data-processing (3 source) ------------------------------------------------------------------------------

THREE_SOURCE = "00 11011 {} Rm:5 {} Ra:5 Rn:5 Rd:5"


@insn(
    "MADD",
    f"sf {THREE_SOURCE.format('000', '0')}",
    "madd {Rd:R}, {Rn:R}, {Rm:R}, {Ra:R}",
    aliases=[Alias("mul {Rd:R}, {Rn:R}, {Rm:R}", lambda d: d.Ra == 31)],
    execution=Execution.MULTIPLY_DIVIDE,
)
def madd(m: Context, sf: Static, Rm: Bits, Ra: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Ra, n] + m.x[Rn, n] * m.x[Rm, n]


@insn(
    "MSUB",
    f"sf {THREE_SOURCE.format('000', '1')}",
    "msub {Rd:R}, {Rn:R}, {Rm:R}, {Ra:R}",
    aliases=[Alias("mneg {Rd:R}, {Rn:R}, {Rm:R}", lambda d: d.Ra == 31)],
    execution=Execution.MULTIPLY_DIVIDE,
)
def msub(m: Context, sf: Static, Rm: Bits, Ra: Bits, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Ra, n] - m.x[Rn, n] * m.x[Rm, n]


def _long(m: Context, Rm: Bits, Ra: Bits, Rn: Bits, Rd: Bits, signed: bool, subtract: bool) -> None:
    a, b = m.x[Rn, 32], m.x[Rm, 32]
    product = a.sext(64) * b.sext(64) if signed else a.zext(64) * b.zext(64)
    m.x[Rd, 64] = m.x[Ra, 64] - product if subtract else m.x[Ra, 64] + product


for _op31, _o0, _op, _alias in (
    ("001", "0", "smaddl", "smull"),
    ("001", "1", "smsubl", "smnegl"),
    ("101", "0", "umaddl", "umull"),
    ("101", "1", "umsubl", "umnegl"),
):
    insn(
        _op.upper(),
        f"1 {THREE_SOURCE.format(_op31, _o0)}",
        f"{_op} {{Rd:X}}, {{Rn:W}}, {{Rm:W}}, {{Ra:X}}",
        aliases=[Alias(f"{_alias} {{Rd:X}}, {{Rn:W}}, {{Rm:W}}", lambda d: d.Ra == 31)],
        key=_op,
        execution=Execution.MULTIPLY_DIVIDE,
        signed=_op[0] == "s",
        subtract="sub" in _op,
    )(_long)


@insn(
    "SMULH",
    f"1 {THREE_SOURCE.format('010', '0')}",
    "smulh {Rd:X}, {Rn:X}, {Rm:X}",
    execution=Execution.MULTIPLY_DIVIDE,
)
def smulh(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    m.x[Rd, 64] = m.x[Rn, 64].smulh(m.x[Rm, 64])


@insn(
    "UMULH",
    f"1 {THREE_SOURCE.format('110', '0')}",
    "umulh {Rd:X}, {Rn:X}, {Rm:X}",
    execution=Execution.MULTIPLY_DIVIDE,
)
def umulh(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    m.x[Rd, 64] = m.x[Rn, 64].umulh(m.x[Rm, 64])
