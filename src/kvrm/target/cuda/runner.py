"""`Lanes` on a GPU: the same inputs, results and ways to run as on the CPU.

A lane that needs the host - for a system call that is not resident (`kvrm.target.cuda.linux`), code that
changes, an instruction that only the reference runs - is taken to the CPU, where a worker goes on with it
(`kvrm.machine.lanes_worker`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kvrm.engine.interpreter.slots import Reason
from kvrm.errors import UsageError
from kvrm.machine import state as layout
from kvrm.machine.engines import SKIPPING, named
from kvrm.machine.lanes import Lanes, Work
from kvrm.machine.lanes_inputs import STREAMS, Words, offset_of, words_of
from kvrm.machine.lanes_results import NOT_RUN, LaneResults, Outputs
from kvrm.machine.lanes_worker import Job, Kept, LaneMemory
from kvrm.machine.result import STOPS, Fault, Progress, Stop
from kvrm.machine.runner import GOES_ON, Plan
from kvrm.machine.stops import SIGSEGV
from kvrm.machine.texts import Texts
from kvrm.memory import PAGE, AccessKind, OutOfMemory, Prot, untagged
from kvrm.target.cuda.abi import GROUP, NO_PAGE, PAGES_LEFT
from kvrm.target.cuda.arrays import OnDevice, on_host
from kvrm.target.cuda.code import Code
from kvrm.target.cuda.driver import Device, device
from kvrm.target.cuda.image import Image
from kvrm.target.cuda.kernel import Skip
from kvrm.target.cuda.lanes import Bytes, DeviceLanes
from kvrm.target.cuda.process import DeviceProcess, chunks_ahead
from kvrm.target.cuda.profile import NOTHING, find_accesses, find_regions
from kvrm.target.cuda.slices import Slices

SLICE_SECONDS = 0.05
"""How long a launch is meant to take, so that `cancel` and `poll` are served."""
PROFILED = 1 << 21
"""Instructions of one lane that regions, or what is prefetched, are chosen from."""


ENDS = {
    Reason.BRK: Stop.BRK,
    Reason.UNDEFINED: Stop.UNDEFINED,
    Reason.BREAKPOINT: Stop.BREAKPOINT,
    Reason.EXIT: Stop.EXIT,
}
T = TypeVar("T", bound=np.generic)
Here = npt.NDArray[np.bool_] | None
"""Whether each lane is on the device; None: all are."""
AWAY = Reason.UNTRANSLATED
"""In the state of a lane that has gone to the CPU."""


class CudaLanes(Lanes):
    """Lanes that run on the GPU.

    Of the last run, `device_seconds` is the time that kernels took, and `left_device` how many lanes the CPU
    went on with.
    """

    takes_device_arrays = True

    @staticmethod
    def _copied(array: Any) -> Any:
        return device().copied(array)

    @staticmethod
    def _empty(shape: tuple[int, ...], dtype: Any) -> Any:
        return device().empty(shape, dtype)

    device_seconds = 0.0
    left_device = 0

    _device: DeviceLanes
    _code: Code
    _memory: LaneMemory
    _process: DeviceProcess | None
    _slices: Slices
    _sites: Any = None
    _of: Job | None = None
    _retired = _going = 0

    def _lay_out(self, job: Job) -> None:
        """Put the job's lanes on the device, unless they are there."""
        breakpoints = frozenset(self.breakpoints)
        if self._of is job:
            self._code.set_breakpoints(breakpoints)
            self._device.pass_over()
            return
        gpu = device()
        self._stops = np.full(len(self), NOT_RUN, np.uint8)
        if self._of is not None and self._of.snapshot is job.snapshot:
            self._code.set_breakpoints(breakpoints)
            self._device.begin(job)
            self._of = job
            return
        self._memory = LaneMemory(self._machine._memory.limit)
        self._memory.restore(job.snapshot.memory)
        image, self._process = self._new_image(job, gpu)
        interprets = self._machine.engine == "interpreter"
        regions = []
        if not interprets:
            regions = find_regions(self._machine, self._on_host(job), PROFILED, breakpoints)
        policies = self._machine.policies
        known = NOTHING
        if "memory" in policies:
            known = find_accesses(self._machine, self._on_host(job), PROFILED, breakpoints)
        features, dispatch, lone = self._machine.features, policies.get("dispatch"), len(self) == 1
        skip = self._new_sites()
        self._code = Code(gpu, image.code, features, regions, breakpoints, dispatch, known.ahead, lone, skip)
        self._device = DeviceLanes(gpu, self._code, image, self._process, job, known.written)
        self._of = job
        self._slices = Slices(SLICE_SECONDS)

    def _new_sites(self) -> Skip | None:
        """Who has loops skipped from now on, if somebody has; the function for the kernel."""
        if self._sites is not None:
            self._sites.end()
        self._sites, proposer = None, self._machine.policies.get("loops")
        if proposer is None:
            return None
        make = named(SKIPPING["cuda"])
        self._sites = make(proposer, self, self._memory, self._machine.features)
        return self._sites.emit  # type: ignore[no-any-return]

    @property
    def code(self) -> Code:
        """What runs on the device."""
        return self._code

    @staticmethod
    def _on_host(job: Job) -> Job:
        """The job with all that lanes begin with in the host's memory."""
        gpu, stdin = device(), job.stdin
        if stdin is not None and stdin.on_device:
            stdin = Texts(on_host(gpu, stdin.data), stdin.lengths)
        return replace(job, stdin=stdin, memory=[(start, on_host(gpu, array)) for start, array in job.memory])

    @property
    def on_device(self) -> OnDevice:
        """Registers and memory where they are, after a run; UsageError before."""
        if self._of is None:
            raise UsageError("nothing is on the device yet; run the lanes first")
        return OnDevice(self._device)

    @property
    def device_bytes(self) -> int:
        """Device memory that the lanes have, slabs that none has taken yet included."""
        return self._device.device_bytes

    def _new_image(self, job: Job, gpu: Device) -> tuple[Image, DeviceProcess | None]:
        origin, snapshot, memory = self._machine._process, job.snapshot.process, self._memory
        if origin is None:
            return Image(gpu, memory, job.snapshot.memory.pages), None
        image = Image(gpu, memory, job.snapshot.memory.pages, chunks_ahead(memory, snapshot))
        padded = -(-len(self) // GROUP) * GROUP
        return image, DeviceProcess(gpu, origin, memory, snapshot, image.zeros, padded)

    def _run(self, plan: Plan) -> LaneResults:
        job = self._job
        assert job is not None
        device().use()
        try:
            here = not self._changes_code(job)
            if here:
                self._lay_out(job)
        except OutOfMemory:
            # the arguments of some lane; a worker says which
            here = False
        if not here:
            self._of, self.left_device = None, len(self)
            job.outputs.require_zeros()
            self._job = self._on_host(job)
            return super()._run(plan)
        self._retired, left, self.device_seconds = 0, plan.budget, 0.0
        self._going = going = len(self)
        while left and going and not self._cancel.value:
            grant = min(left, self._slices.size)
            seconds, going, retired = self._device.run(grant)
            left -= grant
            self.device_seconds += seconds
            self._retired += retired
            self._going = going
            self._slices.took(seconds)
            if self._sites is not None and left and going:
                self._sites.look(self._device.where())
        self._harvest(job, Stop.CANCELLED if left else Stop.BUDGET)
        self.left_device = len(job.kept)
        if job.kept and not self._cancel.value:
            self._pass(
                job, Work(np.empty(0, np.uint64), sorted(job.kept), self.threads), plan.budget, last=True
            )
        unfinished = Stop.CANCELLED if self._cancel.value else Stop.BUDGET
        return job.outputs.results(unfinished, self.seconds)

    def _changes_code(self, job: Job) -> bool:
        """Whether lanes begin with code of their own."""
        return any(
            region.prot & Prot.X and region.start < start + array.shape[1] and start < region.end
            for start, array in job.memory
            for region in job.snapshot.memory.regions
        )

    # -- results ---------------------------------------------------------------------------------------------
    def _harvest(self, job: Job, unfinished: Stop) -> None:
        """Fetch what lanes hold, and how they stopped; those that need the host go to the CPU."""
        lanes, out, start = self._device, job.outputs, np.uint64(job.snapshot.retired)
        reasons = lanes.reasons()
        ends = ENDS if self._machine._process is not None else ENDS | {Reason.SVC: Stop.SYSCALL}
        ends = ends | {Reason.BUDGET: unfinished}
        met = {int(reasons[0])}
        if not (reasons == reasons[0]).all():
            met = {reason for reason in (0, *Reason, NO_PAGE) if (reasons == reason).any()}
        for lane in np.flatnonzero(reasons == Reason.MEMORY) if Reason.MEMORY in met else ():
            if not self._refused(int(lane), lanes.state(int(lane))):
                reasons[lane] = Reason.CODE_WRITE
                met.add(Reason.CODE_WRITE)
        leave = met - {0, *ends, Reason.MEMORY, AWAY}
        whole = not leave and AWAY not in met and not job.kept
        retired, pcs = _room(out.retired, whole), _room(out.pc, whole)
        lanes.outcome(retired, pcs)
        retired -= start
        self._send_away(job, leave, reasons, pcs)
        here = None if whole else reasons != AWAY
        out.retired, out.pc = merged(here, retired, out.retired), merged(here, pcs, out.pc)
        self._fetch_kept(out, here)
        for reason, stop in ends.items():
            if reason in met:
                out.stop[... if len(met) == 1 else reasons == reason] = stop.code
        if Reason.EXIT in met:
            exited = reasons == Reason.EXIT
            out.exit_code[exited] = lanes.get(layout.ADDRESS)[exited]
        self._fetch_streams(job, here)
        self._stops = out.stop if here is None else np.where(here, out.stop, np.uint8(NOT_RUN))

    def _fetch_kept(self, out: Outputs, here: Here) -> None:
        """Fetch the registers and the memory that results have."""
        lanes = self._device
        for name, kept in out.registers.items():
            if words_of(name) == 1:
                found = lanes.get(offset_of(name), _room(kept, here is None))
            else:
                found = np.stack([lanes.get(offset_of(name) + 8 * i) for i in range(words_of(name))], axis=1)
            out.registers[name] = merged(here, found, kept)
        for span, rows in out.memory.items():
            out.memory[span] = merged(here, lanes.memory(*span, _room(rows, here is None)), rows)

    def _send_away(self, job: Job, reasons: set[int], of: Bytes, pcs: Words) -> None:
        """Have the CPU go on with the lanes that stopped for one of these reasons."""
        if not reasons:
            return
        for lane in np.flatnonzero(np.isin(of, list(reasons))):
            before = int(job.outputs.retired[lane]) + job.snapshot.retired
            self._take_away(job, int(lane), int(pcs[lane]), int(of[lane]), before)
            of[lane] = AWAY
        self._device.put(layout.REASON, of.astype(np.uint64))

    def _fetch_streams(self, job: Job, here: Here) -> None:
        """What lanes on the device have written so far."""
        streams, start = job.outputs.streams, job.snapshot.process
        for stream, name in enumerate(STREAMS):
            if streams[name]:
                before, found = (start.stdout, start.stderr)[stream], self._device.outputs(stream)
                if not before and here is None:
                    streams[name] = found
                    continue
                whole = [True] * len(found) if here is None else here.tolist()
                rows = zip(whole, found, streams[name], strict=True)
                streams[name] = [before + new if h else old for h, new, old in rows]

    def _refused(self, lane: int, state: Words) -> bool:
        """An access was refused: a fault, or no page was left. False if the lane is to go on on the CPU.

        It does past the end of a file that is mapped, where it writes to code, and where the device's pool of
        pages has run out before its limit.
        """
        assert self._job is not None
        out, address = self._job.outputs, untagged(int(state[layout.ADDRESS // 8]))
        kind, region = (
            AccessKind(int(state[layout.KIND // 8])),
            self._job.snapshot.memory.regions.find(address),
        )
        mapped, readable, writable, beyond = self._device.entry(lane, address)
        if beyond:
            return False
        if not (writable if kind is AccessKind.WRITE else readable):
            out.stop[lane] = Stop.FAULT.code
            out.put(lane, {"signal": SIGSEGV, "fault": Fault(address, kind, mapped)})
        elif state[PAGES_LEFT // 8] or (region is not None and region.prot & Prot.X):
            return False
        else:
            out.stop[lane] = Stop.OUT_OF_MEMORY.code
        return True

    def _take_away(self, job: Job, lane: int, pc: int, reason: int, before: int) -> None:
        """Make of a lane what a worker on the CPU can go on with."""
        words = self._device.state(lane)
        retired = int(words[layout.HORIZON // 8] - words[layout.REMAINING // 8])
        if reason == Reason.SVC:
            # the instruction is run again, by an engine whose caller serves it
            pc, retired = pc - 4, retired - 1
        memory = self._memory
        process = None if self._process is None else self._process.replay(job, lane, words, pc)
        for page, data in self._device.own_pages(lane):
            memory.poke(page * PAGE, data)
        changes = memory.take_changes()
        state = words[: layout.EXIT_OFFSET // 8].tobytes(), pc
        arrived = reason == Reason.CODE
        job.kept[lane] = Kept(state, changes, process, retired, retired - before, arrived=arrived)

    def _progress(self, running: bool, seconds: float) -> Progress:
        on_cpu = super()._progress(running, seconds)
        if self._of is None:
            return on_cpu
        ends = [stop for stop in STOPS if stop not in GOES_ON]
        counts = {stop: int(np.count_nonzero(self._stops == stop.code)) for stop in ends}
        stops = {stop: n for stop, n in counts.items() if n}
        for stop, n in on_cpu.stops.items():
            stops[stop] = stops.get(stop, 0) + n
        finished = sum(stops.values()) or len(self) - self._going
        return Progress(running, len(self), finished, self._retired + on_cpu.retired, seconds, stops)


def _room(array: npt.NDArray[T], whole: bool) -> npt.NDArray[T]:
    """Where new values go: to the old ones' place if they are of all lanes."""
    return array if whole else np.empty_like(array)


def merged(here: Here, new: npt.NDArray[T], old: npt.NDArray[T]) -> npt.NDArray[T]:
    """Of each lane, what is new if it is here, else what was known of it."""
    if here is not None:
        new[~here] = old[~here]
    return new
