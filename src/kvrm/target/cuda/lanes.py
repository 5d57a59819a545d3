"""Lanes in a GPU's memory, all of them at once, and the kernels' launches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kvrm.machine import state as layout
from kvrm.machine.lanes_inputs import Words
from kvrm.machine.lanes_worker import Job
from kvrm.memory import PAGE
from kvrm.target.cuda.abi import GROUP, LANE_WORDS, PAGES_LEFT, PLAIN, Param, Word
from kvrm.target.cuda.code import Code
from kvrm.target.cuda.driver import Device
from kvrm.target.cuda.image import ENTRY, Image
from kvrm.target.cuda.memory import SLAB_BYTES
from kvrm.target.cuda.process import DeviceProcess

THREADS = 128
"""Threads of a block."""
POOL = 0.5
"""The part of the free device memory that private pages may take."""

Bytes = npt.NDArray[np.uint8]


class DeviceLanes:
    """Lanes `numbers` of a job, as they begin. `retired` is counted over all of them."""

    def __init__(
        self,
        gpu: Device,
        code: Code,
        image: Image,
        process: DeviceProcess | None,
        job: Job,
        numbers: Words,
    ) -> None:
        self._gpu, self._code, self._image, self._process = gpu, code, image, process
        self._lanes = len(numbers)
        groups = -(-self._lanes // GROUP)
        self._padded = groups * GROUP
        self._tables = gpu.allocate(image.table.nbytes * groups)
        self._states = gpu.allocate(self._padded * LANE_WORDS * 8)
        self._column = gpu.allocate(self._padded * 8)
        self._counters = gpu.allocate(24)
        self._outcome = gpu.allocate(self._padded * 17)
        pages = int(gpu.free_bytes * POOL) // SLAB_BYTES
        self._slabs = gpu.allocate(pages * SLAB_BYTES)
        values = {
            Param.STATES: self._states.address,
            Param.SLOTS: code.slots.address,
            Param.CODE: code.table.address,
            Param.PAGES: code.pages.address,
            Param.ROOT: image.root.address,
            Param.TABLES: self._tables.address,
            Param.TABLE_BYTES: image.table.nbytes,
            Param.SLABS: self._slabs.address,
            Param.SLAB_NEXT: self._counters.address + 16,
            Param.SLAB_LIMIT: pages,
            Param.LANES: self._lanes,
            Param.COUNTERS: self._counters.address,
            Param.PROCESS: process.block.address if process else 0,
        }
        self._params = gpu.upload(np.array([values[p] for p in Param], np.uint64))
        self.begin(job, numbers)

    # -- setting up ------------------------------------------------------------------------------------------
    def begin(self, job: Job, numbers: Words) -> None:
        """All lanes as the job has them begin."""
        self._tables.write(self._image.table)
        self._tables.repeat(self._image.table.nbytes)
        self._counters.fill(0)
        state, pc = job.snapshot.state
        words = np.zeros(LANE_WORDS, np.uint64)
        words[: layout.EXIT_OFFSET // 8] = np.frombuffer(state, np.uint64)[: layout.EXIT_OFFSET // 8]
        words[layout.PC // 8], words[layout.HORIZON // 8] = pc, job.snapshot.retired
        words[layout.IP // 8] = self._code.slot(pc) | PLAIN
        words[PAGES_LEFT // 8] = self._image.pages_left
        for word, value in (self._process.words if self._process else {}).items():
            words[word] = value
        base = self._gpu.upload(words)
        self._launch("begin", base.address, 0, 0)
        for word, values in self._process.inputs(job, self._lanes) if self._process else ():
            self.put(8 * word, values)
        which = numbers.astype(np.int64)
        for array, first, step, offset in job.registers:
            column = array.reshape(-1).view(np.uint64)[first // 8 :: step // 8][which]
            self.put(offset, column)
            if offset == layout.PC:
                self.put(layout.IP, self._code.slots_of(column) | np.uint64(PLAIN))
        for start, rows in job.memory:
            self._rows("put", start, np.ascontiguousarray(rows if len(rows) == len(which) else rows[which]))

    # -- running ---------------------------------------------------------------------------------------------
    def run(self, grant: int) -> tuple[float, int, int]:
        """Run `grant` instructions of each lane that has not ended, below 2^32, at most.

        The seconds it took, lanes that go on, and instructions that all lanes together retired.
        """
        gpu, zeros = self._gpu, np.zeros(2, np.uint64)
        self._counters.write(zeros)
        began, ended = gpu.event(), gpu.event()
        gpu.record(began)
        self._code.kernels["run"].launch(self._blocks, THREADS, [self._params.address, grant])
        gpu.record(ended)
        going, retired = self._counters.read(zeros)
        return gpu.seconds(began, ended), int(going), int(retired)

    def pass_over(self) -> None:
        """Let lanes whose next instruction has a breakpoint run it."""
        self.put(layout.IP, self.get(layout.IP) | np.uint64(PLAIN))

    # -- what lanes hold -------------------------------------------------------------------------------------
    def put(self, offset: int, values: Words) -> None:
        """Set the word at an offset of every lane's state."""
        self._column.write(values)
        self._launch("put_column", offset, 0, self._column.address)

    def get(self, offset: int) -> Words:
        """The word at an offset of every lane's state."""
        self._launch("get_column", offset, 0, self._column.address)
        return self._column.read(np.empty(self._lanes, np.uint64))  # type: ignore[no-any-return]

    def outcome(self) -> tuple[Bytes, Words, Words]:
        """Of every lane, why it stopped (`Reason`), its retired count and its pc."""
        n, buffer = self._lanes, self._outcome
        pcs_at, reasons_at = 8 * self._padded, 16 * self._padded
        self._launch("outcome", buffer.address + reasons_at, buffer.address, buffer.address + pcs_at)
        retired, pcs, reasons = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(n, np.uint8)
        buffer.read(retired)
        return buffer.read(reasons, reasons_at), retired, buffer.read(pcs, pcs_at)

    def memory(self, start: int, stop: int) -> Bytes:
        """Guest memory, lanes x bytes; zeros where nothing is mapped."""
        return self._rows("collect", start, np.zeros((self._lanes, stop - start), np.uint8))

    def outputs(self, stream: int) -> list[bytes]:
        """What each lane wrote to standard output (0) or error (1)."""
        lengths = self.get(8 * (Word.STDOUT + stream))
        ends = np.cumsum(lengths)
        self._column.write(ends - lengths)
        together = self._gpu.allocate(int(ends[-1]))
        self._launch("outputs", stream, self._column.address, together.address)
        data = together.read(np.empty(together.size, np.uint8)).tobytes()
        places = ends.tolist()
        return [data[start:end] for start, end in pairwise([0, *places])]

    def entry(self, lane: int, address: int) -> tuple[bool, bool, bool]:
        """Whether an address is mapped in a lane, and may be read and written."""
        index = self._image.index(address)
        entry = np.empty(1, ENTRY)
        self._tables.read(entry, (lane // GROUP * len(self._image.table) + index) * ENTRY.itemsize)
        mapped, read, write = (
            bool(int(entry[name][0]) >> lane % GROUP & 1) for name in ("mapped", "read", "write")
        )
        return mapped, read, write

    def state(self, lane: int) -> Words:
        """All words of one lane."""
        block = np.empty((LANE_WORDS, GROUP), np.uint64)
        self._states.read(block, lane // GROUP * block.nbytes)
        return np.ascontiguousarray(block[:, lane % GROUP])

    def own_pages(self, lane: int) -> Iterator[tuple[int, bytes]]:
        """Number and contents of the pages that a lane has its own copy of."""
        table = np.empty_like(self._image.table)
        self._tables.read(table, lane // GROUP * table.nbytes)
        for at in np.flatnonzero(table["own"] >> np.uint32(lane % GROUP) & np.uint32(1)):
            slab = np.empty((PAGE // 8, GROUP), np.uint64)
            self._slabs.read(slab, int(table["slab"][at]) - self._slabs.address)
            yield self._image.page(int(at)), slab[:, lane % GROUP].tobytes()

    @property
    def _blocks(self) -> int:
        return -(-self._padded // THREADS)

    def _launch(self, name: str, *arguments: int) -> None:
        self._code.kernels[name].launch(self._blocks, THREADS, [self._params.address, *arguments])

    def _rows(self, name: str, address: int, rows: Any) -> Bytes:
        buffer = self._gpu.upload(rows)
        self._launch(name, address, rows.shape[1], buffer.address)
        out: Bytes = buffer.read(rows) if name == "collect" else rows
        self._gpu.synchronize()
        return out
