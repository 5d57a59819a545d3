"""Guest memory of one lane."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from kvrm.arguments import data as checked_data
from kvrm.arguments import integer, shown, word
from kvrm.errors import OutOfMemory, UsageError
from kvrm.memory.faults import AccessKind, AlignmentFault, BeyondFile, GuestFault, untagged
from kvrm.memory.page_table import ENTRIES, VA_BITS, W_BIT, PageTable
from kvrm.memory.pages import HOST, PAGE, PAGE_SHIFT, ZERO_PAGE, Buffer, Image, Page, PagePool
from kvrm.memory.regions import (
    Mark,
    Prot,
    Region,
    RegionList,
    checked_prot,
    checked_range,
    differences,
    pieces,
)
from kvrm.memory.snapshots import Changes, Snapshot

_OFFSET: Final = PAGE - 1
_UNTAGGED: Final = (1 << 56) - 1
_VA_END: Final = 1 << VA_BITS
_LOWEST: Final = 1 << 16


class Memory:
    """Guest memory: what is mapped, with what permissions, and the bytes in it.

    *Regions* say what is mapped. The *page table* (`table_address`, see `PageTable`) is a cache of them for
    native code, filled page by page: on a miss native code calls `resolve`. A page reads from its image, or
    from the page of zeros, until the first write gives the lane a private copy. An entry has W_BIT only for
    a private page that no snapshot has frozen.

    Guest addresses are 64-bit integers. The top byte is ignored (Arm ARM, D8 "Address tagging"); an address
    whose bits 55 to 39 are not zero is never mapped.

    `limit` is the most bytes of private pages that the lane may have. Pages that only snapshots hold do not
    count, so that taking a snapshot never changes what a guest sees.

    `on_remap(start, end)` is called after these addresses were mapped, unmapped, protected, poked or
    restored: what was derived from their bytes (decoded code) is stale. It is not called for what the guest
    writes; an Arm program announces new code itself, by `ic ivau`.
    """

    def __init__(self, limit: int = 4 << 30) -> None:
        self.on_remap: Callable[[int, int], None] | None = None
        self._limit = min(integer("the memory limit", limit, 0) >> PAGE_SHIFT, ENTRIES)
        self._table = PageTable()
        self._entries = self._table.entries
        self._regions = RegionList()
        self._pool = PagePool()
        self._pages: dict[int, Page] = {}
        # Page numbers whose page differs from that of the snapshot last taken or restored. A private page
        # belongs to the lane alone, and may be written in place, exactly if its number is in here.
        self._changed: set[int] = set()
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
        return self._limit << PAGE_SHIFT

    @property
    def private_pages(self) -> int:
        """Pages that the lane has a private copy of."""
        return len(self._pages)

    @property
    def private_bytes(self) -> int:
        """Bytes in those pages: what counts against `limit`."""
        return len(self._pages) * PAGE

    def close(self) -> None:
        """Give everything back to the host now, and not only once collected. Any later use is an error."""
        self._table.close()
        self._pages.clear()
        # The old pool goes with the last page of it that a snapshot holds.
        self._pool = PagePool()

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
        if offset < 0 or offset & _OFFSET:
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
        first, last = start >> PAGE_SHIFT, end >> PAGE_SHIFT
        inside = range(first, last) if last - first < len(self._pages) else sorted(self._pages)
        return [index << PAGE_SHIFT for index in inside if first <= index < last and index in self._pages]

    def filled(self, region: Region) -> int:
        """Bytes from a region's start to the end of its last page that can hold anything but zeros.

        It is bounded by the files and private pages that there are, whatever the region's size.
        """
        size = region.end - region.start
        backed = region.backing.length - region.offset if region.backing else 0
        inside = (i for i in self._pages if region.start <= i << PAGE_SHIFT < region.end)
        private = ((max(inside, default=-1) + 1) << PAGE_SHIFT) - region.start
        return min(size, max(backed, private, 0))

    def find_free(self, length: int, hint: int = 0, low: int = _LOWEST, high: int = _VA_END) -> int | None:
        """Where `length` bytes could be mapped within low <= address < high, or None.

        At `hint` if that is not 0, is page aligned and is free; else as high as possible.
        """
        length = (length + _OFFSET) & -PAGE
        fits = hint and not hint & _OFFSET and low <= hint <= high - length
        if fits and not self._regions.between(hint, hint + length):
            return hint
        return self._regions.find_free(length, low, high & -PAGE)

    # Accesses by the guest

    def read(self, address: int, length: int, kind: AccessKind = AccessKind.READ) -> bytes:
        """`length` bytes at `address`, as the guest would read them (or fetch them, if `kind` says so).

        Raises GuestFault at the first byte that the guest may not read, UsageError if length is negative.
        """
        offset = address & _OFFSET
        if not 0 < length <= PAGE - offset:
            return b"".join([HOST[part] for part in self._parts(address, length, kind)])
        index = (address & _UNTAGGED) >> PAGE_SHIFT
        entry = self._entries[index] if index < ENTRIES else 0
        if not entry & kind:
            entry = self.resolve(address, kind)
        host = (entry & -PAGE) + offset
        return HOST[host : host + length].tobytes()

    def write(self, address: int, data: Buffer) -> None:
        """Write `data` at `address` as the guest would: all of it or nothing.

        Raises GuestFault at the first byte that the guest may not write, or OutOfMemory.
        """
        data = bytes(data)
        offset, length = address & _OFFSET, len(data)
        if not 0 < length <= PAGE - offset:
            done = 0
            for part in self._parts(address, length, AccessKind.WRITE):
                size = part.stop - part.start
                HOST[part] = data[done : done + size]
                done += size
            return
        index = (address & _UNTAGGED) >> PAGE_SHIFT
        entry = self._entries[index] if index < ENTRIES else 0
        if not entry & W_BIT:
            entry = self.resolve(address, AccessKind.WRITE)
        host = (entry & -PAGE) + offset
        HOST[host : host + length] = data

    def read_cstring(self, address: int, limit: int = 32 * PAGE) -> bytes:
        """The bytes from `address` up to the first zero byte, without it.

        No more than `limit` bytes are looked at: a result of that length has no end within the limit.
        Raises GuestFault if the guest may not read a byte before the end.
        """
        parts: list[bytes] = []
        for piece, _, size in pieces(address, limit):
            part, end, _ = self.read(piece, size).partition(b"\0")
            parts.append(part)
            if end:
                break
        return b"".join(parts)

    def resolve(self, address: int, kind: AccessKind | int) -> int:
        """Fill the page table entry for an access to one byte, and return it.

        A first write gives the lane its private copy of the page. Raises GuestFault if the access is not
        allowed, OutOfMemory if a private page is needed and the limit is reached.
        """
        index = (address & _UNTAGGED) >> PAGE_SHIFT
        region = self._regions.find(index << PAGE_SHIFT)
        prot = int(region.prot) if region else 0
        if region is None or not prot & kind:
            raise GuestFault(untagged(address), AccessKind(kind), region is not None)
        if index << PAGE_SHIFT >= region.limit:
            raise BeyondFile(untagged(address), AccessKind(kind))
        if kind == W_BIT:
            return self._own(index, region)
        page = self._pages.get(index)
        if page is None:
            entry = region.page_at(index << PAGE_SHIFT) | prot & ~W_BIT
        else:
            entry = page.address | (prot if index in self._changed else prot & ~W_BIT)
        self._entries[index] = entry
        return entry

    # Accesses by the host

    def peek(self, address: int, length: int) -> bytes:
        """`length` bytes at `address` whatever their permissions.

        Raises GuestFault at the first byte that is not there, UsageError if length is negative, OutOfMemory
        if the host has no room for them: a guest may map more than the host has.
        """
        address, length = word("the address", address), integer("the length", length)
        self._require(address, length, AccessKind.READ, anyhow=True)
        try:
            data = bytearray(length)
            for piece, done, size in pieces(address, length):
                index, region = self._locate(piece)
                page = self._pages.get(index)
                host = page.address if page else region.page_at(index << PAGE_SHIFT)
                if host != ZERO_PAGE:
                    host += piece & _OFFSET
                    data[done : done + size] = HOST[host : host + size]
            return bytes(data)
        except MemoryError:
            raise OutOfMemory(f"the host cannot provide {length} bytes for the result") from None

    def poke(self, address: int, data: Buffer) -> None:
        """Write `data` at `address` whatever the permissions: all of it or nothing.

        The pages become private ones, as if the guest had written. Raises GuestFault at the first unmapped
        byte, or OutOfMemory.
        """
        address, data = word("the address", address), checked_data("what is to be written", data)
        self._require(address, len(data), AccessKind.WRITE, anyhow=True)
        targets = [
            (self._own(*self._locate(piece)) & -PAGE | piece & _OFFSET, done, size)
            for piece, done, size in pieces(address, len(data))
        ]
        for host, done, size in targets:
            HOST[host : host + size] = data[done : done + size]
        start = address & _UNTAGGED
        if data:
            self._notify([(start & -PAGE, (start + len(data) + _OFFSET) & -PAGE)])

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Freeze the present contents and regions. Private pages are shared with the lane from now on."""
        entries = self._entries
        for index in self._changed:
            entries[index] &= ~W_BIT
        self._changed.clear()
        self._remapped = False
        snapshot = Snapshot(self._pages.copy(), RegionList(self.regions()))
        self._base = weakref.ref(snapshot)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, any number of times and in any order.

        The cost is proportional to the pages written or dropped since, if it is the snapshot last taken or
        restored; else to the private pages of both. Raises UsageError, with nothing changed, for what is no
        snapshot or has more private pages than the limit allows.
        """
        self.require_fits(snapshot)
        if self._base() is snapshot:
            stale: Iterable[int] = self._changed
        else:
            stale = {index for index, _ in self._pages.items() ^ snapshot.pages.items()}
        remapped = differences(self._regions, snapshot.regions)
        self._regions = RegionList(list(snapshot.regions))
        for start, end in remapped:
            self._table.clear(start >> PAGE_SHIFT, end >> PAGE_SHIFT)
        for index in stale:
            self._entries[index] = 0
            page = snapshot.pages.get(index)
            if page is None:
                self._pages.pop(index, None)
            else:
                self._pages[index] = page
        if self.on_remap:
            remapped += [(index << PAGE_SHIFT, (index + 1) << PAGE_SHIFT) for index in stale]
        self._changed.clear()
        self._remapped = False
        self._base = weakref.ref(snapshot)
        self._notify(remapped)

    # Lanes: many short runs from the snapshot that was last taken or restored

    @property
    def remapped(self) -> bool:
        """Whether regions changed, or pages were dropped, since that snapshot."""
        return self._remapped

    def own(self, address: int) -> int:
        """Make the page of a mapped address the lane's own, permitted or not; the host address of the byte.

        Raises GuestFault or OutOfMemory.
        """
        self._require(address, 1, AccessKind.WRITE, anyhow=True)
        return self._own(*self._locate(address)) & -PAGE | address & _OFFSET

    def changed_pages(self) -> list[tuple[int, int, int]]:
        """The pages that differ from that snapshot's, unless `remapped`: to be undone by copying.

        Each is a page number, the host address of the lane's page, and that of the snapshot's contents.
        """
        base = self._base()
        assert base is not None and not self._remapped
        found = []
        for index in self._changed:
            page, (_, region) = base.pages.get(index), self._locate(index << PAGE_SHIFT)
            pristine = page.address if page else region.page_at(index << PAGE_SHIFT)
            found.append((index, self._pages[index].address, pristine))
        return found

    def require_fits(self, snapshot: Snapshot) -> None:
        """Raise UsageError unless `restore` can go back to this."""
        if not isinstance(snapshot, Snapshot):
            raise UsageError(f"{shown(snapshot)} is not a snapshot of memory")
        if len(snapshot.pages) > self._limit:
            private, limit = len(snapshot.pages) * PAGE, self.limit
            raise UsageError(f"the snapshot has {private} private bytes, and the memory limit is {limit}")

    def misaligned(self, address: int, kind: AccessKind) -> AlignmentFault:
        """The fault of an access at an address that is not a multiple of what it demands."""
        mapped = self._regions.find(address & _UNTAGGED) is not None
        return AlignmentFault(untagged(address), kind, mapped)

    def take_changes(self) -> Changes:
        """Back to that snapshot, with what differs from it put aside. Give it back at most once."""
        base = self._base()
        assert base is not None
        pages = {index: self._pages.get(index) for index in self._changed}
        changes = Changes(pages, RegionList(self.regions()) if self._remapped else None)
        self.restore(base)
        return changes

    def put_changes(self, changes: Changes) -> None:
        """Undo `take_changes`, here or in another `Memory` that is at the same snapshot."""
        stale = [(index << PAGE_SHIFT, (index + 1) << PAGE_SHIFT) for index in changes.pages]
        if changes.regions is not None:
            remapped = differences(self._regions, changes.regions)
            self._regions, self._remapped = changes.regions, True
            for start, end in remapped:
                self._table.clear(start >> PAGE_SHIFT, end >> PAGE_SHIFT)
            stale += remapped
        for index, page in changes.pages.items():
            self._entries[index] = 0
            if page is None:
                self._pages.pop(index, None)
            else:
                self._pages[index] = page
        self._changed.update(changes.pages)
        self._notify(stale)

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
        dropped = [page >> PAGE_SHIFT for page in self.private(first << PAGE_SHIFT, last << PAGE_SHIFT)]
        for index in dropped:
            del self._pages[index]
        if self._base():
            self._changed.update(dropped)
        else:
            self._changed.difference_update(dropped)

    def _own(self, index: int, region: Region) -> int:
        """Make page `index` of `region` the lane's own; fill its entry and return it."""
        page = self._pages.get(index)
        if page is None:
            if len(self._pages) >= self._limit:
                limit = self._limit * PAGE
                raise OutOfMemory(f"the memory limit is reached; memory_limit={limit} would have to be more")
            own = self._pool.copy_of(region.page_at(index << PAGE_SHIFT), index)
        elif index in self._changed:
            own = page
        else:
            own = self._pool.copy_of(page.address, index)
        entry = self._entries[index] = own.address | int(region.prot)
        self._pages[index] = own
        self._changed.add(index)
        return entry

    def _locate(self, address: int) -> tuple[int, Region]:
        """Page number and region of an address that is known to be mapped."""
        index = (address & _UNTAGGED) >> PAGE_SHIFT
        region = self._regions.find(index << PAGE_SHIFT)
        assert region is not None
        return index, region

    def _parts(self, address: int, length: int, kind: AccessKind) -> list[slice]:
        """Where a range is in `HOST`, page by page, once it is known that `kind` may access all of it."""
        self._require(address, length, kind)
        parts: list[slice] = []
        for piece, _, size in pieces(address, length):
            entry = self._entries[(piece & _UNTAGGED) >> PAGE_SHIFT]
            if not entry & kind:
                entry = self.resolve(piece, kind)
            host = (entry & -PAGE) + (piece & _OFFSET)
            parts.append(slice(host, host + size))
        return parts

    def _require(self, address: int, length: int, kind: AccessKind, anyhow: bool = False) -> None:
        """Raise GuestFault at the first byte that `kind` may not access (`anyhow`: that is not mapped)."""
        if length < 0:
            raise UsageError(f"the length is negative: {length}")
        start = reached = address & _UNTAGGED
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
