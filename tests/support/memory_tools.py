"""What the tests of guest memory share."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import pytest

from kvrm.memory import PAGE, VA_BITS, AccessKind, GuestFault, Memory, Prot

READ, WRITE, FETCH = AccessKind.READ, AccessKind.WRITE, AccessKind.FETCH
R, RW, RX, RWX = Prot.R, Prot.R | Prot.W, Prot.R | Prot.X, Prot(7)
VA_END = 1 << VA_BITS
BASE = 0x400000
TEXT = bytes(random.Random(1).randbytes(3 * PAGE - 100))


def entry(memory: Memory, address: int) -> int:
    """The page table entry as native code finds it."""
    index = ((address << 8) & (1 << 64) - 1) >> 20
    return ctypes.c_uint64.from_address(memory.table_address + 8 * index).value


def host(memory: Memory, address: int) -> int:
    return entry(memory, address) & -PAGE


def fault_of(action: Callable[..., object], *arguments: object) -> tuple[int, AccessKind, bool]:
    with pytest.raises(GuestFault) as caught:
        action(*arguments)
    return caught.value.address, caught.value.kind, caught.value.mapped
