"""Lanes in a GPU's memory, all of them at once, and the kernels' launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvrm.backend.gpu.code import Code, parameters
from kvrm.backend.gpu.device_abi import GROUP, LANE_WORDS, LINUX, PAGES_LEFT, PLAIN, Param
from kvrm.backend.gpu.device_process import DeviceProcess
from kvrm.backend.gpu.driver import DeviceError
from kvrm.backend.gpu.gather import ROW_WORDS
from kvrm.backend.gpu.group_memory import SLAB_BYTES
from kvrm.backend.gpu.image import Image
from kvrm.backend.gpu.pool import Pool
from kvrm.backend.protocols import Buffer, Driver
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.lane.words import REGISTERS
from kvrm.linux.resident.layout import Word
from kvrm.machine.lanes_inputs import Words
from kvrm.machine.lanes_job import Job
from kvrm.machine.texts import Texts
from kvrm.memory import PAGE

THREADS = 128
"""Threads of a block."""

LOOKED_AT = 1024
"""Lanes that stand for all of them where it is asked where they are."""

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.intp]
"""Of lanes."""


READY_MOST, READY_PART = 64, 0.25
"""Pages of which copies are made before lanes run, and the part of the free device memory, at most."""
ROWS_MOST, ROWS_PART = 16 << 20, 1 / 64
"""Bytes of the buffer for rows, and the part of the free device memory, at most. It is taken before the pool
of pages can take all that there is: lanes that then need the CPU leave through it."""


class DeviceLanes:
    """The lanes of a job, as they begin. `retired` is counted over all of them.

    Copies of pages `written`, which lanes are known to write, are made before they run; `ready` has those.
    Lanes own them only when they write, as always, so nothing but time can be told from it.
    """

    def __init__(
        self,
        gpu: Driver,
        code: Code,
        image: Image,
        process: DeviceProcess | None,
        job: Job,
        written: Sequence[int] = (),
    ) -> None:
        self._gpu, self._code, self._image, self._process = gpu, code, image, process
        self._lanes = len(job.outputs.stop)
        self.groups = groups = -(-self._lanes // GROUP)
        self._padded = groups * GROUP
        self._tables = gpu.allocate(image.table.nbytes * groups)
        self.states = gpu.allocate(self._padded * LANE_WORDS * 8)
        self._column = gpu.allocate((max(self._padded, LANE_WORDS) + 1) * 8)
        self._sources = gpu.allocate(self._padded * 8)
        self._rows = gpu.allocate(min(ROWS_MOST, int(gpu.free_bytes * ROWS_PART)))
        self._counters = gpu.allocate(24)
        self._outcome = gpu.allocate(self._padded * 17)
        self._params = gpu.allocate(8 * len(Param))
        room = int(gpu.free_bytes * READY_PART) // (SLAB_BYTES * groups)
        self.ready = [page for page in written if image.may_own(page)][: min(READY_MOST, room)]
        self._pool = Pool(gpu, groups, len(self.ready))
        self._readying = 0.0
        self.begin(job)

    def __len__(self) -> int:
        return self._lanes

    # -- setting up ------------------------------------------------------------------------------------------
    def begin(self, job: Job) -> None:
        """All lanes as the job has them begin."""
        self._pool.empty()
        self._tell_parameters()
        if self._process is not None:
            self._process.files.look_again()
        self._tables.write(self._image.table)
        self._tables.repeat(self._image.table.nbytes)
        self._counters.fill(0)
        state, pc = job.snapshot.state
        words = np.zeros(LANE_WORDS, np.uint64)
        words[: layout.EXIT_OFFSET // 8] = np.frombuffer(state, np.uint64)[: layout.EXIT_OFFSET // 8]
        words[layout.PC // 8], words[layout.HORIZON // 8] = pc, job.snapshot.retired
        words[layout.IP // 8], words[layout.REMAINING // 8] = self._code.slot(pc) | PLAIN, 0
        words[PAGES_LEFT // 8] = self._image.pages_left
        for word, value in (self._process.words if self._process else {}).items():
            words[LINUX + word] = value
        self._column.write(words)
        self._launch("begin", self._column.address, 0, 0)
        if self.ready:
            self._readying = self._make_ready()
        for word, values in self._process.inputs(job, self._lanes) if self._process else ():
            self.put(8 * (LINUX + word), values)
        for array, first, step, offset in job.registers:
            column = np.ascontiguousarray(array.reshape(-1).view(np.uint64)[first // 8 :: step // 8])
            self.put(offset, column)
            if offset == layout.PC:
                self.put(layout.IP, self._code.slots_of(column) | np.uint64(PLAIN))
        for start, rows in job.memory:
            self._put_rows(start, rows)
        if self._process is not None and job.args is not None:
            pointers, start, rows = self._process.stacks(job)
            self.put(REGISTERS["sp"], pointers)
            self._put_rows(start, rows)

    def _make_ready(self) -> float:
        """Make copies of pages, as many as there is room for; the seconds it took."""
        gpu, addresses = self._gpu, self._gpu.upload(np.array(self.ready, np.uint64) * np.uint64(PAGE))
        began, ended = gpu.event(), gpu.event()
        gpu.record(began)
        self._launch("ready", addresses.address, len(self.ready), 0)
        gpu.record(ended)
        gpu.synchronize()
        return gpu.seconds(began, ended)

    def _tell_parameters(self) -> None:
        values = parameters(self._code, self.states, self._image.root, self._tables, self._counters)
        values |= {
            Param.TABLE_BYTES: self._image.table.nbytes,
            Param.SLABS: self._pool.block.address,
            Param.SLAB_LIMIT: self._pool.limit,
            Param.LANES: self._lanes,
            Param.PROCESS: self._process.block.address if self._process else 0,
        }
        self._params.write(np.array([values[p] for p in Param], np.uint64))

    # -- running ---------------------------------------------------------------------------------------------
    def run(self, grant: int) -> tuple[float, int, int]:
        """Run `grant` instructions of each lane that has not ended, below 2^32, at most.

        The seconds it took, lanes that go on, and instructions that all lanes together retired. The first run
        has the seconds that it took to make pages ready.
        """
        gpu, counters = self._gpu, np.zeros(2, np.uint64)
        before, self._readying = self._readying, 0.0
        self._counters.write(counters)
        began, ended = gpu.event(), gpu.event()
        gpu.record(began)
        self._code.run(self._padded, [self._params.address, grant])
        while self._refused_for_want_of_pages(Reason.AGAIN) or self._asked():
            self._code.run(self._padded, [self._params.address, 0])
        gpu.record(ended)
        going, retired = self._counters.read(counters)
        return before + gpu.seconds(began, ended), int(going), int(retired)

    def _taken(self) -> int:
        """How many slabs of the pool's newest block are taken."""
        return int(self._counters.read(np.zeros(1, np.uint64), 16)[0])

    def _refused_for_want_of_pages(self, reason: int) -> bool:
        """Whether the pool was used up and there is more now; lanes that were refused then have `reason`."""
        if self._taken() < self._pool.limit or not self._pool.grow():
            return False
        self._counters.write(np.zeros(1, np.uint64), 16)
        self._tell_parameters()
        reasons = self.get(layout.REASON)
        refused = (reasons == Reason.MEMORY) | (reasons == Reason.NO_PAGE)
        self.put(layout.REASON, np.where(refused, np.uint64(reason), reasons))
        self._pass_over(refused)
        return bool(refused.any())

    def _asked(self) -> bool:
        """Whether lanes have asked about files, and can go on now that they know."""
        if self._process is None or not self._process.files.answer():
            return False
        reasons = self.get(layout.REASON)
        asked = reasons == Reason.NO_ANSWER
        self.put(layout.REASON, np.where(asked, np.uint64(Reason.AGAIN), reasons))
        self._pass_over(asked)
        return True

    def pass_over(self) -> None:
        """Let lanes whose next instruction has a breakpoint run it."""
        self.put(layout.IP, self._code.firsts(self.get(layout.IP)))
        self._pass_over(np.ones(self._lanes, np.bool_))

    def _pass_over(self, which: npt.NDArray[np.bool_]) -> None:
        """The same of some lanes; those that must do an instruction again were let through already."""
        places = self.get(layout.IP)
        self.put(layout.IP, np.where(which, places | np.uint64(PLAIN), places))

    # -- what lanes hold -------------------------------------------------------------------------------------
    def put(self, offset: int, values: Words) -> None:
        """Set the word at an offset of every lane's state."""
        self._column.write(values)
        self._launch("put_column", offset, 0, self._column.address)

    def set_reason(self, which: Numbers, reason: int) -> None:
        """Have some lanes stopped for this reason."""
        reasons = self.get(layout.REASON)
        reasons[which] = reason
        self.put(layout.REASON, reasons)

    def get(self, offset: int, out: Words | None = None) -> Words:
        """The word at an offset of every lane's state, in `out` if that is given."""
        self._launch("get_column", offset, 0, self._column.address)
        out = np.empty(self._lanes, np.uint64) if out is None else out
        return self._column.read(out)  # type: ignore[no-any-return]

    def reasons(self) -> Bytes:
        """Why every lane stopped (`Reason`); also readies `outcome`."""
        buffer, pcs_at, at = self._outcome, 8 * self._padded, 16 * self._padded
        self._launch("outcome", buffer.address + at, buffer.address, buffer.address + pcs_at)
        return buffer.read(np.empty(self._lanes, np.uint8), at)  # type: ignore[no-any-return]

    def outcome(self, retired: Words, pcs: Words) -> None:
        """Fill in every lane's retired count and pc."""
        self._outcome.read(retired)
        self._outcome.read(pcs, 8 * self._padded)

    def where(self) -> list[tuple[int, int]]:
        """Addresses where lanes are that have used up their grant, and how many, of LOOKED_AT at most."""
        going = self.reasons() == Reason.BUDGET
        pcs = np.empty((2, self._lanes), np.uint64)
        self.outcome(*pcs)
        step = -(-self._lanes // LOOKED_AT)
        some = pcs[1, ::step][going[::step]]
        return [(int(pc), int(n)) for pc, n in zip(*np.unique(some, return_counts=True), strict=True)]

    def memory(self, start: int, stop: int, out: Bytes) -> Bytes:
        """Guest memory in `out`, lanes x bytes; zeros where nothing is mapped."""
        return self.collect(start, stop).read(out)  # type: ignore[no-any-return]

    def collect(self, start: int, stop: int) -> Buffer:
        """The same on the device."""
        rows = self._gpu.allocate(self._lanes * (stop - start))
        self._launch("collect", start, stop - start, rows.address)
        return rows

    def outputs(self, stream: int) -> Texts:
        """What each lane wrote to standard output (0) or error (1)."""
        assert self._process is not None
        return self.gather(self._process.outputs_at(stream), self.get(8 * (LINUX + Word.STDOUT + stream)))

    # -- what some lanes hold --------------------------------------------------------------------------------
    @property
    def room(self) -> int:
        """Bytes that can be gathered at a time without taking more device memory."""
        return self._rows.size

    def gather(self, sources: Words, lengths: Words) -> Texts:
        """Of each lane `lengths` bytes of device memory, from the address in `sources` on."""
        texts = Texts(np.empty(int(lengths.sum()), np.uint8), lengths)
        if len(texts.data):
            self._sources.write(sources)
            self._gather("gather", self._sources.address, lengths, texts.data)
        return texts

    def words(self, which: Numbers) -> Words:
        """All words of some lanes, numbers in ascending order: lanes x LANE_WORDS."""
        words = np.empty((len(which), LANE_WORDS), np.uint64)
        self._gather("states", 0, self.of_some(which, LANE_WORDS), words)
        return words

    def owned(self) -> Words:
        """How many pages each lane has its own copy of."""
        self._launch("owned", 0, 0, self._column.address)
        return self._column.read(np.empty(self._lanes, np.uint64))  # type: ignore[no-any-return]

    def pages(self, which: Numbers, counts: Words) -> tuple[Words, Bytes]:
        """Numbers and contents (pages x PAGE) of all pages that some lanes own, `counts` of each."""
        of_all, at_once = self.of_some(which, counts), max(1, self.room // (8 * ROW_WORDS))
        rows = np.empty((int(counts.sum()), ROW_WORDS), np.uint64)
        for first in range(0, len(rows), at_once):
            part = rows[first : first + at_once]
            self._gather("pages", len(part), of_all, part, first)
        return self._image.pages_at(rows[:, 0]), rows[:, 1:].view(np.uint8)

    def of_some(self, which: Numbers, counts: Words | int) -> Words:
        """For every lane how many it has: none, if it is not among `which`."""
        of_all = np.zeros(self._lanes, np.uint64)
        of_all[which] = counts
        return of_all

    def _gather(self, name: str, argument: int, counts: Words, out: Any, first: int = 0) -> None:
        """Have a kernel bring together what lanes have, `counts` of each, and copy it to `out`.

        That is what there is from `first` on, as far as the kernel fills it.
        """
        ends = np.cumsum(counts, dtype=np.uint64)
        self._column.write(np.append(np.uint64(0), ends) - np.uint64(first))
        together = self._room_for(out.nbytes)
        self._launch(name, argument, self._column.address, together.address)
        together.read(out)

    @property
    def device_bytes(self) -> int:
        """Device memory that the lanes have: state, tables, pages, and buffers of system calls."""
        buffers = (self.states, self._tables, self._column, self._sources, self._outcome, self._rows)
        own = sum(buffer.size for buffer in buffers) + self._pool.size
        return own + (self._process.size if self._process else 0)

    @property
    def _blocks(self) -> int:
        return -(-self._padded // THREADS)

    def _launch(self, name: str, *arguments: int) -> None:
        self._code.kernels[name].launch(self._blocks, THREADS, [self._params.address, *arguments])

    def _room_for(self, size: int) -> Buffer:
        """A buffer of at least that many bytes, the same each time if it is large enough."""
        if self._rows.size < size:
            self._rows = self._gpu.allocate(size)
        return self._rows

    def _put_rows(self, address: int, rows: Any) -> None:
        if isinstance(rows, np.ndarray):
            buffer = self._room_for(rows.nbytes)
            buffer.write(np.ascontiguousarray(rows))
        else:
            buffer = self._gpu.view(rows)
        self._launch("put", address, rows.shape[1], buffer.address)
        while self._refused_for_want_of_pages(0):
            self._launch("put", address, rows.shape[1], buffer.address)
        if self._taken() == self._pool.limit and (self.get(layout.REASON) == Reason.MEMORY).any():
            raise DeviceError(f"no memory for what {self._lanes} lanes begin with; run fewer at a time")
