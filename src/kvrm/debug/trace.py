"""Traces (`KVRM_TRACE=insn,regs,mem,sys[:start]`): one format on every engine, so that `diff` works.

`start` is the retired count at which the trace begins. `sys` is printed by the Linux layer.
"""

from __future__ import annotations

import sys
from collections.abc import Set
from typing import Any, TextIO

from kvrm.engine.account import Account
from kvrm.engine.exits import Exit, ExitKind
from kvrm.engine.reference import Reference
from kvrm.isa.a64 import decode, disassemble
from kvrm.isa.context import Event, Flags, System
from kvrm.machine.state import State
from kvrm.memory import GuestFault, Memory
from kvrm.values import Bits, Lift


class Tracer:
    """An engine that runs another one instruction at a time and prints each."""

    def __init__(
        self,
        engine: Any,
        state: State,
        memory: Memory,
        topics: Set[str],
        start: int,
        out: TextIO | None = None,
    ) -> None:
        self._engine, self._state, self._memory = engine, state, memory
        self._topics, self._start, self._out = topics, start, out or sys.stderr

    @property
    def account(self) -> Account:
        account: Account = self._engine.account
        return account

    @property
    def retired(self) -> int:
        """Instructions retired so far."""
        count: int = self._engine.retired
        return count

    @retired.setter
    def retired(self, value: int) -> None:
        self._engine.retired = value

    def invalidate(self, start: int, end: int) -> None:
        """Forget code derived from these addresses."""
        self._engine.invalidate(start, end)

    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        """Run at most `budget` instructions."""
        end, first = self.retired + budget, True
        if self.retired < self._start:
            left: Exit = self._engine.run(min(budget, self._start - self.retired), breakpoints)
            if left.kind is not ExitKind.BUDGET:
                return left
            first = False
        while self.retired < end:
            if self._state.pc in breakpoints and not first:
                return Exit(ExitKind.BREAKPOINT)
            first = False
            left = self._step()
            if left.kind is not ExitKind.BUDGET:
                return left
        return Exit(ExitKind.BUDGET)

    def _step(self) -> Exit:
        s = self._state
        pc, before = s.pc, _registers(s) if "regs" in self._topics else {}
        try:
            word = int.from_bytes(self._memory.peek(pc, 4), "little")
        except GuestFault:
            return self._engine.run(1)  # type: ignore[no-any-return]
        if "insn" in self._topics:
            text = disassemble(word, pc) or "(undefined)"
            print(f"{self.retired} {pc:#x}: {word:08x} {text}", file=self._out)
        if "mem" in self._topics:
            for line in _Accesses(s, self._memory).of(word):
                print(f"    {line}", file=self._out)
        left: Exit = self._engine.run(1)
        if "regs" in self._topics:
            after = _registers(s)
            changes = [f"{k}={v:#x}" for k, v in after.items() if before[k] != v]
            if changes:
                print("    " + " ".join(changes), file=self._out)
        return left


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

    def event(self, event: Event, value: Lift = 0) -> None:
        """Not done."""
