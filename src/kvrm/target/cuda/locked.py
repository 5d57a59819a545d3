"""Copies of what lanes begin with in page-locked host memory, from where the device fetches it quickest."""

from __future__ import annotations

import ctypes
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

MOST = 2 << 30
"""Bytes that are locked at most; what is more is in usual memory."""


class LockedMemory:
    """Blocks that `lock` gives (address of so many bytes, 0: none); given back, one is used again."""

    def __init__(self, lock: Callable[[int], int], free: Callable[[int], None]) -> None:
        self._lock, self._free = lock, free
        self._spare: defaultdict[int, list[int]] = defaultdict(list)
        self._bytes = 0

    def copied(self, array: npt.NDArray[Any]) -> Any:
        """A contiguous copy."""
        address = self._take(array.nbytes)
        if not address:
            return np.array(array, order="C")
        block = (ctypes.c_uint8 * array.nbytes).from_address(address)
        weakref.finalize(block, self._give_back, array.nbytes, address).atexit = False
        copy = np.frombuffer(memoryview(block), array.dtype).reshape(array.shape)
        copy[...] = array
        return copy

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
