"""Where regions on the device have guest registers: in SSA, or from block to block in memory."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kvrm.engine.translator.registers import Registers
from kvrm.lane import words as layout
from kvrm.staging.emitter import Emitter


class DeviceRegisters(Registers):
    """General registers come from the thread's words of shared memory, and go back there."""

    def __init__(
        self, stage: Any, e: Emitter, state: ir.Value, widths: dict[int, int], own: ir.Value
    ) -> None:
        super().__init__(stage, e, state, widths)
        self._own = own

    def _place(self, offset: int) -> ir.Value:
        return self._e.at(self._own if offset < layout.V_OFFSET else self._state, offset)


class RegistersInMemory(DeviceRegisters):
    """Each block loads what it uses and stores what it changes.

    A region whose blocks follow each other in no fixed order enters and leaves often: that way neither takes
    time, and each thread needs few of the device's registers.
    """

    def __init__(
        self, stage: Any, e: Emitter, state: ir.Value, widths: dict[int, int], own: ir.Value
    ) -> None:
        super().__init__(stage, e, state, dict.fromkeys(widths, 128), own)

    def slot(self, name: str, t: ir.Type, first: ir.Value | int | None = None) -> ir.Value:
        """A register is where its slot is."""
        if not isinstance(first, int):
            return super().slot(name, t, first)
        if name not in self._slots:
            with self._e.goto_block(self._entry):
                self._slots[name] = self._place(first)
        return self._slots[name]

    def write_back(self) -> list[ir.Value]:
        """The flags' facets: all else is where it belongs."""
        return self.lazy_flags.load()
