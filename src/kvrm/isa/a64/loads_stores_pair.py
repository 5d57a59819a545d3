"""Loads and stores of register pairs (Arm ARM C4.1.88).

A pair is one access of twice the size, so a fault leaves both halves untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvrm.isa.a64.loads_stores_register import register_name, writes_back_itself
from kvrm.isa.assembly import number, printer, signed_field
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, insn
from kvrm.values import Bits, concat

EXECUTION = Execution.LOAD_STORE

PairAccess = Callable[[Context, Bits, Bits, Bits], None]
"""Moves two values between memory at an address and two registers."""


@dataclass(frozen=True)
class PairTransfer:
    """What moves, and under which names.

    `names` are those of the ordinary and the non-temporal form, `opc`, `vector` and `load` are the fields of
    the encoding, `register` is the letter of the transferred registers and `size` the bits of one of them.
    """

    names: tuple[str, str]
    opc: str
    vector: str
    load: str
    register: str
    size: int
    access: PairAccess


def _load(size: int) -> PairAccess:
    def access(m: Context, address: Bits, Rt: Bits, Rt2: Bits) -> None:
        both = m.mem[address, 2 * size]
        m.x[Rt, size] = both[size - 1 : 0]
        m.x[Rt2, size] = both[2 * size - 1 : size]

    return access


def _load_signed_words(m: Context, address: Bits, Rt: Bits, Rt2: Bits) -> None:
    both = m.mem[address, 64]
    m.x[Rt, 64] = both[31:0].sext(64)
    m.x[Rt2, 64] = both[63:32].sext(64)


def _store(size: int) -> PairAccess:
    def access(m: Context, address: Bits, Rt: Bits, Rt2: Bits) -> None:
        m.mem[address, 2 * size] = concat(m.x[Rt2, size], m.x[Rt, size])

    return access


def _load_vector(size: int) -> PairAccess:
    def access(m: Context, address: Bits, Rt: Bits, Rt2: Bits) -> None:
        both = m.mem[address, 2 * size]
        m.v[Rt, size] = both[size - 1 : 0]
        m.v[Rt2, size] = both[2 * size - 1 : size]

    return access


def _store_vector(size: int) -> PairAccess:
    def access(m: Context, address: Bits, Rt: Bits, Rt2: Bits) -> None:
        m.mem[address, 2 * size] = concat(m.v[Rt2, size], m.v[Rt, size])

    return access


PAIRS = (
    PairTransfer(("STP", "STNP"), "00", "0", "0", "w", 32, _store(32)),
    PairTransfer(("LDP", "LDNP"), "00", "0", "1", "w", 32, _load(32)),
    PairTransfer(("LDPSW", ""), "01", "0", "1", "x", 32, _load_signed_words),
    PairTransfer(("STP", "STNP"), "10", "0", "0", "x", 64, _store(64)),
    PairTransfer(("LDP", "LDNP"), "10", "0", "1", "x", 64, _load(64)),
    PairTransfer(("STP", "STNP"), "00", "1", "0", "s", 32, _store_vector(32)),
    PairTransfer(("LDP", "LDNP"), "00", "1", "1", "s", 32, _load_vector(32)),
    PairTransfer(("STP", "STNP"), "01", "1", "0", "d", 64, _store_vector(64)),
    PairTransfer(("LDP", "LDNP"), "01", "1", "1", "d", 64, _load_vector(64)),
    PairTransfer(("STP", "STNP"), "10", "1", "0", "q", 128, _store_vector(128)),
    PairTransfer(("LDP", "LDNP"), "10", "1", "1", "q", 128, _load_vector(128)),
)

# -- Assembly --------------------------------------------------------------------------------------------


@printer
def paired(d: Decoded, r: int) -> str:
    """A register of a pair."""
    return register_name(d.definition.bound["transfer"].register, r)


@printer
def simm7(d: Decoded, v: int) -> str:
    """A signed offset, scaled by the size of a register."""
    return number(signed_field(v, 7) * (d.definition.bound["transfer"].size // 8))


@printer
def offset7(d: Decoded, v: int) -> str:
    """Nothing, or a comma and the scaled offset."""
    return f", {simm7(d, v)}" if v else ""


# -- Operations ------------------------------------------------------------------------------------------


def _scaled(imm7: Bits, transfer: PairTransfer) -> Bits:
    return imm7.sext(64) * (transfer.size // 8)


def pair_offset(m: Context, imm7: Bits, Rt2: Bits, Rn: Bits, Rt: Bits, transfer: PairTransfer) -> None:
    """[Xn, #imm]; the non-temporal hint has no effect."""
    transfer.access(m, m.base[Rn] + _scaled(imm7, transfer), Rt, Rt2)


def pair_post_index(m: Context, imm7: Bits, Rt2: Bits, Rn: Bits, Rt: Bits, transfer: PairTransfer) -> None:
    """[Xn], #imm; where a loaded register is Rn too (CONSTRAINED UNPREDICTABLE), the address wins."""
    address = m.base[Rn]
    transfer.access(m, address, Rt, Rt2)
    m.xsp[Rn, 64] = address + _scaled(imm7, transfer)


def pair_pre_index(m: Context, imm7: Bits, Rt2: Bits, Rn: Bits, Rt: Bits, transfer: PairTransfer) -> None:
    """[Xn, #imm]!, the address written back."""
    address = m.base[Rn] + _scaled(imm7, transfer)
    transfer.access(m, address, Rt, Rt2)
    m.xsp[Rn, 64] = address


def loads_twice(d: Decoded) -> bool:
    """Whether both halves are loaded to one register, which is CONSTRAINED UNPREDICTABLE."""
    transfer: PairTransfer = d.definition.bound["transfer"]
    return transfer.load == "1" and d.Rt == d.Rt2


def _loads_twice_or_writes_back_itself(d: Decoded) -> bool:
    return loads_twice(d) or writes_back_itself(d)


FORMS: tuple[tuple[str, str, str, Callable[..., None]], ...] = (
    ("non_temporal", "000", "[{Rn:Xsp}{imm7:offset7}]", pair_offset),
    ("post", "001", "[{Rn:Xsp}], {imm7:simm7}", pair_post_index),
    ("offset", "010", "[{Rn:Xsp}{imm7:offset7}]", pair_offset),
    ("pre", "011", "[{Rn:Xsp}, {imm7:simm7}]!", pair_pre_index),
)

for _t in PAIRS:
    for _kind, _mode, _operand, _operation in FORMS:
        _name = _t.names[_kind == "non_temporal"]
        if not _name:
            continue
        insn(
            f"{_name} (SIMD&FP)" if _t.vector == "1" else _name,
            f"{_t.opc} 101 {_t.vector} {_mode} {_t.load} imm7:7 Rt2:5 Rn:5 Rt:5",
            f"{_name.lower()} {{Rt:paired}}, {{Rt2:paired}}, {_operand}",
            key=f"{_name.lower()}_{_t.register}_{_kind}",
            unpredictable=_loads_twice_or_writes_back_itself if _kind in ("post", "pre") else loads_twice,
            transfer=_t,
        )(_operation)
