"""Loops of a running program: found by samples, decided once, and skipped from then on."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from kvrm.engine.interpreter.slots import CLASS
from kvrm.loops import plan
from kvrm.loops.analysis import Loop, analyse
from kvrm.loops.find import loop_at
from kvrm.loops.iteration import MOST_WORDS, Unsuitable
from kvrm.loops.native import handler
from kvrm.loops.structure import Structure
from kvrm.memory import PAGE, GuestFault, Memory, untagged

if TYPE_CHECKING:
    from kvrm.engine.interpreter.engine import Interpreter

Body = tuple[int, ...]

ENOUGH = 24
"""Proposals after which a policy is judged."""
ACCEPTED_AT_LEAST = 1 / 8
"""A policy of whose proposals fewer are accepted is not asked any more."""
HOT = 2
"""Samples in a loop after which it is decided what it is: by then it has cost what that costs."""
REARM = 64
"""Samples after which sites that did not pay may try again."""


class Policy(Protocol):
    """Says what each of some loop bodies does; a function of the words alone."""

    def __call__(self, bodies: Sequence[Body], /) -> Sequence[Structure | None]:
        """A structure for each body, or None where nothing is proposed."""


class Proposer:
    """A policy with its account: what it was asked, what became of that, and what it cost.

    `loops` it was asked about, `proposals` that it made, `accepted` and `rejected` by the checker; `seconds`
    of the policy and `checking` seconds; instructions `skipped`, at `sites` and `before`, at sites
    that are no more. `off`: the kill switch has acted.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.loops = self.proposals = self.accepted = 0
        self.seconds = self.checking = 0.0
        self.off = False
        self.sites: list[Callable[[], int]] = []
        self.before = 0
        self._lock = Lock()

    @property
    def rejected(self) -> int:
        """Proposals that the checker refused."""
        return self.proposals - self.accepted

    @property
    def skipped(self) -> int:
        """Instructions that retired without being executed."""
        return self.before + sum(count() for count in self.sites)

    def decide(self, body: Body, pc: int, features: frozenset[str]) -> Loop | None:
        """The loop, if the policy proposes what it is. Threads may ask."""
        with self._lock:
            return self._decide(body, pc, features)

    def _decide(self, body: Body, pc: int, features: frozenset[str]) -> Loop | None:
        if self.off:
            return None
        began = perf_counter()
        structure = self._policy([body])[0]
        proposed = perf_counter()
        self.loops += 1
        self.seconds += proposed - began
        if structure is None:
            return None
        self.proposals += 1
        loop = checked(structure, body, pc, features)
        self.checking += perf_counter() - proposed
        self.accepted += loop is not None
        self.off = self.proposals >= ENOUGH and self.accepted < ACCEPTED_AT_LEAST * self.proposals
        return loop

    @property
    def report(self) -> dict[str, int | float | bool]:
        """What there is to tell, by name."""
        return {
            "loops": self.loops,
            "proposals": self.proposals,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 6),
            "checking": round(self.checking, 6),
            "off": self.off,
        }


def checked(structure: Structure, body: Body, pc: int, features: frozenset[str]) -> Loop | None:
    """The static half of the checker: the loop, if it is understood and is what the structure says."""
    try:
        loop = analyse(body, pc, features)
    except Unsuitable:
        return None
    return loop if loop.structure == structure else None


class Known:
    """What samples tell of loops, and what the policy has said of them: `decided`, by body and address."""

    def __init__(self, proposer: Proposer, memory: Memory, features: frozenset[str]) -> None:
        self._proposer, self._memory, self._features = proposer, memory, features
        self.decided: dict[tuple[Body, int], Loop | None] = {}
        self._found: dict[int, tuple[int, Body] | None] = {}
        self._hits: dict[tuple[int, Body], int] = {}

    def sampled(self, pc: int, times: int = 1) -> tuple[int, Body] | None:
        """Control was at `pc` so often: head and body of the loop that it is in, once that is hot."""
        pc = untagged(pc)
        if pc not in self._found:
            self._found[pc] = self.loop_at(pc)
        found = self._found[pc]
        if found is None:
            return None
        before = self._hits.get(found, 0)
        self._hits[found] = before + times
        return found if before < HOT <= before + times else None

    def loop_at(self, pc: int) -> tuple[int, Body] | None:
        """Head and body of the loop that the instruction at `pc` is in."""
        first = max(pc & -PAGE, pc - 4 * MOST_WORDS)
        try:
            data = self._memory.peek(first, min(pc + 4 * MOST_WORDS, (pc & -PAGE) + PAGE) - first)
        except GuestFault:
            return None
        words = memoryview(data).cast("I").tolist()
        found = loop_at(words, (pc - first) // 4)
        if found is None:
            return None
        return first + 4 * found[0], tuple(words[found[0] : found[1] + 1])

    def decide(self, pc: int, body: Body) -> Loop | None:
        """The loop, if the policy proposes what it is; asked once."""
        key = body, pc
        if key not in self.decided:
            self.decided[key] = self._proposer.decide(body, pc, self._features)
        return self.decided[key]

    def forget(self, page: int | None = None) -> None:
        """The code of a page, or of all, may be another now."""
        for pc in [pc for pc in self._found if page is None or pc // PAGE == page]:
            found = self._found.pop(pc)
            if found is not None:
                self._hits.pop(found, None)


@dataclass(slots=True)
class _Site:
    """A loop's place in the program."""

    words: array[int]
    slot: int
    cost: int

    def skipped(self) -> int:
        return self.cost * self.words[plan.ITERATIONS // plan.WORD]


def _before(slot: int) -> tuple[int, int, int]:
    """Handler, address and class of a slot that is not decoded."""
    words = (ctypes.c_uint64 * 3).from_address(slot)
    return words[0], words[1], words[CLASS // 8] & 0xFFFFFFFF


class Sites:
    """The loops of one machine's program that are skipped: `Skipping` for the interpreter.

    `least` is the fewest iterations that are skipped at once; by default, those that are worth it.
    """

    def __init__(
        self,
        proposer: Proposer,
        engine: Interpreter,
        memory: Memory,
        features: frozenset[str],
        least: int | None = None,
    ) -> None:
        self._engine, self._least = engine, least
        self.known = Known(proposer, memory, features)
        self._handler, self._loader = handler()
        self._sites: dict[int, dict[int, _Site]] = {}
        self._copies: dict[int, int] = {}
        self._samples = 0
        self._skipped = 0
        proposer.sites.append(self._total)

    def _total(self) -> int:
        here = (site.skipped() for sites in self._sites.values() for site in sites.values())
        return self._skipped + sum(here)

    def sampled(self, pc: int) -> None:
        """Control was at `pc`: if that is in a loop, and not for the first time, it is worth a decision."""
        self._samples += 1
        if self._samples % REARM == 0:
            self._arm()
        found = self.known.sampled(pc)
        if found is not None:
            self.install(*found)

    def install(self, pc: int, body: Body) -> bool:
        """Have the loop at `pc` skipped from now on, if it is accepted; whether it is."""
        page, slot = pc // PAGE, self._engine.slot_at(pc)
        if slot is None or pc in self._sites.get(page, ()) or not self._free(pc, len(body)):
            return False
        loop = self.known.decide(pc, body)
        if loop is None:
            return False
        if page not in self._copies:
            self._copies[page] = self._engine.copy_page(page)
        head = self._engine.decode_again(self._copies[page], pc, len(body))
        words = plan.plan_of(loop, head, self._least)
        for place, value in zip((plan.UNDECODED, plan.PC, plan.CLASS_WORD), _before(head), strict=True):
            words[place // plan.WORD] = value
        site = _Site(words, slot, len(body))
        self._sites.setdefault(page, {})[pc] = site
        self._put(site)
        return True

    def _free(self, pc: int, length: int) -> bool:
        """Whether no breakpoint is in the loop, and a dispatch policy would let all of it run."""
        return all(self._engine.runs_plainly(at) for at in range(pc, pc + 4 * length, 4))

    def _put(self, site: _Site) -> None:
        place = (ctypes.c_uint64 * 2).from_address(site.slot)
        place[0], place[1] = self._handler, site.words.buffer_info()[0]

    def _arm(self) -> None:
        for sites in self._sites.values():
            for site in sites.values():
                credit = site.words[plan.CREDIT // plan.WORD]
                if credit == 0:
                    site.words[plan.CREDIT // plan.WORD] = plan.CREDIT_AT_FIRST
                    self._put(site)

    def forget(self, page: int) -> None:
        """The slots of a page are no more, and its code may be another."""
        self.known.forget(page)
        sites = self._sites.pop(page, {})
        self._skipped += sum(site.skipped() for site in sites.values())
        if page in self._copies:
            self._engine.drop_copy(self._copies.pop(page))
