"""What an engine did, in instructions and seconds: where native code ran, what was compiled for it.

Native code is not slowed down to be measured. It runs in slices of known lengths; what ran in a slice is
attributed to the address where the slice ends. Over many slices the shares are those of the instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvrm.observe.observer import Code

PLACE = 64
"""Bytes of guest code that interpreted instructions are attributed to together."""


@dataclass(slots=True)
class Weight:
    """What was attributed to one address.

    `last` is the number of native instructions at its last sample, `fpcr` the control register then.
    """

    samples: int = 0
    instructions: int = 0
    seconds: float = 0.0
    last: int = 0
    fpcr: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """A region that was entered from the moment when native code had run `since` instructions.

    `code` is pairs of address and bytes, `seconds` what compiling took, `cached` whether that was earlier.
    """

    entry: int
    code: Code
    seconds: float
    cached: bool
    since: int


@dataclass(slots=True)
class Calls:
    """How often one system call was made, and the wall time that it took."""

    count: int = 0
    seconds: float = 0.0


class Account:
    """A `RunObserver` that counts since its engine was made; going back to a snapshot takes nothing back.

    `instructions` and `seconds` are those of native code. `translated` has weights by region number and pc,
    `interpreted` and `reference` by address, a multiple of `PLACE`; the last is exact, and not native code.
    `calls` are by system call number, `regions` by region number. On an engine that `translates`, `following`
    are seconds spent to find out what, and `pages` the numbers of the pages that it followed the program on.
    """

    def __init__(self, translates: bool = False) -> None:
        self.translates = translates
        self.instructions = 0
        self.seconds = self.following = 0.0
        self.translated: dict[int, dict[int, Weight]] = {}
        self.interpreted: dict[int, Weight] = {}
        self.reference: dict[int, Weight] = {}
        self.regions: dict[int, Placed] = {}
        self.pages: set[int] = set()
        self.calls: defaultdict[int, Calls] = defaultdict(Calls)
        self._instructions, self._seconds = 0, 0.0

    @property
    def rest(self) -> tuple[int, float]:
        """Instructions and seconds of native code since the last sample."""
        return self.instructions - self._instructions, self.seconds - self._seconds

    def ran(self, instructions: int, seconds: float) -> None:
        self.instructions += instructions
        self.seconds += seconds

    def stepped(self, pc: int, retired: bool, seconds: float, fpcr: int) -> None:
        self._add(self.reference, pc & -PLACE, retired, seconds, fpcr)

    def sample(self, region: int, pc: int, fpcr: int) -> None:
        """A slice ended at `pc`, in the region of that number or, if it is 0, in interpreted code."""
        weights = self.translated.setdefault(region, {}) if region else self.interpreted
        self._add(weights, pc if region else pc & -PLACE, *self.rest, fpcr)
        self._instructions, self._seconds = self.instructions, self.seconds

    def _add(
        self, weights: dict[int, Weight], place: int, instructions: int, seconds: float, fpcr: int
    ) -> None:
        weight = weights.setdefault(place, Weight())
        weight.samples += 1
        weight.instructions += instructions
        weight.seconds += seconds
        weight.last, weight.fpcr = self.instructions, fpcr

    def followed(self, seconds: float) -> None:
        self.following += seconds

    def asked(self, pages: Iterable[int]) -> None:
        self.pages.update(pages)

    def places(self, number: int, entry: int, code: Code, seconds: float, cached: bool) -> None:
        self.regions.setdefault(number, Placed(entry, code, seconds, cached, self.instructions))

    def called(self, number: int, seconds: float, count: int = 1) -> None:
        calls = self.calls[number]
        calls.count += count
        calls.seconds += seconds
