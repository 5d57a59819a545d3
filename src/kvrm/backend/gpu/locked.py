"""Arrays in page-locked host memory, which the device fetches and fills quickest."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

MOST = 2 << 30
"""Bytes that are locked at most; what is more is in usual memory. Locked pages are taken from all other
processes of the host."""


class LockedMemory:
    """Blocks that `lock` gives (address of that many bytes, 0: none); given back, one is used again."""

    def __init__(self, lock: Callable[[int], int], free: Callable[[int], None]) -> None:
        self._lock, self._free = lock, free
        self._spare: defaultdict[int, list[int]] = defaultdict(list)
        self._bytes = 0

    def copied(self, array: npt.NDArray[Any]) -> Any:
        """A contiguous copy."""
        copy = self.empty(array.shape, array.dtype)
        copy[...] = array
        return copy

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
        """An array of anything."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        address = self._take(size)
        if not address:
            return np.empty(shape, dtype)
        block = (ctypes.c_uint8 * size).from_address(address)
        weakref.finalize(block, self._give_back, size, address).atexit = False
        return np.frombuffer(memoryview(block), dtype).reshape(shape)

    def _take(self, size: int) -> int:
        if not size:
            return 0
        if not self._spare[size] and self._bytes + size > MOST:
            self._free_spare()
        if self._spare[size]:
            return self._spare[size].pop()
        address = self._lock(size) if self._bytes + size <= MOST else 0
        self._bytes += size if address else 0
        return address

    def _give_back(self, size: int, address: int) -> None:
        self._spare[size].append(address)

    def _free_spare(self) -> None:
        for size, blocks in self._spare.items():
            self._bytes -= size * len(blocks)
            for address in blocks:
                self._free(address)
            blocks.clear()
