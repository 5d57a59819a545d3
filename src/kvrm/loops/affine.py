"""Which registers a loop keeps, which go in equal steps, and how sums of them change in each iteration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvrm.lane.words import V_OFFSET
from kvrm.loops.conditions import Interval
from kvrm.loops.iteration import Iteration, Unsuitable
from kvrm.loops.sums import Atom, Sum, Sums, Value, atoms_of


@dataclass(frozen=True, slots=True)
class Progress:
    """A register that advances by `step` an iteration, modulo 2^`width`, zeros above; step has that width."""

    step: Value
    width: int


@dataclass(slots=True)
class Affine:
    """The registers of an iteration, by slot.

    `kept` of general and SIMD registers are those that do not change, as are all that are in none of these.
    `moving` go in equal steps. `others` are written and neither. `guards` collects, as sums are asked about,
    where 32-bit counters must not wrap: they stay affine only within.
    """

    iteration: Iteration
    moving: dict[int, Progress] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)
    other_vectors: set[int] = field(default_factory=set)
    guards: list[tuple[Interval, Value]] = field(default_factory=list)

    @property
    def sums(self) -> Sums:
        return self.iteration.sums

    def kept(self, value: Value) -> bool:
        """Whether a value is made of registers that do not change, and nothing else."""
        return all(self._kept(atom) for atom in atoms_of([value]))

    def _kept(self, atom: Atom) -> bool:
        if atom.kind == "x":
            return atom.detail not in self.moving and atom.detail not in self.others
        if atom.kind == "v":
            return atom.detail not in self.other_vectors
        return atom.kind in ("slice", "zext", "sext")

    def rate(self, value: Value, width: int) -> Value:
        """By how much a sum grows in each iteration, modulo 2^`width`. Raises Unsuitable."""
        if isinstance(value, int):
            return 0
        total: Value = 0
        for atom, times in value.terms:
            total = self.sums.add(width, total, self._rate(atom, width), times)
        return total

    def _rate(self, atom: Atom, width: int) -> Value:
        if self.kept_natively(atom):
            return 0
        if atom.kind == "x" and (moving := self.moving.get(atom.detail)) is not None and moving.width == 64:
            return moving.step
        if atom.kind == "slice" and atom.detail == 0 and atom.args[0].kind == "x":
            moving = self.moving.get(atom.args[0].detail)
            if moving is not None and moving.width >= atom.width == width:
                return self.sums.trunc(width, moving.step)
        if atom.kind in ("zext", "sext"):
            return self._extended(atom, width)
        raise Unsuitable(f"{atom!r} does not go in equal steps")

    def kept_natively(self, atom: Atom) -> bool:
        """Whether an atom is unchanging and of a shape that a `Form` has."""
        inner = atom
        if atom.kind in ("zext", "sext"):
            whole = atom.args[0]
            if not isinstance(whole, Sum) or len(whole.terms) != 1 or whole.terms[0][1] != 1:
                return False
            inner = whole.terms[0][0]
        if inner.kind == "slice" and inner.detail == 0:
            inner = inner.args[0]
        return inner.kind == "x" and self._kept(inner)

    def _extended(self, atom: Atom, width: int) -> Value:
        """An extension goes in the steps of what is inside as long as that does not wrap."""
        inner = atom.args[0]
        step = self.rate(inner, inner.width)
        if not isinstance(step, int):
            raise Unsuitable("a narrow counter with a step in a register")
        if not step:
            return 0
        half = 1 << inner.width - 1
        signed = step - 2 * half if step >= half else step
        start = self.sums.add(inner.width, inner, half) if atom.kind == "sext" else inner
        guard = (Interval(start, 2 * half - 1, inner.width), signed)
        if guard not in self.guards:
            self.guards.append(guard)
        return signed & (1 << width) - 1


def affine_of(iteration: Iteration) -> Affine:
    """Sort the registers of an iteration."""
    s, found = iteration.sums, Affine(iteration)
    written = {
        slot: value for slot, value in iteration.x.items() if value is not s.of(s.new("x", 64, (), slot))
    }
    found.others |= written.keys()
    found.other_vectors |= {
        i for i, value in iteration.v.items() if value is not s.of(s.new("v", 128, (), i))
    }
    for slot, value in written.items():
        own = s.new("x", 64, (), slot)
        if (progress := _progress(found, own, value)) is not None:
            found.moving[slot] = progress
    found.others -= found.moving.keys()
    return found


def _progress(found: Affine, own: Atom, value: Value) -> Progress | None:
    s = found.sums
    width, inner = 64, value
    if isinstance(value, Sum) and value.atom is not None and value.atom.kind == "zext":
        inner = value.atom.args[0]
        width = inner.width if isinstance(inner, Sum) else 64
    step = s.add(width, inner, s.slice(own, 0, width), -1)
    if isinstance(step, int) or all(found.kept_natively(atom) for atom, _ in step.terms):
        return Progress(step, width) if width in (32, 64) else None
    return None


@dataclass(frozen=True, slots=True)
class Term:
    """`times` * ((word at `offset` of the state + `plus`) & `mask`), its bit `sign` extended (0: none)."""

    offset: int
    plus: int
    mask: int
    sign: int
    times: int


@dataclass(frozen=True, slots=True)
class Form:
    """A sum as native code computes it from the state, modulo 2^64."""

    const: int
    terms: tuple[Term, ...]


def form_of(value: Value) -> Form:
    """The form of a sum; bits above its width are not right. Raises Unsuitable."""
    if isinstance(value, int):
        return Form(value, ())
    return Form(value.const, tuple(_term(atom, times) for atom, times in value.terms))


def _term(atom: Atom, times: int) -> Term:
    plus, mask, sign, inner = 0, (1 << 64) - 1, 0, atom
    if atom.kind in ("zext", "sext"):
        whole = atom.args[0]
        mask = (1 << whole.width) - 1
        sign = 1 << whole.width - 1 if atom.kind == "sext" else 0
        if not isinstance(whole, Sum) or len(whole.terms) != 1 or whole.terms[0][1] != 1:
            raise Unsuitable("an extended sum of several registers")
        plus, inner = whole.const, whole.terms[0][0]
    if inner.kind == "slice" and inner.detail == 0:
        inner = inner.args[0]
    if inner.kind != "x":
        raise Unsuitable(f"{atom!r} in a sum")
    return Term(8 * inner.detail, plus, mask, sign, times)


def vector_offset(number: int) -> int:
    """Where a SIMD register is in the state."""
    return V_OFFSET + 16 * number


def bases_of(values: Iterable[Value]) -> set[tuple[str, int]]:
    """The registers, flags and loads that values are made of, as (kind, number)."""
    return {(a.kind, a.detail) for a in atoms_of(values) if a.kind in ("x", "v", "flag", "load")}
