"""Floating point in Advanced SIMD two-register miscellaneous and its scalar group (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.fp_common import arrangement, elements, shape_of, width_of, with_half
from kvrm.isa.a64.fp_data_processing import FRINTS
from kvrm.isa.a64.simd_fp_three_same import NO_1D, mask
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits
from kvrm.values.fp import Binary, Unary, fabs, fcmpeq, fcmpge, fcmpgt, fneg, fsqrt
from kvrm.values.fp_convert import fcvt, fcvt_to_fixed, fcvtxn, fixed_to_fp
from kvrm.values.fp_estimate import frecpe, frecpx, frsqrte, urecpe, ursqrte
from kvrm.values.softfloat_core import Rounding

EXECUTION = Execution.ARITHMETIC


def _diagrams(head: str, o1: int, opcode: str) -> tuple[str, str]:
    half = f"{head} {o1} 1 11100 {opcode} 10 Rn:5 Rd:5"
    return f"{head} {o1} sz 10000 {opcode} 10 Rn:5 Rd:5", half


def _vector(u: int, o1: int, opcode: str) -> tuple[str, str]:
    """The diagrams of a vector form and its half-precision one: U, the upper bit of size, opcode."""
    return _diagrams(f"0 Q {u} 01110", o1, opcode)


def _scalar(u: int, o1: int, opcode: str) -> tuple[str, str]:
    return _diagrams(f"01 {u} 11110", o1, opcode)


# -- lane by lane ----------------------------------------------------------------------------------


def _two_register(m: Context, Q: Static, sz: Static, Rn: Bits, Rd: Bits, op: Unary) -> None:
    n, esize = shape_of(Q, sz)
    m.v[Rd, n] = op(elements(m, Rn, n, esize), m.fpcr)


def _two_register_scalar(m: Context, sz: Static, Rn: Bits, Rd: Bits, op: Unary) -> None:
    n = width_of(sz)
    m.v[Rd, n] = op(m.v[Rn, n], m.fpcr)


def _bitwise(m: Context, Q: Static, sz: Static, Rn: Bits, Rd: Bits, op: Callable[[Bits], Bits]) -> None:
    """Whatever FPCR holds."""
    n, esize = shape_of(Q, sz)
    m.v[Rd, n] = op(elements(m, Rn, n, esize))


def _with_zero(test: Binary, swap: bool = False) -> Unary:
    """The comparison with zero as a mask; `swap` compares zero with the operand."""
    holds = mask(test)
    return lambda a, fpcr: holds(a.like(0), a, fpcr) if swap else holds(a, a.like(0), fpcr)


def _to_integer(unsigned: bool, rounding: Rounding) -> Unary:
    return lambda a, fpcr: fcvt_to_fixed(a, a.width, unsigned, rounding, fpcr)


def _from_integer(unsigned: bool) -> Unary:
    return lambda a, fpcr: fixed_to_fp(a, a.width, unsigned, fpcr)


VECTOR_ONLY: list[tuple[str, int, int, str, Unary]] = [
    ("FSQRT (vector)", 1, 1, "11111", fsqrt),
    ("FRINTN (vector)", 0, 0, "11000", FRINTS["FRINTN"]),
    ("FRINTM (vector)", 0, 0, "11001", FRINTS["FRINTM"]),
    ("FRINTP (vector)", 0, 1, "11000", FRINTS["FRINTP"]),
    ("FRINTZ (vector)", 0, 1, "11001", FRINTS["FRINTZ"]),
    ("FRINTA (vector)", 1, 0, "11000", FRINTS["FRINTA"]),
    ("FRINTX (vector)", 1, 0, "11001", FRINTS["FRINTX"]),
    ("FRINTI (vector)", 1, 1, "11001", FRINTS["FRINTI"]),
]
VECTOR_AND_SCALAR: list[tuple[str, int, int, str, Unary]] = [
    ("FCVTNS (vector)", 0, 0, "11010", _to_integer(False, Rounding.TIEEVEN)),
    ("FCVTMS (vector)", 0, 0, "11011", _to_integer(False, Rounding.NEGINF)),
    ("FCVTAS (vector)", 0, 0, "11100", _to_integer(False, Rounding.TIEAWAY)),
    ("SCVTF (vector, integer)", 0, 0, "11101", _from_integer(False)),
    ("FCVTPS (vector)", 0, 1, "11010", _to_integer(False, Rounding.POSINF)),
    ("FCVTZS (vector, integer)", 0, 1, "11011", _to_integer(False, Rounding.ZERO)),
    ("FCVTNU (vector)", 1, 0, "11010", _to_integer(True, Rounding.TIEEVEN)),
    ("FCVTMU (vector)", 1, 0, "11011", _to_integer(True, Rounding.NEGINF)),
    ("FCVTAU (vector)", 1, 0, "11100", _to_integer(True, Rounding.TIEAWAY)),
    ("UCVTF (vector, integer)", 1, 0, "11101", _from_integer(True)),
    ("FCVTPU (vector)", 1, 1, "11010", _to_integer(True, Rounding.POSINF)),
    ("FCVTZU (vector, integer)", 1, 1, "11011", _to_integer(True, Rounding.ZERO)),
    ("FRECPE", 0, 1, "11101", frecpe),
    ("FRSQRTE", 1, 1, "11101", frsqrte),
]
SCALAR_ONLY: list[tuple[str, int, int, str, Unary]] = [("FRECPX", 0, 1, "11111", frecpx)]
ZERO_COMPARISONS: list[tuple[str, int, int, str, Unary]] = [
    ("FCMGT (zero)", 0, 1, "01100", _with_zero(fcmpgt)),
    ("FCMEQ (zero)", 0, 1, "01101", _with_zero(fcmpeq)),
    ("FCMLT (zero)", 0, 1, "01110", _with_zero(fcmpgt, swap=True)),
    ("FCMGE (zero)", 1, 1, "01100", _with_zero(fcmpge)),
    ("FCMLE (zero)", 1, 1, "01101", _with_zero(fcmpge, swap=True)),
]

for name, u, o1, opcode, op in VECTOR_ONLY + VECTOR_AND_SCALAR + ZERO_COMPARISONS:
    mnemonic, zero = name.split()[0].lower(), "zero" in name
    asm = f"{mnemonic} {{Rd:fp_v}}, {{Rn:fp_v}}" + ", #0.0" * zero
    key = f"{mnemonic}_{'zero_' * zero}vector"
    with_half(name, _vector(u, o1, opcode), asm, unallocated=NO_1D, key=key, op=op)(_two_register)

for name, u, o1, opcode, op in VECTOR_AND_SCALAR + SCALAR_ONLY + ZERO_COMPARISONS:
    mnemonic, zero = name.split()[0].lower(), "zero" in name
    asm = f"{mnemonic} {{Rd:fp_sz}}, {{Rn:fp_sz}}" + ", #0.0" * zero
    key = f"{mnemonic}_{'zero_' * zero}simd_scalar"
    with_half(name, _scalar(u, o1, opcode), asm, key=key, op=op)(_two_register_scalar)

BITWISE: list[tuple[str, int, Callable[[Bits], Bits]]] = [("FABS", 0, fabs), ("FNEG", 1, fneg)]
for name, u, bitwise in BITWISE:
    asm = f"{name.lower()} {{Rd:fp_v}}, {{Rn:fp_v}}"
    key = f"{name.lower()}_vector"
    with_half(f"{name} (vector)", _vector(u, 1, "01111"), asm, unallocated=NO_1D, key=key, op=bitwise)(
        _bitwise
    )

ESTIMATES: list[tuple[str, int, Callable[[Bits], Bits]]] = [("URECPE", 0, urecpe), ("URSQRTE", 1, ursqrte)]
for name, u, bitwise in ESTIMATES:
    asm = f"{name.lower()} {{Rd:fp_v}}, {{Rn:fp_v}}"
    insn(name, _vector(u, 1, "11100")[0], asm, unallocated="sz=1", key=name.lower(), op=bitwise)(_bitwise)

# -- narrower and wider ----------------------------------------------------------------------------


@printer
def fp_narrow(d: Decoded, v: int) -> str:
    """Vector of the narrower elements that `sz` names: half of a register, the upper one if Q."""
    return f"v{v}.{arrangement(128 if d.Q else 64, 32 if d.sz else 16)}"


@printer
def fp_wide(d: Decoded, v: int) -> str:
    """Vector of the wider elements that `sz` names."""
    return f"v{v}.{arrangement(128, 64 if d.sz else 32)}"


@printer
def second(d: Decoded, q: int) -> str:
    """``2`` in the name of an instruction that uses the upper half of the narrow register."""
    return "2" if q else ""


def _narrow(m: Context, Q: Static, sz: Static, Rn: Bits, Rd: Bits, op: Unary) -> None:
    result = op(elements(m, Rn, 128, width_of(sz)), m.fpcr).whole
    if Q:
        m.v[Rd, 128] = elements(m, Rd, 128, 64).with_lane(1, result)
    else:
        m.v[Rd, 64] = result


def _fcvtn(a: Bits, fpcr: int) -> Bits:
    return fcvt(a, a.width // 2, fpcr)


NARROW: list[tuple[str, int, Unary, str]] = [("FCVTN", 0, _fcvtn, ""), ("FCVTXN", 1, fcvtxn, "sz=0")]
for name, u, op, hole in NARROW:
    insn(
        f"{name}, {name}2",
        _vector(u, 0, "10110")[0],
        f"{name.lower()}{{Q:second}} {{Rd:fp_narrow}}, {{Rn:fp_wide}}",
        unallocated=hole,
        key=f"{name.lower()}_vector",
        op=op,
    )(_narrow)


@insn("FCVTL, FCVTL2", _vector(0, 0, "10111")[0], "fcvtl{Q:second} {Rd:fp_wide}, {Rn:fp_narrow}")
def fcvtl(m: Context, Q: Static, sz: Static, Rn: Bits, Rd: Bits) -> None:
    esize = width_of(sz)
    half = elements(m, Rn, 128, 64).lane(1) if Q else m.v[Rn, 64]
    m.v[Rd, 128] = fcvt(half.split(esize // 2), esize, m.fpcr)


@insn("FCVTXN, FCVTXN2", _scalar(1, 0, "10110")[0], "fcvtxn s{Rd}, d{Rn}", unallocated="sz=0")
def fcvtxn_scalar(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.v[Rd, 32] = fcvtxn(m.v[Rn, 64], m.fpcr)
