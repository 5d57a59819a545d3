"""An engine that changes engines all the time, to show that they agree at every point. For tests."""

from __future__ import annotations

import random
from collections.abc import Set

from kvrm.engine.exits import Exit
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.reference import ReferenceEngine
from kvrm.engine.translator.forced import ForcedTranslator
from kvrm.isa.features import CORTEX_A76
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import Memory
from kvrm.observe.account import Account

LONGEST_SLICE = 300
"""Instructions that one engine runs at most before another may take over."""


class Stress:
    """Reference, interpreter and translator alternate on one machine after random lengths."""

    def __init__(self, state: State, memory: Memory, features: frozenset[str] = CORTEX_A76) -> None:
        self._state = state
        self._native = [Interpreter(state, memory, features), ForcedTranslator(state, memory, features)]
        self._engines: list[Interpreter | ReferenceEngine] = [
            ReferenceEngine(state, memory, features),
            *self._native * 3,
        ]
        self.account = Account()
        for engine in self._engines:
            # IC IVAU, whichever engine ran it, is meant for all of them
            engine.account, engine.on_code_write = self.account, self.invalidate
        self._random = random.Random(0)
        self.retired = 0

    def prepare(self) -> None:
        for engine in self._native:
            engine.prepare()

    def poll(self) -> None:
        """Nothing happens in the background."""

    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        """Run at most `budget` instructions; a breakpoint at the starting pc is passed over."""
        end, first = self.retired + budget, True
        while self.retired < end:
            if not first and self._state.pc in breakpoints:
                return Exit(Reason.BREAKPOINT)
            first = False
            engine = self._random.choice(self._engines)
            engine.retired = self.retired
            try:
                left = engine.run(
                    min(self._random.randint(1, LONGEST_SLICE), end - self.retired), breakpoints
                )
            finally:
                self.retired = engine.retired
            if left.kind is not Reason.BUDGET:
                return left
        return Exit(Reason.BUDGET)

    def invalidate(self, start: int, end: int) -> None:
        """Forget code derived from these addresses."""
        for engine in self._native:
            engine.invalidate(start, end)
