"""Floating-point rows: arithmetic, comparison and rounding on bit patterns.

`fold` is `kvrm.values.softfloat`, which knows all of FPCR. `emit` is host arithmetic for FPCR = 0, the only
value that compiled code meets: results that are numbers agree with Arm's, and where a lane is a NaN a rarely
taken branch puts Arm's NaN in its place (the first signalling operand made quiet, else the first quiet one,
else the default NaN). No row raises exception flags. Lanes have 32 or 64 bits; `fpcr` is a Python int.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvrm.values import softfloat
from kvrm.values.bits import Bits, Primitive, apply, primitive
from kvrm.values.softfloat import FORMATS, Format, Rounding

Chosen = Callable[..., Any]
"""(e, format, *operands) -> the bits that stand where the host's result is a NaN."""

ROUND = {
    Rounding.TIEEVEN: "roundeven",
    Rounding.POSINF: "ceil",
    Rounding.NEGINF: "floor",
    Rounding.ZERO: "trunc",
    Rounding.TIEAWAY: "round",
}
"""LLVM's name for rounding to an integral number."""


# -- NaNs ------------------------------------------------------------------------------------------


def format_of(e: Any, x: Any) -> Format:
    """The format whose width the lanes of `x` have."""
    return FORMATS[e.width(x)]


def unordered(e: Any, a: Any, b: Any) -> Any:
    """Per lane, whether one of two values (as numbers) is a NaN."""
    return e.fcmp_unordered("uno", a, b)


def quieten(e: Any, f: Format, x: Any) -> Any:
    """The NaN `x` as a quiet one."""
    return e.or_(x, e.const(x.type, f.quiet))


def _magnitude(e: Any, f: Format, x: Any) -> Any:
    return e.and_(x, e.const(x.type, f.magnitude))


def _is_signalling(e: Any, f: Format, x: Any) -> Any:
    above = e.sub(_magnitude(e, f, x), e.const(x.type, f.infinity + 1))
    return e.icmp_unsigned("<", above, e.const(x.type, f.quiet - 1))


def _propagate(e: Any, f: Format, operands: Sequence[Any], otherwise: Any) -> Any:
    """FPProcessNaNs(), or `otherwise` where no operand is a NaN."""
    out = otherwise
    for x in reversed(operands):
        out = e.select(unordered(e, e.real(x), e.real(x)), x, out)
    for x in reversed(operands):
        out = e.select(_is_signalling(e, f, x), quieten(e, f, x), out)
    return out


def _process(e: Any, f: Format, *operands: Any) -> Any:
    return _propagate(e, f, operands, e.const(operands[0].type, f.default_nan))


def checked(e: Any, t: Any, result: Any, chosen: Chosen, *operands: Any) -> Any:
    """The bits of `result`, of type `t`; `chosen` tells those of its NaN lanes."""
    bad = unordered(e, result, result)

    def repaired() -> Any:
        nan = chosen(e, FORMATS[e.width_of(t)], *[e.apart(x) for x in operands])
        return e.select(bad, e.real(nan), result)

    return e.bitcast(e.rare(e.any(bad), repaired, result), t)


# -- arithmetic ------------------------------------------------------------------------------------


def _arithmetic(op: str, chosen: Chosen = _process) -> Callable[..., Any]:
    def emit(e: Any, t: Any, a: Any, b: Any, fpcr: int) -> Any:
        return checked(e, t, getattr(e, op)(e.real(a), e.real(b)), chosen, a, b)

    return emit


def _infinity_by_zero(e: Any, f: Format, a: Any, b: Any) -> Any:
    sign = e.and_(e.xor(a, b), e.const(a.type, f.sign))
    return _propagate(e, f, (a, b), e.or_(sign, e.const(a.type, f.bias + 1 << f.fraction)))


def _emit_sqrt(e: Any, t: Any, a: Any, fpcr: int) -> Any:
    return checked(e, t, e.intrinsic("sqrt", e.real(a).type, e.real(a)), _process, a)


def _emit_muladd(e: Any, t: Any, c: Any, a: Any, b: Any, fpcr: int) -> Any:
    x, y, z = e.real(a), e.real(b), e.real(c)
    return checked(e, t, e.intrinsic("fma", x.type, x, y, z), _muladd_nan, c, a, b)


def _muladd_nan(e: Any, f: Format, c: Any, a: Any, b: Any) -> Any:
    """Infinity times zero is invalid even where the addend is a quiet NaN."""
    x, y = e.real(a), e.real(b)
    product = e.fmul(x, y)
    undefined = e.and_(unordered(e, product, product), e.fcmp_ordered("ord", x, y))
    invalid = e.and_(undefined, e.not_(_is_signalling(e, f, c)))
    return e.select(invalid, e.const(c.type, f.default_nan), _process(e, f, c, a, b))


def _step(base: Callable[[Format], int], halve: bool) -> Callable[..., Any]:
    """(base - a * b), all of it halved if `halve`; infinity times zero counts as zero."""

    def emit(e: Any, t: Any, a: Any, b: Any, fpcr: int) -> Any:
        f = format_of(e, a)
        minus_a, start = e.xor(a, e.const(t, f.sign)), e.const(t, base(f))
        x, y = e.real(minus_a), e.real(b)
        if halve:
            x, y = _one_halved(e, f, minus_a, b)
        result = e.intrinsic("fma", x.type, x, y, e.real(start))
        return checked(e, t, result, lambda e, f, a, b: _propagate(e, f, (a, b), start), minus_a, b)

    return emit


def _one_halved(e: Any, f: Format, a: Any, b: Any) -> tuple[Any, Any]:
    """Two factors of half the product; halving the larger is exact where the product counts."""
    larger = e.icmp_unsigned(">=", _magnitude(e, f, a), _magnitude(e, f, b))
    big, small = e.select(larger, a, b), e.select(larger, b, a)
    half = e.const(a.type, f.bias - 1 << f.fraction)
    return e.fmul(e.real(big), e.real(half)), e.real(small)


# -- minimum and maximum ---------------------------------------------------------------------------


def _extreme(op: str, zeros: str, chosen: Chosen = _process) -> Callable[..., Any]:
    """The operand that `op` holds for; `zeros` combines equal ones, of which only zeros differ."""

    def emit(e: Any, t: Any, a: Any, b: Any, fpcr: int) -> Any:
        x, y = e.real(a), e.real(b)
        out = e.select(e.fcmp_ordered(op, x, y), a, b)
        out = e.real(e.select(e.fcmp_ordered("==", x, y), getattr(e, zeros)(a, b), out))
        bad = unordered(e, x, y)

        def repaired() -> Any:
            nan = chosen(e, format_of(e, a), e.apart(a), e.apart(b))
            return e.select(bad, e.real(nan), out)

        return e.bitcast(e.rare(e.any(bad), repaired, out), t)

    return emit


def _number_wins(e: Any, f: Format, a: Any, b: Any) -> Any:
    """The other operand where just one is a NaN and quiet."""
    signalling = e.or_(_is_signalling(e, f, a), _is_signalling(e, f, b))
    x, y = e.real(a), e.real(b)
    number = e.select(unordered(e, x, x), b, a)
    none = e.and_(unordered(e, x, x), unordered(e, y, y))
    return e.select(e.or_(signalling, none), _process(e, f, a, b), number)


# -- comparison and rounding -----------------------------------------------------------------------


def _test(op: str) -> Callable[..., Any]:
    return lambda e, t, a, b, fpcr: e.fcmp_ordered(op, e.real(a), e.real(b))


def _emit_unordered(e: Any, t: Any, a: Any, b: Any, fpcr: int) -> Any:
    return unordered(e, e.real(a), e.real(b))


def _unordered_fold(a: int, b: int, w: int, fpcr: int) -> int:
    return softfloat.fcmp(a, b, w, fpcr=fpcr) & 1


def _emit_frint(e: Any, t: Any, a: Any, rounding: Rounding, fpcr: int) -> Any:
    return checked(e, t, e.intrinsic(ROUND[rounding], e.real(a).type, e.real(a)), _process, a)


# -- rows ------------------------------------------------------------------------------------------

Unary = Callable[[Bits, int], Bits]
"""(a, fpcr) -> a value of the same shape."""
Binary = Callable[[Bits, Bits, int], Bits]
"""(a, b, fpcr) -> a value of the same shape, or one bit per lane."""


def _row(name: str, emit: Callable[..., Any], operation: Callable[..., int] | None = None) -> Primitive:
    """The row of `operation(*operands, width, fpcr=)`, by default the one of that name in `softfloat`."""
    exact: Callable[..., int] = operation or getattr(softfloat, name)
    return primitive(name, lambda w, *rest: int(exact(*rest[:-1], w, fpcr=rest[-1])), emit)


def unary(name: str, emit: Callable[..., Any]) -> Unary:
    """The function of a new row with one operand."""
    row = _row(name, emit)
    return lambda a, fpcr: apply(row, a.width, a.lanes, [a], fpcr)


def _binary(name: str, emit: Callable[..., Any]) -> Binary:
    row = _row(name, emit)
    return lambda a, b, fpcr: apply(row, a.width, a.lanes, [a, a.like(b)], fpcr)


def _comparison(name: str, emit: Callable[..., Any], operation: Callable[..., int] | None = None) -> Binary:
    row = _row(name, emit, operation)
    return lambda a, b, fpcr: apply(row, 1, a.lanes, [a, a.like(b)], fpcr)


fadd = _binary("fadd", _arithmetic("fadd"))
"""a + b (FPAdd)."""
fsub = _binary("fsub", _arithmetic("fsub"))
"""a - b (FPSub)."""
fmul = _binary("fmul", _arithmetic("fmul"))
"""a * b (FPMul)."""
fmulx = _binary("fmulx", _arithmetic("fmul", _infinity_by_zero))
"""a * b, where infinity times zero is 2 with the product's sign (FPMulX)."""
fdiv = _binary("fdiv", _arithmetic("fdiv"))
"""a / b (FPDiv)."""
fsqrt = unary("fsqrt", _emit_sqrt)
"""The square root of a (FPSqrt)."""
frecps = _binary("frecps", _step(lambda f: f.bias + 1 << f.fraction, halve=False))
"""2 - a * b, rounded once (FPRecipStepFused)."""
frsqrts = _binary("frsqrts", _step(lambda f: f.bias << f.fraction | f.quiet, halve=True))
"""(3 - a * b) / 2, rounded once (FPRSqrtStepFused)."""
fmax = _binary("fmax", _extreme(">", "and_"))
"""The larger number; a NaN wins, and +0 is above -0 (FPMax)."""
fmin = _binary("fmin", _extreme("<", "or_"))
"""The smaller number; a NaN wins, and -0 is below +0 (FPMin)."""
fmaxnm = _binary("fmaxnm", _extreme(">", "and_", _number_wins))
"""The larger number; a number wins against a quiet NaN (FPMaxNum)."""
fminnm = _binary("fminnm", _extreme("<", "or_", _number_wins))
"""The smaller number; a number wins against a quiet NaN (FPMinNum)."""
fcmpeq = _comparison("fcmpeq", _test("=="))
"""a == b, one bit (FPCompareEQ)."""
fcmpge = _comparison("fcmpge", _test(">="))
"""a >= b, one bit (FPCompareGE)."""
fcmpgt = _comparison("fcmpgt", _test(">"))
"""a > b, one bit (FPCompareGT)."""
funordered = _comparison("funordered", _emit_unordered, _unordered_fold)
"""Whether a or b is a NaN, one bit."""

_FMULADD = _row("fmuladd", _emit_muladd)
_FRINT = _row("frint", _emit_frint, lambda a, rounding, w, fpcr: softfloat.frint(a, w, rounding, fpcr=fpcr))


def fmuladd(addend: Bits, a: Bits, b: Bits, fpcr: int) -> Bits:
    """`addend` + a * b, rounded once; the addend comes first among NaNs (FPMulAdd)."""
    return apply(_FMULADD, a.width, a.lanes, [a.like(addend), a, a.like(b)], fpcr)


def frint(a: Bits, rounding: Rounding, fpcr: int) -> Bits:
    """a rounded to an integral number (FPRoundInt)."""
    return apply(_FRINT, a.width, a.lanes, [a], rounding, fpcr)


def fabs(a: Bits) -> Bits:
    """|a|, also of a NaN (FPAbs)."""
    return a & FORMATS[a.width].magnitude


def fneg(a: Bits) -> Bits:
    """-a, also of a NaN (FPNeg)."""
    return a ^ FORMATS[a.width].sign
