"""A worker: one machine on one thread that runs lane after lane from the same snapshot.

Fresh lanes run in native code (`kvrm.engine.lane_loop`), which resets the machine by copying back the pages
that earlier lanes wrote. Whatever needs Python (a system call, the first write to a page, a fault) is done
here, by the same code that runs a machine of one lane, up to that lane's end.
"""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress
from copy import copy
from ctypes import addressof, c_uint64, memmove
from time import perf_counter
from typing import Any

import numpy as np

from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.interpreter.library import library
from kvrm.engine.interpreter.slots import Reason
from kvrm.engine.lane_loop import (
    BY_CODE,
    COUNTED,
    FINISHED,
    PLACE_ROWS,
    Verdict,
    Word,
    address_of,
    lane_loop,
    table_of_ends,
)
from kvrm.errors import UsageError
from kvrm.machine import state as layout
from kvrm.machine.engines import make_engine
from kvrm.machine.lanes_inputs import STREAMS, Words
from kvrm.machine.lanes_job import Job, Kept
from kvrm.machine.lanes_results import NOT_RUN
from kvrm.machine.lanes_table import LaneTable, pieces
from kvrm.machine.machine import Machine
from kvrm.machine.result import STOPS, Stop
from kvrm.machine.runner import GOES_ON, SLICE
from kvrm.machine.state import State
from kvrm.machine.stops import OUT_OF_MEMORY, Fields, breakpoint_at, end_again
from kvrm.machine.views import MemoryView
from kvrm.memory import PAGE, AccessKind, GuestFault, Memory, OutOfMemory, Prot, Region

WARM_PAGES = 256
"""Pages that are undone by copying after each lane; with more, all are dropped. A copy is paid for
pages that the next lane does not touch, too; a dropped page costs another first write."""
ENDS = {
    Reason.BRK: Stop.BRK,
    Reason.UNDEFINED: Stop.UNDEFINED,
    Reason.BREAKPOINT: Stop.BREAKPOINT,
    Reason.MEMORY: Stop.FAULT,
}
"""How native code ends lanes by itself, for the reasons for which it does."""
_LEFT = (layout.IP, layout.REASON, layout.HORIZON, layout.REMAINING)
"""Offsets of what is as native code left it, if Python has run nothing of the lane since."""


class LaneMemory(Memory):
    """Memory of a worker: what was decoded from a page is dropped when a lane first writes to it.

    So no lane can tell which code other lanes have run before it.
    """

    @property
    def changed(self) -> int:
        """How many pages differ from the snapshot's; without a remap, a page that does stays one of them."""
        return len(self._changed)

    def _own(self, index: int, region: Region) -> int:
        first = index not in self._changed
        entry = super()._own(index, region)
        if first and region.prot & Prot.X:
            self._notify([(index * PAGE, (index + 1) * PAGE)])
        return entry


class Worker:
    """Runs any number of lanes, one after the other; one thread uses it at a time."""

    slice = SLICE

    def __init__(self, origin: Machine, job: Job, engine: str | None = None, watched: bool = False) -> None:
        self._job, snapshot = job, job.snapshot
        self._loop = lane_loop()
        self._machine = machine = copy(origin)
        machine.engine = engine or origin.engine
        if not watched:
            machine.policies = {k: policy for k, policy in origin.policies.items() if k != "memory"}
        machine.state = self._state = State()
        machine._memory = self._memory = LaneMemory(origin._memory.limit)
        machine.memory = MemoryView(self._memory)
        machine._watch, machine._over = self, None
        machine.replacements = None  # lanes run every call
        self._memory.restore(snapshot.memory)
        self._state.load(snapshot.state)
        if origin._process is not None:
            from kvrm.linux.lane import LaneProcess

            machine._process = LaneProcess(origin._process, self._memory, self._state, snapshot.process)
        program = origin._process is not None
        machine._engine = self._engine = make_engine(machine, self._memory, program, "cpu")
        self._memory.on_remap = self._engine.invalidate
        self._native = isinstance(self._engine, Interpreter) and self._engine.enterable
        self._entry = address_of(library().enter) if self._native else 0
        self._reported = self._warm = 0
        self._zero = np.zeros(1, np.uint64)
        self.counters = (c_uint64 * (BY_CODE + len(STOPS)))()
        self._places = np.zeros((PLACE_ROWS, 2), np.uint64)
        self._table = LaneTable()
        self._table[Word.COPY] = address_of(memmove)

    # -- what `Machine._run_to` tells ------------------------------------------------------------------------
    def tick(self, retired: int) -> bool:
        """Count what the present lane has retired beyond what was counted before; whether to end."""
        if retired > self._reported:
            self.counters[COUNTED] += retired - self._reported
            self._reported = retired
        return self._job.cancel.value != 0

    def clear_counters(self) -> None:
        """Nothing has finished yet."""
        for index in range(len(self.counters)):
            self.counters[index] = 0

    # -- setting up ------------------------------------------------------------------------------------------
    def begin(self, job: Job, breakpoints: Set[int], budget: int, last: bool) -> None:
        """Get ready for a pass in which lanes may run `budget` instructions; whether it is the `last`."""
        self._job, self._budget, self._last = job, budget, last
        machine, table = self._machine, self._table
        state, pc = job.snapshot.state
        machine.breakpoints = set(breakpoints)
        self._memory.restore(job.snapshot.memory)
        self._engine.run(0, machine.breakpoints)
        plain = job.args is None and job.readable and job.ended is None and not job.starts & breakpoints
        # a timer's signal comes at a count of instructions at which only `Machine._run_to` stops
        plain &= machine._process is None or job.snapshot.process.due is None
        self._enters = self._native and plain
        self._ends = {int(reason): stop for reason, stop in ENDS.items()}
        if machine._process is None:
            self._ends[Reason.SVC] = Stop.SYSCALL
        regions = job.snapshot.memory.regions
        if all(_is_code(regions.find(address)) for address in breakpoints):
            # else a lane may branch to a breakpoint where nothing can be executed: it stops there
            self._ends[Reason.CODE] = Stop.FAULT
        codes = {reason: stop.code for reason, stop in self._ends.items()}
        table.point_to_rows(Word.REGIONS, [(r.start, r.end, int(r.prot)) for r in regions])
        table.point(Word.SAVED, np.frombuffer(state, np.uint8))
        table.point(Word.ENDS, np.frombuffer(table_of_ends(codes), np.uint8))
        table.point(Word.PLACES, self._places)
        table[Word.STATE], table[Word.PC], table[Word.CANCEL] = self._state.address, pc, addressof(job.cancel)
        table[Word.COUNTERS] = addressof(self.counters)
        table[Word.START], table[Word.BUDGET] = job.snapshot.retired, budget
        inputs = [(array.ctypes.data + first, step, offset) for array, first, step, offset in job.registers]
        table.point_to_rows(Word.REGISTERS, inputs)
        table.point_to_outputs(job.outputs, self._memory.table_address)
        self._places[:] = 0
        self._tidy()

    def _tidy(self) -> None:
        """Memory as the next lane finds it, but for what native code copies back and writes."""
        memory = self._memory
        if memory.remapped or not self._native or memory.changed > WARM_PAGES:
            memory.restore(self._job.snapshot.memory)
        self._table.point_to_rows(Word.INPUTS, self._inputs())
        if self._enters:
            for start, stop in self._job.outputs.memory:
                for address, _, _ in pieces(start, stop):
                    memory.resolve(address, AccessKind.READ)
        code = self._state.get(layout.CODE_TABLE)
        pages = memory.changed_pages()
        self._warm = len(pages)
        entries = [code + 8 * index if self._native else self._zero.ctypes.data for index, _, _ in pages]
        self._table.point_to_rows(
            Word.PAGES, [(own, old, e) for (_, own, old), e in zip(pages, entries, strict=True)]
        )

    def _inputs(self) -> list[tuple[int, ...]]:
        """Rows of the memory that lanes begin with, whose pages are the lanes' own from now on."""
        rows: list[tuple[int, ...]] = []
        for start, array in self._job.memory:
            length = array.shape[1]
            for address, done, size in pieces(start, start + length):
                try:
                    rows.append((array.ctypes.data + done, length, self._memory.own(address), size))
                except OutOfMemory:
                    raise UsageError("lanes.memory does not fit into the machine's memory_limit") from None
        return rows

    # -- fresh lanes -----------------------------------------------------------------------------------------
    def run_fresh(self, numbers: Words) -> None:
        """Run lanes from the snapshot on; fewer if the run is cancelled."""
        table = self._table
        finished_here: set[int] = set()
        table.point(Word.ORDER, numbers)
        table[Word.NEXT], table[Word.END] = 0, len(numbers)
        while True:
            verdict = self._set_up_or_run(self._enters)
            if verdict is Verdict.STALE:
                self._drop()
            elif verdict is Verdict.HOST:
                lane = int(numbers[table[Word.NEXT]])
                self._finish_fresh(lane)
                finished_here.add(lane)
                table[Word.NEXT] += 1
            elif verdict is not Verdict.PAUSE:
                self._put_streams(numbers[: table[Word.NEXT]], finished_here)
                return

    def _put_streams(self, lanes: Words, but: set[int]) -> None:
        """Lanes that native code ended have written what was written before they began."""
        start, streams = self._job.snapshot.process, self._job.outputs.streams
        for name in STREAMS if start is not None else ():
            text = getattr(start, name)
            if text and streams[name]:
                for lane in set(lanes.tolist()) - but:
                    streams[name][lane] = text

    def _set_up_or_run(self, enters: bool) -> Verdict:
        table, engine = self._table, self._engine
        if not enters:
            table[Word.ENTER], table[Word.SLICE] = 0, SLICE
            return Verdict(self._loop.run(table.address))
        engine.poll()
        engine.ready()
        table[Word.ENTER] = self._entry
        table[Word.SLICE] = most = min(engine.slice, SLICE)
        began = perf_counter()
        verdict = Verdict(self._loop.run(table.address))
        engine.ran(most - table[Word.SLICE], perf_counter() - began)
        return verdict

    def _drop(self) -> None:
        self._memory.restore(self._job.snapshot.memory)
        self._places[:] = 0
        self._tidy()

    def lane_as_machine(self, lane: int) -> Machine:
        """A machine that is about to run a fresh lane, for another loop to drive."""
        self.begin(self._job, set(), 0, True)
        self._table.point(Word.ORDER, np.array([lane], np.uint64))
        self._table[Word.NEXT], self._table[Word.END] = 0, 1
        self._set_up_or_run(False)
        self._run_fresh(lane, False)
        return self._machine

    def _finish_fresh(self, lane: int) -> None:
        """Run a lane to its end that native code has set up, and entered if it does."""
        left = [self._state.get(at) for at in _LEFT]
        warm, self._reported = self._warm, self._job.snapshot.retired
        outcome = self._run_fresh(lane, self._enters)
        if outcome is OUT_OF_MEMORY and warm:
            # pages that only earlier lanes wrote count too: see whether the lane alone needs as many
            self._drop()
            if self._set_up_or_run(False) is Verdict.CANCELLED:
                return
            outcome, warm = self._run_fresh(lane, False), 0
        as_left = self._enters and left == [self._state.get(at) for at in _LEFT]
        memory, (ip, reason, *_) = self._memory, left
        clean = not memory.remapped and memory.changed == self._warm and self._native
        self._put(lane, outcome, shared=warm > 0)
        if clean and as_left and ip and self._ends.get(reason) is outcome["stop"]:
            self._places[(ip >> 5) % PLACE_ROWS] = ip, self._machine.pc
            return
        self._places[:] = 0
        if outcome["stop"] in GOES_ON or not clean:
            self._tidy()

    def _run_fresh(self, lane: int, entered: bool, end: int | None = None) -> Fields:
        machine, job, start = self._machine, self._job, self._job.snapshot.retired
        if machine._process is not None:
            machine._process.begin(job.snapshot.process, job.stdin[lane] if job.stdin else None)
        if not entered:
            self._engine.retired = start
            machine.pc = self._state.get(layout.PC)
            if job.args is not None:
                try:
                    machine._process.set_arguments(job.args[lane])
                except OutOfMemory:
                    return OUT_OF_MEMORY
        return self._run_to(start + self._budget if end is None else end, resumed=entered)

    # -- any lane --------------------------------------------------------------------------------------------
    def run_kept(self, lane: int) -> None:
        """Go on with a lane; in a pass, fresh ones come first."""
        job, machine, memory = self._job, self._machine, self._memory
        if lane in job.again:
            self._run_again(lane)
            return
        kept = job.kept.pop(lane)
        memory.restore(job.snapshot.memory)
        memory.put_changes(kept.changes)
        self._state.load(kept.state)
        self._engine.retired = self._reported = kept.retired
        if machine._process is not None:
            machine._process.begin(*kept.process)
        end = kept.retired - kept.spent + self._budget
        if kept.arrived and kept.retired < end and machine.pc in machine.breakpoints:
            self._put(lane, breakpoint_at(machine.pc), kept.shared)
            return
        outcome, shared = self._run_to(end), kept.shared
        if outcome is OUT_OF_MEMORY and shared:
            again = self._run_alone(lane, kept.retired, end)
            if again is None:
                job.outputs.stop[lane] = NOT_RUN
                return
            outcome, shared = again, False
        self._put(lane, outcome, shared)

    def _run_again(self, lane: int) -> None:
        """Go on with a lane that stopped at a breakpoint, of which nothing but its results was kept.

        It is run from its beginning, once more: keeping the state of every lane that arrives at a breakpoint
        would cost far more than those few that go on.
        """
        job = self._job
        self._reported = before = int(job.outputs.retired[lane]) + job.snapshot.retired
        outcome = self._run_alone(lane, before, before + self._budget)
        if outcome is not None:
            job.again.discard(lane)
            self._put(lane, outcome, shared=False)

    def _run_alone(self, lane: int, before: int, end: int) -> Fields | None:
        """Run a lane from its beginning to `end`, in memory that no other lane has used; None if cancelled.

        No breakpoint stops it until it has retired as many instructions as `before`.
        """
        machine, breakpoints = self._machine, self._machine.breakpoints
        self._drop()
        self._table.point(Word.ORDER, np.array([lane], np.uint64))
        self._table[Word.NEXT], self._table[Word.END] = 0, 1
        if self._set_up_or_run(False) is Verdict.CANCELLED:
            return None
        machine.breakpoints = set()
        self._run_fresh(lane, False, before)
        machine.breakpoints = breakpoints
        return self._run_to(end) if machine.retired == before else None

    def _run_to(self, end: int, resumed: bool = False) -> Fields:
        if self._job.ended is not None:
            return end_again(self._job.ended)
        outcome = self._machine._run_to(end, resumed)
        pc = self._machine.pc
        if outcome["stop"] is Stop.BUDGET and not self._last and pc in self._machine.breakpoints:
            outcome = breakpoint_at(pc)
        self.tick(self._machine.retired)
        return outcome

    def _put(self, lane: int, outcome: Fields, shared: bool) -> None:
        """Store how the lane stopped; keep it if it can go on, with `shared` as in `Kept`."""
        job, machine, stop, retired = self._job, self._machine, outcome["stop"], self._machine.retired
        out, start = job.outputs, job.snapshot.retired
        self._loop.store_results(self._table.address, lane, stop.code, retired - start, machine.pc)
        out.put(lane, outcome)
        for span, array in out.memory.items():
            array[lane] = self._peek(*span)
        for number, name in enumerate(("stdout", "stderr"), 1):
            if out.streams[name]:
                out.streams[name][lane] = machine._process.captured(number)
        if stop in GOES_ON:
            process = None if machine._process is None else machine._process.saved()
            changes = self._memory.take_changes()
            job.kept[lane] = Kept(self._state.save(), changes, process, retired, shared=shared)
        else:
            self.counters[FINISHED] += 1
            self.counters[BY_CODE + stop.code] += 1

    def _peek(self, start: int, stop: int) -> Any:
        """Guest memory; zeros where a lane has unmapped it."""
        data = np.zeros(stop - start, np.uint8)
        for address, done, size in pieces(start, stop):
            with suppress(GuestFault):
                data[done : done + size] = np.frombuffer(self._memory.peek(address, size), np.uint8)
        return data


def _is_code(region: Region | None) -> bool:
    return region is not None and bool(region.prot & Prot.X)
