"""The flags between handlers: four 64-bit values that hold N, Z, C and V without computing them.

N is the sign of the first, Z whether the second is zero, C the lowest bit of the third, V the sign of the
fourth. An instruction that sets flags passes its result on as it is; only an instruction that reads a flag
computes it.
"""

from __future__ import annotations

from llvmlite import ir

from kvrm.engine.nodes import RunNode
from kvrm.staging.emitter import I64, Emitter, i64
from kvrm.values import Bits

ZERO = i64(0)


def read(e: Emitter, facets: list[ir.Value]) -> list[ir.Value]:
    """N, Z, C, V as i1."""
    n, z, c, v = facets
    one = ir.IntType(1)
    return [
        e.icmp_signed("<", n, ZERO),
        e.icmp_unsigned("==", z, ZERO),
        e.trunc(c, one),
        e.icmp_signed("<", v, ZERO),
    ]


def from_bits(e: Emitter, n: ir.Value, z: ir.Value, c: ir.Value, v: ir.Value) -> list[ir.Value]:
    """Facets of four i1."""
    return [e.sext(n, I64), e.zext(e.not_(z), I64), e.zext(c, I64), e.sext(v, I64)]


def write(e: Emitter, flags: tuple[Bits, ...], values: list[ir.Value]) -> list[ir.Value]:
    """Facets of four flags; those that are a sign bit or a comparison with zero are passed on uncomputed."""
    facets = from_bits(e, *values)
    for i in (0, 3):
        if (whole := _signed_by(flags[i])) is not None:
            facets[i] = _wide(e, whole)
    if (whole := _zero_test_of(flags[1])) is not None:
        facets[1] = _wide(e, whole)
    return facets


def _wide(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I64 else e.sext(value, I64)


def made_by(b: Bits, row: str) -> RunNode | None:
    """The node of a value that a primitive of that name made."""
    p = b.payload
    return p if isinstance(p, RunNode) and p.row == row else None


def sign_of(flag: Bits) -> Bits | None:
    """x, if the flag is x<width-1>."""
    cut = made_by(flag, "trunc")
    shift = cut and made_by(cut.args[0], "lsr")
    if not shift:
        return None
    x, amount = shift.args
    return x if amount.known and int(amount) == x.width - 1 else None


def _signed_by(flag: Bits) -> ir.Value | None:
    """The value of x, if the flag is x<width-1>."""
    x = sign_of(flag)
    return x.payload.value if x is not None and isinstance(x.payload, RunNode) else None


def _zero_test_of(flag: Bits) -> ir.Value | None:
    """The value of x, if the flag is x == 0."""
    test = made_by(flag, "eq")
    if not test or not test.args[1].known or int(test.args[1]):
        return None
    whole = test.args[0].payload
    return whole.value if isinstance(whole, RunNode) else None
