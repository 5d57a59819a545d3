"""Floating point in Advanced SIMD vector x indexed element and its scalar group (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import elements, shape_of, width_of
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Static, insn
from kvrm.values import Bits, concat
from kvrm.values.fp import fmul, fmuladd, fmulx, fneg

NO_ELEMENT = "sz=1 L=1"


@printer
def fp_element(d: Decoded, v: int) -> str:
    """One element of a vector, its number by `H` and `L`."""
    return f"v{v}.d[{d.H}]" if d.sz else f"v{v}.s[{d.H << 1 | d.L}]"


def _element(m: Context, r: Bits, esize: int, L: Bits, H: Bits) -> Bits:
    return elements(m, r, 128, esize).lane(H if esize == 64 else concat(H, L))


def _operate(d: Bits, a: Bits, b: Bits, fpcr: int, kind: str) -> Bits:
    """Multiply by `b`, or multiply and add to `d`."""
    if kind == "FMUL":
        return fmul(a, b, fpcr)
    if kind == "FMULX":
        return fmulx(a, b, fpcr)
    return fmuladd(d, fneg(a) if kind == "FMLS" else a, b, fpcr)


def _vector(
    m: Context, Q: Static, sz: Static, L: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, kind: str
) -> None:
    n, esize = shape_of(Q, sz)
    a = elements(m, Rn, n, esize)
    b = _element(m, Rm, esize, L, H).splat(a.lanes)
    m.v[Rd, n] = _operate(elements(m, Rd, n, esize), a, b, m.fpcr, kind)


def _scalar(m: Context, sz: Static, L: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, kind: str) -> None:
    n = width_of(sz)
    m.v[Rd, n] = _operate(m.v[Rd, n], m.v[Rn, n], _element(m, Rm, n, L, H), m.fpcr, kind)


BY_ELEMENT = [("FMLA", 0, "0001"), ("FMLS", 0, "0101"), ("FMUL", 0, "1001"), ("FMULX", 1, "1001")]

for name, u, opcode in BY_ELEMENT:
    rest = f"1 sz L Rm:5 {opcode} H 0 Rn:5 Rd:5"
    insn(
        f"{name} (by element)",
        f"0 Q {u} 01111 {rest}",
        f"{name.lower()} {{Rd:fp_v}}, {{Rn:fp_v}}, {{Rm:fp_element}}",
        unallocated=f"{NO_ELEMENT} | Q=0 sz=1",
        key=f"{name.lower()}_element",
        kind=name,
    )(_vector)
    insn(
        f"{name} (by element)",
        f"01 {u} 11111 {rest}",
        f"{name.lower()} {{Rd:fp_sz}}, {{Rn:fp_sz}}, {{Rm:fp_element}}",
        unallocated=NO_ELEMENT,
        key=f"{name.lower()}_element_scalar",
        kind=name,
    )(_scalar)
