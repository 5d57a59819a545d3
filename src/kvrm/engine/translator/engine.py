"""The tiered engine: interprets at once, and has hot regions translated in the background.

A translated region is a handler like any other: it stands in the slot of its first instruction and runs as
many instructions as it likes. What is hot is found by sampling. A run is cut into slices; where they end in
interpreted code again and again, the engine records what the program does for a moment and asks for regions
that would run most of that (`plan`). A region that uses up a slice says so in the state, so that translated
code is left alone and slices grow.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import time
import weakref
from array import array
from collections import deque
from collections.abc import Set
from typing import Any

from kvrm.engine.account import Account
from kvrm.engine.exits import Exit
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.interpreter.slots import PLAIN_OFFSET, PLAIN_PER_PC, SLOT_PER_PC, Reason
from kvrm.engine.translator.background import Job
from kvrm.engine.translator.compile import Compiled
from kvrm.engine.translator.store import store
from kvrm.isa.features import CORTEX_A76
from kvrm.machine import state as layout
from kvrm.machine.state import State
from kvrm.memory import PAGE, AccessKind, GuestFault, Memory

SHORTEST_SLICE = 100_003
"""Instructions between two samples while interpreted code is hot."""
LONGEST_SLICE = 20_000_000
FIRST, HOT, COLD = 150, 2, 256
"""Samples of interpreted code after which the program is followed: the first time, as long as that brings
regions, and at most. A program that is over before the first costs no compiler."""
LONGEST_TRACE = 20_000
"""Instructions that are followed."""
MOST_PIECES = 16
"""Times that a trace goes on after native code left for the host, as for a page that is not filled."""

_numbers = itertools.count()


class Translator(Interpreter):
    """`Interpreter`, and regions that run in place of handlers; everything else is the same."""

    def __init__(self, state: State, memory: Memory, features: frozenset[str] = CORTEX_A76) -> None:
        super().__init__(state, memory, features)
        self.account = Account(translates=True)
        self._store = store()
        self._cold, self._patience = 0, FIRST
        self._slice = self._due = SHORTEST_SLICE
        self._end = 0
        self._regions: dict[int, Compiled] = {}
        self._active: dict[int, Compiled] = {}
        self._number = next(_numbers)
        self._withdraw: Any = None
        self._arrived: deque[Compiled] = deque()
        self._program = ""

    def prepare(self) -> list[str]:
        """As the interpreter; and regions that earlier runs of the program left are used from the start."""
        texts = super().prepare()
        # what may be translated depends on the features, so each set of them has its own list
        self._program = hashlib.blake2b(
            " ".join([*sorted(self._features), *texts]).encode(), digest_size=12
        ).hexdigest()
        for known in self._store.program(self._program):
            self._add(known)
        return texts

    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        """Run at most `budget` instructions; a breakpoint at the starting pc is passed over."""
        self._end = self.retired + budget
        return super().run(budget, breakpoints)

    def poll(self) -> None:
        """Put regions in place that have been compiled since."""
        while self._arrived:
            self._add(self._arrived.popleft())
            self._patience = HOT

    @property
    def slice(self) -> int:
        """Instructions up to the next sample."""
        return max(self._due - self.account.instructions, 1)

    def resume(self, end: int) -> Exit | None:
        """Serve what native code that somebody else entered left for; also takes samples."""
        self._end = end
        return super().resume(end)

    # -- sampling --------------------------------------------------------------------------------------------
    def _enter(self, budget: int) -> None:
        super()._enter(min(budget, max(self._due - self.account.instructions, 1)))

    def _serve(self, reason: Reason) -> Exit | None:
        if reason is not Reason.BUDGET or self.account.instructions < self._due:
            return super()._serve(reason)  # a slice goes on where a run ends
        left = self._sample()
        self._due = self.account.instructions + self._slice
        return left

    def _sample(self) -> Exit | None:
        """A slice has ended: note where, and see what the program does if too much of it is interpreted."""
        s = self._state
        self.poll()
        if s.get(layout.REGION):
            s.set(layout.REGION, 0)
            self._slice = min(2 * self._slice + 1, LONGEST_SLICE)
            return None
        self._slice = max(self._slice // 2, SHORTEST_SLICE)
        self._cold += 1
        if self._cold < self._patience or self.retired >= self._end:
            return None
        self._cold = 0
        self._patience = min(2 * self._patience, COLD)
        return self._follow()

    def _follow(self) -> Exit | None:
        """Record what the program does, and ask for regions for what of it is interpreted."""
        began = time.perf_counter()
        trace: list[int] = []
        left = None
        for _ in range(MOST_PIECES):
            count = min(LONGEST_TRACE - len(trace), self._end - self.retired)
            pcs = self.record(count) if count > 0 else []
            trace += pcs
            if len(pcs) < count:
                left = super()._serve(Reason(self._state.get(layout.REASON)))
            if left is not None or len(pcs) >= count:
                break
        code: dict[int, bytes] = {}
        for page in {pc >> 12 for pc in trace}:
            with contextlib.suppress(GuestFault):
                code[page] = self._memory.read(page << 12, PAGE, AccessKind.FETCH)
        known = {entry: region.starts for entry, region in self._active.items()}
        job = Job(self._number, self._program, self._features, array("Q", trace).tobytes(), code, known)
        self._store.background.submit(job, self._arrived.append)
        if self._withdraw is None:
            self._withdraw = weakref.finalize(self, self._store.background.withdraw, self._number)
            self._withdraw.atexit = False
        self.account.followed(time.perf_counter() - began, code)
        return left

    # -- regions in place ------------------------------------------------------------------------------------
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
        self.account.places(region)
        self._activate(region)

    def _remove(self, region: Compiled) -> None:
        self._deactivate(region)
        del self._regions[region.entry]

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
        for region in [r for r in self._regions.values() if any(first <= page < last for page in r.pages)]:
            self._remove(region)
        super().invalidate(start, end)
