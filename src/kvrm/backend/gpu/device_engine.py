"""One lane on a GPU as an engine: the interpreter's, with native code on the device instead of the host.

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
from kvrm.engine.exits import SIMPLE, Exit
from kvrm.engine.interpreter.dispatch import Policy
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.translator.paths import Paths
from kvrm.engine.translator.region import Region
from kvrm.isa.features import CORTEX_A76
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE, W_BIT, Memory, Prot, untagged
from kvrm.memory.page_table import ENTRIES
from kvrm.memory.pages import HOST
from kvrm.observe.observer import AccessObserver
from kvrm.observe.recorder import Recorder

PROFILED = 200_000
"""Instructions that are run and recorded on the CPU first, for regions or what is prefetched to be chosen."""
SLICE_SECONDS = 0.1
"""How long a launch is meant to take, so that `cancel` is served."""


class DeviceEngine(Interpreter):
    """`Interpreter` on the GPU; everything that leaves for the host is served by the same code."""

    _skipping: DeviceSkipping | None

    def __init__(self, state: State, memory: Memory, features: frozenset[str] = CORTEX_A76) -> None:
        super().__init__(state, memory, features)
        self._gpu = device()
        self._lane = OneLane(self._gpu)
        self._device_code: Code | None = None
        self._device_regions: list[Region] = []
        self._ahead: Mapping[int, Sequence[int]] | None = None
        self._paths = Paths(lambda pc: words_at(memory, pc), features)
        self._trace: list[int] = []
        self._unprofiled = self._profile_length()
        self._slices = Slices(SLICE_SECONDS)

    def _profile_length(self) -> int:
        return PROFILED

    def _enter(self, budget: int) -> None:
        if self._unprofiled > 0:
            self._record(min(budget, self._unprofiled))
            return
        s, words = self._state, self._words
        self._gpu.use()
        budget = min(budget, self._slices.size)
        code = self.code
        words[layout.HORIZON >> 3] += budget - words[layout.REMAINING >> 3]
        words[layout.REMAINING >> 3] = budget
        self._send_pages()
        words[layout.REASON >> 3] = 0
        words[layout.PC >> 3], words[layout.IP >> 3] = s.pc, code.slot(s.pc)
        if not words[layout.IP >> 3]:
            words[layout.REASON >> 3] = Reason.CODE
            self._locate()
            return
        began = time.perf_counter()
        seconds = self._lane.run(code, s, budget)
        self._fetch_pages()
        slot = words[layout.IP >> 3]
        if slot:
            words[layout.PC >> 3] = code.address(slot)
            words[layout.IP >> 3] = 0
        self._slices.took(seconds)
        self.ran(budget - words[layout.REMAINING >> 3], time.perf_counter() - began)
        self._locate()

    def _record(self, count: int) -> None:
        """Run a little on the CPU, and choose regions once enough was seen."""
        pcs = self.record(count)
        self._trace += pcs
        self._unprofiled -= max(len(pcs), 1)
        if self._unprofiled <= 0:
            self._device_regions = plan(self._paths, self._paths.add(self._trace))
            self._trace.clear()

    # -- code ------------------------------------------------------------------------------------------------
    @property
    def code(self) -> Code:
        """The code that is mapped now, compiled; the same as before if nothing has changed."""
        if self._device_code is None:
            memory = self._memory
            code = [region for region in memory.regions() if region.prot & Prot.X]
            filled = (range(r.start, r.start + memory.filled(r), PAGE) for r in code)
            numbers = {at // PAGE for pages in filled for at in pages} | self._slots.keys()
            pages = {number: memory.peek(number * PAGE, PAGE) for number in numbers}
            current = [r for r in self._device_regions if _is_current(r, pages)]
            breakpoints = frozenset(self._breaks)
            policy = None if self._dispatch is None else self._dispatch.policy
            skip = None if self._skipping is None else self._skipping.emit
            self._device_code = Code(
                self._gpu, pages, self._features, current, breakpoints, policy, self._ahead, True, skip
            )
        return self._device_code

    def _new_handler(self, word: int) -> Exit | None:
        """All handlers are there, but those that a policy's answer keeps away."""
        return super()._new_handler(word) if self._dispatch is None else self._refused(self._dispatch)

    def _predecode(self, pc: int) -> None:
        known = self._slots.keys() | set()
        super()._predecode(pc)
        if self._slots.keys() != known:
            self._device_code = None

    def _set_breakpoints(self, breakpoints: Set[int]) -> None:
        super()._set_breakpoints(breakpoints)
        if self._device_code is not None:
            self._gpu.use()
            self._device_code.set_breakpoints(frozenset(breakpoints))

    def invalidate(self, start: int, end: int) -> None:
        """Forget what was derived from the code in [start, end), and the device's copies of those pages."""
        super().invalidate(start, end)
        self._device_code = None
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


class Foresight(AccessObserver, Protocol):
    """A memory policy that says, after some accesses, what is to be prefetched."""

    def ahead(self) -> Mapping[int, Sequence[int]]:
        """Steps by address of instruction (`Code`)."""


class DeviceInterpreter(DeviceEngine):
    """The same without regions.

    With `watch_by`, the first instructions run on the CPU, where their accesses are recorded, and what the
    device runs prefetches as the policy then says.
    """

    _watch: Foresight | None = None
    _recorder: Interpreter

    def _profile_length(self) -> int:
        return 0

    def watch_by(self, watch: Foresight) -> None:
        """Have a policy decide which loads and stores prefetch; before anything runs."""
        self._watch, self._unprofiled = watch, PROFILED
        self._recorder = Interpreter(self._state, self._memory, self._features, Recorder([watch]))
        self._recorder.account = self.account

    def dispatch_by(self, policy: Policy) -> None:
        """Of recorded instructions, too."""
        super().dispatch_by(policy)
        if self._watch is not None:
            self._recorder.dispatch_by(policy)

    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        """As the interpreter."""
        if self._watch is None:
            return super().run(budget, breakpoints)
        before, self._recorder.trace = self.retired, self.trace
        left = self._recorder.run(min(budget, self._unprofiled), breakpoints)
        done = self.retired - before
        self._unprofiled -= done
        if self._unprofiled > 0 or left.kind is not Reason.BUDGET:
            return left
        self._ahead, self._watch = self._watch.ahead(), None
        if done < budget and self._state.pc in breakpoints:
            return SIMPLE[Reason.BREAKPOINT]
        return super().run(budget - done, breakpoints)

    def invalidate(self, start: int, end: int) -> None:
        """Also of what is recorded."""
        super().invalidate(start, end)
        if self._watch is not None:
            self._recorder.invalidate(start, end)


def _is_current(region: Region, pages: dict[int, bytes]) -> bool:
    """Whether a region is made of what memory holds."""
    for block in region.blocks.values():
        data = b"".join(pages.get(n, b"") for n in range(block.start // PAGE, (block.end - 1) // PAGE + 1))
        at = block.start % PAGE
        if np.array(block.words, np.uint32).tobytes() != data[at : at + 4 * len(block.words)]:
            return False
    return True
