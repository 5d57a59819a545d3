"""Atomic memory operations, compare and swap (Arm ARM C4.1.88).

Lanes run one instruction at a time: a load and a store are atomic, acquire and release add nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.loads_stores_exclusive import load_acquire
from kvrm.isa.assembly import general, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Alias, Decoded, Execution, insn
from kvrm.values import Bits, concat, cond

EXECUTION = Execution.LOAD_STORE

LSE = "FEAT_LSE"
SIZES = ((0, "B", "W"), (1, "H", "W"), (2, "", "W"), (3, "", "X"))
"""The size field, the suffix of the mnemonic, and the registers that are named."""


@printer
def ordered(d: Decoded, _: int) -> str:
    """The letters for acquire and release."""
    return "a" * d.A + "l" * d.R


@printer
def released(d: Decoded, _: int) -> str:
    """The letter for release."""
    return "l" * d.R


# -- Read, modify, write --------------------------------------------------------------------------------

Modify = Callable[[Bits, Bits], Bits]


def atomic(m: Context, Rs: Bits, Rn: Bits, Rt: Bits, n: int, op: Modify) -> None:
    """Put op(what was there, Rs) in memory and what was there in Rt."""
    address, operand = m.base[Rn], m.x[Rs, n]
    old = m.aligned[address, n]
    m.mem[address, n] = op(old, operand)
    m.x[Rt, 64] = old.zext(64)


def _define(name: str, opcode: str, op: Modify, store: str = "") -> None:
    for log, suffix, register in SIZES:
        operands = f"{{Rs:{register}}}, {{Rt:{register}}}, [{{Rn:Xsp}}]"
        stored = f"{{:released}}{suffix.lower()} {{Rs:{register}}}, [{{Rn:Xsp}}]"
        insn(
            ", ".join(name + order + suffix for order in ("", "A", "AL", "L")),
            f"{log:02b} 111 0 00 A R 1 Rs:5 {opcode} 00 Rn:5 Rt:5",
            f"{name.lower()}{{:ordered}}{suffix.lower()} {operands}",
            key=f"{name}{suffix}_{register}".lower(),
            aliases=[Alias(store + stored, lambda d: d.Rt == 31 and not d.A)] if store else (),
            feature=LSE,
            n=8 << log,
            op=op,
        )(atomic)


OPERATIONS: tuple[tuple[str, Modify], ...] = (
    ("ADD", lambda old, operand: old + operand),
    ("CLR", lambda old, operand: old & ~operand),
    ("EOR", lambda old, operand: old ^ operand),
    ("SET", lambda old, operand: old | operand),
    ("SMAX", Bits.smax),
    ("SMIN", Bits.smin),
    ("UMAX", Bits.umax),
    ("UMIN", Bits.umin),
)
"""What LDADD to LDUMIN do, in the order of their opcodes; STADD to STUMIN are the same without a result."""

for _opcode, (_name, _op) in enumerate(OPERATIONS):
    _define(f"LD{_name}", f"0 {_opcode:03b}", _op, store=f"st{_name.lower()}")
_define("SWP", "1 000", lambda old, operand: operand)

for _log, _suffix, _register in SIZES:
    insn(
        f"LDAPR{_suffix}",
        f"{_log:02b} 111 0 00 1 0 1 11111 1 100 00 Rn:5 Rt:5",
        f"ldapr{_suffix.lower()} {{Rt:{_register}}}, [{{Rn:Xsp}}]",
        key=f"ldapr{_suffix}_{_register}".lower(),
        feature="FEAT_LRCPC",
        n=8 << _log,
    )(load_acquire)


# -- Compare and swap -----------------------------------------------------------------------------------


def _swap_if_equal(m: Context, address: Bits, expected: Bits, new: Bits) -> Bits:
    """What was there. It is written back if it was not expected: the page must be writable anyway."""
    old = m.aligned[address, new.width]
    m.mem[address, new.width] = cond(old.eq(expected), new, old)
    return old


def compare_and_swap(m: Context, Rs: Bits, Rn: Bits, Rt: Bits, n: int) -> None:
    """CAS of n bits: Rs is what is expected, then what was there."""
    old = _swap_if_equal(m, m.base[Rn], m.x[Rs, n], m.x[Rt, n])
    m.x[Rs, 64] = old.zext(64)


def compare_and_swap_pair(m: Context, Rs: Bits, Rn: Bits, Rt: Bits, n: int) -> None:
    """CASP of two registers of n bits, an even one and the next."""
    expected, new = (concat(m.x[r | 1, n], m.x[r, n]) for r in (Rs, Rt))
    old = _swap_if_equal(m, m.base[Rn], expected, new)
    m.x[Rs, n] = old[n - 1 : 0]
    m.x[Rs | 1, n] = old[2 * n - 1 : n]


@printer
def pair_w(d: Decoded, r: int) -> str:
    """Two consecutive 32-bit registers."""
    return f"{general(r, 0)}, {general(r + 1, 0)}"


@printer
def pair_x(d: Decoded, r: int) -> str:
    """Two consecutive 64-bit registers."""
    return f"{general(r, 1)}, {general(r + 1, 1)}"


for _log, _suffix, _register in SIZES:
    insn(
        ", ".join(f"CAS{order}{_suffix}" for order in ("", "A", "AL", "L")),
        f"{_log:02b} 001000 1 A 1 Rs:5 R 11111 Rn:5 Rt:5",
        f"cas{{:ordered}}{_suffix.lower()} {{Rs:{_register}}}, {{Rt:{_register}}}, [{{Rn:Xsp}}]",
        key=f"cas{_suffix}_{_register}".lower(),
        feature=LSE,
        n=8 << _log,
    )(compare_and_swap)
for _sz, _register in ((0, "w"), (1, "x")):
    insn(
        "CASP, CASPA, CASPAL, CASPL",
        f"0 {_sz} 001000 0 A 1 Rs:5 R 11111 Rn:5 Rt:5",
        f"casp{{:ordered}} {{Rs:pair_{_register}}}, {{Rt:pair_{_register}}}, [{{Rn:Xsp}}]",
        key=f"casp_{_register}",
        unallocated="Rs=xxxx1 | Rt=xxxx1",
        feature=LSE,
        n=32 << _sz,
    )(compare_and_swap_pair)
