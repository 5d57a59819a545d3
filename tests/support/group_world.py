"""A group's memory on the device, with random entries, as its lanes find it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from kvrm.backend.gpu.device_abi import CHUNKS, GROUP, PAGES_LEFT, Own, Param
from kvrm.backend.gpu.group_memory import CHUNK, CODE, PRIVATE, READY, SLAB_BYTES
from kvrm.backend.gpu.image import ENTRY
from kvrm.lane import words as layout
from kvrm.linux.resident.layout import FILE
from kvrm.memory import PAGE, VA_BITS

SIZES = (1, 2, 3, 4, 8, 16, 24, 32, 64)
NEAR, LAST = 0x40000000, (1 << VA_BITS - 12) - 1
PAGES = (*range(NEAR // PAGE, NEAR // PAGE + 6), LAST)
"""Six neighbours, of which some have an entry, and the last that there is."""
SLABS = 5
"""In the pool: fewer than lanes want."""

Words = np.ndarray


class World:
    """A group's memory, as lanes find it."""

    def __init__(self, rng: random.Random, slabs: int = SLABS) -> None:
        self.root = np.ones(2 * CHUNKS, np.uint32)  # what lies after the root is for no access to find
        self.root[:CHUNKS] = 0
        self.root[PAGES[0] // CHUNK], self.root[LAST // CHUNK] = 1, 2
        self._raw = np.zeros(3 * CHUNK * 32 + 32, np.uint8)
        start = -self._raw.ctypes.data % 32
        self.table = self._raw[start : start + 3 * CHUNK * 32].view(ENTRY)
        self.pages = np.frombuffer(rng.randbytes(PAGE * len(PAGES) + 32), np.uint8).copy()
        self.slabs = np.zeros((slabs + len(PAGES)) * SLAB_BYTES // 8, np.uint64)
        self.next = np.zeros(1, np.uint64)
        self.params = np.zeros(len(Param), np.uint64)
        self.states = np.zeros((GROUP, layout.STATE_BYTES // 8), np.uint64)
        self.states[:, PAGES_LEFT // 8] = [rng.choice([0, 1, 3]) for _ in range(GROUP)]
        self.own = np.zeros(64, np.uint64)
        first = self.pages.ctypes.data + 31 & -32
        for i, page in enumerate(PAGES):
            e = self.table[int(self.root[page // CHUNK]) * CHUNK + page % CHUNK]
            marks = rng.choice([0, 0, 0, PRIVATE, CODE, FILE, READY])
            e["shared"] = first + PAGE * i | marks
            e["read"], e["write"] = (rng.choice([0, rng.getrandbits(32), -1 % 2**32]) for _ in "rw")
            if marks == READY or not rng.randrange(3):
                e["slab"] = self.slabs.ctypes.data + (slabs + i) * SLAB_BYTES
                e["own"] = 0 if marks == READY else rng.getrandbits(32)
        self.params[Param.ROOT] = self.root.ctypes.data
        self.params[Param.SLABS], self.params[Param.SLAB_LIMIT] = self.slabs.ctypes.data, slabs
        self.params[Param.SLAB_NEXT] = self.next.ctypes.data
        for at, array in ((Own.TABLE, self.table), (Own.ROOT, self.root), (Own.PARAMS, self.params)):
            self.own[at // 8] = array.ctypes.data

    def changing(self) -> Iterator[np.ndarray]:
        """What accesses change."""
        yield from (self._raw, self.slabs, self.next, self.states, self.pages)

    def arguments(self, lane: int, address: int, size: int, data: Words) -> list[int]:
        """Those of `read_slow` and `write_slow`."""
        where = [a.ctypes.data for a in (self.states[lane], self.params, self.table)]
        return [*where, lane, address, size, data.ctypes.data]


def address(rng: random.Random, size: int) -> int:
    at = rng.choice(PAGES) * PAGE
    at += rng.choice([0, PAGE - size, PAGE - 8, 8 * rng.randrange(PAGE // 8), rng.randrange(PAGE)])
    wild = rng.choice([0, 0, 0, 0, 0, 1 << VA_BITS, 1 << 55]) + (rng.getrandbits(8) << 56)
    return at + wild & (1 << 64) - 1
