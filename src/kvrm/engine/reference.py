"""The reference engine: definitions run over Python ints, one instruction at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from functools import cached_property

from kvrm.engine.exits import Exit
from kvrm.isa.context import Context, Flags, System
from kvrm.isa.definition import Decoded
from kvrm.isa.features import CORTEX_A76, allocates
from kvrm.isa.probe import effects_of
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import AccessKind, GuestFault, Memory, SPAlignmentFault, untagged
from kvrm.observe.account import Account
from kvrm.values import Bits, Lift, bits

MASK = (1 << 64) - 1


class Reference(Context):
    """Runs one instruction per `step`: slow, and meant to be read and debugged.

    Register writes take effect at once; a fault leaves the instruction before later effects, so definitions
    access memory first.
    """

    def __init__(self, state: State, memory: Memory, features: frozenset[str] = CORTEX_A76) -> None:
        super().__init__()
        self._state, self._memory, self._features = state, memory, features
        self._next = 0
        self._event: Exit | None = None

    @property
    def count(self) -> int:
        return self._state.get(layout.HORIZON) - self._state.get(layout.REMAINING)

    def step(self) -> Exit | None:
        """Run one instruction; None if it simply retired. SVC and CODE_WRITE retire, others do not."""
        from kvrm.isa.a64 import decode

        s = self._state
        try:
            word = self._fetch()
            d = decode(word)
            if d is None or not allocates(self._features, d.definition.feature):
                return Exit(Reason.UNDEFINED)
            self._next = s.pc + 4 & MASK
            left = self._run(d)
        except GuestFault as fault:
            return Exit(Reason.FAULT, fault=fault)
        if left is None or left.kind.retires:
            s.pc = self._next
        return left

    def _run(self, d: Decoded) -> Exit | None:
        self._event, self._decoded = None, d
        d.definition.run(self, d.operands())
        return self._event

    def _fetch(self) -> int:
        self._state.pc = pc = untagged(self._state.pc)
        if pc & 3:
            raise self._memory.misaligned(pc, AccessKind.FETCH)
        return int.from_bytes(self._memory.read(pc, 4, AccessKind.FETCH), "little")

    # -- the machine -----------------------------------------------------------------------------------------
    @property
    def pc(self) -> Bits:
        return bits(64, self._state.pc)

    @property
    def fpcr(self) -> int:
        """The floating-point control register; tracked exceptions go to FPSR."""
        s = self._state
        return self._tracking(s.fpcr) if s.fp_tracking else s.fpcr

    @cached_property
    def _tracking(self) -> Callable[[int], int]:
        """Makes of FPCR's value one that adds exceptions to FPSR."""
        from kvrm.values.softfloat_core import Control
        from kvrm.values.softfloat_core import Flags as Exceptions

        state = self._state

        class Status(Exceptions):
            """FPSR itself."""

            def __init__(self) -> None: ...

            @property
            def bits(self) -> int:
                return state.system(System.FPSR)

            @bits.setter
            def bits(self, value: int) -> None:
                state.set_system(System.FPSR, value)

        status = Status()
        return lambda fpcr: Control(fpcr, status)

    @property
    def retired(self) -> Bits:
        return bits(64, self.count)

    def read_x(self, r: Bits, n: int, sp: bool) -> Bits:
        """From the state; 31 is zero or SP."""
        i = int(r)
        value = (self._state.sp if sp else 0) if i == 31 else self._state.x[i]
        return bits(n, value)

    def write_x(self, r: Bits, value: Bits, sp: bool) -> None:
        """To the state; 31 is SP or nowhere."""
        i = int(r)
        if i != 31:
            self._state.x[i] = int(value)
        elif sp:
            self._state.sp = int(value)

    def read_v(self, r: Bits, n: int) -> Bits:
        return bits(n, self._state.v[int(r)])

    def write_v(self, r: Bits, value: Bits) -> None:
        self._state.v[int(r)] = int(value)

    def read_flags(self) -> Flags:
        value = self._state.nzcv
        return bits(1, value >> 3), bits(1, value >> 2), bits(1, value >> 1), bits(1, value)

    def write_flags(self, nzcv: Flags) -> None:
        n, z, c, v = (int(f) for f in nzcv)
        self._state.nzcv = n << 3 | z << 2 | c << 1 | v

    def read_memory(self, address: Bits, n: int) -> Bits:
        """Through the permissions."""
        return bits(n, int.from_bytes(self._memory.read(int(address), n // 8), "little"))

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Through the permissions."""
        if condition is None or int(condition):
            self._memory.write(int(address), int(value).to_bytes(value.width // 8, "little"))

    def require_aligned(self, address: Bits, size: int, store: bool) -> None:
        """Before anything else is looked at."""
        if int(address) % size:
            raise self._memory.misaligned(int(address), AccessKind.WRITE if store else AccessKind.READ)

    def require_sp_aligned(self, r: Bits, address: Bits) -> None:
        """As Linux tells of it: SP is where it happened."""
        if int(r) == 31 and int(address) % 16:
            first, _ = effects_of(self._decoded).memory[0]
            kind = AccessKind.WRITE if first == "write" else AccessKind.READ
            mapped = self._memory.misaligned(int(address), kind).mapped
            raise SPAlignmentFault(int(address), kind, mapped)

    def read_system(self, register: System) -> Bits:
        return bits(64, self._state.system(register))

    def write_system(self, register: System, value: Bits) -> None:
        self._state.set_system(register, int(value))

    def branch(self, target: Bits, condition: Bits | None = None) -> None:
        """Sets the next pc; a branch drops the tag (Arm ARM, BranchAddr)."""
        if condition is None or int(condition):
            self._next = untagged(int(target))

    def event(self, event: Reason, value: Lift = 0) -> None:
        """Ends the step."""
        self._event = Exit(event, int(value))


class ReferenceEngine:
    """`Reference` as an engine: the same `run` as the interpreter's, and the same `on_code_write`."""

    def __init__(self, state: State, memory: Memory, features: frozenset[str] = CORTEX_A76) -> None:
        self._state = state
        self._reference = Reference(state, memory, features)
        self.account = Account()
        self.on_code_write: Callable[[int, int], None] | None = None
        self.retired = 0

    def prepare(self) -> None:
        """Nothing is compiled."""

    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        """Run at most `budget` instructions; a breakpoint at the starting pc is passed over."""
        first = True
        end = self.retired + budget
        while self.retired < end:
            if self._state.pc in breakpoints and not first:
                return Exit(Reason.BREAKPOINT)
            first = False
            self._state.set(layout.HORIZON, self.retired)
            self._state.set(layout.REMAINING, 0)
            pc, began = self._state.pc, time.perf_counter()
            left = self._reference.step()
            retires = left is None or left.kind.retires
            self.retired += retires
            self.account.stepped(pc, retires, time.perf_counter() - began, 0)
            if left is not None and left.kind is not Reason.CODE_WRITE:
                return left
            if left is not None and self.on_code_write is not None:
                self.on_code_write(untagged(left.value), untagged(left.value) + 1)
        return Exit(Reason.BUDGET)

    def poll(self) -> None:
        """Nothing goes on in the background."""

    def invalidate(self, start: int, end: int) -> None:
        """Nothing is kept, so nothing is forgotten."""
