"""An observer in handlers, as a user writes one: the bytes that the guest stores, counted natively."""

from __future__ import annotations

from typing import Any

from kvrm.engine.interpreter.stage import HandlerStage
from kvrm.lane.words import OBSERVED
from kvrm.observe.observer import Watched
from kvrm.staging.emitter import I64, Value
from kvrm.values import Bits


class CountingStage(HandlerStage):
    """A handler that adds what it has stored to the observer's word."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sizes: list[Value] = []

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        super().write_memory(address, value, condition)
        e = self.f.e
        size, none = e.const(I64, value.width // 8), e.const(I64, 0)
        self._sizes.append(size if condition is None else e.select(self.value(condition), size, none))

    def finish(self) -> None:
        """Only what completes counts: before, the handler may leave, and run again."""
        e, state = self.f.e, self.f.state
        for size in self._sizes:
            e.store_at(e.add(e.load_at(state, OBSERVED, I64), size), state, OBSERVED)
        super().finish()


class StoreCounter:
    """Bytes stored by instructions that native code ran."""

    stage = "store_counter:CountingStage"
    most = 1_000_000

    def __init__(self) -> None:
        self.bytes_stored = 0

    def attach(self, watched: Watched) -> None:
        self._state = watched.state

    def enter(self) -> None:
        self._state.set(OBSERVED, 0)

    def leave(self) -> None:
        self.bytes_stored += self._state.get(OBSERVED)
