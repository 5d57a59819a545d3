"""Traces (`KVRM_TRACE=insn,regs,mem,sys[:start]`): one format on every engine, so that `diff` works.

`start` is the retired count at which the trace begins. `sys` is printed by the Linux layer.
"""

from __future__ import annotations

import sys
from collections.abc import Set
from typing import TextIO

from kvrm.engine.reference import Reference
from kvrm.isa.a64 import decode, disassemble
from kvrm.isa.context import Flags, System
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import GuestFault, Memory
from kvrm.values import Bits, Lift


class Tracer:
    """Prints what the instructions of a lane are and do, as far as `topics` say."""

    def __init__(self, state: State, memory: Memory, topics: Set[str], out: TextIO | None = None) -> None:
        self._state, self._memory, self._topics = state, memory, topics
        self._out = out or sys.stderr
        self._registers: dict[str, int] = {}

    def before(self, retired: int) -> None:
        """Print the instruction, and what it will access."""
        s, pc = self._state, self._state.pc
        try:
            word = int.from_bytes(self._memory.peek(pc, 4), "little")
        except GuestFault:
            self._registers = {}
            return
        self._registers = _registers(s) if "regs" in self._topics else {}
        if "insn" in self._topics:
            text = disassemble(word, pc) or "(undefined)"
            print(f"{retired} {pc:#x}: {word:08x} {text}", file=self._out)
        if "mem" in self._topics:
            for line in _Accesses(s, self._memory).of(word):
                print(f"    {line}", file=self._out)

    def after(self) -> None:
        """Print the registers that have changed."""
        if before := self._registers:
            changes = [f"{k}={v:#x}" for k, v in _registers(self._state).items() if before[k] != v]
            if changes:
                print("    " + " ".join(changes), file=self._out)


def _registers(s: State) -> dict[str, int]:
    return {
        **{f"x{i}": v for i, v in enumerate(s.x)},
        "sp": s.sp,
        "nzcv": s.nzcv,
        **{f"v{i}": v for i, v in enumerate(s.v)},
    }


class _Accesses(Reference):
    """A reference machine that lists an instruction's memory accesses and changes nothing."""

    def __init__(self, state: State, memory: Memory) -> None:
        super().__init__(state, memory)
        self._lines: list[str] = []

    def of(self, word: int) -> list[str]:
        """The accesses of `word` in the present state; up to the first fault."""
        d = decode(word)
        if d is not None:
            try:
                d.definition.run(self, d.operands())
            except GuestFault as fault:
                self._lines.append(f"fault {fault.kind.name.lower()} {fault.address:#x}")
        return self._lines

    def read_memory(self, address: Bits, n: int) -> Bits:
        value = super().read_memory(address, n)
        self._lines.append(f"read {int(address):#x} {n // 8} {int(value):#x}")
        return value

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Listed, not done."""
        if condition is None or int(condition):
            self._lines.append(f"write {int(address):#x} {value.width // 8} {int(value):#x}")

    def write_x(self, r: Bits, value: Bits, sp: bool) -> None:
        """Not done."""

    def write_v(self, r: Bits, value: Bits) -> None:
        """Not done."""

    def write_flags(self, nzcv: Flags) -> None:
        """Not done."""

    def write_system(self, register: System, value: Bits) -> None:
        """Not done."""

    def branch(self, target: Bits, condition: Bits | None = None) -> None:
        """Not done."""

    def event(self, event: Reason, value: Lift = 0) -> None:
        """Not done."""
