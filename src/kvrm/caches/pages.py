"""What page misses cost on target `cpu`: first touches and copies on write."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.machine.machine import Machine

TOUCHES = 8192
CODE, DATA = 0x10000, 0x1000000
TOUCH = bytes.fromhex("1f0000f90000028b210400f1a1ffff54010000d4")
"""str xzr, [x0]; add x0, x0, x2; subs x1, x1, #1; b.ne to the first; svc #0."""


@dataclass(frozen=True, slots=True)
class PageMisses:
    """Misses of the page table in a run, seconds in the code that serves them, and seconds of the run.

    `each` is what one first write costs in all, from leaving native code to being back in it; `following` are
    misses of the page after one that had missed.
    """

    count: int
    following: int
    resolving: float
    seconds: float
    each: float

    @property
    def share(self) -> float:
        """Of the run's time: the count times what each costs."""
        return self.count * self.each / self.seconds


def page_misses(machine: Machine, max_instructions: int | None = None) -> PageMisses:
    """Run a machine and count."""
    memory, spent = machine.lane.memory, 0.0
    missed: list[int] = []
    resolve = memory.resolve

    def timed(address: int, *arguments: Any) -> int:
        nonlocal spent
        began = time.perf_counter()
        try:
            return resolve(address, *arguments)
        finally:
            missed.append(address // PAGE)
            spent += time.perf_counter() - began

    vars(memory)["resolve"] = timed
    try:
        result = machine.run(max_instructions)
    finally:
        del vars(memory)["resolve"]
    following = len({page + 1 for page in missed} & set(missed))
    return PageMisses(len(missed), following, spent, result.seconds, cost_of_one())


def cost_of_one() -> float:
    """Seconds for the first write to a page, above what a write costs otherwise."""
    return (_seconds(PAGE) - _seconds(0)) / TOUCHES


def _seconds(step: int) -> float:
    from kvrm.machine.machine import Machine

    machine = Machine(engine="interpreter")
    machine.write_memory(CODE, TOUCH)
    machine.lane.memory.map(DATA, (TOUCHES + 1) * PAGE, 3)
    machine.x[0], machine.x[1], machine.x[2] = DATA, TOUCHES, step
    machine.set_pc(CODE)
    machine.run(max_instructions=4)
    machine.x[0], machine.x[1] = DATA + step, TOUCHES
    seconds: float = machine.run().seconds
    return seconds
