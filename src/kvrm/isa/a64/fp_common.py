"""What the floating-point groups share: sizes, lanes, register names."""

from __future__ import annotations

from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded
from kvrm.values import Bits, Lift

LETTER = {16: "h", 32: "s", 64: "d"}


def width_of(ftype: int) -> int:
    """Bits of the format that the field `ftype` or `sz` names."""
    return {0: 32, 1: 64, 3: 16}[ftype]


def shape_of(q: int, sz: int) -> tuple[int, int]:
    """Bits of the register and of its elements, for the fields Q and sz."""
    return 128 if q else 64, 64 if sz else 32


def elements(m: Context, r: Lift, n: int, esize: int) -> Bits:
    """The low n bits of a SIMD&FP register as elements."""
    return m.v[r, n].split(esize)


def arrangement(n: int, esize: int) -> str:
    """``4s``, ``2d``, ..."""
    return f"{n // esize}{LETTER[esize]}"


@printer
def fp(d: Decoded, v: int) -> str:
    """Scalar register, its size by `ftype`."""
    return f"{LETTER[width_of(d.ftype)]}{v}"


@printer
def fp_sz(d: Decoded, v: int) -> str:
    """Scalar register, its size by `sz`."""
    return f"{LETTER[width_of(d.sz)]}{v}"


@printer
def fp_v(d: Decoded, v: int) -> str:
    """Vector register, arranged by `Q` and `sz`."""
    return f"v{v}.{arrangement(*shape_of(d.Q, d.sz))}"
