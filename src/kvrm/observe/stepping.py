"""Running an engine one instruction at a time, for an observer that is told of each."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from kvrm.engine.exits import Exit
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.observe.account import Account
from kvrm.observe.observer import InstructionObserver


class Stepping:
    """An engine that runs another one, instruction by instruction from a retired count of `start` on."""

    def __init__(self, engine: Any, state: State, observer: InstructionObserver, start: int = 0) -> None:
        self._engine, self._state, self._observer, self._start = engine, state, observer, start

    @property
    def account(self) -> Account:
        account: Account = self._engine.account
        return account

    @property
    def retired(self) -> int:
        count: int = self._engine.retired
        return count

    @retired.setter
    def retired(self, value: int) -> None:
        self._engine.retired = value

    def invalidate(self, start: int, end: int) -> None:
        self._engine.invalidate(start, end)

    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        end, first = self.retired + budget, True
        if self.retired < self._start:
            left: Exit = self._engine.run(min(budget, self._start - self.retired), breakpoints)
            if left.kind is not Reason.BUDGET:
                return left
            first = False
        while self.retired < end:
            if self._state.pc in breakpoints and not first:
                return Exit(Reason.BREAKPOINT)
            first = False
            left = self._step()
            if left.kind is not Reason.BUDGET:
                return left
        return Exit(Reason.BUDGET)

    def _step(self) -> Exit:
        self._observer.before(self.retired)
        left: Exit = self._engine.run(1)
        self._observer.after()
        return left
