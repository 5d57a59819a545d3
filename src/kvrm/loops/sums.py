"""Values as sums: what a piece of code computes from the registers and memory that it began with.

A `Sum` is a constant plus atoms times coefficients, modulo 2^width. Atoms are registers, loads, bits of them,
extensions of sums, and results of primitives that are not linear. Equal sums are one object, so equality of
what two pieces of code compute is shown by identity; different objects may still be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kvrm.values import Bits, Node, Primitive, bits

Terms = tuple[tuple["Atom", int], ...]


class Atom:
    """Something of `width` bits that is no sum: a `kind`, what it is made of, and other particulars.

    Kinds: "x" and "v" (a register), "flag", "load" (the n-th access), "slice" (bits of another atom, from
    `detail` on), "top" (the highest bits of a `Sum`), "zext" and "sext" (of a `Sum`), "zero" (whether a `Sum`
    is), and names of primitives.
    """

    __slots__ = ("args", "detail", "kind", "number", "width")

    def __init__(self, number: int, kind: str, width: int, args: tuple[Any, ...], detail: Any) -> None:
        self.number, self.kind, self.width, self.args, self.detail = number, kind, width, args, detail

    def __repr__(self) -> str:
        inside = ", ".join(map(repr, self.args))
        return f"{self.kind}{'' if self.detail is None else self.detail}" + (f"({inside})" if inside else "")


class Sum(Node):
    """`const` plus each atom times its coefficient, modulo 2^`width`; terms are ordered by atom."""

    __slots__ = ("const", "terms", "width")
    stage: Sums

    def __init__(self, stage: Sums, width: int, const: int, terms: Terms) -> None:
        self.stage, self.width, self.const, self.terms = stage, width, const, terms

    @property
    def atom(self) -> Atom | None:
        """The atom that this is, if it is one alone."""
        if self.const or len(self.terms) != 1 or self.terms[0][1] != 1:
            return None
        return self.terms[0][0]

    def __repr__(self) -> str:
        return " + ".join([*(f"{c:#x}*{a!r}" for a, c in self.terms), f"{self.const:#x}"])


Value = Sum | int
"""A sum, or a number that is known."""


class Sums:
    """The stage whose values are sums."""

    level = 2

    def __init__(self) -> None:
        self._atoms: dict[Any, Atom] = {}
        self._sums: dict[Any, Sum] = {}

    # -- making ----------------------------------------------------------------------------------------------
    def new(self, kind: str, width: int, args: tuple[Any, ...] = (), detail: Any = None) -> Atom:
        """The atom of these particulars."""
        key = (kind, width, detail, *((a,) if isinstance(a, int | tuple) else id(a) for a in args))
        if key not in self._atoms:
            self._atoms[key] = Atom(len(self._atoms), kind, width, args, detail)
        return self._atoms[key]

    def total(self, width: int, const: int, terms: Iterable[tuple[Atom, int]]) -> Value:
        """The sum of these, as an int if nothing is unknown."""
        mask, counts = (1 << width) - 1, dict[Atom, int]()
        for atom, c in terms:
            counts[atom] = counts.get(atom, 0) + c & mask
        left = tuple(sorted(((a, c) for a, c in counts.items() if c), key=lambda t: t[0].number))
        const &= mask
        if not left:
            return const
        key = (width, const, left)
        if key not in self._sums:
            self._sums[key] = Sum(self, width, const, left)
        return self._sums[key]

    def of(self, atom: Atom) -> Value:
        """An atom as a value."""
        return self.total(atom.width, 0, [(atom, 1)])

    def bits(self, width: int, value: Value) -> Bits:
        """For definitions: the value with its width."""
        return bits(width, value) if isinstance(value, int) else Bits(width, value)

    # -- the stage -------------------------------------------------------------------------------------------
    def apply(
        self, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> Any:
        """What a primitive gives: linear ones are sums, others an atom."""
        if lanes == 1 and all(a.lanes == 1 for a in args) and row.name in _RULES:
            values = [_value(a) for a in args]
            found = _RULES[row.name](self, width, args[0].width, *values)
            if found is not None:
                return found
        packed = tuple(a.payload for a in args)
        return self.of(self.new(row.name, width * lanes, packed, (width, lanes, attrs)))

    def add(self, width: int, a: Value, b: Value, times: int = 1) -> Value:
        """a + times * b."""
        return self.total(width, _const(a) + times * _const(b), [*_terms(a), *_terms(b, times)])

    def scaled(self, width: int, a: Value, times: int) -> Value:
        """times * a."""
        return self.total(width, times * _const(a), _terms(a, times))

    def trunc(self, width: int, a: Value) -> Value:
        """The low bits of a sum are the sum of low bits."""
        if isinstance(a, int):
            return a & (1 << width) - 1
        out: Value = a.const & (1 << width) - 1
        for atom, c in a.terms:
            if c & (1 << width) - 1:
                out = self.add(width, out, self.slice(atom, 0, width), c)
        return out

    def slice(self, atom: Atom, low: int, width: int) -> Value:
        """`width` bits of an atom from bit `low` on, zeros above it."""
        inner: Any = atom.args[0] if atom.args else None
        if low >= atom.width:
            return 0
        if low + width > atom.width:
            return self.extend("zext", width, atom.width - low, self.slice(atom, low, atom.width - low))
        if width == atom.width:
            return self.of(atom)
        if atom.kind == "slice":
            return self.slice(atom.args[0], atom.detail + low, width)
        if atom.kind in ("zext", "sext") and low + width <= inner.width:
            if low == 0:
                return self.trunc(width, inner)
            if isinstance(inner, Sum) and inner.atom is not None:
                return self.slice(inner.atom, low, width)
        if atom.kind == "zext" and low == 0:
            return self.extend("zext", width, inner.width, inner)
        if atom.kind == "lsr" and isinstance(inner, Sum) and isinstance(atom.args[1], int):
            return self._top(inner, atom.args[1] + low, width)
        return self.of(self.new("slice", width, (atom,), low))

    def _top(self, a: Sum, low: int, width: int) -> Value:
        """`width` bits of a sum from bit `low` on: no higher ones matter."""
        if low + width > a.width:
            return self.extend("zext", width, a.width - low, self._top(a, low, a.width - low))
        whole = self.trunc(low + width, a)
        if isinstance(whole, int):
            return whole >> low
        if whole.atom is not None:
            return self.slice(whole.atom, low, width)
        return self.of(self.new("top", width, (whole,)))

    def extend(self, kind: str, width: int, narrow: int, a: Value) -> Value:
        """A value of `narrow` bits as one of `width`."""
        if width == narrow:
            return a
        if isinstance(a, int):
            sign = a >> narrow - 1 if kind == "sext" else 0
            return a | (-1 << narrow) & (1 << width) - 1 if sign else a
        atom = a.atom
        if atom is not None and atom.kind == "zext":
            a, kind = atom.args[0], "zext"
        return self.of(self.new(kind, width, (a,)))


def _value(b: Bits) -> Value:
    p = b.payload
    assert isinstance(p, Sum | int)
    return p


def _const(a: Value) -> int:
    return a if isinstance(a, int) else a.const


def _terms(a: Value, times: int = 1) -> list[tuple[Atom, int]]:
    return [] if isinstance(a, int) else [(atom, times * c) for atom, c in a.terms]


def possible(a: Value) -> int:
    """The bits of a value that can be set."""
    if isinstance(a, int):
        return a
    mask = a.const
    for atom, c in a.terms:
        inside = atom.args[0].width if atom.kind == "zext" else atom.width
        here = ((1 << inside) - 1) * c
        if c & c - 1 or mask & here or here >> a.width:
            return (1 << a.width) - 1
        mask |= here
    return mask


def _add(s: Sums, width: int, w: int, a: Value, b: Value) -> Value:
    return s.add(width, a, b)


def _sub(s: Sums, width: int, w: int, a: Value, b: Value) -> Value:
    return s.add(width, a, b, -1)


def _mul(s: Sums, width: int, w: int, a: Value, b: Value) -> Value | None:
    if isinstance(a, int):
        return s.scaled(width, b, a)
    return s.scaled(width, a, b) if isinstance(b, int) else None


def _lsl(s: Sums, width: int, w: int, a: Value, n: Value) -> Value | None:
    return s.scaled(width, a, 1 << n) if isinstance(n, int) else None


def _lsr(s: Sums, width: int, w: int, a: Value, n: Value) -> Value | None:
    if not isinstance(n, int) or isinstance(a, int) or a.atom is None:
        return None
    return s.slice(a.atom, n, width)


def _and(s: Sums, width: int, w: int, a: Value, b: Value) -> Value | None:
    """With ones below, the low bits are kept; with ones above, they are taken away."""
    if isinstance(a, int):
        a, b = b, a
    if a is b or not possible(a) & possible(b):
        return a if a is b else 0
    if not isinstance(b, int):
        return None
    if not b & b + 1:
        n = b.bit_length()
        return s.extend("zext", width, n, s.trunc(n, a))
    rest = ~b & (1 << width) - 1
    if not rest & rest + 1:
        n = rest.bit_length()
        return s.add(width, a, s.extend("zext", width, n, s.trunc(n, a)), -1)
    return None


def _or(s: Sums, width: int, w: int, a: Value, b: Value) -> Value | None:
    if a is b:
        return a
    return s.add(width, a, b) if not possible(a) & possible(b) else None


def _xor(s: Sums, width: int, w: int, a: Value, b: Value) -> Value | None:
    if a is b:
        return 0
    full = (1 << width) - 1
    if full in (a, b):
        return s.add(width, full, b if a == full else a, -1)
    return s.add(width, a, b) if 0 in (a, b) else None


def _eq(s: Sums, width: int, w: int, a: Value, b: Value) -> Value | None:
    """a == b is a - b == 0; of an extension, that the inner bits are."""
    difference = s.add(w, a, b, -1)
    if isinstance(difference, int):
        return int(not difference)
    atom = difference.atom
    while atom is not None and atom.kind in ("zext", "sext"):
        difference = atom.args[0]
        atom = difference.atom
    return s.of(s.new("zero", 1, (difference,)))


def _select(s: Sums, width: int, w: int, test: Value, a: Value, b: Value) -> Value | None:
    return a if a is b else None


_RULES: dict[str, Any] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "lsl": _lsl,
    "lsr": _lsr,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "eq": _eq,
    "select": _select,
    "trunc": lambda s, width, w, a: s.trunc(width, a),
    "zext": lambda s, width, w, a: s.extend("zext", width, w, a),
    "sext": lambda s, width, w, a: s.extend("sext", width, w, a),
}


def atoms_of(values: Iterable[Value]) -> Iterator[Atom]:
    """Every atom that values are made of, each once."""
    seen: set[Atom] = set()
    work = [atom for value in values if isinstance(value, Sum) for atom, _ in value.terms]
    while work:
        atom = work.pop()
        if atom in seen:
            continue
        seen.add(atom)
        yield atom
        for arg in atom.args:
            if isinstance(arg, Sum):
                work += [inner for inner, _ in arg.terms]
            elif isinstance(arg, Atom):
                work.append(arg)
