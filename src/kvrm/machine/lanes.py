"""Lanes: many machines that start alike, run over all cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvrm import arguments
from kvrm.errors import UsageError
from kvrm.lane.stops import GOES_ON, STOPS, Stop
from kvrm.machine.breakpoints import Breakpoints
from kvrm.machine.engines import TARGETS, check_policies_of_lanes, named
from kvrm.machine.lane_machine import LaneMachine
from kvrm.machine.lanes_inputs import MemoryInputs, RegisterInputs, checked_keep, checked_per_lane
from kvrm.machine.lanes_job import Job
from kvrm.machine.lanes_results import LaneResults, Outputs
from kvrm.machine.result import Progress
from kvrm.machine.runner import Plan, Runner
from kvrm.machine.texts import Texts, is_per_lane

if TYPE_CHECKING:
    from kvrm.backend.gpu.arrays import OnDevice
    from kvrm.backend.protocols import Backend
    from kvrm.machine.machine import Machine
    from kvrm.machine.snapshots import MachineSnapshot

DEFAULT_KEEP = ("x0", "stdout", "stderr")
MOST_LANES = 1 << 26
"""Lanes of one machine. Each leaves some 60 bytes in the host's memory, even if nothing of it is kept."""
MOST_THREADS = 1 << 10
"""Each has an engine, and address space for a guest's."""


class Lanes(Runner[LaneResults]):
    """The lanes of one machine: `Machine(..., lanes=N).lanes`, or `machine.fork(N)`.

    They begin with the machine's state at the fork, or at the first run; `registers`, `memory`, `stdin` and
    `args` have what each lane has of its own. `keep` names what results hold of each lane: registers, slices
    of guest memory, "stdout" and "stderr". `threads` share the work, one for each core unless it is set;
    results do not depend on their number.

    Nothing that a lane does reaches another: not memory, files, nor time. A lane that uses up its budget is
    put aside, at the cost of the pages it wrote, and goes on in the next run. One that stopped at a
    breakpoint stays there while it is set; after that it goes on, run from its beginning again.
    """

    def __init__(
        self,
        machine: Machine,
        lanes: int,
        threads: int | None = None,
        snapshot: MachineSnapshot | None = None,
    ) -> None:
        super().__init__()
        lanes = arguments.integer("lanes", lanes, 1, MOST_LANES)
        if machine.outside:
            raise UsageError(f"lanes cannot share {' and '.join(machine.outside)} outside the machine")
        check_policies_of_lanes(machine.policies, machine.target)
        self._machine, self._count, self._fork = machine, lanes, snapshot
        self._breakpoints = Breakpoints(machine.breakpoints) if snapshot else None
        self.registers = RegisterInputs(lanes)
        self.backend: Backend = named(TARGETS[machine.target])(machine.lane, machine.engine_kind, lanes)
        self.memory = MemoryInputs(lanes, self.backend.copied, self.backend.takes_device_arrays)
        self._stdin: Texts | None = None
        self._args: list[Sequence[str | bytes]] | None = None
        self._keep: tuple[str | slice, ...] = DEFAULT_KEEP
        self.threads = len(os.sched_getaffinity(0)) if threads is None else threads
        self._job: Job | None = None
        self._before = 0

    def __len__(self) -> int:
        return self._count

    # -- inputs ----------------------------------------------------------------------------------------------
    @property
    def stdin(self) -> Texts | None:
        """What each lane still has to read from standard input; None: what the machine has.

        It takes a list of bytes, `Texts`, or uint8 of shape (lanes, bytes). What is not on a GPU is copied.
        """
        return self._stdin

    @stdin.setter
    def stdin(self, values: Any) -> None:
        if values is not None:
            self._require_program("stdin")
            values = self._texts(values)
        self._stdin = values

    def _texts(self, values: Any) -> Texts:
        # anything that is not for each lane is refused there
        if not is_per_lane(values) or isinstance(values, list | tuple):
            texts = Texts.of(checked_per_lane("stdin", values, self._count, bytes))
        else:
            texts = values if isinstance(values, Texts) else Texts(values)
        if len(texts) != self._count:
            raise UsageError(f"lanes.stdin takes {self._count} texts, one for each lane, not {len(texts)}")
        if texts.on_device and not self.backend.takes_device_arrays:
            raise UsageError("lanes.stdin is on a GPU, and the machine's target is not cuda")
        return texts.copied(self.backend.copied)

    @property
    def args(self) -> list[Sequence[str | bytes]] | None:
        """The arguments of each lane; only for a program that has not run yet. None: the machine's."""
        return self._args

    @args.setter
    def args(self, values: Sequence[Sequence[str | bytes]] | None) -> None:
        if values is not None:
            self._require_program("args")
            values = checked_per_lane("args", values, self._count, (list, tuple))
            for arguments in values:
                self._machine.lane.process.arguments(arguments)
        self._args = values

    @property
    def breakpoints(self) -> Breakpoints:
        """Where lanes stop: a set of addresses; of a fork its own, else the machine's."""
        return self._machine.breakpoints if self._breakpoints is None else self._breakpoints

    @breakpoints.setter
    def breakpoints(self, addresses: Iterable[int]) -> None:
        if self._breakpoints is None:
            self._machine.breakpoints = addresses
        elif addresses is not self._breakpoints:
            self._breakpoints = Breakpoints(addresses)

    @property
    def threads(self) -> int:
        """How many threads share the work."""
        return self._threads

    @threads.setter
    def threads(self, number: int) -> None:
        self._threads = arguments.integer("threads", number, 1, MOST_THREADS)

    @property
    def keep(self) -> tuple[str | slice, ...]:
        """What results hold of each lane."""
        return self._keep

    @keep.setter
    def keep(self, names: Sequence[str | slice]) -> None:
        self._keep = checked_keep(names)

    def reset(self) -> None:
        """All lanes back to their beginning: the fork, or what the machine is at the next run."""
        self.require_idle()
        self._job = None

    # -- one lane --------------------------------------------------------------------------------------------
    def machine(self, lane: int) -> Machine:
        """A lane as a machine of its own: to look at, step, and continue apart from the lanes.

        Before a run it stands at the lane's beginning, after one where the lane has come to; one that ended
        stays ended. It has the lanes' breakpoints, and runs on the CPU. The cost is that of the instructions
        that the lane has run, once more. Raises UsageError while a run is going on, or for no such lane.
        """
        self.require_idle()
        number = arguments.element("lanes.machine", lane, self._count)
        job = self._job or self._new_job(self._fork or self._machine.snapshot(), Outputs(0, (), False))
        retired = 0 if self._job is None else int(job.outputs.retired[number])
        machine = LaneMachine(self._machine, self.backend.on_host(job), number, retired)
        machine.breakpoints = self.breakpoints
        return machine

    # -- what a GPU has of them ------------------------------------------------------------------------------
    @property
    def on_device(self) -> OnDevice:
        """Registers and memory of all lanes where they are, after a run on a GPU; else a UsageError."""
        return self.backend.on_device

    @property
    def device_bytes(self) -> int:
        """Device memory that the lanes have, pages that none has written yet included."""
        return self.backend.device_bytes

    @property
    def device_seconds(self) -> float:
        """How long kernels ran in the last run."""
        return self.backend.device_seconds

    @property
    def left_device(self) -> int:
        """How many lanes of a GPU's the CPU went on with in the last run."""
        return self.backend.left_device

    # -- running ---------------------------------------------------------------------------------------------
    def _prepare(self) -> None:
        if self._job is None:
            self._job = self._new_job(self._fork or self._machine.snapshot(), self._new_outputs())
        else:
            self._job.outputs.go_on()
            self._release(self._job)
        self._before = self.backend.retired

    def _new_job(self, snapshot: MachineSnapshot, outputs: Outputs) -> Job:
        """Fix what the lanes begin with. Raises UsageError."""
        if self._args is not None and snapshot.retired:
            raise UsageError("lanes.args is set, but the program has begun; its arguments were read already")
        kept = [(s.start, s.stop) for s in self._keep if isinstance(s, slice)]
        for span in [*self.memory, *kept]:
            _require_mapped(snapshot, *span)
        return Job(
            snapshot=snapshot,
            base=snapshot,
            registers=self.registers.rows(),
            memory=self.memory.items(),
            stdin=self._stdin,
            args=self._args,
            starts=set(self.registers["pc"].tolist()) if "pc" in self.registers else {snapshot.state[1]},
            outputs=outputs,
            ended=None if "pc" in self.registers else snapshot.ended,
            kept={},
            again=set(),
            cancel=self._cancel,
        )

    def _release(self, job: Job) -> None:
        """Have lanes go on that stopped at a breakpoint that is no more."""
        out = job.outputs
        stopped = np.flatnonzero(out.stop == Stop.BREAKPOINT.code)
        free = stopped[~np.isin(out.pc[stopped], np.array([*self.breakpoints], np.uint64))]
        out.stop[free] = Stop.BUDGET.code
        job.again.update(free.tolist())

    def _new_outputs(self) -> Outputs:
        """Room for results. Raises UsageError if the host has none."""
        try:
            return Outputs(
                self._count, self._keep, self._machine.lane.process is not None, self.backend.empty
            )
        except (MemoryError, ValueError):
            what = f"the results of {self._count} lanes do not fit into the host's memory"
            raise UsageError(f"{what}; keep less of each, or run fewer at a time") from None

    def _run(self, plan: Plan) -> LaneResults:
        job = self._job
        assert job is not None
        self.backend.run(job, plan, self.breakpoints, self.threads)
        unfinished = Stop.CANCELLED if self._cancel.value else Stop.BUDGET
        return job.outputs.results(unfinished, self.seconds)

    def _progress(self, running: bool, seconds: float) -> Progress:
        stops, retired = {}, self.backend.retired - self._before
        if self._job is not None:
            codes = self._job.outputs.stop
            counts = {stop: int(np.count_nonzero(codes == stop.code)) for stop in STOPS}
            stops = {stop: count for stop, count in counts.items() if count and stop not in GOES_ON}
        finished = sum(stops.values()) or (self.backend.ended if running else 0)
        return Progress(running, self._count, finished, retired, seconds, stops)

    def _require_program(self, name: str) -> None:
        if self._machine.lane.process is None:
            raise UsageError(f"lanes.{name} is for programs; a bare machine has registers and memory")

    def __repr__(self) -> str:
        return f"<kvrm.Lanes {self._count} of {self._machine!r}>"


def _require_mapped(snapshot: MachineSnapshot, start: int, stop: int) -> None:
    """UsageError if not all of a range of guest memory is mapped."""
    at = start
    for region in snapshot.memory.regions:
        if region.start <= at < min(region.end, stop):
            at = region.end
    if at < stop:
        raise UsageError(f"no guest memory at {at:#x}, which is in the lanes' [{start:#x}:{stop:#x}]")
