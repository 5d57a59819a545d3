"""The one value class of the project.

A `Bits` is `lanes` unsigned integers of `width` bits each. Its payload is a Python int (a tuple of ints when
`lanes` > 1) that *folds*, or a `Node` that belongs to a `Stage` and *emits*: LLVM code, an operand that
predecoding computes, or a note taken by the probe. Every operation is one `Primitive`, a row with `fold` and
`emit`, total over its domain: a shift by more than the width and a division by zero have the Arm manual's
result in both columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Payload: TypeAlias = "int | tuple[int, ...] | Node"
Lift: TypeAlias = "Bits | int"


class StagingError(TypeError):
    """A definition used a value in a way that has no meaning on every engine."""


class Stage(Protocol):
    """Whatever gives meaning to operations on unknown values; the higher `level` wins when two meet."""

    level: int

    def apply(
        self, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> Node:
        """Node for `row`, of `lanes` x `width`; arguments of lower stages are lifted here."""
        ...


class Node:
    """An unknown value: anything that knows its stage."""

    __slots__ = ("stage",)
    stage: Stage


@dataclass(frozen=True, slots=True)
class Primitive:
    """One operation.

    `fold(w, *ints, *attrs)` computes one lane, `w` the width of the first argument; the result is cut to the
    result width. With `whole=True` it gets and gives tuples of lanes instead. `emit(e, type, *values,
    *attrs)` writes the same with the emitter `e` of an engine.
    """

    name: str
    fold: Callable[..., Any]
    emit: Callable[..., Any]
    whole: bool = False


primitives: dict[str, Primitive] = {}


def primitive(
    name: str, fold: Callable[..., Any], emit: Callable[..., Any], whole: bool = False
) -> Primitive:
    """Register a row; the name is unique."""
    if name in primitives:
        raise StagingError(f"primitive {name} is defined twice")
    primitives[name] = row = Primitive(name, fold, emit, whole)
    return row


def apply(row: Primitive, width: int, lanes: int, args: Sequence[Bits], *attrs: Any) -> Bits:
    """Result of `row`, of `lanes` x `width` bits: folded if every argument is known, else emitted."""
    stage: Stage | None = None
    for a in args:
        p = a.payload
        if isinstance(p, Node) and (stage is None or p.stage.level > stage.level):
            stage = p.stage
    if stage is not None:
        return Bits(width, stage.apply(row, width, lanes, args, attrs), lanes)
    mask = (1 << width) - 1
    if row.whole:
        out = row.fold(args[0].width, *[a.values for a in args], *attrs)
        cut = tuple(v & mask for v in out)
        return Bits(width, cut[0] if lanes == 1 else cut, lanes)
    w = args[0].width
    if lanes == 1:
        return Bits(width, row.fold(w, *[a.payload for a in args], *attrs) & mask)
    columns = zip(*[a.values for a in args], strict=True)
    return Bits(width, tuple(row.fold(w, *c, *attrs) & mask for c in columns), lanes)


class Bits:
    """`lanes` unsigned integers of `width` bits. Arithmetic wraps; comparisons give `Bits` of width 1."""

    __slots__ = ("lanes", "payload", "width")

    def __init__(self, width: int, payload: Payload, lanes: int = 1) -> None:
        self.width = width
        self.payload = payload
        self.lanes = lanes

    # -- looking inside -------------------------------------------------------------------------------------
    @property
    def known(self) -> bool:
        """Whether the payload is a Python int (or ints)."""
        return not isinstance(self.payload, Node)

    @property
    def values(self) -> tuple[int, ...]:
        """The lanes as ints, lane 0 first; an unknown value is a StagingError."""
        p = self.payload
        if isinstance(p, int):
            return (p,)
        if isinstance(p, tuple):
            return p
        raise StagingError("an unknown value is used where a known one is needed")

    def __int__(self) -> int:
        if not isinstance(self.payload, int):
            raise StagingError("int() of an unknown or many-laned value")
        return self.payload

    __index__ = __int__

    def __bool__(self) -> bool:
        raise StagingError(
            "Python's `if`, `and`, `or`, `not` on a value: use cond(), &, |, ~ or a Static field"
        )

    def __eq__(self, other: object) -> bool:
        raise StagingError("`==` on a value: use .eq()")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shape = f"{self.lanes}x{self.width}" if self.lanes > 1 else str(self.width)
        return f"Bits[{shape}]({self.payload!r})"

    # -- helpers ---------------------------------------------------------------------------------------------
    def like(self, other: Lift) -> Bits:
        """`other` as a value of this shape; ints are cut to the width and repeated over the lanes."""
        if isinstance(other, Bits):
            if other.width != self.width or other.lanes != self.lanes:
                raise StagingError(
                    f"width mismatch: {self.lanes}x{self.width} with {other.lanes}x{other.width} bits"
                )
            return other
        v = other & ((1 << self.width) - 1)
        return Bits(self.width, v if self.lanes == 1 else (v,) * self.lanes, self.lanes)

    def _same(self, name: str, *others: Lift) -> Bits:
        return apply(primitives[name], self.width, self.lanes, [self, *map(self.like, others)])

    def _test(self, name: str, other: Lift) -> Bits:
        return apply(primitives[name], 1, self.lanes, [self, self.like(other)])

    def _same_r(self, name: str, other: int) -> Bits:
        return self.like(other)._same(name, self)

    # -- arithmetic and logic --------------------------------------------------------------------------------
    def __add__(self, o: Lift) -> Bits:
        return self._same("add", o)

    __radd__ = __add__

    def __sub__(self, o: Lift) -> Bits:
        return self._same("sub", o)

    def __rsub__(self, o: int) -> Bits:
        return self._same_r("sub", o)

    def __mul__(self, o: Lift) -> Bits:
        return self._same("mul", o)

    __rmul__ = __mul__

    def __and__(self, o: Lift) -> Bits:
        return self._same("and", o)

    __rand__ = __and__

    def __or__(self, o: Lift) -> Bits:
        return self._same("or", o)

    __ror__ = __or__

    def __xor__(self, o: Lift) -> Bits:
        return self._same("xor", o)

    __rxor__ = __xor__

    def __invert__(self) -> Bits:
        return self._same("xor", -1)

    def __neg__(self) -> Bits:
        return self.like(0)._same("sub", self)

    def lsl(self, n: Lift) -> Bits:
        """Logical shift left; zero when n >= width."""
        return self._same("lsl", n)

    def lsr(self, n: Lift) -> Bits:
        """Logical shift right; zero when n >= width."""
        return self._same("lsr", n)

    def asr(self, n: Lift) -> Bits:
        """Arithmetic shift right; all sign when n >= width."""
        return self._same("asr", n)

    def ror(self, n: Lift) -> Bits:
        """Rotate right by n modulo the width (a power of two)."""
        return self._same("ror", n)

    def udiv(self, o: Lift) -> Bits:
        """Unsigned division; x / 0 is 0, as the manual's."""
        return self._same("udiv", o)

    def sdiv(self, o: Lift) -> Bits:
        """Signed division towards zero; x / 0 is 0 and INT_MIN / -1 is INT_MIN, as the manual's."""
        return self._same("sdiv", o)

    def umulh(self, o: Lift) -> Bits:
        """Upper half of the unsigned product."""
        return self._same("umulh", o)

    def smulh(self, o: Lift) -> Bits:
        """Upper half of the signed product."""
        return self._same("smulh", o)

    def umin(self, o: Lift) -> Bits:
        """Unsigned minimum."""
        return self._same("umin", o)

    def umax(self, o: Lift) -> Bits:
        """Unsigned maximum."""
        return self._same("umax", o)

    def smin(self, o: Lift) -> Bits:
        """Signed minimum."""
        return self._same("smin", o)

    def smax(self, o: Lift) -> Bits:
        """Signed maximum."""
        return self._same("smax", o)

    def clz(self) -> Bits:
        """Leading zeros; the width for zero."""
        return self._same("clz")

    def popcount(self) -> Bits:
        """Number of one bits."""
        return self._same("popcount")

    def bit_reverse(self) -> Bits:
        """Bits in the opposite order."""
        return self._same("bitreverse")

    def byte_reverse(self) -> Bits:
        """Bytes in the opposite order."""
        return self._same("byteswap") if self.width > 8 else self

    # -- comparisons -----------------------------------------------------------------------------------------
    def eq(self, o: Lift) -> Bits:
        """1 where equal."""
        return self._test("eq", o)

    def ne(self, o: Lift) -> Bits:
        """1 where different."""
        return ~self._test("eq", o)

    def ult(self, o: Lift) -> Bits:
        """Unsigned less than."""
        return self._test("ult", o)

    def ule(self, o: Lift) -> Bits:
        """Unsigned less or equal."""
        return self._test("ule", o)

    def uge(self, o: Lift) -> Bits:
        """Unsigned greater or equal."""
        return self.like(o)._test("ule", self)

    def ugt(self, o: Lift) -> Bits:
        """Unsigned greater than."""
        return self.like(o)._test("ult", self)

    def slt(self, o: Lift) -> Bits:
        """Signed less than."""
        return self._test("slt", o)

    def sle(self, o: Lift) -> Bits:
        """Signed less or equal."""
        return self._test("sle", o)

    def sge(self, o: Lift) -> Bits:
        """Signed greater or equal."""
        return self.like(o)._test("sle", self)

    def sgt(self, o: Lift) -> Bits:
        """Signed greater than."""
        return self.like(o)._test("slt", self)

    # -- widths ----------------------------------------------------------------------------------------------
    def zext(self, width: int) -> Bits:
        """Zero extension (or no change)."""
        return self._resize("zext", width)

    def sext(self, width: int) -> Bits:
        """Sign extension (or no change)."""
        return self._resize("sext", width)

    def trunc(self, width: int) -> Bits:
        """The low `width` bits of each lane."""
        if width > self.width:
            raise StagingError(f"trunc from {self.width} to {width} bits")
        return self if width == self.width else apply(primitives["trunc"], width, self.lanes, [self])

    def _resize(self, name: str, width: int) -> Bits:
        if width < self.width:
            raise StagingError(f"{name} from {self.width} to {width} bits")
        return self if width == self.width else apply(primitives[name], width, self.lanes, [self])

    def __getitem__(self, index: int | slice) -> Bits:
        """`x[31]` is one bit, `x[63:32]` the bits from 63 down to 32, as the manual's <63:32>."""
        hi, lo = (index, index) if isinstance(index, int) else (index.start, index.stop)
        if not 0 <= lo <= hi < self.width:
            raise StagingError(f"bits <{hi}:{lo}> of {self.width}")
        return (self.lsr(lo) if lo else self).trunc(hi - lo + 1)

    @property
    def sign(self) -> Bits:
        """The top bit of each lane."""
        return self[self.width - 1]

    # -- lanes -----------------------------------------------------------------------------------------------
    def split(self, width: int) -> Bits:
        """The same bits as lanes of `width` bits, lowest first (the manual's Elem[])."""
        total = self.width * self.lanes
        if total % width:
            raise StagingError(f"{total} bits do not split into lanes of {width}")
        return (
            self
            if width == self.width
            else apply(primitives["reshape"], width, total // width, [self], width, total // width)
        )

    @property
    def whole(self) -> Bits:
        """All lanes as one scalar, lane 0 lowest."""
        return self.split(self.width * self.lanes)

    def lane(self, index: Lift) -> Bits:
        """One lane; an unknown index is taken modulo the number of lanes (a power of two)."""
        if isinstance(index, Bits):
            if index.known:
                index = int(index) % self.lanes
            else:
                return apply(primitives["lane_at"], self.width, 1, [self, index])
        if not 0 <= index < self.lanes:
            raise StagingError(f"lane {index} of {self.lanes}")
        return self if self.lanes == 1 else apply(primitives["lane"], self.width, 1, [self], index)

    def with_lane(self, index: Lift, value: Bits) -> Bits:
        """This value with one lane replaced; an unknown index is taken modulo the number of lanes."""
        if self.lanes == 1:
            return value
        if isinstance(index, Bits):
            if not index.known:
                return apply(primitives["with_lane_at"], self.width, self.lanes, [self, index, value])
            index = int(index) % self.lanes
        return apply(primitives["with_lane"], self.width, self.lanes, [self, value], index)

    def splat(self, lanes: int) -> Bits:
        """A scalar repeated."""
        return self if lanes == 1 else apply(primitives["splat"], self.width, lanes, [self], lanes)

    def shuffle(self, indices: Sequence[int], other: Bits | None = None) -> Bits:
        """Lanes picked by known indices from this value followed by `other`."""
        both = [self, self if other is None else self.like(other)]
        return apply(primitives["shuffle"], self.width, len(indices), both, tuple(indices))

    def list(self) -> list[Bits]:
        """The lanes as scalars."""
        return [self.lane(i) for i in range(self.lanes)]


def bits(width: int, value: int) -> Bits:
    """A known scalar of `width` bits; the value is cut to the width."""
    return Bits(width, value & ((1 << width) - 1))


def cond(test: Bits, then: Bits, other: Lift) -> Bits:
    """`then` where `test` (width 1) is 1, else `other`; lane by lane, or one test for all lanes."""
    other = then.like(other)
    if test.width != 1:
        raise StagingError(f"cond on {test.width} bits")
    if test.lanes == 1 and isinstance(test.payload, int):
        return then if test.payload else other
    if test.lanes != then.lanes:
        test = test.splat(then.lanes)
    return apply(primitives["select"], then.width, then.lanes, [test, then, other])


def concat(*parts: Bits) -> Bits:
    """Scalars joined, the first one highest (the manual's a:b:c)."""
    width = sum(p.width for p in parts)
    out, at = bits(width, 0), width
    for p in parts:
        at -= p.width
        out = out | p.zext(width).lsl(at)
    return out


def from_lanes(parts: Sequence[Bits]) -> Bits:
    """Scalars of one width as lanes, the first one lowest."""
    out = Bits(parts[0].width, (0,) * len(parts) if len(parts) > 1 else 0, len(parts))
    for i, p in enumerate(parts):
        out = out.with_lane(i, p)
    return out
