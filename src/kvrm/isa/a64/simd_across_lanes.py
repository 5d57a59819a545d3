"""Advanced SIMD across lanes: the integer part (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.simd_common import LETTERS, element_size, key_of, mnemonic_of, shape
from kvrm.isa.a64.simd_lanes import wide_signed, wide_unsigned
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits

EXECUTION = Execution.ARITHMETIC

Binary = Callable[[Bits, Bits], Bits]


@printer
def scalar(d: Decoded, r: int) -> str:
    """A register that holds one element."""
    return f"{LETTERS[element_size(d)]}{r}"


@printer
def scalar_wide(d: Decoded, r: int) -> str:
    """A register that holds one element of twice the size."""
    return f"{LETTERS[2 * element_size(d)]}{r}"


def _reduced(a: Bits, op: Binary) -> Bits:
    """One scalar from all lanes, by halving: `op` is associative and commutative."""
    while a.lanes > 1:
        middle = a.lanes // 2
        a = op(a.shuffle(range(middle)), a.shuffle(range(middle, a.lanes)))
    return a


def _across(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: Binary) -> None:
    n, esize = shape(Q, size)
    m.v[Rd, esize] = _reduced(m.v[Rn, n].split(esize), op)


def _across_long(m: Context, Q: Static, size: Static, Rn: Bits, Rd: Bits, op: Callable[[Bits], Bits]) -> None:
    n, esize = shape(Q, size)
    m.v[Rd, 2 * esize] = _reduced(op(m.v[Rn, n].split(esize)), _sum)


def _sum(a: Bits, b: Bits) -> Bits:
    return a + b


def _define(u: int, code: str, name: str, operation: Callable[..., None], result: str, op: object) -> None:
    insn(
        name,
        f"0 Q {u} 01110 size:2 11000 {code} 10 Rn:5 Rd:5",
        f"{mnemonic_of(name)} {result}, {{Rn:vec}}",
        key=key_of(name),
        unallocated="size=11 | size=10 Q=0",
        op=op,
    )(operation)


_define(0, "00011", "SADDLV", _across_long, "{Rd:scalar_wide}", wide_signed)
_define(1, "00011", "UADDLV", _across_long, "{Rd:scalar_wide}", wide_unsigned)
_define(0, "01010", "SMAXV", _across, "{Rd:scalar}", Bits.smax)
_define(1, "01010", "UMAXV", _across, "{Rd:scalar}", Bits.umax)
_define(0, "11010", "SMINV", _across, "{Rd:scalar}", Bits.smin)
_define(1, "11010", "UMINV", _across, "{Rd:scalar}", Bits.umin)
_define(0, "11011", "ADDV", _across, "{Rd:scalar}", _sum)
