"""Host pages that hold guest memory: the zero page, images, and the pool of private pages.

A page is named by the host address of its first byte, a multiple of `PAGE`, so that the three low bits of a
page table entry are free for permissions.
"""

from __future__ import annotations

import ctypes
import mmap
from ctypes import memmove
from typing import Final

from kvrm.memory.faults import OutOfMemory

PAGE_SHIFT: Final = 12
PAGE: Final = 1 << PAGE_SHIFT
"""Bytes in a page of guest memory (the 4 KiB granule)."""

_FIRST_CHUNK = 64
_LARGEST_CHUNK = 4096

Buffer = bytes | bytearray | memoryview | mmap.mmap


def anonymous(length: int, flags: int = 0) -> mmap.mmap:
    """`length` zero bytes, private to the process, that cost memory only once touched."""
    return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)


def host_address(mapping: mmap.mmap) -> int:
    """The host address of a writable mapping; it is valid until the mapping is closed."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


_zeros = anonymous(PAGE)
ZERO_PAGE: Final = host_address(_zeros)
"""Host address of the page of zeros that every lane reads before its first write. Nobody writes to it."""


class Image:
    """A page-aligned copy of a file or segment that any number of machines read and none writes.

    The last page is padded with zeros. `size` is in bytes, without the padding.
    """

    __slots__ = ("_bytes", "_end", "address", "name", "size")

    def __init__(self, data: Buffer, name: str = "") -> None:
        view = memoryview(data).cast("B")
        self.name = name
        self.size = len(view)
        self._end = (self.size + PAGE - 1) & -PAGE
        # An anonymous mapping may not be empty.
        self._bytes = anonymous(self._end or PAGE)
        self._bytes[: self.size] = view
        self.address = host_address(self._bytes)

    def page_at(self, offset: int) -> int:
        """Host address of the page at byte `offset`, a multiple of `PAGE`; `ZERO_PAGE` past the end."""
        return self.address + offset if offset < self._end else ZERO_PAGE

    def __repr__(self) -> str:
        return f"Image({self.name!r}, {self.size} bytes)"


class Page:
    """One private page. Whoever refers to it keeps it alive: a memory, and every snapshot that froze it."""

    __slots__ = ("_pool", "address")

    def __init__(self, address: int, pool: PagePool) -> None:
        self.address = address
        self._pool = pool

    def __del__(self) -> None:
        self._pool.release(self.address)


class PagePool:
    """Private pages, carved from chunks that grow with use, and used again when they are released."""

    __slots__ = ("_chunks", "_end", "_free", "_next")

    def __init__(self) -> None:
        self._chunks: list[mmap.mmap] = []
        self._free: list[int] = []
        self._next = 0
        self._end = 0

    def copy_of(self, source: int) -> Page:
        """A new page with the contents of the page at host address `source`.

        Raises OutOfMemory if the host has no memory left.
        """
        if self._free:
            address = self._free.pop()
        else:
            if self._next == self._end:
                self._grow()
            address = self._next
            self._next += PAGE
            if source == ZERO_PAGE:
                return Page(address, self)
        memmove(address, source, PAGE)
        return Page(address, self)

    def release(self, address: int) -> None:
        """Take back the page at host address `address`. Only `Page` calls this."""
        self._free.append(address)

    def _grow(self) -> None:
        length = min(_FIRST_CHUNK << len(self._chunks), _LARGEST_CHUNK) * PAGE
        try:
            chunk = anonymous(length)
        except OSError as error:
            raise OutOfMemory(f"the host cannot provide {length} more bytes of guest memory") from error
        self._chunks.append(chunk)
        self._next = host_address(chunk)
        self._end = self._next + length
