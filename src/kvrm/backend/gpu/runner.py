"""A GPU as what runs lanes: the same inputs and results as on the CPU.

A lane that needs the host - for a system call that is not resident (`kvrm.linux.resident`), code that
changes, an instruction that only the reference runs - is taken to the CPU, where a worker goes on with it
(`kvrm.backend.cpu.worker`).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kvrm.backend.cpu.workers import CpuBackend, Work
from kvrm.backend.gpu.arrays import OnDevice, on_host
from kvrm.backend.gpu.code import Code
from kvrm.backend.gpu.device_abi import GROUP, IS_MAPPED
from kvrm.backend.gpu.device_lanes import Bytes, DeviceLanes, Numbers
from kvrm.backend.gpu.device_process import DeviceProcess, chunks_ahead
from kvrm.backend.gpu.driver import device
from kvrm.backend.gpu.foreseen import NOTHING, find_accesses, find_regions
from kvrm.backend.gpu.image import Image
from kvrm.backend.gpu.kernel import Skip
from kvrm.backend.gpu.leaving import Leaver, batches
from kvrm.backend.gpu.slices import Slices
from kvrm.backend.protocols import Driver
from kvrm.errors import UsageError
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason, Stop
from kvrm.lane.words import REGISTERS, words_of
from kvrm.machine.engines import SKIPPING, EngineKind, named
from kvrm.machine.lane import Lane
from kvrm.machine.lanes_inputs import STREAMS, Words
from kvrm.machine.lanes_job import Job, Kept
from kvrm.machine.lanes_results import NOT_RUN, Outputs
from kvrm.machine.runner import Plan
from kvrm.machine.stops import SIGBUS, SIGSEGV
from kvrm.machine.texts import Texts
from kvrm.memory import PAGE, AccessKind, Memory, OutOfMemory

SLICE_SECONDS = 0.05
"""How long a launch is meant to take, so that `cancel` and `poll` are served."""
PROFILED = 1 << 21
"""Instructions of one lane that regions, or what is prefetched, are chosen from."""


ENDS = (Reason.BRK, Reason.UNDEFINED, Reason.BREAKPOINT, Reason.EXIT, Reason.FAULT, Reason.FULL)
"""What lanes end by on the device, and by SVC if they have no Linux."""
T = TypeVar("T", bound=np.generic)
Here = npt.NDArray[np.bool_] | None
"""Whether each lane is on the device; None: all are."""
LEAVES = NOT_RUN - 1
"""Instead of a stop's code: the CPU is to go on with the lane."""


class GpuBackend:
    """As `kvrm.backend.protocols.Backend`: the lanes are on the device, but for those that left it."""

    takes_device_arrays = True
    device_seconds, left_device = 0.0, 0

    device: DeviceLanes
    code: Code
    _memory: Memory
    _process: DeviceProcess | None
    _slices: Slices
    _sites: Any = None
    _of: Job | None = None

    def __init__(self, origin: Lane, kind: EngineKind, lanes: int) -> None:
        self._origin, self._kind, self._count, self._going = origin, kind, lanes, lanes
        self._cpu, self._retired = CpuBackend(origin, kind, lanes), 0

    def copied(self, array: Any) -> Any:
        """Where it is quick to upload."""
        return device().copied(array)

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: Any) -> Any:
        """Where it is quick to download to."""
        return device().empty(shape, dtype)

    def on_host(self, job: Job) -> Job:
        """With copies of what is in the device's memory."""
        gpu, stdin = device(), job.stdin
        gpu.use()
        if stdin is not None and stdin.on_device:
            stdin = Texts(on_host(gpu, stdin.data), stdin.lengths)
        return replace(job, stdin=stdin, memory=[(start, on_host(gpu, array)) for start, array in job.memory])

    @property
    def on_device(self) -> OnDevice:
        if self._of is None:
            raise UsageError("nothing is on the device yet; run the lanes first")
        return OnDevice(self.device)

    @property
    def device_bytes(self) -> int:
        """With slabs that no lane has taken yet."""
        return self.device.device_bytes

    @property
    def retired(self) -> int:
        """Instructions of all lanes so far, here and there."""
        return self._retired + self._cpu.retired

    @property
    def ended(self) -> int:
        """As launches count."""
        return self._count - self._going

    # -- setting up ------------------------------------------------------------------------------------------
    def _lay_out(self, job: Job, breakpoints: Set[int]) -> None:
        """Put the job's lanes on the device, unless they are there."""
        breakpoints = frozenset(breakpoints)
        if self._of is job:
            self.code.set_breakpoints(breakpoints)
            self._release(job)
            self.device.pass_over()
            return
        gpu = device()
        if self._of is not None and self._of.snapshot is job.snapshot:
            self.code.set_breakpoints(breakpoints)
            self.device.begin(job)
            self._of = job
            return
        self._memory = Memory(self._origin.memory.limit)
        self._memory.restore(job.snapshot.memory)
        image, self._process = self._new_image(job, gpu)
        kind, regions, known = self._kind, [], NOTHING
        if kind.name != "interpreter":
            regions = find_regions(self._origin, kind, self.on_host(job), PROFILED, breakpoints)
        if "memory" in kind.policies:
            known = find_accesses(self._origin, kind, self.on_host(job), PROFILED, breakpoints)
        dispatch, lone, skip = kind.policies.get("dispatch"), self._count == 1, self._new_sites()
        self.code = Code(
            gpu, image.code, kind.features, regions, breakpoints, dispatch, known.ahead, lone, skip
        )
        self.device = DeviceLanes(gpu, self.code, image, self._process, job, known.written)
        self._of = job
        self._slices = Slices(SLICE_SECONDS)

    def _release(self, job: Job) -> None:
        """Lanes that stopped here at a breakpoint which is no more just go on here."""
        if job.again:
            lanes = np.array(sorted(job.again))
            there = lanes[self.device.reasons()[lanes] == Reason.BREAKPOINT]
            self.device.set_reason(there, Reason.BUDGET)
            job.again.difference_update(there.tolist())

    def _new_sites(self) -> Skip | None:
        """What has loops skipped from now on, if a policy asks for it; the function for the kernel."""
        if self._sites is not None:
            self._sites.end()
        self._sites, proposer = None, self._kind.policies.get("loops")
        if proposer is None:
            return None
        make = named(SKIPPING["cuda"])
        self._sites = make(proposer, self, self._memory, self._kind.features)
        return self._sites.emit  # type: ignore[no-any-return]

    def _new_image(self, job: Job, gpu: Driver) -> tuple[Image, DeviceProcess | None]:
        origin, snapshot, memory = self._origin.process, job.snapshot.process, self._memory
        if origin is None:
            return Image(gpu, memory, job.snapshot.memory.pages), None
        image = Image(gpu, memory, job.snapshot.memory.pages, chunks_ahead(memory, snapshot))
        padded = -(-self._count // GROUP) * GROUP
        return image, DeviceProcess(gpu, origin, memory, snapshot, image.zeros, padded)

    # -- running ---------------------------------------------------------------------------------------------
    def run(self, job: Job, plan: Plan, breakpoints: Set[int], threads: int) -> None:
        """Launch after launch; then lanes that leave, on the CPU."""
        device().use()
        self._going = going = self._count
        try:
            here = job.is_resident
            if here:
                self._lay_out(job, breakpoints)
        except OutOfMemory:
            # the arguments of some lane; a worker says which
            here = False
        if not here:
            self._of, self.left_device = None, self._count
            job.outputs.require_zeros()
            self._cpu.run(self.on_host(job), plan, breakpoints, threads)
            return
        left, self.device_seconds = plan.budget, 0.0
        while left and going and not job.cancel.value:
            grant = min(left, self._slices.size)
            seconds, going, retired = self.device.run(grant)
            left -= grant
            self.device_seconds += seconds
            self._retired += retired
            self._going = going
            self._slices.took(seconds)
            if self._sites is not None and left and going:
                self._sites.look(self.device.where())
        leaving, spent = self._harvest(job, Stop.CANCELLED if left else Stop.BUDGET)
        self.left_device = self._going = len(job.kept) + len(job.again) + len(leaving)
        self._go_on_elsewhere(job, leaving, spent, plan.budget, threads)

    # -- results ---------------------------------------------------------------------------------------------
    def _harvest(self, job: Job, unfinished: Stop) -> tuple[Numbers, Words]:
        """Fetch what lanes hold, and how they stopped, all of them at once.

        Which of them the CPU is to go on with, and how many instructions each of those has run in this run.
        """
        lanes, out, program = self.device, job.outputs, self._origin.process is not None
        reasons = lanes.reasons()
        away = reasons == Reason.AWAY
        here = ~away if away.any() else None
        before = out.retired.copy()
        retired, pcs = _room(out.retired, here is None), _room(out.pc, here is None)
        lanes.outcome(retired, pcs)
        retired -= np.uint64(job.snapshot.retired)
        if (reasons == Reason.FAULT).any():
            self._stop_at_breakpoints((out.stop != Stop.FAULT.code) & (retired != before), reasons, pcs)
        stops = _looked_up(_stops_by_reason(unfinished, program), reasons)
        leaving = np.flatnonzero(stops == LEAVES)
        # a worker runs the system call's instruction again, by an engine whose caller serves it
        calls = leaving[reasons[leaving] == Reason.SVC]
        retired[calls] -= np.uint64(1)
        pcs[calls] -= np.uint64(4)
        stops[leaving] = unfinished.code
        out.stop = merged(here, stops, out.stop)
        out.retired, out.pc = merged(here, retired, out.retired), merged(here, pcs, out.pc)
        self._fetch_endings(out, reasons)
        self._fetch_kept(out, here)
        self._fetch_streams(job, here, bool(len(leaving)))
        return leaving, out.retired[leaving] - before[leaving]

    def _stop_at_breakpoints(self, moved: npt.NDArray[np.bool_], reasons: Bytes, pcs: Words) -> None:
        """Lanes that just branched to a breakpoint where nothing can run stop at it, and have not faulted.

        Those that have not `moved` in this run began it there, so that they pass the breakpoint over.
        """
        new = (reasons == Reason.FAULT) & moved
        if new.any() and (new := new & np.isin(pcs, np.array([*self.code.breakpoints], np.uint64))).any():
            at = np.flatnonzero(new)
            at = at[self.device.get(layout.KIND)[at] & np.uint64(AccessKind.FETCH) != 0]
            self.device.set_reason(at, Reason.BREAKPOINT)
            reasons[at] = Reason.BREAKPOINT

    def _fetch_endings(self, out: Outputs, reasons: Bytes) -> None:
        """Fetch exit codes and faults."""
        exited, faulted = reasons == Reason.EXIT, reasons == Reason.FAULT
        if exited.any() or faulted.any():
            words = self.device.get(layout.ADDRESS)
            out.exit_code[exited] = words[exited]
            out.fault_address[faulted] = words[faulted]
        if faulted.any():
            words = self.device.get(layout.KIND)[faulted]
            kinds, mapped = words & np.uint64(IS_MAPPED - 1), words & np.uint64(IS_MAPPED) != 0
            misaligned = (kinds == AccessKind.FETCH) & (out.fault_address[faulted] & np.uint64(3) != 0)
            out.fault_kind[faulted], out.fault_mapped[faulted] = kinds, mapped
            out.signal[faulted] = np.where(misaligned, SIGBUS, SIGSEGV)

    def _fetch_kept(self, out: Outputs, here: Here) -> None:
        """Fetch the registers and the memory that results have."""
        lanes = self.device
        for name, kept in out.registers.items():
            if words_of(name) == 1:
                found = lanes.get(REGISTERS[name], _room(kept, here is None))
            else:
                found = np.stack([lanes.get(REGISTERS[name] + 8 * i) for i in range(words_of(name))], axis=1)
            out.registers[name] = merged(here, found, kept)
        for span, rows in out.memory.items():
            out.memory[span] = merged(here, lanes.memory(*span, _room(rows, here is None)), rows)

    def _fetch_streams(self, job: Job, here: Here, some_leave: bool) -> None:
        """What lanes on the device have written so far; with a place for each lane, if the CPU goes on."""
        streams, start = job.outputs.streams, job.snapshot.process
        for stream, name in enumerate(STREAMS):
            if streams[name]:
                before, found = (start.stdout, start.stderr)[stream], self.device.outputs(stream)
                if not before and here is None and not some_leave:
                    streams[name] = found
                    continue
                whole = [True] * len(found) if here is None else here.tolist()
                rows = zip(whole, found, streams[name], strict=True)
                streams[name] = [before + new if h else old for h, new, old in rows]

    def _go_on_elsewhere(self, job: Job, leaving: Numbers, spent: Words, budget: int, threads: int) -> None:
        """Have the CPU go on with lanes that left in earlier runs, then with those that leave now."""
        if not (job.kept or job.again or len(leaving)):
            return
        job = self.on_host(job)
        self._pass_kept(job, sorted(job.kept.keys() | job.again), budget, threads)
        spent_by = dict(zip(leaving.tolist(), spent.tolist(), strict=True))
        for batch in batches(self.device, self._process, leaving) if spent_by else ():
            if job.cancel.value:
                return
            for leaver in batch:
                self._take_away(job, leaver, spent_by[leaver.lane])
            numbers = [leaver.lane for leaver in batch]
            self.device.set_reason(np.array(numbers), Reason.AWAY)
            self._pass_kept(job, numbers, budget, threads)

    def _pass_kept(self, job: Job, lanes: list[int], budget: int, threads: int) -> None:
        if lanes and not job.cancel.value:
            work = Work(np.empty(0, np.uint64), lanes, threads)
            self._cpu.run_all(job, work, budget, self.code.breakpoints, last=True)

    def _take_away(self, job: Job, left: Leaver, spent: int) -> None:
        """Make of a lane what a worker on the CPU can go on with."""
        out, memory, lane = job.outputs, self._memory, left.lane
        pc, retired = int(out.pc[lane]), int(out.retired[lane]) + job.snapshot.retired
        process = None if self._process is None else self._process.leave(job, left)
        for page, data in left.pages.items():
            memory.poke(page * PAGE, data)
        changes = memory.take_changes()
        state = left.words[: layout.EXIT_OFFSET // 8].tobytes(), pc
        arrived = int(left.words[layout.REASON // 8]) == Reason.CODE
        job.kept[lane] = Kept(state, changes, job.snapshot.memory, process, retired, spent, arrived=arrived)


def _stops_by_reason(unfinished: Stop, program: bool) -> Bytes:
    """For each reason why the device stops a lane the stop's code, or LEAVES."""
    codes = np.full(256, LEAVES, np.uint8)
    codes[[0, Reason.AWAY]], codes[Reason.BUDGET] = NOT_RUN, unfinished.code
    for reason in ENDS if program else (*ENDS, Reason.SVC):
        assert reason.stop is not None
        codes[reason] = reason.stop.code
    return codes


def _looked_up(codes: Bytes, reasons: Bytes) -> Bytes:
    """The code for each lane's reason: all lanes often stop alike, and looking each up takes long then."""
    first = reasons[0]
    return np.full(len(reasons), codes[first]) if (reasons == first).all() else codes[reasons]


def _room(array: npt.NDArray[T], whole: bool) -> npt.NDArray[T]:
    """Where new values go: to the old ones' place if they are of all lanes."""
    return array if whole else np.empty_like(array)


def merged(here: Here, new: npt.NDArray[T], old: npt.NDArray[T]) -> npt.NDArray[T]:
    """Of each lane, what is new if it is here, else what was known of it."""
    if here is not None:
        new[~here] = old[~here]
    return new
