"""Memory words that hit: where an instruction would access memory, found by running its definition."""

from __future__ import annotations

from random import Random

from kvrm.engine.reference import Reference
from kvrm.isa.a64 import decode
from kvrm.isa.definition import Decoded
from kvrm.isa.features import ALL
from kvrm.lane.state import State
from kvrm.memory import Memory
from kvrm.values import Bits, bits
from oracle.case import DATA_BASE, DATA_SIZE, ENTRY, Case
from oracle.operands import chosen_address

MASK64 = (1 << 64) - 1


class _Accesses(Reference):
    """Lists (address, bytes, alignment) of the memory accesses of one instruction; nothing is accessed or
    kept."""

    def __init__(self, state: State) -> None:
        super().__init__(state, Memory(), ALL)
        self.seen: list[tuple[int, int]] = []
        self.align = 1

    def read_memory(self, address: Bits, n: int) -> Bits:
        self.seen.append((int(address), n // 8))
        return bits(n, 0)

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        self.seen.append((int(address), value.width // 8))

    def require_aligned(self, address: Bits, size: int, store: bool) -> None:
        self.align = size

    def require_sp_aligned(self, r: Bits, address: Bits) -> None:
        """`aim` sees to it."""


def accesses(d: Decoded, case: Case) -> tuple[list[tuple[int, int]], int]:
    """The accesses that `d` would make in the state of `case`, and the alignment that they need."""
    state = State()
    state.pc = ENTRY + 4 * (len(case.words) - 1)
    for i, value in enumerate(case.x):
        state.x[i] = value
    state.sp = case.sp
    machine = _Accesses(state)
    d.definition.run(machine, d.operands())
    return machine.seen, machine.align


def aim(rng: Random, case: Case) -> None:
    """Move the base register (field Rn) so that most accesses of the last word hit the data area."""
    d = decode(case.words[-1])
    if d is None or "Rn" not in d.fields:
        return
    seen, align = accesses(d, case)
    if not seen:
        return
    size = max(a + n for a, n in seen) - min(a for a, n in seen)
    first = min(a for a, _ in seen)
    if not 0 < size <= 64:
        return
    target = chosen_address(rng, size, align, 0.15)
    move = target - first
    if d.Rn != 31:
        case.x[d.Rn] = case.x[d.Rn] + move & MASK64
    else:
        up = 15 if target < DATA_BASE + DATA_SIZE // 2 else 0
        case.sp = case.sp + move + up & MASK64 & ~15
