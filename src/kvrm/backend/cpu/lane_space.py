"""The tables of guest memory that native lanes run on (`kvrm.backend.cpu.space`), made of a snapshot."""

from __future__ import annotations

from ctypes import c_uint64
from mmap import mmap

import numpy as np
import numpy.typing as npt

from kvrm.backend.cpu.space import ARENA_MASK, ARENA_SHIFT, MAPPED, OF_FILE, OWN, PRIVATE
from kvrm.backend.cpu.table import Field, Table
from kvrm.linux.loader import MMAP_TOP, STACK_TOP
from kvrm.memory import PAGE, Memory, Region, Snapshot
from kvrm.memory.page_table import ENTRIES, PageTable
from kvrm.memory.pages import HOST, PAGE_SHIFT, ZERO_PAGE, arena

MOST_PAGES = 1 << 22
"""Mapped pages that native lanes begin with, 16 GiB: each costs 8 bytes of a table for each thread."""
OWNED_ROOM = 1 << 18
"""Pages that a native lane may write to, 1 GiB; a lane with more goes on in Python."""
CHANGED_ROOM = 1 << 16
"""Pages that a native lane may map otherwise than its snapshot."""


class LaneSpace:
    """The tables of one worker. `begin` has them say what a snapshot holds."""

    def __init__(self, table: Table, memory: Memory) -> None:
        self._table = table
        self._origins = PageTable()
        self._words: npt.NDArray[np.uint64] = np.frombuffer(self._origins.entries, np.uint64)
        self._arenas = np.zeros(ENTRIES >> ARENA_SHIFT, np.uint64)
        self._mappings: list[mmap] = []
        self._snapshot: Snapshot | None = None
        self._limit = memory.limit // PAGE
        table[Field.ENTRIES], table[Field.ORIGINS] = memory.table_address, self._origins.address
        table[Field.ZEROS] = ZERO_PAGE
        table.point(Field.ARENAS, self._arenas)
        table.point(Field.OWNED, np.empty(OWNED_ROOM, np.uint64))
        table.point(Field.CHANGED, np.empty((CHANGED_ROOM, 2), np.uint64))
        table[Field.OWNED_ROOM], table[Field.CHANGED_ROOM] = OWNED_ROOM, CHANGED_ROOM

    def begin(self, snapshot: Snapshot) -> bool:
        """Have lanes begin with this memory; False if it is too much for tables."""
        if snapshot is self._snapshot:
            return True
        for region in self._snapshot.regions if self._snapshot is not None else ():
            self._origins.clear(region.start >> PAGE_SHIFT, region.end >> PAGE_SHIFT)
        self._snapshot = None
        if sum(region.end - region.start for region in snapshot.regions) > MOST_PAGES * PAGE:
            return False
        self._snapshot = snapshot
        for region in snapshot.regions:
            self._lay_out(region)
        for index, page in snapshot.pages.items():
            self._words[index] = int(self._words[index]) & PAGE - 1 | page.address | PRIVATE
        for address in (MMAP_TOP - 1, STACK_TOP - 1):
            self._require_arena(address >> PAGE_SHIFT)
        self._table[Field.PAGES_MOST] = max(0, self._limit - len(snapshot.pages))
        return True

    def _lay_out(self, region: Region) -> None:
        first, last = region.start >> PAGE_SHIFT, region.end >> PAGE_SHIFT
        limit, backing = region.limit >> PAGE_SHIFT, region.backing
        words = self._words[first:last]
        words[: limit - first] = ZERO_PAGE | region.prot | MAPPED
        words[limit - first :] = ZERO_PAGE | OF_FILE | MAPPED
        if backing is not None:
            count = min(limit - first, max(0, backing.length - region.offset) >> PAGE_SHIFT)
            shown = backing.address + region.offset + PAGE * np.arange(count, dtype=np.uint64)
            words[:count] = shown | np.uint64(region.prot | MAPPED)
        for group in range(first >> ARENA_SHIFT, (last - 1 >> ARENA_SHIFT) + 1):
            self._require_arena(group << ARENA_SHIFT)

    def _require_arena(self, index: int) -> None:
        """Have somewhere for own copies of a page and its neighbours; none if the host has no room."""
        group = index >> ARENA_SHIFT
        made = None if self._arenas[group] else arena()
        if made is not None:
            mapping, self._arenas[group] = made
            self._mappings.append(mapping)

    def owned(self) -> dict[int, bytes]:
        """The contents of the pages that the present lane has its own copies of, by their numbers."""
        count, pages = self._table[Field.OWNED_COUNT], {}
        for index in (c_uint64 * count).from_address(self._table[Field.OWNED]):
            if int(self._words[index]) & OWN:
                at = int(self._arenas[index >> ARENA_SHIFT]) + PAGE * (index & ARENA_MASK)
                pages[index] = HOST[at : at + PAGE].tobytes()
        return pages
