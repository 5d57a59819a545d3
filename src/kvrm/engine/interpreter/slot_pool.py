"""Memory for the slots of predecoded pages."""

from __future__ import annotations

from bisect import bisect_right, insort
from mmap import mmap

from kvrm.engine.interpreter.slots import CHUNK_PAGES, PAGE_BYTES, SLOT_PER_PC
from kvrm.memory.pages import anonymous, host_address


class SlotPool:
    """Gives pages room for their slots, in chunks that stay; `chunks` has their host addresses, in order."""

    def __init__(self) -> None:
        self._memory: list[mmap] = []
        self.chunks: list[int] = []
        self._page_of: dict[int, int] = {}
        self._free: list[int] = []

    def take(self, page: int) -> int:
        """Room for the slots of a page; it has what was there before."""
        if not self._free:
            chunk = anonymous(CHUNK_PAGES * PAGE_BYTES)
            base = host_address(chunk)
            self._memory.append(chunk)
            insort(self.chunks, base)
            self._free += [base + i * PAGE_BYTES for i in range(CHUNK_PAGES)]
        base = self._free.pop()
        self._page_of[base] = page
        return base

    def give_back(self, base: int) -> None:
        """Have the room used for other pages."""
        self._free.append(base)

    def pc_of(self, slot: int) -> int:
        """The guest address whose slot it is."""
        base = self.chunks[bisect_right(self.chunks, slot) - 1]
        index, offset = divmod(slot - base, PAGE_BYTES)
        return (self._page_of[base + index * PAGE_BYTES] << 12) + offset // SLOT_PER_PC
