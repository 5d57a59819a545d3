"""Guest memory of one lane."""

from __future__ import annotations

import ctypes
import weakref

from kvrm.arguments import data as checked_data
from kvrm.arguments import integer, shown, word
from kvrm.errors import OutOfMemory, UsageError
from kvrm.memory import access
from kvrm.memory.address_space import OFFSET, UNTAGGED, AddressSpace
from kvrm.memory.faults import AccessKind, AlignmentFault, BeyondFile, GuestFault, untagged
from kvrm.memory.flat import page_of
from kvrm.memory.page_table import ENTRIES, W_BIT
from kvrm.memory.pages import HOST, PAGE, PAGE_SHIFT, ZERO_PAGE, Buffer
from kvrm.memory.regions import (
    RegionList,
    differences,
    pieces,
)
from kvrm.memory.snapshots import Changes, Snapshot


class Memory(AddressSpace):
    """The bytes of guest memory, as the guest and the host read and write them, and its snapshots."""

    # Accesses by the guest

    def read(self, address: int, length: int, kind: AccessKind = AccessKind.READ) -> bytes:
        """`length` bytes at `address`, as the guest would read them (or fetch them, if `kind` says so).

        Raises GuestFault at the first byte that the guest may not read, UsageError if length is negative.
        """
        offset = address & OFFSET
        if not 0 < length <= PAGE - offset:
            return self._read_pages(address, length, kind)
        # `access.reach` by hand, for most of what system calls read is on one page
        index = (address & UNTAGGED) >> PAGE_SHIFT
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
        offset, length = address & OFFSET, len(data)
        if not 0 < length <= PAGE - offset:
            self._require(address, length, AccessKind.WRITE)
            if data:
                access.write(self, address, length, _address_of(data))
            return
        index = (address & UNTAGGED) >> PAGE_SHIFT
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

    # As a space (`kvrm.memory.space`)

    def entry(self, address: int) -> int:
        """From the page table."""
        index = page_of(address)
        return self._entries[index] if index < ENTRIES else 0

    def allows(self, entry: int, kind: int) -> int:
        """By the entry's bits."""
        return entry & kind

    def resolve(self, address: int, kind: AccessKind | int) -> int:
        """Fill the page table entry for an access to one byte, and return it.

        A first write gives the lane its private copy of the page. Raises GuestFault if the access is not
        allowed, OutOfMemory if a private page is needed and the limit is reached.
        """
        index = (address & UNTAGGED) >> PAGE_SHIFT
        region = self._regions.find(index << PAGE_SHIFT)
        prot = int(region.prot) if region else 0
        if region is None or not prot & kind:
            raise GuestFault(untagged(address), AccessKind(kind), region is not None)
        if index << PAGE_SHIFT >= region.limit:
            raise BeyondFile(untagged(address), AccessKind(kind))
        if kind == W_BIT:
            return self._own(index, region)
        page = self._physical.find(index)
        if page is None:
            entry = region.page_at(index << PAGE_SHIFT) | prot & ~W_BIT
        else:
            entry = page | (prot if index in self._physical.changed else prot & ~W_BIT)
        self._entries[index] = entry
        return entry

    def own(self, address: int) -> int:
        """Make the page of a mapped address the lane's own, permitted or not; its entry.

        Raises GuestFault or OutOfMemory.
        """
        self._require(address, 1, AccessKind.WRITE, anyhow=True)
        return self._own(*self._locate(address))

    def take(self, entry: int, offset: int, to: int, size: int) -> int:
        """To an address of the host."""
        start = (entry & -PAGE) + offset
        HOST[to : to + size] = HOST[start : start + size]
        return to

    def give(self, entry: int, offset: int, source: int, size: int) -> int:
        """From an address of the host."""
        start = (entry & -PAGE) + offset
        HOST[start : start + size] = HOST[source : source + size]
        return source

    def left(self) -> int:
        """How many private pages the limit allows still."""
        return self._physical.limit - len(self._physical)

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
                host = self._physical.find(index) or region.page_at(index << PAGE_SHIFT)
                if host != ZERO_PAGE:
                    host += piece & OFFSET
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
            (self._own(*self._locate(piece)) & -PAGE | piece & OFFSET, done, size)
            for piece, done, size in pieces(address, len(data))
        ]
        for host, done, size in targets:
            HOST[host : host + size] = data[done : done + size]
        start = address & UNTAGGED
        if data:
            self._notify([(start & -PAGE, (start + len(data) + OFFSET) & -PAGE)])

    def _read_pages(self, address: int, length: int, kind: AccessKind) -> bytes:
        self._require(address, length, kind)
        data = ctypes.create_string_buffer(length)
        access.transfer(self, address, length, kind, ctypes.addressof(data))
        return data.raw

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Freeze the present contents and regions. Private pages are shared with the lane from now on."""
        entries = self._entries
        for index in self._physical.changed:
            entries[index] &= ~W_BIT
        self._remapped = False
        snapshot = Snapshot(self._physical.freeze(), RegionList(self.regions()))
        self._base = weakref.ref(snapshot)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, any number of times and in any order.

        The cost is proportional to the pages written or dropped since, if it is the snapshot last taken or
        restored; else to the private pages of both. Raises UsageError, with nothing changed, for what is no
        snapshot or has more private pages than the limit allows.
        """
        self.require_fits(snapshot)
        physical = self._physical
        stale = set(physical.changed) if self._base() is snapshot else physical.differences(snapshot.pages)
        remapped = differences(self._regions, snapshot.regions)
        self._regions = RegionList(list(snapshot.regions))
        for start, end in remapped:
            self._table.clear(start >> PAGE_SHIFT, end >> PAGE_SHIFT)
        for index in stale:
            self._entries[index] = 0
        physical.revert(snapshot.pages, stale)
        if self.on_remap:
            remapped += [(index << PAGE_SHIFT, (index + 1) << PAGE_SHIFT) for index in stale]
        self._remapped = False
        self._base = weakref.ref(snapshot)
        self._notify(remapped)

    # Lanes: many short runs from the snapshot that was last taken or restored

    @property
    def remapped(self) -> bool:
        """Whether regions changed, or pages were dropped, since that snapshot."""
        return self._remapped

    def changed_pages(self) -> list[tuple[int, int, int]]:
        """The pages that differ from that snapshot's, unless `remapped`: to be undone by copying.

        Each is a page number, the host address of the lane's page, and that of the snapshot's contents.
        """
        base = self._base()
        assert base is not None and not self._remapped
        found = []
        for index in self._physical.changed:
            page, (_, region) = base.pages.get(index), self._locate(index << PAGE_SHIFT)
            pristine = page.address if page else region.page_at(index << PAGE_SHIFT)
            mine = self._physical.find(index)
            assert mine is not None
            found.append((index, mine, pristine))
        return found

    def require_fits(self, snapshot: Snapshot) -> None:
        """Raise UsageError unless `restore` can go back to this."""
        if not isinstance(snapshot, Snapshot):
            raise UsageError(f"{shown(snapshot)} is not a snapshot of memory")
        if len(snapshot.pages) > self._physical.limit:
            private, limit = len(snapshot.pages) * PAGE, self.limit
            raise UsageError(f"the snapshot has {private} private bytes, and the memory limit is {limit}")

    def misaligned(self, address: int, kind: AccessKind) -> AlignmentFault:
        """The fault of an access at an address that is not a multiple of what it demands."""
        mapped = self._regions.find(address & UNTAGGED) is not None
        return AlignmentFault(untagged(address), kind, mapped)

    def take_changes(self) -> Changes:
        """Back to that snapshot, with what differs from it put aside. Give it back at most once."""
        base = self._base()
        assert base is not None
        changes = Changes(self._physical.changes(), RegionList(self.regions()) if self._remapped else None)
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
        for index in changes.pages:
            self._entries[index] = 0
        self._physical.redo(changes.pages)
        self._notify(stale)


def _address_of(data: bytes) -> int:
    """Where bytes are in the host's memory, for as long as they are kept."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
