"""Flag manipulation: rotate right into flags, evaluate into flags (Arm ARM C4.1.94), and PSTATE (C4.1.87)."""

from __future__ import annotations

from kvrm.isa.a64.common import ZERO
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, insn
from kvrm.values import Bits, cond

EXECUTION = Execution.ARITHMETIC

FLAGM, FLAGM2 = "FEAT_FlagM", "FEAT_FlagM2"


@insn(
    "RMIF",
    "1 0 1 11010000 imm6:6 00001 Rn:5 0 mask:4",
    "rmif {Rn:X}, {imm6:imm}, {mask:imm}",
    feature=FLAGM,
)
def rmif(m: Context, imm6: Bits, Rn: Bits, mask: Bits) -> None:
    rotated = m.x[Rn, 64].ror(imm6.zext(64))
    n, z, c, v = (cond(mask[i], rotated[i], m.flags[3 - i]) for i in (3, 2, 1, 0))
    m.flags = n, z, c, v


def _evaluate(m: Context, Rn: Bits, n: int) -> None:
    """N, Z and overflow of the low n bits; C stays."""
    value = m.x[Rn, 32]
    m.flags = value[n - 1], value.trunc(n).eq(0), m.flags[2], value[n] ^ value[n - 1]


for _sz, _n in ((0, 8), (1, 16)):
    insn(
        f"SETF{_n}",
        f"0 0 1 11010000 000000 {_sz} 0010 Rn:5 0 1101",
        f"setf{_n} {{Rn:W}}",
        key=f"setf{_n}",
        feature=FLAGM,
        n=_n,
    )(_evaluate)


@insn("CFINV", "1101010100 0 00 000 0100 0000 000 11111", "cfinv", feature=FLAGM, execution=Execution.SYSTEM)
def cfinv(m: Context) -> None:
    n, z, c, v = m.flags
    m.flags = n, z, ~c, v


@insn(
    "XAFLAG", "1101010100 0 00 000 0100 0000 001 11111", "xaflag", feature=FLAGM2, execution=Execution.SYSTEM
)
def xaflag(m: Context) -> None:
    """Flags of a comparison in an alternative format into Arm's."""
    _, z, c, _ = m.flags
    m.flags = ~c & ~z, z & c, c | z, ~c & z


@insn(
    "AXFLAG", "1101010100 0 00 000 0100 0000 010 11111", "axflag", feature=FLAGM2, execution=Execution.SYSTEM
)
def axflag(m: Context) -> None:
    """Arm's flags of a comparison into the alternative format."""
    _, z, c, v = m.flags
    m.flags = ZERO, z | v, c & ~v, ZERO
