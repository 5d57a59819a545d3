"""What lanes are given, and what is kept of those that can go on: for workers of any thread and target."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_uint64
from dataclasses import dataclass
from typing import Any

from kvrm.machine.lanes_inputs import Words
from kvrm.machine.lanes_results import NOT_RUN, Outputs
from kvrm.machine.result import Result
from kvrm.machine.snapshots import MachineSnapshot
from kvrm.machine.texts import Texts
from kvrm.memory import Changes, Prot, Snapshot


@dataclass(slots=True)
class Job:
    """What lanes were given when they began, and what they have brought so far; workers share it.

    `base` is the snapshot, or what all lanes have become of it before any of them has seen its input.
    `registers` are rows of array, first byte in it, bytes from lane to lane, offset in the state; `memory` is
    start addresses and arrays. `ended`: the program has ended before, and every lane with it; no instruction
    is run. `again`: lanes that were at a breakpoint that is no more, and go on from there.
    """

    snapshot: MachineSnapshot
    base: MachineSnapshot
    registers: list[tuple[Words, int, int, int]]
    memory: list[tuple[int, Any]]
    stdin: Texts | None
    args: list[Sequence[str | bytes]] | None
    starts: set[int]
    outputs: Outputs
    ended: Result | None
    kept: dict[int, Kept]
    again: set[int]
    cancel: c_uint64

    @property
    def is_resident(self) -> bool:
        """Whether staged code may run the lanes.

        Not where the program has ended, where Python must look at counts of instructions (timers) or at each
        call (a filter), and where lanes begin with code of their own.
        """
        process = self.snapshot.process
        looks = process is not None and (process.due is not None or bool(process.task["seccomp"]))
        return self.ended is None and not looks and not self._changes_code()

    @property
    def has_common_start(self) -> bool:
        """Whether all lanes are still to begin, and differ in standard input at most."""
        same = self.args is None and not self.registers and not self.memory
        begun = self.kept or self.again or (self.outputs.stop != NOT_RUN).any()
        program = self.snapshot.process is not None and self.base is self.snapshot
        return program and same and not begun and self.is_resident

    def _changes_code(self) -> bool:
        return any(
            region.prot & Prot.X and region.start < start + array.shape[1] and start < region.end
            for start, array in self.memory
            for region in self.snapshot.memory.regions
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """A lane that can go on: what differs from a snapshot, of memory that `under` has.

    `spent` are the instructions that it has run of the present pass already, somewhere else. `arrived`: it
    has just branched to where it is, so that a breakpoint there is not passed over.
    """

    state: tuple[bytes, int]
    changes: Changes
    under: Snapshot
    process: Any
    retired: int
    spent: int = 0
    arrived: bool = False
