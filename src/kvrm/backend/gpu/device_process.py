"""The process of lanes on the device: its buffers, what each lane begins with, and the way to the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvrm.backend.gpu.device_abi import LINUX
from kvrm.backend.gpu.group_memory import CHUNK
from kvrm.backend.protocols import Buffer, Driver
from kvrm.linux.loader import STACK_TOP
from kvrm.linux.process import Process
from kvrm.linux.resident.layout import ACTIONS_BYTES, AREA_BYTES, Fixed, Word
from kvrm.linux.resident.start import End, Start, lowest_mapping
from kvrm.linux.snapshot import Snapshot
from kvrm.machine.lanes_inputs import Words
from kvrm.machine.lanes_job import Job
from kvrm.memory import PAGE, VA_END, Memory

if TYPE_CHECKING:
    from kvrm.backend.gpu.leaving import Leaver

AHEAD = 4
"""Chunks that heap and mappings may grow into."""
OUTPUT_MOST, OUTPUT_LEAST = 1 << 20, 1 << 12
"""Bytes of a stream that a lane can write before it goes to the CPU."""
OUTPUT_PART = 0.05
"""The part of the free device memory that these may take."""


def chunks_ahead(memory: Memory, snapshot: Snapshot) -> list[int]:
    """The chunks that lanes may map pages in, besides those where something is mapped."""
    heap, low = (
        snapshot.process["heap_end"] // PAGE // CHUNK,
        (lowest_mapping(memory)[0] - 1) // PAGE // CHUNK,
    )
    last = VA_END // PAGE // CHUNK - 1
    return [k for k in (*range(heap, heap + AHEAD), *range(low, low - AHEAD, -1)) if 0 < k < last]


class DeviceProcess:
    """The process that lanes begin with, at `snapshot`; `memory` is at the same moment."""

    def __init__(
        self, gpu: Driver, origin: Process, memory: Memory, snapshot: Snapshot, zeros: int, lanes: int
    ) -> None:
        self._gpu, self._memory = gpu, memory
        self._start = start = Start(gpu, origin, memory, snapshot)
        self.files, self.words = start.files, start.words
        room = int(gpu.free_bytes * OUTPUT_PART / 2 / lanes) & -8
        self._room = max(OUTPUT_LEAST, min(room, OUTPUT_MOST))
        self._outputs = [gpu.allocate(self._room * lanes) for _ in range(2)]
        self._areas = gpu.allocate(start.areas_bytes * lanes)
        self._actions = gpu.allocate(ACTIONS_BYTES * lanes)
        block = start.block
        block[Fixed.ZEROS], block[Fixed.OUTPUT_BYTES] = zeros, self._room
        block[Fixed.AREAS], block[Fixed.OWN_ACTIONS] = self._areas.address, self._actions.address
        block[Fixed.OUTPUTS : Fixed.OUTPUTS + 2] = [buffer.address for buffer in self._outputs]
        self.block = gpu.upload(block)

    @property
    def size(self) -> int:
        """Bytes of device memory: outputs, areas, actions, inputs and files."""
        buffers = (*self._outputs, self._areas, self._actions, self._input)
        return sum(buffer.size for buffer in buffers) + self.files.size

    def inputs(self, job: Job, lanes: int) -> Iterator[tuple[Word, Words]]:
        """The words that tell each lane where its input is."""
        texts = job.stdin
        if texts is None:
            self._lengths, starts = (
                np.full(lanes, len(self._start.input), np.uint64),
                np.zeros(lanes, np.uint64),
            )
            self._input = self._gpu.upload(self._start.input)
        else:
            self._lengths, starts = texts.lengths, texts.starts
            self._input = self._gpu.view(texts.data) if texts.on_device else self._gpu.upload(texts.data)
        self._given_there = texts is not None and texts.on_device
        self._starts = starts + np.uint64(self._input.address)
        yield Word.INPUT, self._starts
        yield Word.INPUT_END, self._starts + self._lengths

    def stacks(self, job: Job) -> tuple[Words, int, npt.NDArray[np.uint8]]:
        """With its own arguments, each lane's sp, and its stack from the lowest on. Raises OutOfMemory."""
        assert job.args is not None
        found = []
        for args in job.args:
            sp = self._start.with_arguments(args).task.state.sp
            found.append((sp, self._memory.peek(sp, STACK_TOP - sp)))
            self._memory.restore(job.snapshot.memory)
        lowest = min(sp for sp, _ in found)
        before = self._memory.peek(lowest, STACK_TOP - lowest)
        rows = np.tile(np.frombuffer(before, np.uint8), (len(found), 1))
        for row, (sp, data) in zip(rows, found, strict=True):
            row[sp - lowest :] = np.frombuffer(data, np.uint8)
        return np.array([sp for sp, _ in found], np.uint64), lowest, rows

    def outputs_at(self, stream: int) -> Words:
        """Device addresses of what lanes write to standard output (0) or error (1)."""
        return self._rows(self._outputs[stream], self._room)

    def parts(self, get: Callable[[int], Words]) -> list[tuple[Words, Words]]:
        """Device addresses and bytes of what each lane has there, in the order of a `Leaver`'s fields.

        `get` gives the word at an offset of every lane's state. Inputs in the host's memory have no bytes.
        """

        def word(number: int) -> Words:
            return get(8 * (LINUX + number))

        areas = self._rows(self._areas, self._start.areas_bytes), word(Word.AREAS) * np.uint64(AREA_BYTES)
        set_some = np.where(word(Word.OWN_ACTIONS), np.uint64(ACTIONS_BYTES), np.uint64(0))
        actions = self._rows(self._actions, ACTIONS_BYTES), set_some
        outputs = ((self.outputs_at(stream), word(Word.STDOUT + stream)) for stream in range(2))
        given = self._lengths if self._given_there else np.zeros_like(self._lengths)
        return [areas, actions, *outputs, (self._starts, given)]

    def _rows(self, buffer: Buffer, size: int) -> Words:
        """Where each lane's part of a buffer begins."""
        return np.uint64(buffer.address) + np.uint64(size) * np.arange(len(self._starts), dtype=np.uint64)

    def leave(self, job: Job, left: Leaver) -> tuple[Snapshot, bytes | None, bool]:
        """As `Start.leave`."""
        stdin = None
        if job.stdin is not None:
            stdin = left.stdin if job.stdin.on_device else job.stdin[left.lane]
        args = None if job.args is None else job.args[left.lane]
        begun, words = int(self._starts[left.lane]), left.words[LINUX:]
        return self._start.leave(
            End(words, left.areas, left.actions, left.stdout, left.stderr, begun, stdin, args)
        )
