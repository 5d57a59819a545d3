"""A lane as a machine of its own."""

from __future__ import annotations

import numpy as np

from kvrm.backend.cpu.worker import LaneMemory
from kvrm.machine import state as layout
from kvrm.machine.breakpoints import Breakpoints
from kvrm.machine.engines import make_engine
from kvrm.machine.lanes_job import Job
from kvrm.machine.machine import Machine
from kvrm.machine.runner import Solo
from kvrm.machine.state import State
from kvrm.machine.views import MemoryView


class LaneMachine(Machine):
    """The machine that lane `lane` of a job is after `retired` instructions, made like its `origin`.

    It is run there from the lane's beginning, so that it shares nothing with lanes that go on, and has the
    same registers, memory and files whatever was kept of the lane, and wherever that ran.
    """

    def __init__(self, origin: Machine, job: Job, lane: int, retired: int) -> None:
        self.__dict__.update(origin.__dict__)
        self.state, self.target, self._lanes = State(), "cpu", None
        self._memory = LaneMemory(origin._memory.limit)
        self.memory = MemoryView(self._memory)
        self.policies = {name: policy for name, policy in origin.policies.items() if name != "memory"}
        self.replacements = None  # lanes run every call
        self._breakpoints, self._seconds = Breakpoints(), 0.0
        self._watch = self._solo = Solo(self)
        if origin._process is not None:
            self._process = origin._process.twin(self._memory, self.state)
            self._process.read_ahead()
        self._engine = make_engine(self, self._memory, origin._process is not None, "cpu")
        self._memory.on_remap = self._engine.invalidate
        self.restore(job.snapshot)
        self._begin(job, lane)
        self.run(max_instructions=retired)

    def _begin(self, job: Job, lane: int) -> None:
        """Have what the lane begins with, in the order in which lanes are given it."""
        self.state.set(layout.PC, self.pc)
        for array, first, step, offset in job.registers:
            self.state.set(offset, int(array.reshape(-1).view(np.uint64)[(first + lane * step) // 8]))
        self.state.pc, self._over = self.state.get(layout.PC), job.ended
        for start, array in job.memory:
            self._memory.poke(start, array[lane].tobytes())
        if job.stdin is not None:
            self._process.refill(job.stdin[lane])
        if job.args is not None:
            self._process.set_arguments(job.args[lane])
