"""The flat page table that native code reads."""

from __future__ import annotations

import ctypes
import mmap
from typing import Final

from kvrm.memory.pages import MAP_NORESERVE, PAGE, PAGE_SHIFT, anonymous, host_address, page_up

VA_BITS: Final = 39
"""Bits of a user address: 512 GiB, the smallest configuration of Linux on arm64 with 4 KiB pages."""
VA_END: Final = 1 << VA_BITS
"""The first address that no guest memory can have."""

ENTRIES: Final = 1 << (VA_BITS - PAGE_SHIFT)
"""Entries in the table, one for each page of the address space."""

OUTSIDE: Final = ENTRIES
"""Index of one more entry, never filled: what compiled code looks at for addresses that have no entry."""

R_BIT: Final = 1
W_BIT: Final = 2
X_BIT: Final = 4

_ENTRY = 8
# Above this many bytes it is cheaper to give table pages back to the host than to write zeros to them.
_LARGE = 16 * PAGE


class PageTable:
    """One uint64 for each guest page: host address of the page | R_BIT | W_BIT | X_BIT, or 0 if not filled.

    `entries` is the table, indexed by page number, and at OUTSIDE an entry that stays 0; `address` is where
    native code finds it. The 1 GiB that it spans is reserved only: the host gives it memory 4 KiB at a time,
    one such step for 2 MiB of guest memory in use.
    """

    __slots__ = ("_mapping", "address", "entries")

    def __init__(self) -> None:
        self._mapping = anonymous((ENTRIES + 1) * _ENTRY, MAP_NORESERVE)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            self._mapping.madvise(mmap.MADV_NOHUGEPAGE)
        self.address = host_address(self._mapping)
        self.entries = memoryview(self._mapping).cast("Q")

    def clear(self, first: int, last: int) -> None:
        """Forget the entries of pages first <= page < last; cheap for ranges of any size."""
        low, high = first * _ENTRY, last * _ENTRY
        if high - low > _LARGE:
            inner_low, inner_high = page_up(low), high & -PAGE
            self._mapping.madvise(mmap.MADV_DONTNEED, inner_low, inner_high - inner_low)
            ctypes.memset(self.address + low, 0, inner_low - low)
            low = inner_high
        ctypes.memset(self.address + low, 0, high - low)

    def close(self) -> None:
        """Give the table back to the host at once; `address` dangles from here on."""
        self.entries.release()
        self._mapping.close()
