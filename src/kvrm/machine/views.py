"""Python's view of guest memory."""

from __future__ import annotations

from typing import Any

from kvrm import arguments
from kvrm.errors import UsageError
from kvrm.memory import PAGE, GuestFault, Memory, Prot, page_up
from kvrm.memory.addresses import address, sliced, span


class MemoryView:
    """`machine.memory[a:b]`: guest bytes, readable and assignable whatever the guest's permissions.

    An address that is not mapped is a UsageError. Its top byte is ignored, as in the guest's accesses.
    """

    __slots__ = ("_memory",)

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __getitem__(self, key: int | slice) -> bytes:
        start, length = _range(key)
        try:
            return self._memory.peek(start, length)
        except GuestFault as fault:
            raise UsageError(f"no guest memory at {fault.address:#x}") from None

    def __setitem__(self, key: int | slice, data: Any) -> None:
        start, length = _range(key)
        data = arguments.data("what is assigned", data)
        if len(data) != length:
            raise UsageError(f"{len(data)} bytes assigned to {length} bytes of guest memory")
        try:
            self._memory.poke(start, data)
        except GuestFault as fault:
            raise UsageError(f"no guest memory at {fault.address:#x}") from None

    def write(self, at: int, data: Any, prot: str) -> None:
        """Assign bytes, mapping the pages that are not there with `prot`, letters of "rwx"."""
        data = arguments.data("data", data)
        start, stop = span("address", at, len(data))
        if not isinstance(prot, str) or set(prot) - set("rwx"):
            raise UsageError(f"prot is {arguments.shown(prot)}; it takes letters of rwx")
        wanted = sum((Prot[c.upper()] for c in set(prot)), Prot(0))
        reached, end = start & -PAGE, page_up(stop)
        for region in [*self._memory.regions(), None]:
            low, high = (end, end) if region is None else (region.start, region.end)
            if reached < min(low, end):
                self._memory.map(reached, min(low, end) - reached, wanted)
            reached = max(reached, high)
        self._memory.poke(start, data)


def _range(key: int | slice) -> tuple[int, int]:
    """First address and length."""
    if not isinstance(key, slice):
        return address("guest memory's address", key), 1
    start, stop = sliced("guest memory", key)
    return start, stop - start
