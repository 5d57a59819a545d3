"""What a machine's runs cost, and where: an engine's account as a value to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvrm.engine.translator.survey import flow_of
from kvrm.isa.a64 import disassemble
from kvrm.isa.context import FP_TRACKING
from kvrm.linux.names import name_of
from kvrm.memory import PAGE, GuestFault
from kvrm.observe.account import PLACE, Account, Placed, Weight
from kvrm.observe.loops import find_loops

EXPLAINED = 64
"""How many of the hottest interpreted places get a reason."""


@dataclass(frozen=True, slots=True)
class Share:
    """Instructions that ran in one way, and wall seconds."""

    instructions: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop inside a region: where it begins, what ran in it and in functions that it calls, its blocks."""

    head: int
    instructions: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HotRegion:
    """A translated region: what ran in it, its guest code, and what it cost.

    `code` has its blocks, pairs of address and bytes; `at` splits the instructions by the pc of the samples.
    `compile_seconds` were spent beside the guest, or in an earlier run if the region was `cached`.
    """

    entry: int
    instructions: int
    seconds: float
    samples: int
    code: tuple[tuple[int, bytes], ...]
    at: dict[int, int]
    compile_seconds: float
    cached: bool

    @property
    def size(self) -> int:
        """Guest instructions that the region consists of."""
        return sum(len(data) for _, data in self.code) // 4

    def loops(self) -> list[Loop]:
        """The region's loops, hottest first; one inside another counts in both."""
        ends = {start: start + len(data) for start, data in self.code}
        found = []
        for head, blocks in find_loops(self.code).items():
            inside = (n for pc, n in self.at.items() if any(b <= pc < ends[b] for b in blocks))
            found.append(Loop(head, sum(inside), tuple(sorted(blocks))))
        return sorted(found, key=lambda loop: -loop.instructions)


@dataclass(frozen=True, slots=True)
class HotPlace:
    """64 bytes of guest code from `address` on that were interpreted, or run by the reference engine.

    `why` is the reason where the engine translates, if it is known and the place is among the hottest.
    """

    address: int
    tier: str
    instructions: int
    seconds: float
    samples: int
    why: str


@dataclass(frozen=True, slots=True)
class SystemCall:
    """How often a system call was made, and wall seconds in it."""

    name: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Profile:
    """All runs of a machine so far, those that `restore` took back included.

    `seconds` is wall time; `tiers` says how it was spent, and where the instructions ran:

    - translated: in regions
    - interpreted: in the interpreter's handlers
    - unsampled: in either, after the last sample
    - reference: one by one in the reference engine, exactly counted
    - following: recording what the program does, to find out what to translate
    - calls: in system calls
    - python: in whatever else happens between two stretches of native code

    The first two are estimates from samples. `regions`, `places` and `calls` are ordered by seconds.
    """

    seconds: float
    tiers: dict[str, Share]
    regions: tuple[HotRegion, ...]
    places: tuple[HotPlace, ...]
    calls: tuple[SystemCall, ...]

    @property
    def instructions(self) -> int:
        """How many ran."""
        return sum(share.instructions for share in self.tiers.values())

    @property
    def cached(self) -> int:
        """Regions that earlier runs had compiled."""
        return sum(region.cached for region in self.regions)

    @property
    def compiled(self) -> int:
        """Regions that were compiled in these runs and entered."""
        return len(self.regions) - self.cached

    @property
    def compile_seconds(self) -> float:
        """What compiling those took, most of it while the guest ran."""
        return sum(region.compile_seconds for region in self.regions if not region.cached)

    def share(self, instructions: int) -> float:
        """A part of all instructions, from 0 to 1."""
        return instructions / self.instructions if self.instructions else 0.0


def make_profile(
    account: Account, seconds: float, peek: Callable[[int, int], bytes], features: frozenset[str]
) -> Profile:
    """The profile of an account; `seconds` is wall time, `peek(address, size)` reads guest memory."""
    why = _Reasons(account, peek, features).why
    tiers = (("interpreted", account.interpreted), ("reference", account.reference))
    found = [(address, tier, weight) for tier, weights in tiers for address, weight in weights.items()]
    found.sort(key=lambda place: -place[2].seconds)
    places = [
        HotPlace(
            address, tier, w.instructions, w.seconds, w.samples, why(address, w) if i < EXPLAINED else ""
        )
        for i, (address, tier, w) in enumerate(found)
    ]
    regions = [
        _hot_region(placed, account.translated.get(number, {})) for number, placed in account.regions.items()
    ]
    calls = [
        SystemCall(name_of(number), c.count, c.seconds) for number, c in account.calls.items() if c.count
    ]
    return Profile(
        seconds,
        _tiers(account, seconds),
        tuple(sorted(regions, key=lambda region: -region.seconds)),
        tuple(places),
        tuple(sorted(calls, key=lambda call: -call.seconds)),
    )


def _tiers(account: Account, seconds: float) -> dict[str, Share]:
    rest = Weight(0, *account.rest)
    # without a region, nothing else can have run
    certain = [] if account.regions else [rest]
    tiers = {
        "translated": _sum(w for weights in account.translated.values() for w in weights.values()),
        "interpreted": _sum([*account.interpreted.values(), *certain]),
        "unsampled": Share() if certain else _sum([rest]),
        "reference": _sum(account.reference.values()),
        "following": Share(0, account.following),
        "calls": Share(0, sum(calls.seconds for calls in account.calls.values())),
    }
    known = sum(share.seconds for share in tiers.values())
    return tiers | {"python": Share(0, max(0.0, seconds - known))}


def _sum(weights: Iterable[Weight]) -> Share:
    pairs = [(w.instructions, w.seconds) for w in weights]
    return Share(sum(i for i, _ in pairs), sum(s for _, s in pairs))


def _hot_region(placed: Placed, weights: dict[int, Weight]) -> HotRegion:
    total = _sum(weights.values())
    return HotRegion(
        placed.entry,
        total.instructions,
        total.seconds,
        sum(w.samples for w in weights.values()),
        placed.code,
        {pc: w.instructions for pc, w in sorted(weights.items())},
        placed.seconds,
        placed.cached,
    )


class _Reasons:
    """Why code was interpreted on an engine that translates."""

    def __init__(self, account: Account, peek: Callable[[int, int], bytes], features: frozenset[str]) -> None:
        self._account, self._peek, self._features = account, peek, features

    def why(self, address: int, weight: Weight) -> str:
        """The reason for a place, or nothing if the engine does not translate."""
        if not self._account.translates:
            return ""
        regions = [placed for placed in self._account.regions.values() if _on(placed, address)]
        if weight.fpcr and self._floating(address):
            tracked = weight.fpcr & FP_TRACKING
            return "floating-point exceptions are tracked" if tracked else f"FPCR is {weight.fpcr:#x}, not 0"
        if regions and weight.last <= min(placed.since for placed in regions):
            return "before its region was ready"
        if regions:
            return "its region is entered elsewhere"
        if left_out := self._left_out(address):
            return f"only the interpreter runs {left_out}"
        followed = address // PAGE in self._account.pages
        return "no region came of it in time" if followed else "too seldom for a region"

    def _floating(self, address: int) -> bool:
        return any(flow_of(word, pc, self._features).floating for pc, word in self._code(address))

    def _left_out(self, address: int) -> str:
        words = self._code(address)
        texts = (disassemble(word, pc) for pc, word in words if not flow_of(word, pc, self._features).stays)
        return next(filter(None, texts), "")

    def _code(self, address: int) -> list[tuple[int, int]]:
        """Addresses and words of a place."""
        try:
            data = self._peek(address, PLACE)
        except GuestFault:
            return []
        return list(zip(range(address, address + PLACE, 4), memoryview(data).cast("I"), strict=True))


def _on(placed: Placed, address: int) -> bool:
    return any(_overlap(address, start, start + len(data)) for start, data in placed.code)


def _overlap(address: int, start: int, end: int) -> bool:
    return start < address + PLACE and address < end
