"""Device memory for the pages that lanes write: slabs (`kvrm.backend.gpu.group_memory`), more as needed."""

from __future__ import annotations

from kvrm.backend.gpu.group_memory import SLAB_BYTES
from kvrm.backend.protocols import Buffer, Driver

PART = 0.5
"""The part of the free device memory that more slabs may take: the rest is the caller's, for results and
libraries that share the GPU."""
FIRST = 4
"""Slabs for each group of lanes to begin with: stack, heap and data of a small program. A lane that finds the
pool empty stops, and its launch is repeated once the host has allocated more."""


class Pool:
    """Blocks of slabs; the kernel takes them from the newest, `block`, of `limit`; the others are full.

    Each group is to have `ready` slabs before lanes run, besides those that it begins with.
    """

    def __init__(self, gpu: Driver, groups: int, ready: int) -> None:
        self._gpu = gpu
        self._blocks: list[Buffer] = []
        self._wanted = (FIRST + ready) * groups
        self.grow()

    @property
    def block(self) -> Buffer:
        """Where the kernel takes slabs from."""
        return self._blocks[-1]

    @property
    def limit(self) -> int:
        """How many the block has."""
        return self.block.size // SLAB_BYTES

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(block.size for block in self._blocks)

    def grow(self) -> bool:
        """Add a block half as large as all others together; whether there was memory for a slab."""
        fits = int(self._gpu.free_bytes * PART) // SLAB_BYTES
        count = min(self._wanted, fits)
        if count or not self._blocks:
            self._blocks.append(self._gpu.allocate(count * SLAB_BYTES))
            self._wanted = -(-self.size // SLAB_BYTES // 2)
        return count > 0

    def empty(self) -> None:
        """All slabs are free again, in one block."""
        if len(self._blocks) > 1:
            size = self.size
            self._blocks.clear()
            self._blocks.append(self._gpu.allocate(size))
