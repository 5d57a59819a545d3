"""Handlers that note their memory accesses: the same definitions, and a row in a buffer for each access.

A row (ROW bytes) is the address (64 bits), the handler's slot (64 bits), what is left of the budget (low 32
bits), and the size in bytes with WRITE added for a store (32 bits). The address of the next row is in the
state; it moves on when an instruction completes, so one that leaves for the host half-way has noted nothing.
"""

from __future__ import annotations

from typing import Any

from kvrm.engine.interpreter.stage import HandlerStage
from kvrm.lane.words import OBSERVED
from kvrm.staging.emitter import I32, I64, PTR, Value
from kvrm.values import Bits

ROW = 24
WRITE = 1 << 16
MOST_ROWS = 64
"""Accesses that one instruction makes at most: LD4 of sixteen bytes each."""


class RecordingStage(HandlerStage):
    """A handler that notes its accesses."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._row: Value | None = None

    def read_memory(self, address: Bits, n: int) -> Bits:
        """Noted when it has been done."""
        value = super().read_memory(address, n)
        self._note(address, n // 8, None)
        return value

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Noted if it has been done."""
        super().write_memory(address, value, condition)
        self._note(address, value.width // 8 | WRITE, condition)

    def _note(self, address: Bits, size: int, condition: Bits | None) -> None:
        f, e = self.f, self.f.e
        row = self._row or e.load_at(f.state, OBSERVED, PTR)
        e.store_at(self.value(address), row, 0)
        e.store_at(e.ptrtoint(f.ip, I64), row, 8)
        e.store_at(e.trunc(f.budget, I32), row, 16)
        e.store_at(e.const(I32, size), row, 20)
        done = e.at(row, ROW)
        self._row = done if condition is None else e.select(self.value(condition), done, row)

    def finish(self) -> None:
        if self._row is not None:
            self.f.e.store_at(self._row, self.f.state, OBSERVED)
        super().finish()
