"""What is mapped in the memory of one lane, and the pages that are its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from kvrm.arguments import integer, shown
from kvrm.errors import UsageError
from kvrm.memory.faults import AccessKind, BeyondFile, GuestFault, untagged
from kvrm.memory.page_table import ENTRIES, VA_END, PageTable
from kvrm.memory.pages import PAGE, PAGE_SHIFT, Image, page_up
from kvrm.memory.physical import PhysicalPages
from kvrm.memory.regions import (
    Mark,
    Prot,
    Region,
    RegionList,
    checked_prot,
    checked_range,
)
from kvrm.memory.snapshots import Snapshot

OFFSET: Final = PAGE - 1
UNTAGGED: Final = (1 << 56) - 1
_LOWEST: Final = 1 << 16


class AddressSpace:
    """What is mapped, with what permissions, and in which pages the bytes are (`kvrm.memory.memory.Memory`).

    *Regions* say what is mapped. The *page table* (`table_address`, see `PageTable`) is a cache of them for
    native code, filled page by page: on a miss native code calls `Memory.resolve`. A page reads from its
    image, or from the page of zeros, until the first write gives the lane a private copy. An entry has W_BIT
    only for a private page that no snapshot has frozen.

    Guest addresses are 64-bit integers. The top byte is ignored (Arm ARM, D8 "Address tagging"); an address
    whose bits 55 to 39 are not zero is never mapped.

    `limit` is the most bytes of private pages that the lane may have. Pages that only snapshots hold do not
    count, so that taking a snapshot never changes what a guest sees.

    `on_remap(start, end)` is called after these addresses were mapped, unmapped, protected, poked or
    restored: what was derived from their bytes (decoded code) is stale. It is not called for what the guest
    writes; an Arm program announces new code itself, by `ic ivau`. With `in_turn`, where many lanes run from
    one snapshot, it is called when a lane first writes to a page: else a lane could tell which code those
    before it have run.
    """

    def __init__(self, limit: int = 4 << 30, in_turn: bool = False) -> None:
        self._in_turn = in_turn
        self.on_remap: Callable[[int, int], None] | None = None
        self._physical = PhysicalPages(min(integer("the memory limit", limit, 0) >> PAGE_SHIFT, ENTRIES))
        self._table = PageTable()
        self._entries = self._table.entries
        self._regions = RegionList()
        self._remapped = False
        self._base: Callable[[], Snapshot | None] = lambda: None

    @property
    def table_address(self) -> int:
        """Host address of the page table; the entry of an address is at index (address << 8) >> 20."""
        return self._table.address

    @property
    def entries(self) -> memoryview:
        """The page table (`PageTable.entries`)."""
        return self._entries

    @property
    def limit(self) -> int:
        """The most bytes of private pages that the lane may have."""
        return self._physical.limit << PAGE_SHIFT

    @property
    def private_pages(self) -> int:
        """Pages that the lane has a private copy of."""
        return len(self._physical)

    @property
    def private_bytes(self) -> int:
        """Bytes in those pages: what counts against `limit`."""
        return len(self._physical) * PAGE

    def close(self) -> None:
        """Give everything back to the host now, and not only once collected. Any later use is an error."""
        self._table.close()
        self._physical.close()

    # Regions

    def map(
        self,
        start: int,
        length: int,
        prot: Prot | int,
        backing: Image | None = None,
        offset: int = 0,
        name: str = "",
        marks: Mark = Mark.NONE,
    ) -> None:
        """Map `length` bytes at `start`, replacing what is there (as MAP_FIXED does).

        Contents are those of `backing` from byte `offset` on, then zeros, or nothing if it `ends`. The cost
        does not depend on `length`. Raises UsageError unless start, length and offset are multiples of
        `PAGE`, the length is not zero, and the range lies within the address space.
        """
        start, end = checked_range(start, length)
        offset = integer("the offset", offset)
        if offset < 0 or offset & OFFSET:
            raise UsageError(f"the offset is {shown(offset)}; it takes a multiple of the page size")
        offset = offset if backing else 0
        self._replace(start, end, [Region(start, end, checked_prot(prot), backing, offset, name, marks)])

    def unmap(self, start: int, length: int) -> None:
        """Make a hole. Holes in the range are no error; UsageError as for `map`."""
        self._replace(*checked_range(start, length), [])

    def protect(self, start: int, length: int, prot: Prot | int) -> bool:
        """Change permissions, keeping contents. UsageError as for `map`.

        False if the range has a hole; what lies before the hole is changed all the same, as in Linux.
        """
        (start, end), prot = checked_range(start, length), checked_prot(prot)
        reached = self._alter(start, end, lambda part: replace(part, prot=prot))
        if reached > start:
            self._table.clear(start >> PAGE_SHIFT, reached >> PAGE_SHIFT)
            self._notify([(start, reached)])
        return reached == end

    def mark(self, start: int, length: int, add: Mark, remove: Mark = Mark.NONE) -> bool:
        """Change marks; UsageError and result as for `protect`."""
        start, end = checked_range(start, length)
        return self._alter(start, end, lambda part: replace(part, marks=part.marks & ~remove | add)) == end

    def drop(self, start: int, length: int) -> None:
        """Throw private pages away, so that a range shows its first contents. UsageError as for `map`."""
        start, end = checked_range(start, length)
        first, last = start >> PAGE_SHIFT, end >> PAGE_SHIFT
        self._remapped = True
        self._table.clear(first, last)
        self._drop_pages(first, last)
        self._notify([(start, start + length)])

    def reback(self, old: Image, new: Image) -> None:
        """Have the regions that show `old` show `new`. Private pages stay, but for those past its end."""
        for region in self.regions():
            if region.backing is old:
                after = replace(region, backing=new)
                self._remapped = True
                self._regions.replace(region.start, region.end, [after])
                self._table.clear(region.start >> PAGE_SHIFT, region.end >> PAGE_SHIFT)
                self._drop_pages(after.limit >> PAGE_SHIFT, region.end >> PAGE_SHIFT)
                self._notify([(region.start, region.end)])

    def regions(self) -> list[Region]:
        """All regions in ascending order; neighbours that could be one are one."""
        return list(self._regions)

    def between(self, start: int, end: int) -> list[Region]:
        """The regions between two addresses, clipped to them."""
        return self._regions.between(start, end)

    def private(self, start: int, end: int) -> list[int]:
        """The addresses of the private pages between two addresses, in ascending order."""
        numbers = self._physical.numbers(start >> PAGE_SHIFT, end >> PAGE_SHIFT)
        return [index << PAGE_SHIFT for index in numbers]

    def filled(self, region: Region) -> int:
        """Bytes from a region's start to the end of its last page that can hold anything but zeros.

        It is bounded by the files and private pages that there are, whatever the region's size.
        """
        size = region.end - region.start
        backed = region.backing.length - region.offset if region.backing else 0
        private = (
            max(self.private(region.start, region.end), default=region.start - PAGE) + PAGE - region.start
        )
        return min(size, max(backed, private, 0))

    def find_free(self, length: int, hint: int = 0, low: int = _LOWEST, high: int = VA_END) -> int | None:
        """Where `length` bytes could be mapped within low <= address < high, or None.

        At `hint` if that is not 0, is page aligned and is free; else as high as possible.
        """
        length = page_up(length)
        fits = hint and not hint & OFFSET and low <= hint <= high - length
        if fits and not self._regions.between(hint, hint + length):
            return hint
        return self._regions.find_free(length, low, high & -PAGE)

    # Inside

    def _replace(self, start: int, end: int, new: list[Region]) -> None:
        self._remapped = True
        if self._regions.between(start, end):
            first, last = start >> PAGE_SHIFT, end >> PAGE_SHIFT
            # Before the pages are released: an entry must never outlive its page.
            self._table.clear(first, last)
            self._drop_pages(first, last)
        self._regions.replace(start, end, new)
        self._notify([(start, end)])

    def _alter(self, start: int, end: int, change: Callable[[Region], Region]) -> int:
        """Change what is mapped in a range, up to the first hole; where that is, or `end`."""
        reached, changed = start, []
        for part in self._regions.between(start, end):
            if part.start != reached:
                break
            changed.append(change(part))
            reached = part.end
        if changed:
            self._remapped = True
            self._regions.replace(start, reached, changed)
        return reached

    def _drop_pages(self, first: int, last: int) -> None:
        self._physical.drop(first, last, since_snapshot=self._base() is not None)

    def _own(self, index: int, region: Region) -> int:
        """Make page `index` of `region` the lane's own; fill its entry and return it."""
        stale = self._in_turn and region.prot & Prot.X and index not in self._physical.changed
        page = self._physical.own(index, region.page_at(index << PAGE_SHIFT))
        entry = self._entries[index] = page | int(region.prot)
        if stale:
            self._notify([(index << PAGE_SHIFT, (index + 1) << PAGE_SHIFT)])
        return entry

    def _locate(self, address: int) -> tuple[int, Region]:
        """Page number and region of an address that is known to be mapped."""
        index = (address & UNTAGGED) >> PAGE_SHIFT
        region = self._regions.find(index << PAGE_SHIFT)
        assert region is not None
        return index, region

    def _require(self, address: int, length: int, kind: AccessKind, anyhow: bool = False) -> None:
        """Raise GuestFault at the first byte that `kind` may not access (`anyhow`: that is not mapped)."""
        if length < 0:
            raise UsageError(f"the length is negative: {length}")
        start = reached = address & UNTAGGED
        while reached < start + length:
            region = self._regions.find(reached)
            at = untagged(address + reached - start)
            if region is None or not (anyhow or int(region.prot) & kind):
                raise GuestFault(at, kind, region is not None)
            if reached >= region.limit:
                raise BeyondFile(at, kind)
            reached = region.limit

    def _notify(self, ranges: Iterable[tuple[int, int]]) -> None:
        if self.on_remap:
            for start, end in ranges:
                self.on_remap(start, end)
