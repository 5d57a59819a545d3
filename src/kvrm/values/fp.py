"""Floating-point rows: arithmetic, comparison and rounding on bit patterns.

`fold` is `kvrm.values.softfloat`, which knows all of FPCR. `emit` is host arithmetic for FPCR = 0, the only
value that compiled code meets: results that are numbers agree with Arm's, and where a lane is a NaN a rarely
taken branch replaces it by Arm's NaN (the first signalling operand made quiet, else the first quiet one,
else the default NaN). Lanes have 16, 32 or 64 bits. `fpcr` is a Python int; if it is a `Control`, `fold`
adds exceptions to its flags. Emitted code knows no exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvrm.values import softfloat, softfloat_convert
from kvrm.values.bits import Bits, Primitive, apply, primitive
from kvrm.values.fp_half import narrow, widen
from kvrm.values.softfloat_core import FORMATS, Control, Flags, Format, Rounding, flags_of

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


# -- numbers ---------------------------------------------------------------------------------------


def format_of(e: Any, x: Any) -> Format:
    """The format whose width the lanes of `x` have."""
    return FORMATS[e.width(x)]


def number(e: Any, x: Any, half_as: int = 32) -> Any:
    """The bits `x` as numbers that the host computes with; halves as numbers of `half_as` bits."""
    if e.width(x) > 16:
        return e.real(x)
    return e.real(widen(e, e.resized(x.type, half_as), x))


def _rounded(e: Any, t: Any, value: Any) -> Any:
    """The bits of the numbers `value`, rounded to the format of `t`; their NaNs may become anything."""
    bits = e.bits(value)
    return bits if bits.type == t else narrow(e, t, bits)


def _mended(e: Any, t: Any, bad: Any, value: Any, nan: Callable[[], Any]) -> Any:
    """The bits `value`, of type `t`, with those that `nan` emits where `bad`; numbers are kept as such."""
    as_kept = e.real if e.width_of(t) > 16 else lambda x: x
    good = as_kept(value)
    return e.bitcast(e.rare(e.any(bad), lambda: e.select(bad, as_kept(nan()), good), good), t)


# -- NaNs ------------------------------------------------------------------------------------------


def unordered(e: Any, a: Any, b: Any) -> Any:
    """Per lane, whether one of two values (as numbers) is a NaN."""
    return e.fcmp_unordered("uno", a, b)


def quieten(e: Any, f: Format, x: Any) -> Any:
    """The NaN `x` as a quiet one."""
    return e.or_(x, e.const(x.type, f.quiet))


def _magnitude(e: Any, f: Format, x: Any) -> Any:
    return e.and_(x, e.const(x.type, f.magnitude))


def _is_nan(e: Any, f: Format, x: Any) -> Any:
    if f.width == 16:
        return e.icmp_unsigned(">", _magnitude(e, f, x), e.const(x.type, f.infinity))
    return unordered(e, e.real(x), e.real(x))


def _is_signalling(e: Any, f: Format, x: Any) -> Any:
    above = e.sub(_magnitude(e, f, x), e.const(x.type, f.infinity + 1))
    return e.icmp_unsigned("<", above, e.const(x.type, f.quiet - 1))


def _propagate(e: Any, f: Format, operands: Sequence[Any], otherwise: Any) -> Any:
    """FPProcessNaNs(), or `otherwise` where no operand is a NaN."""
    out = otherwise
    for x in reversed(operands):
        out = e.select(_is_nan(e, f, x), x, out)
    for x in reversed(operands):
        out = e.select(_is_signalling(e, f, x), quieten(e, f, x), out)
    return out


def _process(e: Any, f: Format, *operands: Any) -> Any:
    return _propagate(e, f, operands, e.const(operands[0].type, f.default_nan))


def _apart(e: Any, x: Any) -> Any:
    return e.apart(x) if e.width(x) > 16 else x


def checked(e: Any, t: Any, result: Any, chosen: Chosen, *operands: Any) -> Any:
    """The bits of the numbers `result`, rounded to the format of `t`; `chosen` gives those of NaN lanes."""

    def nan() -> Any:
        return chosen(e, FORMATS[e.width_of(t)], *[_apart(e, x) for x in operands])

    return _mended(e, t, unordered(e, result, result), _rounded(e, t, result), nan)


# -- arithmetic ------------------------------------------------------------------------------------


def _arithmetic(op: str, chosen: Chosen = _process) -> Callable[..., Any]:
    def emit(e: Any, t: Any, a: Any, b: Any, fpcr: int) -> Any:
        return checked(e, t, getattr(e, op)(number(e, a), number(e, b)), chosen, a, b)

    return emit


def _infinity_by_zero(e: Any, f: Format, a: Any, b: Any) -> Any:
    sign = e.and_(e.xor(a, b), e.const(a.type, f.sign))
    return _propagate(e, f, (a, b), e.or_(sign, e.const(a.type, f.bias + 1 << f.fraction)))


def _emit_sqrt(e: Any, t: Any, a: Any, fpcr: int) -> Any:
    x = number(e, a)
    return checked(e, t, e.intrinsic("sqrt", x.type, x), _process, a)


def _fused(e: Any, x: Any, y: Any, z: Any, half: bool) -> Any:
    """x * y + z, rounded once; of halves, which come as doubles, the product is exact."""
    return e.fadd(e.fmul(x, y), z) if half else e.intrinsic("fma", x.type, x, y, z)


def _emit_muladd(e: Any, t: Any, c: Any, a: Any, b: Any, fpcr: int) -> Any:
    x, y, z = (number(e, v, half_as=64) for v in (a, b, c))
    return checked(e, t, _fused(e, x, y, z, e.width_of(t) == 16), _muladd_nan, c, a, b)


def _muladd_nan(e: Any, f: Format, c: Any, a: Any, b: Any) -> Any:
    """Infinity times zero is invalid even where the addend is a quiet NaN."""
    x, y = number(e, a), number(e, b)
    product = e.fmul(x, y)
    undefined = e.and_(unordered(e, product, product), e.fcmp_ordered("ord", x, y))
    invalid = e.and_(undefined, e.not_(_is_signalling(e, f, c)))
    return e.select(invalid, e.const(c.type, f.default_nan), _process(e, f, c, a, b))


def _step(base: Callable[[Format], int], halve: bool) -> Callable[..., Any]:
    """(base - a * b), all of it halved if `halve`; infinity times zero counts as zero."""

    def emit(e: Any, t: Any, a: Any, b: Any, fpcr: int) -> Any:
        f = format_of(e, a)
        minus_a, start = e.xor(a, e.const(t, f.sign)), e.const(t, base(f))
        x, y, z = (number(e, v, half_as=64) for v in (minus_a, b, start))
        if halve:
            x, y = _one_halved(e, x, y)
        result = _fused(e, x, y, z, f.width == 16)
        return checked(e, t, result, lambda e, f, a, b: _propagate(e, f, (a, b), start), minus_a, b)

    return emit


def _one_halved(e: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Two factors of half the product; halving the larger is exact where the product counts."""
    a, b = e.bits(x), e.bits(y)
    f = format_of(e, a)
    larger = e.icmp_unsigned(">=", _magnitude(e, f, a), _magnitude(e, f, b))
    big, small = e.select(larger, a, b), e.select(larger, b, a)
    half = e.const(a.type, f.bias - 1 << f.fraction)
    return e.fmul(e.real(big), e.real(half)), e.real(small)


# -- minimum and maximum ---------------------------------------------------------------------------


def _extreme(op: str, zeros: str, chosen: Chosen = _process) -> Callable[..., Any]:
    """The operand that `op` holds for; `zeros` combines equal ones, of which only zeros differ."""

    def emit(e: Any, t: Any, a: Any, b: Any, fpcr: int) -> Any:
        x, y = number(e, a), number(e, b)
        out = e.select(e.fcmp_ordered(op, x, y), a, b)
        out = e.select(e.fcmp_ordered("==", x, y), getattr(e, zeros)(a, b), out)
        return _mended(
            e, t, unordered(e, x, y), out, lambda: chosen(e, format_of(e, a), _apart(e, a), _apart(e, b))
        )

    return emit


def _number_wins(e: Any, f: Format, a: Any, b: Any) -> Any:
    """The other operand where just one is a NaN and quiet."""
    signalling = e.or_(_is_signalling(e, f, a), _is_signalling(e, f, b))
    other = e.select(_is_nan(e, f, a), b, a)
    none = e.and_(_is_nan(e, f, a), _is_nan(e, f, b))
    return e.select(e.or_(signalling, none), _process(e, f, a, b), other)


# -- comparison and rounding -----------------------------------------------------------------------


def _test(op: str) -> Callable[..., Any]:
    return lambda e, t, a, b, *_: e.fcmp_ordered(op, number(e, a), number(e, b))


def _emit_unordered(e: Any, t: Any, a: Any, b: Any, fpcr: int) -> Any:
    return unordered(e, number(e, a), number(e, b))


def _unordered_fold(a: int, b: int, w: int, fpcr: int, flags: Flags) -> int:
    return softfloat.fcmp(a, b, w, False, fpcr, flags) & 1


def _less_fold(a: int, b: int, signal_all: bool, w: int, fpcr: int, flags: Flags) -> int:
    return softfloat.fcmp(a, b, w, signal_all, fpcr, flags) >> 3


def _emit_frint(e: Any, t: Any, a: Any, rounding: Rounding, exact: bool, fpcr: int) -> Any:
    x = number(e, a)
    return checked(e, t, e.intrinsic(ROUND[rounding], x.type, x), _process, a)


def _frint_fold(a: int, rounding: Rounding, exact: bool, w: int, fpcr: int, flags: Flags) -> int:
    return softfloat_convert.frint(a, w, rounding, exact, fpcr, flags)


def _emit_bounded(e: Any, t: Any, a: Any, rounding: Rounding, n: int, fpcr: int) -> Any:
    """Both limits are powers of two, which any format has; a NaN is not within them."""
    f, x = format_of(e, a), e.real(a)
    rounded = e.intrinsic(ROUND[rounding], x.type, x)
    lowest = e.const(t, f.sign | f.bias + n - 1 << f.fraction)
    limit = e.const(t, f.bias + n - 1 << f.fraction)
    above = e.fcmp_ordered(">=", rounded, e.real(lowest))
    below = e.fcmp_ordered("<", rounded, e.real(limit))
    return e.select(e.and_(above, below), e.bitcast(rounded, t), lowest)


def _bounded_fold(a: int, rounding: Rounding, n: int, w: int, fpcr: int, flags: Flags) -> int:
    return softfloat_convert.frint_bounded(a, w, rounding, n, fpcr, flags)


# -- rows ------------------------------------------------------------------------------------------

Unary = Callable[[Bits, int], Bits]
"""(a, fpcr) -> a value of the same shape."""
Binary = Callable[[Bits, Bits, int], Bits]
"""(a, b, fpcr) -> a value of the same shape, or one bit per lane."""


def _row(name: str, emit: Callable[..., Any], operation: Callable[..., int] | None = None) -> Primitive:
    """The row of `operation(*operands, width, fpcr, flags)`, by default that of its name in `softfloat`."""
    exact: Callable[..., int] = operation or getattr(softfloat, name)
    return primitive(name, lambda w, *rest: int(exact(*rest[:-1], w, rest[-1], flags_of(rest[-1]))), emit)


def unary(name: str, emit: Callable[..., Any], operation: Callable[..., int] | None = None) -> Unary:
    """The function of a new row with one operand."""
    row = _row(name, emit, operation)
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
"""Whether a or b is a NaN, one bit; only a signalling one is invalid."""

_FMULADD = _row("fmuladd", _emit_muladd)
_FCMPLT = _row("fcmplt", _test("<"), _less_fold)
_FRINT = _row("frint", _emit_frint, _frint_fold)
_FRINT_BOUNDED = _row("frint_bounded", _emit_bounded, _bounded_fold)


def fmuladd(addend: Bits, a: Bits, b: Bits, fpcr: int) -> Bits:
    """`addend` + a * b, rounded once; the addend comes first among NaNs (FPMulAdd)."""
    return apply(_FMULADD, a.width, a.lanes, [a.like(addend), a, a.like(b)], fpcr)


def fcmplt(a: Bits, b: Bits, signal_all: bool, fpcr: int) -> Bits:
    """a < b, one bit; quiet NaNs are invalid too if `signal_all` (FPCompare's N)."""
    return apply(_FCMPLT, 1, a.lanes, [a, b], signal_all, fpcr)


def frint(a: Bits, rounding: Rounding, fpcr: int, exact: bool = False) -> Bits:
    """a rounded to an integral number (FPRoundInt); a change is inexact if `exact`."""
    return apply(_FRINT, a.width, a.lanes, [a], rounding, exact, fpcr)


def frint_bounded(a: Bits, rounding: Rounding, n: int, fpcr: int) -> Bits:
    """a rounded to an integer of n bits (32, 64), the most negative one if it is none (FPRoundIntN)."""
    return apply(_FRINT_BOUNDED, a.width, a.lanes, [a], rounding, n, fpcr)


def exceptions_if(holds: Bits, fpcr: int) -> int:
    """`fpcr` for an operation whose exceptions count only if `holds`, one bit."""
    return int(fpcr) if isinstance(fpcr, Control) and not int(holds) else fpcr


def fabs(a: Bits) -> Bits:
    """|a|, also of a NaN (FPAbs)."""
    return a & FORMATS[a.width].magnitude


def fneg(a: Bits) -> Bits:
    """-a, also of a NaN (FPNeg)."""
    return a ^ FORMATS[a.width].sign
