"""What the floating-point groups share: sizes, lanes, register names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Asm, Decoded, Operation, insn
from kvrm.values import Bits, Lift

HALF = 3
"""Half precision in `ftype`, and instead of `sz` where an encoding for halves has no such field."""
FP16 = "FEAT_FP16"
"""The feature of half-precision arithmetic."""
NO_HALF = "ftype=1x"
ONLY_HALF = "ftype=0x | ftype=10"
"""Unallocated: ftype 10 has no format."""

LETTER = {16: "h", 32: "s", 64: "d"}


def width_of(ftype: int) -> int:
    """Bits of the format that the field `ftype` or `sz` names."""
    return {0: 32, 1: 64, HALF: 16}[ftype]


def shape_of(q: int, sz: int) -> tuple[int, int]:
    """Bits of the register and of its elements, for the fields Q and sz."""
    return 128 if q else 64, width_of(sz)


def elements(m: Context, r: Lift, n: int, esize: int) -> Bits:
    """The low n bits of a SIMD&FP register as elements."""
    return m.v[r, n].split(esize)


def arrangement(n: int, esize: int) -> str:
    """``4s``, ``2d``, ..."""
    return f"{n // esize}{LETTER[esize]}"


# -- registration ----------------------------------------------------------------------------------


def by_ftype(
    name: str, diagram: str, asm: Asm, *, key: str, unallocated: str = "", **bound: Any
) -> Callable[[Operation], Operation]:
    """Define an instruction on the formats that `ftype` names, half precision as one of FEAT_FP16."""

    def register(operation: Operation) -> Operation:
        insn(name, diagram, asm, key=key, unallocated=f"{NO_HALF} | {unallocated}", **bound)(operation)
        holes = f"{ONLY_HALF} | {unallocated}"
        insn(name, diagram, asm, key=f"{key}_half", unallocated=holes, feature=FP16, **bound)(operation)
        return operation

    return register


def with_half(
    name: str, diagrams: tuple[str, str], asm: Asm, *, key: str, unallocated: str = "", **bound: Any
) -> Callable[[Operation], Operation]:
    """Define an instruction on singles and doubles, which `sz` names, and on halves, of FEAT_FP16.

    `unallocated` is said of the former; the operation takes `sz`, which is HALF for the latter.
    """

    def register(operation: Operation) -> Operation:
        insn(name, diagrams[0], asm, key=key, unallocated=unallocated, **bound)(operation)
        insn(name, diagrams[1], asm, key=f"{key}_half", feature=FP16, sz=HALF, **bound)(operation)
        return operation

    return register


# -- text ------------------------------------------------------------------------------------------


def sz_of(d: Decoded) -> int:
    """The field `sz`, or HALF without one."""
    return d.fields.get("sz", HALF)


@printer
def fp(d: Decoded, v: int) -> str:
    """Scalar register, its size by `ftype`."""
    return f"{LETTER[width_of(d.ftype)]}{v}"


@printer
def fp_sz(d: Decoded, v: int) -> str:
    """Scalar register, its size by `sz`."""
    return f"{LETTER[width_of(sz_of(d))]}{v}"


@printer
def fp_v(d: Decoded, v: int) -> str:
    """Vector register, arranged by `Q` and `sz`."""
    return f"v{v}.{arrangement(*shape_of(d.Q, sz_of(d)))}"
