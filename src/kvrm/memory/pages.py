"""Host pages that hold guest memory: the zero page, images, and the pool of private pages.

A page is named by the host address of its first byte, a multiple of `PAGE`, so that the three low bits of a
page table entry are free for permissions.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections import deque
from threading import Lock
from typing import Final

from kvrm.errors import OutOfMemory

PAGE_SHIFT: Final = 12
PAGE: Final = 1 << PAGE_SHIFT
"""Bytes in a page of guest memory (the 4 KiB granule)."""

_FIRST_CHUNK, _LARGEST_CHUNK = 64, 4096
"""Pages that are allocated at a time: twice as many each time, so that a small guest costs little memory and
a large one few calls."""
_ARENA_PAGES = 1 << 18
"""Pages of an arena, 1 GiB: only reserved, so its size costs address space and no memory."""
_RELEASED = 64
"""Pages that go back to the host together: each is a system call, which reuse in between saves."""
MAP_NORESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0x4000)

Buffer = bytes | bytearray | memoryview | mmap.mmap


def page_up(address: int) -> int:
    """The address, or that of the next page if it is inside one."""
    return (address + PAGE - 1) & -PAGE


def anonymous(length: int, flags: int = 0) -> mmap.mmap:
    """`length` zero bytes, private to the process, that cost memory only once touched.

    Raises OutOfMemory if the host refuses.
    """
    try:
        return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
    except OSError as error:
        raise OutOfMemory(f"the host cannot provide {length} more bytes of memory") from error


def host_address(mapping: mmap.mmap) -> int:
    """The host address of a writable mapping; it is valid until the mapping is closed."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


HOST: Final = memoryview((ctypes.c_char * sys.maxsize).from_address(0)).cast("B")
"""All of the host's memory, by address. A slice of it costs less than a call of `ctypes.memmove`."""

_zeros = anonymous(PAGE)
ZERO_PAGE: Final = host_address(_zeros)
"""Host address of the page of zeros that every lane reads before its first write. It is never written to."""


class Image:
    """A page-aligned copy of a file or segment that any number of machines read and none writes.

    The last page is padded with zeros. `size` is in bytes, without the padding. Pages past the end are zeros,
    or, if it `ends`, nothing that can be accessed, as in a file that is mapped (`BeyondFile`).
    """

    __slots__ = ("_bytes", "_end", "address", "ends", "name", "size")

    def __init__(self, data: Buffer, name: str = "", *, ends: bool = False) -> None:
        view = memoryview(data).cast("B")
        self.name = name
        self.ends = ends
        self.size = len(view)
        self._end = page_up(self.size)
        # An anonymous mapping may not be empty.
        self._bytes = anonymous(self._end or PAGE)
        self._bytes[: self.size] = view
        self.address = host_address(self._bytes)

    @property
    def length(self) -> int:
        """Bytes with the padding."""
        return self._end

    def page_at(self, offset: int) -> int:
        """Host address of the page at byte `offset`, a multiple of `PAGE`; `ZERO_PAGE` past the end."""
        return self.address + offset if offset < self._end else ZERO_PAGE

    def __repr__(self) -> str:
        return f"Image({self.name!r}, {self.size} bytes)"


class Page:
    """One private page, kept alive by each memory and each snapshot that refers to it."""

    __slots__ = ("__weakref__", "_pool", "address")

    def __init__(self, address: int, pool: PagePool) -> None:
        self.address = address
        self._pool = pool

    def __del__(self) -> None:
        self._pool.release(self.address)


class PagePool:
    """Private pages of one lane.

    The first page of a guest address lies in an *arena*, at the same offset as in the guest: neighbours there
    are neighbours here, which translated code profits from (`kvrm.engine.translator.page_sites`). Where a
    page that a snapshot holds is already there, the page comes from chunks that grow with use. Arenas are
    only reserved; pages of them that are released go back to the host, a batch at a time.

    One thread takes pages; any thread may release them, at any moment.
    """

    __slots__ = (
        "_arenas",
        "_chunks",
        "_end",
        "_free",
        "_in_arenas",
        "_lock",
        "_next",
        "_released",
        "_returned",
    )

    def __init__(self) -> None:
        self._chunks: list[mmap.mmap] = []
        self._free: list[int] = []
        self._next = 0
        self._end = 0
        self._arenas: dict[int, tuple[mmap.mmap, int] | None] = {}
        self._in_arenas: dict[int, int] = {}
        self._released: set[int] = set()
        self._returned: deque[int] = deque()
        self._lock = Lock()

    def copy_of(self, source: int, index: int | None = None) -> Page:
        """A new page for guest page number `index` with the contents of the page at host address `source`.

        Without an index it is for no address in particular, and lies in no arena. Raises OutOfMemory if the
        host has no memory left.
        """
        with self._lock:
            self._sort_returned()
            address, untouched = self._take(index)
        if not untouched or source != ZERO_PAGE:
            HOST[address : address + PAGE] = HOST[source : source + PAGE]
        return Page(address, self)

    def release(self, address: int) -> None:
        """Take back the page at host address `address`. Only `Page` calls this."""
        # No more than that unless the lock is free: a collection inside `copy_of` may have released the page.
        self._returned.append(address)
        if len(self._returned) >= _RELEASED and self._lock.acquire(blocking=False):
            try:
                self._sort_returned()
            finally:
                self._lock.release()

    def _take(self, index: int | None) -> tuple[int, bool]:
        """The address of a page, and whether it is still zero."""
        own = None if index is None else self._own_address(index)
        if own is not None and own in self._released:
            self._released.remove(own)
            return own, False
        if index is not None and own is not None and own not in self._in_arenas:
            self._in_arenas[own] = index
            return own, True
        if self._free:
            return self._free.pop(), False
        if self._next == self._end:
            self._grow()
        self._next += PAGE
        return self._next - PAGE, True

    def _sort_returned(self) -> None:
        while self._returned:
            address = self._returned.popleft()
            if address in self._in_arenas:
                self._released.add(address)
            else:
                self._free.append(address)
        if len(self._released) >= _RELEASED:
            self._give_back()

    def _own_address(self, index: int) -> int | None:
        """The page's own address in its arena, or None if the host had none."""
        group, within = divmod(index, _ARENA_PAGES)
        if group not in self._arenas:
            self._arenas[group] = arena()
        found = self._arenas[group]
        return found[1] + within * PAGE if found else None

    def _give_back(self) -> None:
        for address in self._released:
            mapping, start = self._arenas[self._in_arenas.pop(address) // _ARENA_PAGES] or (None, 0)
            if mapping is not None:
                mapping.madvise(mmap.MADV_DONTNEED, address - start, PAGE)
        self._released.clear()

    def _grow(self) -> None:
        length = min(_FIRST_CHUNK << len(self._chunks), _LARGEST_CHUNK) * PAGE
        chunk = anonymous(length)
        self._chunks.append(chunk)
        self._next = host_address(chunk)
        self._end = self._next + length


def arena() -> tuple[mmap.mmap, int] | None:
    """A reservation and its address, or None if the host refuses."""
    try:
        mapping = anonymous(_ARENA_PAGES * PAGE, MAP_NORESERVE)
    except OutOfMemory:
        return None
    # A large page would make a guest that touches little have much.
    mapping.madvise(mmap.MADV_NOHUGEPAGE)
    return mapping, host_address(mapping)
