"""The process of native lanes on the host: its buffers, and what each lane begins with."""

from __future__ import annotations

import os
from ctypes import memmove
from itertools import accumulate
from typing import Any

import numpy as np

from kvrm.backend.cpu.table import Field, Table
from kvrm.linux.process import Process
from kvrm.linux.resident.layout import ACTIONS_BYTES, AREA_BYTES, LANE_WORDS, Fixed, Word
from kvrm.linux.resident.start import End, Start
from kvrm.linux.snapshot import Snapshot
from kvrm.machine.lanes_inputs import STREAMS, Words
from kvrm.machine.lanes_job import Job
from kvrm.memory import Memory
from kvrm.memory.pages import HOST, ZERO_PAGE, anonymous, host_address

OUTPUT_MOST = 1 << 20
"""Bytes of a stream that a lane can write before it goes on in Python."""
BUFFER = 8 * OUTPUT_MOST
"""Bytes of a stream that a worker's lanes can write before Python takes them away."""


class HostRoom:
    """Page-aligned host memory (`kvrm.linux.resident.known.Room`)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._mapping = anonymous(max(size, 1))
        self.address = host_address(self._mapping)

    def write(self, data: Any, offset: int = 0) -> None:
        """Copy an array or bytes there."""
        raw = memoryview(data).cast("B")
        self._mapping[offset : offset + len(raw)] = raw

    def read(self, out: Any, offset: int = 0) -> Any:
        """Fill an array from there, and return it."""
        memmove(out.ctypes.data, self.address + offset, out.nbytes)
        return out


class HostStore:
    """Gives host memory (`kvrm.linux.resident.known.Store`)."""

    @property
    def free_bytes(self) -> int:
        """How much there is."""
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def allocate(self, size: int, zero: bool = False) -> HostRoom:
        """New memory, which is always zero."""
        return HostRoom(size)

    def upload(self, data: Any) -> HostRoom:
        """New memory with these bytes, or those of an array."""
        room = HostRoom(memoryview(data).nbytes)
        if room.size:
            room.write(data)
        return room


class HostProcess:
    """The process that a worker's lanes begin with, at `snapshot`; `memory` is at the same moment."""

    def __init__(self, table: Table, origin: Process, memory: Memory, snapshot: Snapshot) -> None:
        self._table, self.snapshot = table, snapshot
        store = HostStore()
        self._start = start = Start(store, origin, memory, snapshot)
        self.files = start.files
        self._areas = store.allocate(start.areas_bytes)
        self._actions = store.allocate(ACTIONS_BYTES)
        self._input = store.upload(start.input)
        self._outputs = [store.allocate(BUFFER) for _ in STREAMS]
        self._block = start.block
        self._block[Fixed.ZEROS] = ZERO_PAGE
        self._block[Fixed.AREAS], self._block[Fixed.OWN_ACTIONS] = self._areas.address, self._actions.address
        self._block[Fixed.OUTPUT_BYTES] = OUTPUT_MOST
        first = np.zeros(LANE_WORDS, np.uint64)
        for word, value in start.words.items():
            first[word] = value
        first[Word.INPUT] = self._input.address
        first[Word.INPUT_END] = self._input.address + len(start.input)
        self._words = np.zeros(LANE_WORDS, np.uint64)
        table.point(Field.PROCESS, self._block)
        table.point(Field.FIRST_WORDS, first)
        table.point(Field.WORDS, self._words)
        table[Field.WORDS_SIZE] = first.nbytes
        table[Field.OUTPUT_END], table[Field.ERROR_END] = (
            room.address + BUFFER - OUTPUT_MOST for room in self._outputs
        )
        self._rewind()

    def begin(self, job: Job) -> None:
        """Have lanes read what the job gives each."""
        self._job, table, texts = job, self._table, job.stdin
        self.files.look_again()
        if texts is None:
            table[Field.TEXT_STARTS] = table[Field.TEXT_LENGTHS] = 0
        else:
            table.point(Field.TEXT_STARTS, texts.starts + np.uint64(texts.data.ctypes.data))
            table.point(Field.TEXT_LENGTHS, texts.lengths)

    def _rewind(self) -> None:
        for stream, room in enumerate(self._outputs):
            self._block[Fixed.OUTPUTS + stream] = room.address

    def take(self, lanes: Words, written: Words, streams: dict[str, Any]) -> None:
        """Give what these lanes wrote, and how much that is on each stream, to the results."""
        for stream, (name, room) in enumerate(zip(STREAMS, self._outputs, strict=True)):
            before, texts = getattr(self.snapshot, name), streams[name]
            sizes = written[:, stream].tolist()
            if texts and (before or any(sizes)):
                whole = HOST[room.address : room.address + sum(sizes)].tobytes()
                ends = accumulate(sizes)
                for lane, size, end in zip(lanes.tolist(), sizes, ends, strict=True):
                    texts[lane] = before + whole[end - size : end]
        self._rewind()

    def leave(self, lane: int) -> tuple[Snapshot, bytes | None, bool]:
        """What a `LaneProcess` needs to go on with the present lane; memory is mapped as the lane has it."""
        words, job = self._words, self._job
        sizes = {
            Fixed.AREAS: AREA_BYTES * int(words[Word.AREAS]),
            Fixed.OWN_ACTIONS: ACTIONS_BYTES if words[Word.OWN_ACTIONS] else 0,
            **{Fixed.OUTPUTS + i: int(words[Word.STDOUT + i]) for i in range(len(STREAMS))},
        }
        parts = [HOST[(at := int(self._block[where])) : at + size].tobytes() for where, size in sizes.items()]
        begun, stdin = self._input.address, None
        if job.stdin is not None:
            begun, stdin = int(job.stdin.starts[lane]) + job.stdin.data.ctypes.data, job.stdin[lane]
        areas, actions, stdout, stderr = parts
        return self._start.leave(End(words.copy(), areas, actions, stdout, stderr, begun, stdin, None))
