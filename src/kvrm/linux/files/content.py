"""The bytes of a file that the guest has written to, page by page."""

from __future__ import annotations

from typing import Final

from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.host import Handle
from kvrm.memory import PAGE

_OVERHEAD: Final = 128
MAX_SIZE: Final = (1 << 44) - PAGE
"""Largest size of a file, in bytes, as on ext4; files may have holes, which cost nothing."""
SECTORS: Final = PAGE // 512
"""Blocks of st_blocks in a page."""


class Budget:
    """How many bytes the overlay may hold."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int, used: int = 0) -> None:
        self.limit = limit
        self.used = used

    def change(self, more: int) -> None:
        """Take `more` bytes (or give them back, if negative); ENOSPC beyond the limit."""
        if more > 0 and self.used + more > self.limit:
            raise Failure(Errno.ENOSPC)
        self.used += more


class Content:
    """Pages over the first `visible` bytes of a host file; what neither has is a hole.

    Pages are immutable, at most PAGE bytes, and zero after their end; copies share them. An empty one is
    reserved: it takes room, but is a hole until it is written to.
    """

    __slots__ = ("_beyond", "_budget", "_pages", "_visible", "size")

    def __init__(self, budget: Budget, size: int = 0) -> None:
        self.size = size
        self._visible = size
        self._pages: dict[int, bytes] = {}
        self._beyond = 0
        self._budget = budget

    def __del__(self) -> None:
        self._budget.used -= sum(_cost(page) for page in self._pages.values())

    def copy(self, budget: Budget) -> Content:
        """An independent copy, for which `budget` counts the bytes already."""
        other = Content(budget, self.size)
        other._visible = self._visible
        other._pages, other._beyond = self._pages.copy(), self._beyond
        return other

    @property
    def blocks(self) -> int:
        """What st_blocks says."""
        return SECTORS * (_pages_of(self._visible) + self._beyond)

    # Bytes

    def read(self, size: int, offset: int, under: Handle | None) -> bytes:
        """Up to `size` bytes at `offset`; `under` is the host file below."""
        end = min(offset + size, self.size)
        parts = []
        while offset < end:
            index, start = divmod(offset, PAGE)
            length = min(PAGE - start, end - offset)
            parts.append(self._page(index, under)[start : start + length].ljust(length, b"\0"))
            offset += length
        return b"".join(parts)

    def write(self, data: bytes, offset: int, under: Handle | None) -> int:
        """Write `data`; how many bytes there was room for. ENOSPC and EFBIG if there was none at all."""
        if offset >= MAX_SIZE:
            raise Failure(Errno.EFBIG)
        data = data[: MAX_SIZE - offset]
        done = 0
        while done < len(data):
            index, start = divmod(offset + done, PAGE)
            piece = data[done : done + PAGE - start]
            old = self._page(index, under) if len(piece) < PAGE else b""
            try:
                self._put(index, old[:start].ljust(start, b"\0") + piece + old[start + len(piece) :])
            except Failure:
                if done:
                    break
                raise
            done += len(piece)
            self.size = max(self.size, offset + done)
        return done

    def truncate(self, size: int) -> None:
        """Cut or extend (with a hole) to `size` bytes."""
        if size > MAX_SIZE:
            raise Failure(Errno.EFBIG)
        index, keep = divmod(size, PAGE)
        if keep and self._pages.get(index):
            self._put(index, self._pages[index][:keep])
        for beyond in [i for i in self._pages if i >= _pages_of(size)]:
            self._drop(beyond)
        self.size = size
        self._show(min(self._visible, size))

    # Holes

    def reserve(self, offset: int, size: int) -> None:
        """Take room for the pages of a range, which may go beyond the end; ENOSPC if there is none."""
        first, end = max(offset // PAGE, _pages_of(self._visible)), _pages_of(offset + size)
        more = max(0, end - first) - sum(first <= index < end for index in self._pages)
        self._budget.change(more * _cost(b""))
        for index in range(first, end) if more else ():
            self._pages.setdefault(index, b"")
        self._beyond += more

    def clear(self, offset: int, size: int, under: Handle | None) -> None:
        """Fill a range with zeros: whole pages become holes. The size stays."""
        self._take_all(under)
        for index in [i for i in self._pages if i * PAGE < offset + size and offset < (i + 1) * PAGE]:
            page = self._pages[index]
            start, stop = max(offset - index * PAGE, 0), min(offset + size - index * PAGE, PAGE)
            if stop - start == PAGE:
                self._drop(index)
            elif start < len(page):
                zeros = bytes(min(stop, len(page)) - start)
                self._put(index, page[:start] + zeros + page[stop:])

    def shift(self, offset: int, by: int, under: Handle | None) -> None:
        """Move what is at `offset` and after it by a number of bytes; all are multiples of PAGE."""
        self._take_all(under)
        first, pages = offset // PAGE, by // PAGE
        for index in [i for i in self._pages if first + pages <= i < first]:
            self._drop(index)
        self._pages = {i + pages if i >= first else i: page for i, page in self._pages.items()}
        self._show(0)
        self.size += by

    def data(self, offset: int) -> int:
        """Where there are bytes from `offset` on; ENXIO if there are none."""
        index = offset // PAGE
        if offset < self._visible or self._pages.get(index):
            return offset
        found = min((i for i, page in self._pages.items() if page and i > index), default=None)
        if found is None or found * PAGE >= self.size:
            raise Failure(Errno.ENXIO)
        return found * PAGE

    def hole(self, offset: int) -> int:
        """Where the first hole from `offset` on is; the end of the file is one."""
        at = offset
        while at < self.size and (at < self._visible or self._pages.get(at // PAGE)):
            at = (at // PAGE + 1) * PAGE
        return min(at, self.size)

    # Inside

    def _page(self, index: int, under: Handle | None) -> bytes:
        page = self._pages.get(index)
        if page is None:
            start = index * PAGE
            length = min(PAGE, self._visible - start)
            page = under.read(length, start) if under and length > 0 else b""
        return page

    def _put(self, index: int, page: bytes) -> None:
        old = self._pages.get(index)
        self._budget.change(_cost(page) - (_cost(old) if old is not None else 0))
        self._beyond += old is None and index >= _pages_of(self._visible)
        self._pages[index] = page

    def _drop(self, index: int) -> None:
        self._budget.used -= _cost(self._pages.pop(index))
        self._beyond -= index >= _pages_of(self._visible)

    def _take_all(self, under: Handle | None) -> None:
        """Copy what is still the host's, so that pages can be missing."""
        for index in range(_pages_of(self._visible)):
            if index not in self._pages:
                self._put(index, self._page(index, under))
        self._show(0)

    def _show(self, visible: int) -> None:
        """Change how much of the host file is visible."""
        self._visible = visible
        self._beyond = sum(index >= _pages_of(visible) for index in self._pages)


def _pages_of(size: int) -> int:
    return (size + PAGE - 1) // PAGE


def _cost(page: bytes) -> int:
    return _OVERHEAD + (len(page) or PAGE)
