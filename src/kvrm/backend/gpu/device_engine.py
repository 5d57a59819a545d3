"""One lane on a GPU as an engine.

The device has copies of guest pages. A page is copied there when the lane first accesses it, and again when
the host has changed it; what the lane has written comes back whenever it stops.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from typing import Protocol

import numpy as np

from kvrm.backend.gpu.code import Code
from kvrm.backend.gpu.driver import device
from kvrm.backend.gpu.foreseen import words_at
from kvrm.backend.gpu.one_lane import OneLane
from kvrm.backend.gpu.region_plan import plan
from kvrm.backend.gpu.skipping import DeviceSkipping
from kvrm.backend.gpu.slices import Slices
from kvrm.engine.exits import OUT_OF_BUDGET, Exit
from kvrm.engine.interpreter.dispatch import Policy
from kvrm.engine.interpreter.engine import SHORT_SLICE, SLICE, Interpreter
from kvrm.engine.translator.paths import Paths
from kvrm.engine.translator.region import Region
from kvrm.isa.features import CORTEX_A76
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE, W_BIT, Memory, Prot, untagged
from kvrm.memory.page_table import ENTRIES
from kvrm.memory.pages import HOST
from kvrm.observe.observer import AccessObserver, RunObserver
from kvrm.observe.recorder import Recorder

PROFILED = 200_000
"""Instructions that are run and recorded on the CPU first, for regions or what is prefetched to be chosen."""
SLICE_SECONDS = 0.1
"""How long a launch is meant to take, so that `cancel` is served."""


class Foresight(AccessObserver, Protocol):
    """A memory policy that says, after some accesses, what is to be prefetched."""

    def ahead(self) -> Mapping[int, Sequence[int]]:
        """Steps by address of instruction (`Code`)."""


class DeviceEngine:
    """Has an `Interpreter` on the CPU, which serves what native code on the GPU leaves for.

    The first instructions run on the CPU, where they are recorded. With `watch`, a policy sees their
    accesses, and what the device runs prefetches as it then says.
    """

    translates = True
    """Whether regions are made of what the first instructions do."""

    def __init__(
        self,
        state: State,
        memory: Memory,
        features: frozenset[str] = CORTEX_A76,
        watch: Foresight | None = None,
    ) -> None:
        self._state, self._memory, self._features, self._watch = state, memory, features, watch
        self._words, self._gpu = state.words, device()
        self._interpreter = Interpreter(state, memory, features, Recorder([watch]) if watch else None)
        self._interpreter.on_code_write = self.invalidate
        self._lane = OneLane(self._gpu)
        self._policy: Policy | None = None
        self._skipping: DeviceSkipping | None = None
        self._code: Code | None = None
        self._regions: list[Region] = []
        self._ahead: Mapping[int, Sequence[int]] | None = None
        self._trace: list[int] = []
        self._unprofiled = PROFILED if watch or self.translates else 0
        self._slices, self._most = Slices(SLICE_SECONDS), SLICE

    def dispatch_by(self, policy: Policy) -> None:
        self._policy = policy
        self._interpreter.dispatch_by(policy)

    def skip_by(self, skipping: DeviceSkipping) -> None:
        """Have loops skipped on the device, which are found where launches end."""
        self._skipping, self._most = skipping, SHORT_SLICE

    def prepare(self) -> list[str]:
        return self._interpreter.prepare()

    @property
    def account(self) -> RunObserver:
        return self._interpreter.account

    @property
    def retired(self) -> int:
        return self._interpreter.retired

    @retired.setter
    def retired(self, value: int) -> None:
        self._interpreter.retired = value

    # -- running ---------------------------------------------------------------------------------------------
    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        end, on_host = self.retired + budget, self._unprofiled or int(self._state.pc in breakpoints)
        if (first := self._run_on_host(min(budget, on_host), breakpoints)).kind is not Reason.BUDGET:
            return first
        self._gpu.use()
        while (ahead := end - self.retired) > 0:
            self._launch(min(ahead, self._slices.size, self._most), frozenset(breakpoints))
            reason = self._words[layout.REASON >> 3]
            left = self._interpreter.resume(end)
            if left is not None:
                return left
            if reason == Reason.CODE and not self.code.slot(self._state.pc):
                self._code = None
            if reason == Reason.BUDGET and self._skipping is not None:
                self._skipping.look([(self._state.pc, 1)])
        return OUT_OF_BUDGET

    def _run_on_host(self, budget: int, breakpoints: Set[int]) -> Exit:
        """A little on the CPU, even nothing, which tells the interpreter of breakpoints."""
        interpreter, before = self._interpreter, self.retired
        interpreter.trace = self._trace if self.translates and self._unprofiled else None
        left = interpreter.run(budget, breakpoints)
        if self._unprofiled:
            self._unprofiled = max(self._unprofiled - (self.retired - before), 0)
            if not self._unprofiled:
                self._learn()
        return left

    def _learn(self) -> None:
        """Choose regions, or what prefetches, once enough was seen."""
        if self._watch is not None:
            self._ahead = self._watch.ahead()
        if self.translates:
            paths = Paths(lambda pc: words_at(self._memory, pc), self._features)
            self._regions = plan(paths, paths.add(self._trace))
            self._trace = []

    def _launch(self, budget: int, breakpoints: frozenset[int]) -> None:
        s, words, code = self._state, self._words, self.code
        if code.breakpoints != breakpoints:
            code.set_breakpoints(breakpoints)
        words[layout.HORIZON >> 3] += budget - words[layout.REMAINING >> 3]
        words[layout.REMAINING >> 3] = budget
        self._send_pages()
        words[layout.REASON >> 3] = 0
        words[layout.PC >> 3], words[layout.IP >> 3] = s.pc, code.slot(s.pc)
        if not words[layout.IP >> 3]:
            words[layout.REASON >> 3] = Reason.CODE
            return
        began = time.perf_counter()
        seconds = self._lane.run(code, s, budget)
        self._fetch_pages()
        slot = words[layout.IP >> 3]
        if slot:
            words[layout.PC >> 3] = code.address(slot)
            words[layout.IP >> 3] = 0
        if words[layout.REASON >> 3] == Reason.HANDLER:
            # the kernel has all handlers but those that a policy's answer keeps away: the interpreter asks it
            words[layout.WORD >> 3] = words_at(self._memory, words[layout.PC >> 3])[0]
            self._interpreter.ready()
        self._slices.took(seconds)
        self._interpreter.ran(budget - words[layout.REMAINING >> 3], time.perf_counter() - began)

    # -- code ------------------------------------------------------------------------------------------------
    @property
    def code(self) -> Code:
        """The code that is mapped now, compiled; the same as before if nothing has changed."""
        if self._code is None:
            memory = self._memory
            code = [region for region in memory.regions() if region.prot & Prot.X]
            filled = (range(r.start, r.start + memory.filled(r), PAGE) for r in code)
            numbers = {at // PAGE for pages in filled for at in pages} | self._interpreter.pages
            pages = {number: memory.peek(number * PAGE, PAGE) for number in numbers}
            current = [r for r in self._regions if _is_current(r, pages)]
            skip = None if self._skipping is None else self._skipping.emit
            self._code = Code(
                self._gpu, pages, self._features, current, frozenset(), self._policy, self._ahead, True, skip
            )
        return self._code

    def invalidate(self, start: int, end: int) -> None:
        """Forget what was derived from the code in [start, end), and the device's copies of those pages."""
        self._interpreter.invalidate(start, end)
        self._code = None
        self._lane.unmap(untagged(start) // PAGE, (untagged(end) + PAGE - 1) // PAGE)

    # -- pages -----------------------------------------------------------------------------------------------
    def _send_pages(self) -> None:
        """Have the device's pages as the host has them; those that the host's table has, it may access."""
        entries, lane = self._memory.entries, self._lane
        for page in self._touched():
            entry = entries[page]
            if entry:
                host = entry & -PAGE
                lane.map(page, HOST[host : host + PAGE], entry & PAGE - 1)
            else:
                lane.unmap(page, page + 1)

    def _touched(self) -> list[int]:
        page = untagged(self._words[layout.ADDRESS >> 3]) // PAGE
        refused = self._words[layout.REASON >> 3] == Reason.MEMORY and page < ENTRIES
        return [*self._lane.pages, page] if refused else list(self._lane.pages)

    def _fetch_pages(self) -> None:
        """Bring back what the lane has written."""
        for page, data in self._lane.written():
            entry = self._memory.entries[page]
            assert entry & W_BIT
            host = entry & -PAGE
            HOST[host : host + PAGE] = data


class DeviceInterpreter(DeviceEngine):
    """The same without regions."""

    translates = False


def _is_current(region: Region, pages: dict[int, bytes]) -> bool:
    """Whether a region is made of what memory holds."""
    for block in region.blocks.values():
        data = b"".join(pages.get(n, b"") for n in range(block.start // PAGE, (block.end - 1) // PAGE + 1))
        at = block.start % PAGE
        if np.array(block.words, np.uint32).tobytes() != data[at : at + 4 * len(block.words)]:
            return False
    return True
