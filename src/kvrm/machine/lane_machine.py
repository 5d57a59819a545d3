"""A lane as a machine of its own."""

from __future__ import annotations

from functools import partial

import numpy as np

from kvrm.backend.cpu.answers import Answers
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.machine.engines import make_engine
from kvrm.machine.lane import Lane
from kvrm.machine.lanes_job import Job
from kvrm.machine.machine import Machine
from kvrm.machine.runner import Solo
from kvrm.machine.views import MemoryView
from kvrm.memory import Memory


class LaneMachine(Machine):
    """The machine that lane `lane` of a job is after `retired` instructions, made like its `origin`.

    It is run there from the lane's beginning, so that it shares nothing with lanes that go on, and has the
    same registers, memory and files whatever was kept of the lane, and wherever that ran.
    """

    def __init__(self, origin: Machine, job: Job, lane: int, retired: int) -> None:
        self.__dict__.update(origin.__dict__)
        self.state, self.target, self._lanes, self._seconds = State(), "cpu", None, 0.0
        kind = origin.engine_kind.unwatched()
        self.policies = dict(kind.policies)
        memory, process = Memory(origin.lane.memory.limit, in_turn=True), origin.lane.process
        self.memory = MemoryView(memory)
        if process is not None:
            process = process.twin(memory, self.state)
            process.lend(partial(Answers, self.state, memory))
        self._solo = Solo(self._run, lambda: self.retired)
        engine = make_engine(kind, self.state, memory, "cpu")
        self.lane = Lane(self.state, memory, process, engine, self._solo)
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
            self.lane.memory.poke(start, array[lane].tobytes())
        if job.stdin is not None:
            self.lane.process.refill(job.stdin[lane])
        if job.args is not None:
            self.lane.process.set_arguments(job.args[lane])
