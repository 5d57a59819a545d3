"""Load/store exclusive and load-acquire/store-release (Arm ARM C4.1.88, B2.9).

The local monitor is two registers: an address (without its tag) and a size in bytes, 0 while it is not armed.
Lanes run one instruction at a time, so acquire and release add nothing but the check of alignment.
"""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.context import Context, System
from kvrm.isa.definition import Decoded, Execution, insn
from kvrm.values import Bits, bits, concat, cond

EXECUTION = Execution.LOAD_STORE

UNTAGGED = (1 << 56) - 1


def arm_monitor(m: Context, address: Bits, size: int) -> None:
    """AArch64.SetExclusiveMonitors() for `size` bytes."""
    m.sys[System.MONITOR_ADDRESS] = address & UNTAGGED
    m.sys[System.MONITOR_SIZE] = bits(64, size)


def clear_monitor(m: Context) -> None:
    """ClearExclusiveLocal()."""
    m.sys[System.MONITOR_SIZE] = bits(64, 0)


def _store_if_armed(m: Context, address: Bits, value: Bits, Rs: Bits) -> None:
    """Store, with status 0 in Rs, if the monitor is armed for just this access; else status 1.

    Either way it is disarmed. The monitor is looked at first, so what cannot pass cannot fault; and only an
    aligned address can pass.
    """
    same_size = m.sys[System.MONITOR_SIZE].eq(value.width // 8)
    passes = same_size & m.sys[System.MONITOR_ADDRESS].eq(address & UNTAGGED)
    m.store_if(passes, address, value)
    clear_monitor(m)
    m.x[Rs, 32] = cond(passes, bits(32, 0), 1)


# -- Single registers ------------------------------------------------------------------------------------


def load_exclusive(m: Context, Rn: Bits, Rt: Bits, n: int) -> None:
    """LDXR, LDAXR of n bits."""
    address = m.base[Rn]
    value = m.aligned[address, n]
    arm_monitor(m, address, n // 8)
    m.x[Rt, 64] = value.zext(64)


def store_exclusive(m: Context, Rs: Bits, Rn: Bits, Rt: Bits, n: int) -> None:
    """STXR, STLXR of n bits."""
    _store_if_armed(m, m.base[Rn], m.x[Rt, n], Rs)


def load_acquire(m: Context, Rn: Bits, Rt: Bits, n: int) -> None:
    """LDAR of n bits; LDLAR and LDAPR promise less."""
    m.x[Rt, 64] = m.aligned[m.base[Rn], n].zext(64)


def store_release(m: Context, Rn: Bits, Rt: Bits, n: int) -> None:
    """STLR of n bits; STLLR promises less."""
    m.aligned[m.base[Rn], n] = m.x[Rt, n]


def _status_overlaps(d: Decoded) -> bool:
    """Whether the status goes to a register that is used too, which is CONSTRAINED UNPREDICTABLE."""
    used = [d.Rt, d.Rt2] if d.definition.name in ("STXP", "STLXP") else [d.Rt]
    return d.Rs in used or d.Rs == d.Rn != 31


SINGLES: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("STXR", "000 Rs:5 0 Rt2:5", store_exclusive),
    ("STLXR", "000 Rs:5 1 Rt2:5", store_exclusive),
    ("LDXR", "010 11111 0 11111", load_exclusive),
    ("LDAXR", "010 11111 1 11111", load_exclusive),
    ("STLR", "100 11111 1 11111", store_release),
    ("LDAR", "110 11111 1 11111", load_acquire),
    ("STLLR", "100 11111 0 11111", store_release),
    ("LDLAR", "110 11111 0 11111", load_acquire),
)

for _name, _fields, _operation in SINGLES:
    _status = "{Rs:W}, " if _operation is store_exclusive else ""
    for _log, _suffix, _register in ((0, "B", "W"), (1, "H", "W"), (2, "", "W"), (3, "", "X")):
        _full = _name + _suffix
        insn(
            _full,
            f"{_log:02b} 001000 {_fields} Rn:5 Rt:5",
            f"{_full.lower()} {_status}{{Rt:{_register}}}, [{{Rn:Xsp}}]",
            key=f"{_full.lower()}_{_register.lower()}",
            unpredictable=_status_overlaps if _status else None,
            feature="FEAT_LOR" if _name in ("STLLR", "LDLAR") else None,
            n=8 << _log,
        )(_operation)

# -- Pairs -----------------------------------------------------------------------------------------------


def load_exclusive_pair(m: Context, Rt2: Bits, Rn: Bits, Rt: Bits, n: int) -> None:
    """LDXP, LDAXP of two registers of n bits."""
    address = m.base[Rn]
    both = m.aligned[address, 2 * n]
    arm_monitor(m, address, n // 4)
    m.x[Rt, n] = both[n - 1 : 0]
    m.x[Rt2, n] = both[2 * n - 1 : n]


def store_exclusive_pair(m: Context, Rs: Bits, Rt2: Bits, Rn: Bits, Rt: Bits, n: int) -> None:
    """STXP, STLXP of two registers of n bits."""
    _store_if_armed(m, m.base[Rn], concat(m.x[Rt2, n], m.x[Rt, n]), Rs)


PAIRS: tuple[tuple[str, int, int, Callable[..., None]], ...] = (
    ("STXP", 0, 0, store_exclusive_pair),
    ("STLXP", 0, 1, store_exclusive_pair),
    ("LDXP", 1, 0, load_exclusive_pair),
    ("LDAXP", 1, 1, load_exclusive_pair),
)

for _name, _load, _ordered, _operation in PAIRS:
    _status = "" if _load else "{Rs:W}, "
    for _sz, _register in ((0, "W"), (1, "X")):
        insn(
            _name,
            f"1 {_sz} 001000 0 {_load} 1 Rs:5 {_ordered} Rt2:5 Rn:5 Rt:5",
            f"{_name.lower()} {_status}{{Rt:{_register}}}, {{Rt2:{_register}}}, [{{Rn:Xsp}}]",
            key=f"{_name.lower()}_{_register.lower()}",
            unpredictable=(lambda d: d.Rt == d.Rt2) if _load else _status_overlaps,
            n=32 << _sz,
        )(_operation)
