"""The translator from the first instruction on: nothing is interpreted that can be translated. For tests."""

from __future__ import annotations

from kvrm.engine.exits import Exit
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.translator.compile import Compiled
from kvrm.engine.translator.engine import Translator
from kvrm.engine.translator.paths import Paths
from kvrm.isa.features import CORTEX_A76
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE, AccessKind, GuestFault, Memory, page_up


class ForcedTranslator(Translator):
    """`Translator` that compiles, and waits for it, wherever control gets to code that no region covers."""

    def __init__(self, state: State, memory: Memory, features: frozenset[str] = CORTEX_A76) -> None:
        super().__init__(state, memory, features)
        self._paths = Paths(self._fetch, features)
        self._first = self._library.untranslated

    def _enter(self, budget: int) -> None:
        Interpreter._enter(self, budget)

    def _serve(self, reason: Reason) -> Exit | None:
        if reason is not Reason.UNTRANSLATED:
            return Interpreter._serve(self, reason)
        pc = self._state.pc
        self._places(self._slots[pc >> 12], pc)[0].value = self._library.undecoded
        region = self._paths.around(pc)
        if region is not None and pc not in self._active:
            made = self._store.make(region)
            self._add(made)
            if self._program:
                self._store.remember(self._program, made)
        return None

    def _fetch(self, pc: int) -> tuple[int, ...]:
        if pc & 3:
            return ()
        try:
            data = self._memory.read(pc, PAGE - (pc & PAGE - 1), AccessKind.FETCH)
        except GuestFault:
            return ()
        return tuple(memoryview(data).cast("I"))

    def invalidate(self, start: int, end: int) -> None:
        """Forget what was derived from the code in [start, end)."""
        self._paths.forget(start & -PAGE, page_up(end))
        super().invalidate(start, end)

    def _activate(self, region: Compiled) -> None:
        base = self._slots.get(region.entry >> 12)
        if base is not None:
            slot, _ = self._places(base, region.entry)
            if slot.value == self._library.untranslated:
                slot.value = self._library.undecoded
        super()._activate(region)
