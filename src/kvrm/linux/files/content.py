"""The bytes of a file that the guest has written to."""

from __future__ import annotations

from typing import Final

from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.host import Handle

CHUNK: Final = 16384
_OVERHEAD: Final = 128
MAX_SIZE: Final = 1 << 44
"""Largest size of a file, in bytes; files may have holes, which cost nothing."""


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
    """Bytes in chunks, over the first `visible` bytes of a host file; what neither has is zero.

    Chunks are immutable, at most CHUNK bytes, and zero after their end; copies share them.
    """

    __slots__ = ("_budget", "_chunks", "_visible", "size")

    def __init__(self, budget: Budget, size: int = 0) -> None:
        self.size = size
        self._visible = size
        self._chunks: dict[int, bytes] = {}
        self._budget = budget

    def __del__(self) -> None:
        self._budget.used -= self._cost()

    def copy(self, budget: Budget) -> Content:
        """An independent copy, for which `budget` counts the bytes already."""
        other = Content(budget, self.size)
        other._visible = self._visible
        other._chunks = self._chunks.copy()
        return other

    def read(self, size: int, offset: int, under: Handle | None) -> bytes:
        """Up to `size` bytes at `offset`; `under` is the host file below."""
        end = min(offset + size, self.size)
        parts = []
        while offset < end:
            index, start = divmod(offset, CHUNK)
            length = min(CHUNK - start, end - offset)
            parts.append(self._chunk(index, under)[start : start + length].ljust(length, b"\0"))
            offset += length
        return b"".join(parts)

    def write(self, data: bytes, offset: int, under: Handle | None) -> int:
        """Write `data`; how many bytes there was room for. ENOSPC and EFBIG if there was none at all."""
        if offset + len(data) > MAX_SIZE:
            raise Failure(Errno.EFBIG)
        done = 0
        while done < len(data):
            index, start = divmod(offset + done, CHUNK)
            piece = data[done : done + CHUNK - start]
            old = self._chunk(index, under) if len(piece) < CHUNK else b""
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
        """Cut or extend (with zeros) to `size` bytes."""
        if size > MAX_SIZE:
            raise Failure(Errno.EFBIG)
        if size < self.size:
            index, keep = divmod(size, CHUNK)
            if index in self._chunks:
                self._put(index, self._chunks[index][:keep])
            for beyond in [i for i in self._chunks if i > index]:
                self._budget.used -= _OVERHEAD + len(self._chunks.pop(beyond))
        self.size = size
        self._visible = min(self._visible, size)

    def _chunk(self, index: int, under: Handle | None) -> bytes:
        chunk = self._chunks.get(index)
        if chunk is None:
            start = index * CHUNK
            length = min(CHUNK, self._visible - start)
            chunk = under.read(length, start) if under and length > 0 else b""
        return chunk

    def _put(self, index: int, chunk: bytes) -> None:
        old = self._chunks.get(index)
        self._budget.change(len(chunk) - len(old) if old is not None else len(chunk) + _OVERHEAD)
        self._chunks[index] = chunk

    def _cost(self) -> int:
        return sum(_OVERHEAD + len(chunk) for chunk in self._chunks.values())
