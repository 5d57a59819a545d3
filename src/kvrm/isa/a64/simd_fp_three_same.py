"""Floating point in Advanced SIMD three same and scalar three same (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64.fp_common import elements, shape_of, width_of, with_half
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, Static
from kvrm.values import Bits
from kvrm.values.fp import (
    Binary,
    fabs,
    fadd,
    fcmpeq,
    fcmpge,
    fcmpgt,
    fdiv,
    fmax,
    fmaxnm,
    fmin,
    fminnm,
    fmul,
    fmuladd,
    fmulx,
    fneg,
    frecps,
    frsqrts,
    fsub,
)

EXECUTION = Execution.ARITHMETIC

NO_1D = "Q=0 sz=1"
"""A vector of one double is not allocated."""


def _diagrams(head: str, o1: int, opcode: str) -> tuple[str, str]:
    half = f"{head} {o1} 10 Rm:5 00 {opcode[2:]} 1 Rn:5 Rd:5"
    return f"{head} {o1} sz 1 Rm:5 {opcode} 1 Rn:5 Rd:5", half


def vector(u: int, o1: int, opcode: str) -> tuple[str, str]:
    """The diagrams of a vector form and its half-precision one: U, the upper bit of size, opcode 11xxx."""
    return _diagrams(f"0 Q {u} 01110", o1, opcode)


def scalar(u: int, o1: int, opcode: str) -> tuple[str, str]:
    """The diagrams of a scalar form and its half-precision one."""
    return _diagrams(f"01 {u} 11110", o1, opcode)


def mask(test: Binary) -> Binary:
    """All ones where the comparison holds, else zero."""
    return lambda a, b, fpcr: test(a, b, fpcr).sext(a.width)


def _of_magnitudes(op: Binary) -> Binary:
    return lambda a, b, fpcr: op(fabs(a), fabs(b), fpcr)


def _fabd(a: Bits, b: Bits, fpcr: int) -> Bits:
    return fabs(fsub(a, b, fpcr))


# -- lane by lane ----------------------------------------------------------------------------------


def _three_same(m: Context, Q: Static, sz: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: Binary) -> None:
    n, esize = shape_of(Q, sz)
    m.v[Rd, n] = op(elements(m, Rn, n, esize), elements(m, Rm, n, esize), m.fpcr)


def _three_same_scalar(m: Context, sz: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: Binary) -> None:
    n = width_of(sz)
    m.v[Rd, n] = op(m.v[Rn, n], m.v[Rm, n], m.fpcr)


VECTOR_ONLY: list[tuple[str, int, int, str, Binary]] = [
    ("FMAXNM (vector)", 0, 0, "11000", fmaxnm),
    ("FADD (vector)", 0, 0, "11010", fadd),
    ("FMAX (vector)", 0, 0, "11110", fmax),
    ("FMINNM (vector)", 0, 1, "11000", fminnm),
    ("FSUB (vector)", 0, 1, "11010", fsub),
    ("FMIN (vector)", 0, 1, "11110", fmin),
    ("FMUL (vector)", 1, 0, "11011", fmul),
    ("FDIV (vector)", 1, 0, "11111", fdiv),
]
VECTOR_AND_SCALAR: list[tuple[str, int, int, str, Binary]] = [
    ("FMULX", 0, 0, "11011", fmulx),
    ("FCMEQ (register)", 0, 0, "11100", mask(fcmpeq)),
    ("FRECPS", 0, 0, "11111", frecps),
    ("FRSQRTS", 0, 1, "11111", frsqrts),
    ("FCMGE (register)", 1, 0, "11100", mask(fcmpge)),
    ("FACGE", 1, 0, "11101", _of_magnitudes(mask(fcmpge))),
    ("FABD", 1, 1, "11010", _fabd),
    ("FCMGT (register)", 1, 1, "11100", mask(fcmpgt)),
    ("FACGT", 1, 1, "11101", _of_magnitudes(mask(fcmpgt))),
]
PRODUCTS = ("FMUL (vector)", "FDIV (vector)", "FMULX")


def _work(name: str) -> Execution:
    return Execution.MULTIPLY_DIVIDE if name in PRODUCTS else Execution.ARITHMETIC


for name, u, o1, opcode, op in VECTOR_ONLY + VECTOR_AND_SCALAR:
    mnemonic = name.split()[0].lower()
    asm = f"{mnemonic} {{Rd:fp_v}}, {{Rn:fp_v}}, {{Rm:fp_v}}"
    key = f"{mnemonic}_vector"
    with_half(name, vector(u, o1, opcode), asm, unallocated=NO_1D, key=key, execution=_work(name), op=op)(
        _three_same
    )

for name, u, o1, opcode, op in VECTOR_AND_SCALAR:
    mnemonic = name.split()[0].lower()
    asm = f"{mnemonic} {{Rd:fp_sz}}, {{Rn:fp_sz}}, {{Rm:fp_sz}}"
    key = f"{mnemonic}_scalar"
    with_half(name, scalar(u, o1, opcode), asm, key=key, execution=_work(name), op=op)(_three_same_scalar)

# -- multiply-add ----------------------------------------------------------------------------------


def _accumulate(m: Context, Q: Static, sz: Static, Rm: Bits, Rn: Bits, Rd: Bits, negate: bool) -> None:
    n, esize = shape_of(Q, sz)
    factor = elements(m, Rn, n, esize)
    factor = fneg(factor) if negate else factor
    m.v[Rd, n] = fmuladd(elements(m, Rd, n, esize), factor, elements(m, Rm, n, esize), m.fpcr)


for o1, name in enumerate(("FMLA", "FMLS")):
    with_half(
        f"{name} (vector)",
        vector(0, o1, "11001"),
        f"{name.lower()} {{Rd:fp_v}}, {{Rn:fp_v}}, {{Rm:fp_v}}",
        unallocated=NO_1D,
        key=f"{name.lower()}_vector",
        execution=Execution.MULTIPLY_DIVIDE,
        negate=bool(o1),
    )(_accumulate)

# -- pairwise --------------------------------------------------------------------------------------


def _pairwise(m: Context, Q: Static, sz: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: Binary) -> None:
    """Neighbours of the first operand, then neighbours of the second."""
    n, esize = shape_of(Q, sz)
    a, b = elements(m, Rn, n, esize), elements(m, Rm, n, esize)
    count = 2 * a.lanes
    m.v[Rd, n] = op(a.shuffle(range(0, count, 2), b), a.shuffle(range(1, count, 2), b), m.fpcr)


PAIRWISE: list[tuple[str, int, str, Binary]] = [
    ("FMAXNMP", 0, "11000", fmaxnm),
    ("FADDP", 0, "11010", fadd),
    ("FMAXP", 0, "11110", fmax),
    ("FMINNMP", 1, "11000", fminnm),
    ("FMINP", 1, "11110", fmin),
]

for name, o1, opcode, op in PAIRWISE:
    with_half(
        f"{name} (vector)",
        vector(1, o1, opcode),
        f"{name.lower()} {{Rd:fp_v}}, {{Rn:fp_v}}, {{Rm:fp_v}}",
        unallocated=NO_1D,
        key=f"{name.lower()}_vector",
        op=op,
    )(_pairwise)
