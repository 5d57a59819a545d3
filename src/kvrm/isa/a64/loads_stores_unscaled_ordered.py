"""LDAPR/STLR (unscaled immediate): ordered accesses with an offset, of FEAT_LRCPC2 (Arm ARM C4.1.88)."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.loads_stores_register import offset9
from kvrm.isa.assembly import general
from kvrm.isa.context import Context
from kvrm.isa.definition import Asm, Decoded, Execution, insn
from kvrm.values import Bits

EXECUTION = Execution.LOAD_STORE


def _address(m: Context, imm9: Bits, Rn: Bits) -> Bits:
    return m.base[Rn] + imm9.sext(64)


def store(m: Context, imm9: Bits, Rn: Bits, Rt: Bits, n: int, width: int) -> None:
    """STLUR of n bits."""
    m.aligned[_address(m, imm9, Rn), n] = m.x[Rt, n]


def load(m: Context, imm9: Bits, Rn: Bits, Rt: Bits, n: int, width: int) -> None:
    """LDAPUR of n bits, zero-extended."""
    m.x[Rt, width] = m.aligned[_address(m, imm9, Rn), n].zext(width)


def load_signed(m: Context, imm9: Bits, Rn: Bits, Rt: Bits, n: int, width: int) -> None:
    """LDAPURS of n bits, sign-extended to a register of `width` bits."""
    m.x[Rt, width] = m.aligned[_address(m, imm9, Rn), n].sext(width)


def _text(mnemonic: str, width: int) -> Asm:
    def text(d: Decoded) -> str:
        base = general(d.Rn, 1, sp=True)
        return f"{mnemonic} {general(d.Rt, width // 64)}, [{base}{offset9(d, d.imm9)}]"

    return text


ROWS: tuple[tuple[str, str, str, int, int, Callable[..., None]], ...] = (
    ("STLURB", "00", "00", 8, 32, store),
    ("LDAPURB", "00", "01", 8, 32, load),
    ("LDAPURSB", "00", "10", 8, 64, load_signed),
    ("LDAPURSB", "00", "11", 8, 32, load_signed),
    ("STLURH", "01", "00", 16, 32, store),
    ("LDAPURH", "01", "01", 16, 32, load),
    ("LDAPURSH", "01", "10", 16, 64, load_signed),
    ("LDAPURSH", "01", "11", 16, 32, load_signed),
    ("STLUR", "10", "00", 32, 32, store),
    ("LDAPUR", "10", "01", 32, 32, load),
    ("LDAPURSW", "10", "10", 32, 64, load_signed),
    ("STLUR", "11", "00", 64, 64, store),
    ("LDAPUR", "11", "01", 64, 64, load),
)
"""Name, size, opc, bits in memory and in the register, what happens."""

for _name, _size, _opc, _n, _width, _operation in ROWS:
    insn(
        _name,
        f"{_size} 011001 {_opc} 0 imm9:9 00 Rn:5 Rt:5",
        _text(_name.lower(), _width),
        key=f"{_name.lower()}_{'x' if _width == 64 else 'w'}",
        feature="FEAT_LRCPC2",
        n=_n,
        width=_width,
    )(_operation)
