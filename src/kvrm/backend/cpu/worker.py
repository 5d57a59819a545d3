"""A worker: one thread that runs lane after lane from the same snapshot.

Fresh lanes run in native code (`kvrm.backend.cpu.loop`), one after another, with their system calls, pages,
inputs and outputs. A lane that needs Python (for a call that is not staged, a write to code, a budget that is
used up) goes on here, by the same code that runs a machine of one lane, up to that lane's end.
"""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress
from ctypes import addressof, c_uint64, memmove
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from kvrm.backend.cpu.compiled_loop import address_of, lane_loop, table_of_ends
from kvrm.backend.cpu.host_process import HostProcess
from kvrm.backend.cpu.lane_space import OWNED_ROOM, LaneSpace
from kvrm.backend.cpu.startup import LONGEST, Startup
from kvrm.backend.cpu.table import Field, Phase, Table, Verdict
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.interpreter.library import library
from kvrm.errors import UsageError
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.lane.stops import GOES_ON, Reason, Stop
from kvrm.machine.breakpoints import Breakpoints
from kvrm.machine.engines import EngineKind, make_engine
from kvrm.machine.lane import Lane
from kvrm.machine.lanes_inputs import Words
from kvrm.machine.lanes_job import Job, Kept
from kvrm.machine.runner import SLICE
from kvrm.machine.snapshots import MachineSnapshot
from kvrm.machine.stops import OUT_OF_MEMORY, Fields, breakpoint_at, end_again
from kvrm.memory import PAGE, GuestFault, Memory, OutOfMemory, Prot, Region, Snapshot, untagged
from kvrm.memory.regions import pieces

ENDS = (Reason.BRK, Reason.UNDEFINED, Reason.BREAKPOINT, Reason.MEMORY, Reason.EXIT)
"""What native code ends lanes by itself for."""


class Worker:
    """Runs any number of lanes, one after the other; one thread uses it at a time.

    They begin as `origin` was at the job's snapshot, with engines of that kind. `counted` are the
    instructions of all lanes that have retired here.
    """

    slice = SLICE

    def __init__(self, origin: Lane, kind: EngineKind, job: Job) -> None:
        self._job, snapshot = job, job.snapshot
        self._loop = lane_loop()
        self._state, self._memory = State(), Memory(origin.memory.limit, in_turn=True)
        self._restore(snapshot.memory)
        self._state.load(snapshot.state)
        self._origin_process, process = origin.process, None
        if self._origin_process is not None:
            from kvrm.linux.lane import LaneProcess

            process = LaneProcess(self._origin_process, self._memory, self._state, snapshot.process)
        self._engine = make_engine(kind, self._state, self._memory, "cpu")
        # without replacements: lanes run every call
        self._lane = Lane(self._state, self._memory, process, self._engine, self)
        self._reported = 0
        self.counted = c_uint64(0)
        self._table = table = Table()
        table[Field.STATE], table[Field.COUNTERS] = self._state.address, addressof(self.counted)
        table[Field.MOVE] = address_of(memmove)
        self._native = isinstance(self._engine, Interpreter) and self._engine.enterable
        self._space = LaneSpace(table, self._memory) if self._native else None
        self._process: HostProcess | None = None

    def learn_from(self, leader: Worker) -> None:
        """Let the leader's engine find out what is hot."""
        if self._native:
            self._engine.learn_from(leader._engine)

    # -- what `Lane.run_to` tells ----------------------------------------------------------------------------
    def tick(self, retired: int) -> bool:
        """Count what the present lane has retired beyond what was counted before; whether to end."""
        if retired > self._reported:
            self.counted.value += retired - self._reported
            self._reported = retired
        return self._job.cancel.value != 0

    # -- setting up ------------------------------------------------------------------------------------------
    def begin(self, job: Job, breakpoints: Set[int], budget: int, last: bool) -> None:
        """Get ready for a pass in which lanes may run `budget` instructions; whether it is the `last`."""
        self._job, self._budget, self._last = job, budget, last
        lane, table = self._lane, self._table
        lane.breakpoints = Breakpoints(breakpoints)
        # a breakpoint may be in what the program does at its start
        self._base = job.snapshot if breakpoints else job.base
        self._restore(job.snapshot.memory)
        self._require_room()
        self._restore(self._base.memory)
        self._engine.run(0, lane.breakpoints)
        table.point_to_outputs(job.outputs)
        self._enters = self._begin_native(job, breakpoints)

    def _require_room(self) -> None:
        """UsageError unless the memory that lanes begin with fits into the machine's limit."""
        private = {address // PAGE for address in self._memory.private(0, 1 << 64)}
        inputs = ((start, array.shape[1]) for start, array in self._job.memory)
        own = {address // PAGE for span in inputs for address, *_ in pieces(*span)}
        if own and len(own | private) * PAGE > self._memory.limit:
            raise UsageError("lanes.memory does not fit into the machine's memory_limit")

    def _restore(self, snapshot: Snapshot) -> None:
        """Memory as in a snapshot, which changes are relative to from now on."""
        self._under = snapshot
        self._memory.restore(snapshot)

    def _begin_native(self, job: Job, breakpoints: Set[int]) -> bool:
        """Tell native code what lanes begin with; False if Python must run them."""
        if self._space is None or not job.is_resident or job.args is not None or job.starts & breakpoints:
            return False
        if not self._space.begin(self._base.memory):
            return False
        table, state = self._table, self._base.state
        table.point(Field.SAVED, np.frombuffer(state[0], np.uint8))
        table[Field.PC], table[Field.CANCEL] = state[1], addressof(job.cancel)
        table[Field.START], table[Field.BUDGET] = job.snapshot.retired, self._budget
        table[Field.BEGUN] = self._base.retired
        table.point(Field.ENDS, np.frombuffer(table_of_ends(self._ends(job, breakpoints)), np.uint8))
        registers = [
            (array.ctypes.data + first, step, offset) for array, first, step, offset in job.registers
        ]
        table.point_to_rows(Field.REGISTERS, registers)
        inputs = [
            (array.ctypes.data + done, array.shape[1], address, size)
            for start, array in job.memory
            for address, done, size in pieces(start, array.shape[1])
        ]
        table.point_to_rows(Field.INPUTS, inputs)
        if self._origin_process is not None:
            begun = self._base.process
            if self._process is None or self._process.snapshot is not begun:
                self._process = HostProcess(table, self._origin_process, self._memory, begun)
            self._process.begin(job)
        return len(inputs) < OWNED_ROOM

    def _ends(self, job: Job, breakpoints: Set[int]) -> list[Reason]:
        """The reasons for which native code ends lanes."""
        ends = list(ENDS)
        if self._origin_process is None:
            ends.append(Reason.SVC)
        if all(_is_code(job.snapshot.memory.regions.find(address)) for address in breakpoints):
            # else a lane may branch to a breakpoint where nothing can be executed: it stops there
            ends.append(Reason.CODE)
        return ends

    # -- fresh lanes -----------------------------------------------------------------------------------------
    def run_fresh(self, numbers: Words) -> None:
        """Run lanes from the snapshot on; fewer if the run is cancelled."""
        if not self._enters:
            for lane in numbers.tolist():
                if self._job.cancel.value:
                    return
                self._reported = start = self._job.snapshot.retired
                self._put(lane, self._run_whole(lane, start + self._budget))
            return
        try:
            self._run_resident(numbers)
        finally:
            # Python's lanes would write to the pages of the last native one, and read their own
            self._loop.reset(self._table.address)

    def _run_resident(self, numbers: Words) -> None:
        table, taken = self._table, 0
        written = np.zeros((len(numbers), 2), np.uint64)
        table.point(Field.ORDER, numbers)
        table.point(Field.WRITTEN, written)
        table[Field.NEXT], table[Field.END], table[Field.PHASE] = 0, len(numbers), Phase.FRESH
        while True:
            verdict = self._run_native()
            at = table[Field.NEXT]
            if verdict is Verdict.ASKED:
                assert self._process is not None
                self._process.files.answer()
            elif verdict is Verdict.DONE or table[Field.PHASE] == Phase.FRESH:
                self._take_output(numbers[taken:at], written[taken:at])
                taken = at
                if verdict is not Verdict.PAUSE:
                    return
            elif verdict is Verdict.HOST or not self._serve():
                # first, for what it has written lies after the output of the lanes before it
                self._finish(int(numbers[at]))
                self._take_output(numbers[taken:at], written[taken:at])
                taken = at + 1
                table[Field.NEXT], table[Field.PHASE] = at + 1, Phase.FRESH

    def _run_native(self) -> Verdict:
        table, engine = self._table, self._engine
        engine.poll()
        engine.ready()
        table[Field.ENTER] = address_of(library().enter)
        table.point_to_rows(Field.CHUNKS, engine.chunks)
        table[Field.SLICE] = most = min(engine.slice, SLICE)
        began = perf_counter()
        verdict = Verdict(self._loop.run(table.address))
        engine.ran(most - table[Field.SLICE], perf_counter() - began)
        return verdict

    def _serve(self) -> bool:
        """Do what the engine must for the present lane, which then goes on; False if that takes Python."""
        table, engine, start = self._table, self._engine, self._job.snapshot.retired
        self._reported = start + table[Field.REPORTED]
        cancelled = self.tick(engine.retired)
        table[Field.REPORTED] = self._reported - start
        if cancelled or engine.resume(start + self._budget) is not None:
            return False
        table[Field.PHASE] = Phase.RUN
        before = engine.retired
        if table[Field.LEFT] and engine.follow(table[Field.LEFT]):
            table[Field.LEFT] -= engine.retired - before
            table[Field.PHASE] = Phase.LEFT
        self._state.set(layout.PC, self._state.pc)
        self._state.set(layout.IP, 0)
        return True

    def _take_output(self, lanes: Words, written: Words) -> None:
        if self._process is not None:
            self._process.take(lanes, written, self._job.outputs.streams)

    def _finish(self, lane: int) -> None:
        """Run a lane to its end that native code has begun."""
        assert self._space is not None
        table, memory, start = self._table, self._memory, self._job.snapshot.retired
        self._reported = start + table[Field.REPORTED]
        pages = self._space.owned()
        self._loop.reset(table.address)
        if self._process is not None:
            self._lane.process.begin(*self._process.leave(lane))
        for index, data in pages.items():
            memory.poke(index * PAGE, data)
        self._put(lane, self._run_to(start + self._budget, resumed=True))
        self._restore(self._base.memory)

    # -- lanes that Python runs ------------------------------------------------------------------------------
    def _run_whole(self, lane: int, end: int) -> Fields:
        """Run a lane from its beginning."""
        try:
            self._set_up(lane)
        except OutOfMemory:  # its arguments take more than it may have
            return OUT_OF_MEMORY
        return self._run_to(end)

    def _set_up(self, lane: int) -> None:
        """The lane as it begins, in memory that no other lane has used."""
        process, job, state = self._lane.process, self._job, self._state
        self._restore(job.snapshot.memory)
        state.load(job.snapshot.state)
        state.set(layout.PC, state.pc)
        for array, first, step, offset in job.registers:
            state.set(offset, c_uint64.from_address(array.ctypes.data + first + lane * step).value)
        state.pc = untagged(state.get(layout.PC))
        self._engine.retired = job.snapshot.retired
        for start, array in job.memory:
            self._memory.poke(start, array[lane].tobytes())
        if process is not None:
            process.begin(job.snapshot.process, job.stdin[lane] if job.stdin else None)
            if job.args is not None:
                process.set_arguments(job.args[lane])

    def fresh_lane(self, number: int) -> Lane:
        """A lane as it begins, for another loop to drive."""
        self.begin(self._job, set(), 0, True)
        self._set_up(number)
        return self._lane

    def past_startup(self, job: Job, most: int) -> MachineSnapshot:
        """Where lanes part: before the program sees input, and `most` instructions after it begins."""
        lane, process = self._lane, self._lane.process
        self._job, lane.breakpoints = job, Breakpoints()
        self._set_up(0)
        lane.process, counted = Startup(process), self.counted.value
        try:
            outcome = lane.run_to(job.snapshot.retired + min(most, LONGEST))
        finally:
            lane.process, self.counted.value = process, counted
        state, retired, stop = self._state, self._engine.retired, outcome["stop"]
        if stop not in (Stop.SYSCALL, Stop.BUDGET):
            return job.snapshot
        if stop is Stop.SYSCALL:  # the call is still to be made
            state.pc -= 4
            retired -= 1
        current = process.current().snapshot()
        return replace(
            job.snapshot, state=state.save(), memory=self._memory.snapshot(), process=current, retired=retired
        )

    def run_kept(self, lane: int) -> None:
        """Go on with a lane; in a pass, fresh ones come first."""
        job, process, memory = self._job, self._lane.process, self._memory
        if lane in job.again:
            self._run_again(lane)
            return
        kept = job.kept.pop(lane)
        self._restore(kept.under)
        memory.put_changes(kept.changes)
        self._state.load(kept.state)
        self._engine.retired = self._reported = kept.retired
        if process is not None:
            process.begin(*kept.process)
        end = kept.retired - kept.spent + self._budget
        if kept.arrived and kept.retired < end and self._state.pc in self._lane.breakpoints:
            self._put(lane, breakpoint_at(self._state.pc))
            return
        self._put(lane, self._run_to(end))

    def _run_again(self, lane: int) -> None:
        """Go on with a lane that stopped at a breakpoint, of which nothing but its results was kept.

        It is run from its beginning, once more: keeping the state of every lane that arrives at a breakpoint
        would cost far more than those few that go on. No breakpoint stops it before it is where it was.
        """
        job, one, breakpoints = self._job, self._lane, self._lane.breakpoints
        before = int(job.outputs.retired[lane]) + job.snapshot.retired
        self._reported, one.breakpoints = before, Breakpoints()
        self._run_whole(lane, before)
        one.breakpoints = breakpoints
        if one.retired == before:
            job.again.discard(lane)
            self._put(lane, self._run_to(before + self._budget))

    def _run_to(self, end: int, resumed: bool = False) -> Fields:
        if self._job.ended is not None:
            return end_again(self._job.ended)
        outcome = self._lane.run_to(end, resumed)
        pc = self._state.pc
        if outcome["stop"] is Stop.BUDGET and not self._last and pc in self._lane.breakpoints:
            outcome = breakpoint_at(pc)
        self.tick(self._engine.retired)
        return outcome

    def _put(self, lane: int, outcome: Fields) -> None:
        """Store how the lane stopped; keep it if it can go on."""
        job, process, stop, retired = self._job, self._lane.process, outcome["stop"], self._engine.retired
        out, start = job.outputs, job.snapshot.retired
        self._loop.store_results(self._table.address, lane, stop.code, retired - start, self._state.pc)
        out.put(lane, outcome)
        for span, array in out.memory.items():
            array[lane] = self._peek(*span)
        for number, name in enumerate(("stdout", "stderr"), 1):
            if out.streams[name]:
                out.streams[name][lane] = process.captured(number)
        if stop in GOES_ON:
            saved = None if process is None else process.saved()
            changes = self._memory.take_changes()
            job.kept[lane] = Kept(self._state.save(), changes, self._under, saved, retired)

    def _peek(self, start: int, stop: int) -> Any:
        """Guest memory; zeros where a lane has unmapped it."""
        data = np.zeros(stop - start, np.uint8)
        for address, done, size in pieces(start, stop - start):
            with suppress(GuestFault):
                data[done : done + size] = np.frombuffer(self._memory.peek(address, size), np.uint8)
        return data


def _is_code(region: Region | None) -> bool:
    return region is not None and bool(region.prot & Prot.X)
