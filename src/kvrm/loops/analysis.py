"""The loop analyser: what a loop does, exactly, or why that is not understood.

A loop is accepted if the state at its head after any number of iterations is a closed form, or the result of
one bulk operation on memory, of the state that it was entered with. Registers that an iteration writes before
anything reads them need no form: the last one is left to plain execution, which makes
them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kvrm.isa.features import CORTEX_A76
from kvrm.loops.access_streams import Place, Stream, streams_of
from kvrm.loops.affine import affine_of, bases_of, form_of, vector_offset
from kvrm.loops.conditions import Comparison, Interval, comparison_of, flipped, interval_of
from kvrm.loops.effects import Copy, Fold, Piece, Search, copy_of, folds_of, pieces_of, search_of
from kvrm.loops.iteration import Iteration, Unsuitable, iteration_of
from kvrm.loops.structure import Bound, Effect, Structure
from kvrm.loops.sums import Value


@dataclass(frozen=True, slots=True)
class Fill:
    """A store of values that do not change."""

    place: Place
    size: int
    pieces: tuple[Piece, ...]


@dataclass(slots=True)
class Loop:
    """A loop that is understood.

    `exit` is an interval and how its distance changes, None for searches; `guards` are intervals that all
    iterations must stay in, with their steps; `moving` has (slot, width, step) of registers. `fills`, `copy`,
    `folds` and `search` are the effect.
    """

    structure: Structure
    words: tuple[int, ...]
    exit: tuple[Interval, Value] | None
    guards: list[tuple[Interval, Value]]
    moving: list[tuple[int, int, Value]]
    streams: list[Stream]
    fills: list[Fill] = field(default_factory=list)
    copy: Copy | None = None
    folds: list[tuple[Fold, Place]] = field(default_factory=list)
    search: tuple[Search, Place] | None = None


def analyse(words: Sequence[int], pc: int, features: frozenset[str] = CORTEX_A76) -> Loop:
    """What the loop with this body does. Raises Unsuitable, whose message says why none of that is known."""
    return _Analysis(iteration_of(words, pc, features)).loop()


class _Analysis:
    def __init__(self, iteration: Iteration) -> None:
        self.iteration, self.affine = iteration, affine_of(iteration)
        self.streams, self.places = streams_of(iteration.accesses, self.affine)
        self.stores = [i for i, access in enumerate(iteration.accesses) if access.store]

    def loop(self) -> Loop:
        """The loop, with the one effect that it has."""
        iteration = self.iteration
        comparison = comparison_of(iteration.sums, iteration.condition)
        fixed = self.affine.kept(comparison.left)
        interval = interval_of(iteration.sums, flipped(comparison) if fixed else comparison)
        if interval.width > 64:
            raise Unsuitable("a comparison of more than 64 bits")
        loads = any(kind == "load" for kind, _ in bases_of([iteration.condition]))
        folds = self._folds()
        if (bool(folds), bool(self.stores), loads).count(True) > 1:
            raise Unsuitable("several effects at once")
        loop = Loop(
            self._structure(comparison, interval, Effect.PURE),
            tuple(iteration.words),
            None if loads else (interval, self._rate_of(interval)),
            [],
            [(slot, p.width, p.step) for slot, p in sorted(self.affine.moving.items())],
            self.streams,
        )
        effect = Effect.REDUCTION if folds else Effect.SEARCH if loads else Effect.PURE
        if folds:
            loop.folds = [(fold, self._place(fold.loaded.access, fold.loaded.low)) for fold in folds]
        elif loads:
            search = search_of(iteration.sums, self.affine, interval)
            if len(iteration.accesses) > 1 or iteration.accesses[0].size != search.loaded.size:
                raise Unsuitable("a search that loads more than it looks at")
            loop.search = search, self._place(search.loaded.access, search.loaded.low)
        elif self.stores:
            effect = self._store(loop)
        self._require_maintained(loop)
        loop.guards = self.affine.guards + self._aligned()
        loop.structure = replace(loop.structure, effect=effect)
        return loop

    def _aligned(self) -> list[tuple[Interval, Value]]:
        """SP stays a multiple of 16 where accesses begin with it: its low four bits stay 0."""
        for address in self.iteration.at_sp:
            form_of(address)
        return [(Interval(sp, 0, 4), self.affine.rate(sp, 64)) for sp in dict.fromkeys(self.iteration.at_sp)]

    def _place(self, access: int, low: int) -> Place:
        place = self.places[access]
        return Place(place.stream, place.offset + low)

    # -- effects ---------------------------------------------------------------------------------------------
    def _store(self, loop: Loop) -> Effect:
        moving = {("load", i) for i, access in enumerate(self.iteration.accesses) if not access.store}
        moving |= {("x", slot) for slot in self.affine.others}
        moving |= {("v", number) for number in self.affine.other_vectors}
        if any(bases_of([self.iteration.accesses[i].value]) & moving for i in self.stores):
            loop.copy = copy_of(self.iteration, self.affine, self.places, self.streams)
            self._look_back(loop.copy)
            return Effect.COPY
        for i in self.stores:
            place = self.places[i]
            if self.streams[place.stream].step == 0:
                self._require_steady()
                continue
            pieces = tuple(pieces_of(self.iteration, self.affine, i))
            loop.fills.append(Fill(place, self.iteration.accesses[i].size, pieces))
        return Effect.FILL

    def _require_steady(self) -> None:
        """Stores to one address: only the last matters, but a load would have to see the one before it."""
        if len(self.stores) < len(self.iteration.accesses):
            raise Unsuitable("loads beside stores to one place")

    def _look_back(self, copy: Copy) -> None:
        """What registers hold was loaded by the iteration before the first: that must be readable."""
        if copy.held:
            stream = self.streams[copy.source]
            self.streams[copy.source] = replace(stream, before=copy.block)

    def _folds(self) -> list[Fold]:
        found: list[Fold] = []
        for slot in sorted(self.affine.others):
            found += folds_of(self.iteration, slot)
        return found

    # -- what must hold of registers -------------------------------------------------------------------------
    def _rate_of(self, interval: Interval) -> Value:
        """How the distance changes, while the length does not."""
        if self.affine.rate(interval.length, interval.width) != 0:
            raise Unsuitable("a bound that changes")
        step = self.affine.rate(interval.distance, interval.width)
        for value in (interval.distance, interval.length, step):
            form_of(value)
        return step

    def _require_maintained(self, loop: Loop) -> None:
        """Whatever an iteration reads of the one before must be known at the head of any iteration."""
        iteration, affine = self.iteration, self.affine
        read = bases_of(
            [
                iteration.condition,
                *(a.address for a in iteration.accesses),
                *(a.value for a in iteration.accesses),
            ]
        )
        read |= bases_of([*iteration.x.values(), *iteration.v.values()])
        flags = [f for i, f in enumerate(iteration.flags) if bases_of([f]) != {("flag", i)}]
        read |= bases_of(flags)
        if any(kind == "flag" for kind, _ in read):
            raise Unsuitable("flags of the iteration before are read")
        folded = {fold.slot for fold, _ in loop.folds}
        held = {h.offset for h in loop.copy.held} if loop.copy else set()
        for kind, number in read:
            if kind == "x" and number in affine.others - folded and 8 * number not in held:
                raise Unsuitable("a register is read that is not known")
            if kind == "v" and number in affine.other_vectors and vector_offset(number) not in held:
                raise Unsuitable("a SIMD register is read that is not known")
        for stream in self.streams:
            form_of(stream.address), form_of(stream.step)

    # -- structure -------------------------------------------------------------------------------------------
    def _structure(self, c: Comparison, interval: Interval, effect: Effect) -> Structure:
        bases = bases_of([interval.distance, interval.length])
        counted = not any(kind == "load" for kind, _ in bases)
        registers = sorted(number for kind, number in bases if kind == "x")
        counters = [r for r in registers if r in self.affine.moving]
        counter = counters[0] if counted and counters else None
        if counted and counter is None:
            raise Unsuitable("an exit that does not depend on a counter")
        step = None if counter is None else self._step(counter)
        bounds = self._bounds(c, counter)
        if bounds:
            return Structure(counted, counter, step, Bound.REGISTER, min(bounds), c.condition, effect)
        bound = Bound.ZERO if self._against_zero(c, counter) else Bound.CONSTANT
        return Structure(counted, counter, step, bound, None, c.condition, effect)

    def _step(self, counter: int) -> int | None:
        registers = sorted(number for _, number in bases_of([self.affine.moving[counter].step]))
        return registers[0] if registers else None

    def _bounds(self, c: Comparison, counter: int | None) -> set[int]:
        """The registers on the other side of the comparison, or in the difference that is compared."""
        if c.right != 0:
            sides = [self._fixed(side) for side in (c.left, c.right) if not self._counts(side, counter)]
            return set().union(*sides)
        if counter is None:
            return self._fixed(c.left)
        s = self.iteration.sums
        values = self.iteration.x[counter], s.of(s.new("x", 64, (), counter))
        rests = [s.add(c.width, c.left, s.trunc(c.width, value), way) for value in values for way in (1, -1)]
        left = [self._fixed(rest) for rest in rests if not self._counts(rest, counter)]
        return min(left, key=len, default=self._fixed(c.left))

    def _counts(self, value: Value, counter: int | None) -> bool:
        bases = bases_of([value])
        return ("x", counter) in bases or any(kind == "load" for kind, _ in bases)

    def _fixed(self, value: Value) -> set[int]:
        return {r for kind, r in bases_of([value]) if kind == "x" and r not in self.affine.moving}

    def _against_zero(self, c: Comparison, counter: int | None) -> bool:
        if c.right != 0:
            return False
        if counter is None:
            return isinstance(c.left, int) or not c.left.const
        s = self.iteration.sums
        after = s.trunc(c.width, self.iteration.x[counter])
        before = s.slice(s.new("x", 64, (), counter), 0, c.width)
        return c.left in (after, before)
