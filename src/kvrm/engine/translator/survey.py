"""What the translator must know of a word before it emits code: where control goes, what is used."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from kvrm.isa.context import System
from kvrm.isa.features import allocates
from kvrm.isa.probe import Probe
from kvrm.lane.stops import Reason
from kvrm.values import Bits, Lift, bits


@dataclass(slots=True)
class Flow:
    """One instruction at one address.

    `target` is a branch's if it is known, `conditional` whether it may fall through, `branches` whether it is
    a branch at all. `stays` is false for what only the interpreter does: events, writes to FPCR, words that
    are not allocated. `moves_sp` is whether it writes SP, `begins_with_sp` whether SP must be aligned for it.
    `widths` has the most bits that are read or written of each SIMD&FP register.
    """

    branches: bool = False
    target: int | None = None
    conditional: bool = False
    stays: bool = True
    floating: bool = False
    moves_sp: bool = False
    begins_with_sp: bool = False
    widths: dict[int, int] = field(default_factory=dict)


class _Survey(Probe):
    """Runs one instruction at a known address."""

    def __init__(self, pc: int) -> None:
        super().__init__()
        self.flow = Flow()
        self._pc = pc

    @property
    def pc(self) -> Bits:
        return bits(64, self._pc)

    @property
    def fpcr(self) -> int:
        self.flow.floating = True
        return 0

    def write_x(self, r: Bits, value: Bits, sp: bool) -> None:
        """Notes SP."""
        self.flow.moves_sp |= sp and int(r) == 31
        super().write_x(r, value, sp)

    def require_sp_aligned(self, r: Bits, address: Bits) -> None:
        """Notes SP."""
        self.flow.begins_with_sp |= int(r) == 31
        super().require_sp_aligned(r, address)

    def read_v(self, r: Bits, n: int) -> Bits:
        """Notes the width."""
        self._use(int(r), n)
        return super().read_v(r, n)

    def write_v(self, r: Bits, value: Bits) -> None:
        """Notes the width."""
        self._use(int(r), value.width)
        super().write_v(r, value)

    def _use(self, r: int, width: int) -> None:
        self.flow.widths[r] = max(width, self.flow.widths.get(r, 0))

    def write_system(self, register: System, value: Bits) -> None:
        """FPCR decides what floating-point code means, so a region ends before it changes."""
        if register is System.FPCR:
            self.flow.stays = False
        super().write_system(register, value)

    def branch(self, target: Bits, condition: Bits | None = None) -> None:
        """Notes where control may go."""
        super().branch(target, condition)
        if condition is not None and condition.known and not int(condition):
            return
        self.flow.branches = True
        self.flow.conditional = condition is not None and not condition.known
        self.flow.target = int(target) if target.known else None

    def event(self, event: Reason, value: Lift = 0) -> None:
        """The interpreter's."""
        super().event(event, value)
        self.flow.stays = False


@functools.lru_cache(1 << 16)
def flow_of(word: int, pc: int, features: frozenset[str]) -> Flow:
    """The flow of the word at an address, on a machine with these features."""
    from kvrm.isa.a64 import decode

    d = decode(word, pc)
    if d is None or not allocates(features, d.definition.feature):
        return Flow(stays=False)
    survey = _Survey(pc)
    d.definition.run(survey, d.operands())
    return survey.flow
