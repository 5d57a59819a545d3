"""An iteration of a loop over symbolic values: reads, stores, registers after it, when another follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvrm.isa.a64 import decode
from kvrm.isa.context import Context, Flags, System
from kvrm.isa.features import CORTEX_A76, allocates
from kvrm.lane.stops import Reason
from kvrm.lane.words import SP
from kvrm.loops.sums import Sums, Value
from kvrm.values import Bits, Lift, bits

MOST_WORDS = 48
"""The longest body that is looked at."""


class Unsuitable(Exception):
    """The code is no loop that is understood; the message says why."""


@dataclass(frozen=True, slots=True)
class Access:
    """A load (`value` is its atom) or a store, of whole bytes, in the order of the code."""

    store: bool
    address: Value
    size: int
    value: Value


@dataclass(slots=True)
class Iteration:
    """What an iteration does to what it began with.

    `x` and `v` have the value of each register at its end, by slot (32 is SP) and number, if it is written;
    `flags` N, Z, C, V. `condition` is one bit: whether another iteration follows. `at_sp` is what SP is
    where accesses begin with it.
    """

    sums: Sums
    words: Sequence[int]
    x: dict[int, Value] = field(default_factory=dict)
    v: dict[int, Value] = field(default_factory=dict)
    flags: list[Value] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    at_sp: list[Value] = field(default_factory=list)
    condition: Value = 0


class Symbolic(Context):
    """Runs the definitions of a loop's body over sums; Unsuitable where it cannot."""

    def __init__(self, words: Sequence[int], pc: int, features: frozenset[str]) -> None:
        super().__init__()
        s = self._sums = Sums()
        self.iteration = Iteration(s, words, flags=[s.of(s.new("flag", 1, (), i)) for i in range(4)])
        self._start, self._pc, self._branch = pc, pc, False
        for word in words:
            if self._branch:
                raise Unsuitable("a branch inside")
            d = decode(word)
            if d is None or not allocates(features, d.definition.feature):
                raise Unsuitable("an instruction that there is not")
            d.definition.run(self, d.operands())
            self._pc += 4
        if not self._branch:
            raise Unsuitable("no branch back")

    @property
    def pc(self) -> Bits:
        return bits(64, self._pc)

    @property
    def fpcr(self) -> int:
        raise Unsuitable("floating-point arithmetic")

    @property
    def retired(self) -> Bits:
        raise Unsuitable("the count of instructions")

    def _register(self, r: Bits, sp: bool) -> int | None:
        i = int(r)
        return (SP if sp else None) if i == 31 else i

    def read_x(self, r: Bits, n: int, sp: bool) -> Bits:
        i, s = self._register(r, sp), self._sums
        if i is None:
            return bits(n, 0)
        value = self.iteration.x[i] if i in self.iteration.x else s.of(s.new("x", 64, (), i))
        return s.bits(n, s.trunc(n, value))

    def write_x(self, r: Bits, value: Bits, sp: bool) -> None:
        if (i := self._register(r, sp)) is not None:
            self.iteration.x[i] = _plain(value)

    def read_v(self, r: Bits, n: int) -> Bits:
        i, s = int(r), self._sums
        value = self.iteration.v[i] if i in self.iteration.v else s.of(s.new("v", 128, (), i))
        return s.bits(n, s.trunc(n, value))

    def write_v(self, r: Bits, value: Bits) -> None:
        self.iteration.v[int(r)] = _plain(value.zext(128))

    def read_flags(self) -> Flags:
        n, z, c, v = (self._sums.bits(1, f) for f in self.iteration.flags)
        return n, z, c, v

    def write_flags(self, nzcv: Flags) -> None:
        self.iteration.flags = [_plain(f) for f in nzcv]

    def read_memory(self, address: Bits, n: int) -> Bits:
        """Something new each time."""
        s, number = self._sums, len(self.iteration.accesses)
        value = s.of(s.new("load", n, (), number))
        self.iteration.accesses.append(Access(False, _plain(address), n // 8, value))
        return s.bits(n, value)

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        if condition is not None:
            raise Unsuitable("a conditional store")
        self.iteration.accesses.append(Access(True, _plain(address), value.width // 8, _plain(value)))

    def require_aligned(self, address: Bits, size: int, store: bool) -> None:
        raise Unsuitable("an access that must be aligned")

    def require_sp_aligned(self, r: Bits, address: Bits) -> None:
        if int(r) == 31:
            self.iteration.at_sp.append(_plain(address))

    def read_system(self, register: System) -> Bits:
        raise Unsuitable("a system register")

    def write_system(self, register: System, value: Bits) -> None:
        raise Unsuitable("a system register")

    def branch(self, target: Bits, condition: Bits | None = None) -> None:
        """It must lead back to the start."""
        if condition is None or not target.known or int(target) != self._start:
            raise Unsuitable("a branch elsewhere")
        self._branch, self.iteration.condition = True, _plain(condition)

    def event(self, event: Reason, value: Lift = 0) -> None:
        raise Unsuitable("an exception")


def _plain(b: Bits) -> Value:
    p = b.payload
    if b.lanes != 1 or isinstance(p, tuple):
        raise Unsuitable("lanes where there should be one value")
    return p  # type: ignore[return-value]


def iteration_of(words: Sequence[int], pc: int, features: frozenset[str] = CORTEX_A76) -> Iteration:
    """The iteration of a loop whose body these words are, at `pc`, on such a machine. Raises Unsuitable."""
    if not 1 <= len(words) <= MOST_WORDS:
        raise Unsuitable(f"more than {MOST_WORDS} instructions")
    return Symbolic(words, pc, features).iteration
