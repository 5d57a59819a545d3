"""Floating point in Advanced SIMD vector x indexed element and its scalar group (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import FP16, HALF, elements, shape_of, width_of
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits, concat
from kvrm.values.fp import fmul, fmuladd, fmulx, fneg

EXECUTION = Execution.MULTIPLY_DIVIDE

NO_ELEMENT = "sz=1 L=1"


@printer
def fp_element(d: Decoded, v: int) -> str:
    """One element of a vector, its number by `H`, `L` and, for halves, `M`."""
    if "sz" not in d.fields:
        return f"v{v}.h[{d.H << 2 | d.L << 1 | d.M}]"
    return f"v{v}.d[{d.H}]" if d.sz else f"v{v}.s[{d.H << 1 | d.L}]"


def _element(m: Context, r: Bits, esize: int, L: Bits, H: Bits) -> Bits:
    return elements(m, r, 128, esize).lane(H if esize == 64 else concat(H, L))


def half_element(m: Context, r: Bits, L: Bits, M: Bits, H: Bits) -> Bits:
    """The half that H:L:M names in one of the first 16 registers."""
    return elements(m, r, 128, 16).lane(concat(H, L, M))


def _operate(d: Bits, a: Bits, b: Bits, fpcr: int, kind: str) -> Bits:
    """Multiply by `b`, or multiply and add to `d`."""
    if kind == "FMUL":
        return fmul(a, b, fpcr)
    if kind == "FMULX":
        return fmulx(a, b, fpcr)
    return fmuladd(d, fneg(a) if kind == "FMLS" else a, b, fpcr)


def _multiply(m: Context, q: int, sz: int, element: Bits, Rn: Bits, Rd: Bits, kind: str) -> None:
    n, esize = shape_of(q, sz)
    a = elements(m, Rn, n, esize)
    m.v[Rd, n] = _operate(elements(m, Rd, n, esize), a, element.splat(a.lanes), m.fpcr, kind)


def _multiply_scalar(m: Context, element: Bits, Rn: Bits, Rd: Bits, kind: str) -> None:
    n = element.width
    m.v[Rd, n] = _operate(m.v[Rd, n], m.v[Rn, n], element, m.fpcr, kind)


def _vector(
    m: Context, Q: Static, sz: Static, L: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, kind: str
) -> None:
    _multiply(m, Q, sz, _element(m, Rm, width_of(sz), L, H), Rn, Rd, kind)


def _scalar(m: Context, sz: Static, L: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, kind: str) -> None:
    _multiply_scalar(m, _element(m, Rm, width_of(sz), L, H), Rn, Rd, kind)


def _half_vector(
    m: Context, Q: Static, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, kind: str
) -> None:
    _multiply(m, Q, HALF, half_element(m, Rm, L, M, H), Rn, Rd, kind)


def _half_scalar(m: Context, L: Bits, M: Bits, Rm: Bits, H: Bits, Rn: Bits, Rd: Bits, kind: str) -> None:
    _multiply_scalar(m, half_element(m, Rm, L, M, H), Rn, Rd, kind)


BY_ELEMENT = [("FMLA", 0, "0001"), ("FMLS", 0, "0101"), ("FMUL", 0, "1001"), ("FMULX", 1, "1001")]

for name, u, opcode in BY_ELEMENT:
    rest, half = f"1 sz L Rm:5 {opcode} H 0 Rn:5 Rd:5", f"00 L M Rm:4 {opcode} H 0 Rn:5 Rd:5"
    full, key = f"{name} (by element)", f"{name.lower()}_element"
    text = f"{name.lower()} {{Rd:fp_v}}, {{Rn:fp_v}}, {{Rm:fp_element}}"
    holes = f"{NO_ELEMENT} | Q=0 sz=1"
    insn(full, f"0 Q {u} 01111 {rest}", text, unallocated=holes, key=key, kind=name)(_vector)
    insn(full, f"0 Q {u} 01111 {half}", text, feature=FP16, key=f"{key}_half", kind=name)(_half_vector)
    text, key = f"{name.lower()} {{Rd:fp_sz}}, {{Rn:fp_sz}}, {{Rm:fp_element}}", f"{key}_scalar"
    insn(full, f"01 {u} 11111 {rest}", text, unallocated=NO_ELEMENT, key=key, kind=name)(_scalar)
    insn(full, f"01 {u} 11111 {half}", text, feature=FP16, key=f"{key}_half", kind=name)(_half_scalar)
