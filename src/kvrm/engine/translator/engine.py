"""The tiered engine: interprets at once, and has hot regions translated in the background.

A translated region is a handler like any other: it stands in the slot of its first instruction and runs as
many instructions as it likes. What is hot is found by sampling. A run is cut into slices; where they end in
interpreted code again and again, the engine records what the program does for a moment and asks for regions
that would run most of that (`plan`). A region that finds a slice nearly used up says so in the state; how
much of such a slice was interpreted between regions, a short trace tells. While it is little, and while
regions are being made, slices are longer.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import time
import weakref
from array import array
from collections import defaultdict, deque
from collections.abc import Set
from functools import partial
from typing import Any

from kvrm.engine.exits import Exit
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.interpreter.slots import PLAIN_OFFSET, PLAIN_PER_PC, SLOT_PER_PC
from kvrm.engine.translator.compile import Compiled
from kvrm.engine.translator.store import store
from kvrm.isa.features import CORTEX_A76
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE, AccessKind, GuestFault, Memory
from kvrm.observe.account import Account

SHORTEST_SLICE = 100_003
"""Instructions between two samples while interpreted code is hot. Odd, so that samples do not fall into step
with a loop, of which they would then always see the same instruction."""
LONGEST_SLICE = 40_000_000
WAITING = 2_000_003
"""The same while regions are being made, which takes longer than what samples can find out."""
FIRST, HOT, COLD = 15_000_000, 200_000, 50_000_000
"""Instructions interpreted, as samples tell, after which the program is followed: the first time, as long as
that brings regions, and at most. A program that is over before the first costs no compiler."""
LONGEST_TRACE = 20_000
"""Instructions that are followed."""
PROBE = 250
"""Instructions that are followed after a slice that ended in a region: stretches between regions are too
short for samples, and found by this."""

_numbers = itertools.count()


class Translator(Interpreter):
    """`Interpreter`, and regions that replace handlers; everything else is the same."""

    def __init__(self, state: State, memory: Memory, features: frozenset[str] = CORTEX_A76) -> None:
        super().__init__(state, memory, features)
        self.account = Account(translates=True)
        self._store = store()
        self._cold, self._patience = 0, FIRST
        self._slice = self._due = SHORTEST_SLICE
        self._trace: list[int] = []
        self._wanted = 0
        self._weight = 0
        self._regions: dict[int, Compiled] = {}
        self._active: dict[int, Compiled] = {}
        self._on_page: defaultdict[int, set[int]] = defaultdict(set)
        self._addresses: dict[str, frozenset[int]] = {}
        self._number = next(_numbers)
        self._withdraw: Any = None
        self._arrived: deque[Compiled | None] = deque()
        self._asked = self._brought = False
        self._learners = [self._arrived]
        self._leads = True
        self._program = ""
        self._remembered: dict[int, list[str]] = {}

    def prepare(self) -> list[str]:
        """As the interpreter; and regions that earlier runs left are used where control gets."""
        texts = super().prepare()
        # what may be translated depends on the features, so each set of them has its own list
        self._program = hashlib.blake2b(
            " ".join([*sorted(self._features), *texts]).encode(), digest_size=12
        ).hexdigest()
        for entry, key in self._store.program(self._program).items():
            self._remembered.setdefault(entry >> 12, []).append(key)
        return texts

    def poll(self) -> None:
        """Enter regions that have been compiled since in their slots."""
        while self._arrived:
            region = self._arrived.popleft()
            if region is not None:
                self._add(region)
                self._brought = True
                continue
            if self._brought:
                self._patience = HOT
            self._asked = self._brought = False

    def learn_from(self, leader: Interpreter) -> None:
        """As the interpreter's: use the leader's regions."""
        if isinstance(leader, Translator):
            self._leads = False
            self._arrived.extend(leader._regions.values())
            leader._learners.append(self._arrived)

    @property
    def slice(self) -> int:
        """Instructions up to the next sample."""
        if not self._leads:
            return super().slice
        return max(self._due - self._ran, 1)

    def follow(self, budget: int) -> bool:
        """As the interpreter's."""
        if not self._wanted:
            return False
        self._follow(budget)
        left = self._words[layout.REMAINING >> 3]  # of the single step that did not retire
        self._words[layout.REMAINING >> 3] = 0
        self._words[layout.HORIZON >> 3] -= left
        return True

    # -- sampling --------------------------------------------------------------------------------------------
    def _enter(self, budget: int) -> None:
        self.poll()
        if self._wanted:
            self._follow(budget)
        else:
            super()._enter(min(budget, self.slice))

    def _serve(self, reason: Reason) -> Exit | None:
        # a slice goes on where a run ends
        ended = reason is Reason.BUDGET and self._ran >= self._due
        if ended and self._leads and not self._wanted:
            self._sample()
            self._due = self._ran + self._slice
        return super()._serve(reason)

    def _sample(self) -> None:
        """A slice has ended: note where, and see what the program does if too much of it is interpreted."""
        s = self._state
        if s.get(layout.REGION):
            s.set(layout.REGION, 0)
            self._wanted, self._weight = PROBE, self._slice
            self._slice = min(2 * self._slice + 1, LONGEST_SLICE)
        else:
            self._interpreted(self._slice)
            self._slice = max(self._slice // 2, WAITING if self._asked else SHORTEST_SLICE)

    def _interpreted(self, instructions: int) -> None:
        """That many more were: from time to time, have the program followed."""
        self._cold += instructions
        if self._cold >= self._patience:
            self._cold, self._patience = 0, min(2 * self._patience, COLD)
            self._wanted = LONGEST_TRACE

    def _follow(self, budget: int) -> None:
        """Record what the program does next, instead of just running it."""
        began, native = time.perf_counter(), self._ran_seconds
        self._trace += self.record(min(budget, self._wanted - len(self._trace)))
        if len(self._trace) >= self._wanted:
            self._followed()
        self.account.followed(time.perf_counter() - began - (self._ran_seconds - native))

    def _followed(self) -> None:
        """The trace is as long as wanted: weigh what is interpreted of it, or ask for regions for that."""
        if self._wanted < LONGEST_TRACE:
            self._wanted = 0
            self._interpreted(self._weight * self._outside() // len(self._trace))
        else:
            self._wanted = 0
            self._ask()
        if not self._wanted:
            self._trace = []

    def _outside(self) -> int:
        """Instructions of the trace that no region runs."""
        count, inside = 0, frozenset[int]()
        for pc in self._trace:
            if pc not in inside:
                region = self._active.get(pc)
                inside = self._addresses_of(region) if region is not None else frozenset()
                count += region is None
        return count

    def _addresses_of(self, region: Compiled) -> frozenset[int]:
        if region.key not in self._addresses:
            self._addresses[region.key] = region.addresses
        return self._addresses[region.key]

    def _ask(self) -> None:
        """Ask for regions for what of the trace is interpreted."""
        from kvrm.engine.translator.background import Job

        code: dict[int, bytes] = {}
        for page in {pc >> 12 for pc in self._trace}:
            with contextlib.suppress(GuestFault):
                code[page] = self._memory.read(page << 12, PAGE, AccessKind.FETCH)
        known = {entry: region.starts for entry, region in self._active.items()}
        trace = array("Q", self._trace).tobytes()
        job = Job(self._number, self._program, self._features, trace, code, known)
        self._asked = True
        self._store.background.submit(job, partial(_hand_out, self._learners))
        if self._withdraw is None:
            self._withdraw = weakref.finalize(self, self._store.background.withdraw, self._number)
            self._withdraw.atexit = False
        self.account.asked(code)

    # -- regions in slots ------------------------------------------------------------------------------------
    def _add(self, region: Compiled) -> None:
        """Use a region from now on, if its code is still what memory holds."""
        try:
            current = all(
                self._memory.read(start, len(data), AccessKind.FETCH) == data for start, data in region.code
            )
        except GuestFault:
            return
        if not current:
            return
        if region.entry in self._regions:
            self._remove(self._regions[region.entry])
        self._regions[region.entry] = region
        for page in region.pages:
            self._on_page[page].add(region.entry)
        self.account.places(region.number, region.entry, region.code, region.seconds, region.cached)
        self._activate(region)

    def _remove(self, region: Compiled) -> None:
        self._deactivate(region)
        del self._regions[region.entry]
        for page in region.pages:
            self._on_page[page].remove(region.entry)

    def _activate(self, region: Compiled) -> None:
        """Let the region stand in its slot, if its page has slots and it covers no breakpoint."""
        base = self._slots.get(region.entry >> 12)
        if base is None or region.entry in self._active or any(map(region.covers, self._breaks)):
            return
        slot, plain = self._places(base, region.entry)
        plain.value, slot.value = slot.value, self._store.address(region)
        self._active[region.entry] = region

    def _deactivate(self, region: Compiled) -> None:
        if self._active.get(region.entry) is not region:
            return
        del self._active[region.entry]
        slot, plain = self._places(self._slots[region.entry >> 12], region.entry)
        slot.value, plain.value = plain.value, 0

    def _places(self, base: int, pc: int) -> tuple[ctypes.c_uint64, ctypes.c_uint64]:
        offset = pc & PAGE - 1
        slot = ctypes.c_uint64.from_address(base + offset * SLOT_PER_PC)
        return slot, ctypes.c_uint64.from_address(base + PLAIN_OFFSET + offset * PLAIN_PER_PC)

    def _reset(self, page: int) -> None:
        super()._reset(page)
        for entry in [entry for entry in self._active if entry >> 12 == page]:
            del self._active[entry]
        for entry, region in self._regions.items():
            if entry >> 12 == page:
                self._activate(region)
        for key in self._remembered.pop(page, ()):
            known = self._store.find(key)
            if known is not None:
                self._add(known)

    def _set_breakpoints(self, breakpoints: Set[int]) -> None:
        changed = self._breaks ^ breakpoints
        super()._set_breakpoints(breakpoints)
        for region in self._regions.values() if changed else ():
            if any(map(region.covers, self._breaks)):
                self._deactivate(region)
            else:
                self._activate(region)

    def invalidate(self, start: int, end: int) -> None:
        """Forget what was derived from the code in [start, end)."""
        first, last = start >> 12, (end + PAGE - 1) >> 12
        for page in [page for page in self._on_page if first <= page < last]:
            for entry in list(self._on_page[page]):
                self._remove(self._regions[entry])
        super().invalidate(start, end)


def _hand_out(learners: list[deque[Compiled | None]], region: Compiled | None) -> None:
    """Let all of them have a region; None, after the last, is for the engine that asked, the first of them.

    No method, for an engine that is no longer used must not live for it.
    """
    for arrived in learners if region is not None else learners[:1]:
        arrived.append(region)
