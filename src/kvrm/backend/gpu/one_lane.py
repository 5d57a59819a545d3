"""A group with one lane in it, whose pages the host sends and fetches one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kvrm.backend.gpu.code import Code, parameters
from kvrm.backend.gpu.device_abi import CHUNKS, GROUP, LANE_WORDS, PAGES_LEFT, Param
from kvrm.backend.gpu.group_memory import CHUNK, SLAB_BYTES
from kvrm.backend.gpu.image import ENTRY
from kvrm.backend.protocols import Buffer, Driver
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.memory import PAGE, R_BIT, W_BIT
from kvrm.memory.pages import Buffer as Bytes

MOST_CHUNKS = 512
"""Pieces of 2 MiB in which the lane may have pages at a time; with more, all are sent anew."""
SLABS = 1024
"""Pages that the lane may write before they are fetched."""
BLOCK = 256
"""Pages allocated at a time."""


class OneLane:
    """The lane's memory on the device: copies of pages of the host's."""

    def __init__(self, gpu: Driver) -> None:
        self._gpu = gpu
        self._root, self._chunks = np.zeros(CHUNKS, np.uint32), 1
        self._table = np.zeros(MOST_CHUNKS * CHUNK, ENTRY)
        self._device_root, self._device_table = gpu.upload(self._root), gpu.upload(self._table)
        self._state = gpu.allocate(GROUP * LANE_WORDS * 8, zero=True)
        self._slabs = gpu.allocate(SLABS * SLAB_BYTES)
        self._counters = gpu.allocate(24)
        self._row = gpu.allocate(PAGE)
        self._blocks: list[Buffer] = []
        self._free: list[int] = []
        self._places: dict[int, int] = {}
        self._shadow: dict[int, bytes] = {}
        self._changed: set[int] = set()

    @property
    def pages(self) -> list[int]:
        """Numbers of the pages that the device has."""
        return list(self._shadow)

    def map(self, page: int, data: Bytes, permissions: int) -> None:
        """Have a page on the device, with the contents and the permission bits of a page table's entry."""
        if page not in self._places:
            self._places[page] = self._place()
        if self._shadow.get(page) != data:
            self._shadow[page] = copy = bytes(data)
            self._send(page, copy)
        entry = self._table[self._index(page)]
        read, write = bool(permissions & R_BIT), bool(permissions & W_BIT)
        if (entry["read"], entry["write"], entry["shared"]) != (read, write, self._places[page]):
            entry["read"], entry["write"], entry["shared"] = read, write, self._places[page]
            entry["mapped"] = True
            self._changed.add(self._index(page) // CHUNK)

    def unmap(self, first: int, last: int) -> None:
        """Have none of the pages first <= page < last."""
        for page in [page for page in self._shadow if first <= page < last]:
            del self._shadow[page]
            self._free.append(self._places.pop(page))
            self._table[self._index(page)] = 0
            self._changed.add(self._index(page) // CHUNK)

    def run(self, code: Code, state: State, budget: int) -> float:
        """Run at most `budget` instructions, below 2^32, of the lane in `state`; the seconds it took."""
        gpu = self._gpu
        for chunk in self._changed:
            part = self._table[chunk * CHUNK : (chunk + 1) * CHUNK]
            self._device_table.write(part, chunk * part.nbytes)
        self._changed.clear()
        self._counters.fill(0)
        block = np.zeros((LANE_WORDS, GROUP), np.uint64)
        block[: layout.TABLE_OFFSET // 8, 0] = state.words[: layout.TABLE_OFFSET // 8]
        block[PAGES_LEFT // 8, 0] = SLABS
        self._state.write(block)
        self._params = gpu.upload(self._parameters(code))
        self._code = code
        began, ended = gpu.event(), gpu.event()
        gpu.record(began)
        code.run(1, [self._params.address, budget])
        gpu.record(ended)
        self._state.read(block)
        for i, word in enumerate(block[: layout.TABLE_OFFSET // 8, 0].tolist()):
            state.words[i] = word
        return gpu.seconds(began, ended)

    def written(self) -> Iterator[tuple[int, bytes]]:
        """Number and contents of each page that the lane has written in the last run."""
        if not self._counters.read(np.zeros(3, np.uint64))[2]:
            return
        self._device_table.read(found := np.empty_like(self._table))
        pages = {self._index(page): page for page in self._shadow}
        for at in np.flatnonzero(found["own"]):
            page, row = pages[int(at)], np.empty(PAGE, np.uint8)
            arguments = [self._params.address, page * PAGE, PAGE, self._row.address]
            self._code.kernels["collect"].launch(1, GROUP, arguments)
            self._shadow[page] = data = self._row.read(row).tobytes()
            self._send(page, data)
            yield page, data
        for chunk in {int(at) // CHUNK for at in np.flatnonzero(found["slab"])}:
            self._changed.add(chunk)

    def _parameters(self, code: Code) -> npt.NDArray[np.uint64]:
        values = parameters(code, self._state, self._device_root, self._device_table, self._counters)
        values |= {
            Param.TABLE_BYTES: self._table.nbytes,
            Param.SLABS: self._slabs.address,
            Param.SLAB_LIMIT: SLABS,
            Param.LANES: 1,
            Param.PROCESS: 0,
        }
        return np.array([values[p] for p in Param], np.uint64)

    def _index(self, page: int) -> int:
        """Where the page's entry is; it gets a chunk if need be."""
        chunk = page // CHUNK
        if not self._root[chunk]:
            if self._chunks == MOST_CHUNKS:
                self._start_over()
            self._root[chunk] = self._chunks
            self._chunks += 1
            self._device_root.write(self._root[chunk : chunk + 1], chunk * 4)
        return int(self._root[chunk]) * CHUNK + page % CHUNK

    def _start_over(self) -> None:
        self.unmap(0, CHUNKS * CHUNK)
        self._root[:] = 0
        self._device_root.write(self._root)
        self._table[:] = 0
        self._device_table.write(self._table)
        self._changed.clear()
        self._chunks = 1

    def _place(self) -> int:
        """The device address of a page that is free."""
        if not self._free:
            block = self._gpu.allocate(BLOCK * PAGE)
            self._blocks.append(block)
            self._free += [block.address + i * PAGE for i in range(BLOCK)]
        return self._free.pop()

    def _send(self, page: int, data: bytes) -> None:
        block = next(b for b in self._blocks if b.address <= self._places[page] < b.address + b.size)
        block.write(data, self._places[page] - block.address)
