"""Advanced SIMD across lanes: the integer part (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.simd_common import key_of, mnemonic_of
from kvrm.isa.a64.simd_lanes import wide_signed, wide_unsigned
from kvrm.isa.context import Context
from kvrm.isa.definition import Static, insn
from kvrm.values import Bits


def reduce_lanes(a: Bits, op: Callable[[Bits, Bits], Bits]) -> Bits:
    """One scalar from all lanes, by halving: `op` is associative and commutative."""
    while a.lanes > 1:
        middle = a.lanes // 2
        a = op(a.shuffle(range(middle)), a.shuffle(range(middle, a.lanes)))
    return a


def _same(a: Bits) -> Bits:
    return a


def _across(
    m: Context,
    Q: Static,
    size: Static,
    Rn: Bits,
    Rd: Bits,
    widen: Callable[[Bits], Bits],
    op: Callable[[Bits, Bits], Bits],
) -> None:
    result = reduce_lanes(widen(m.v[Rn, 128 if Q else 64].split(8 << size)), op)
    m.v[Rd, result.width] = result


def _sum(a: Bits, b: Bits) -> Bits:
    return a + b


for _u, _code, _name, _result, _widen, _op in (
    (0, "00011", "SADDLV", "scalar_wide", wide_signed, _sum),
    (1, "00011", "UADDLV", "scalar_wide", wide_unsigned, _sum),
    (0, "01010", "SMAXV", "scalar", _same, Bits.smax),
    (1, "01010", "UMAXV", "scalar", _same, Bits.umax),
    (0, "11010", "SMINV", "scalar", _same, Bits.smin),
    (1, "11010", "UMINV", "scalar", _same, Bits.umin),
    (0, "11011", "ADDV", "scalar", _same, _sum),
):
    insn(
        _name,
        f"0 Q {_u} 01110 size:2 11000 {_code} 10 Rn:5 Rd:5",
        f"{mnemonic_of(_name)} {{Rd:{_result}}}, {{Rn:vector}}",
        key=key_of(_name),
        unallocated="size=11 | size=10 Q=0",
        widen=_widen,
        op=_op,
    )(_across)
