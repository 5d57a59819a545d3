"""Python's view of guest memory."""

from __future__ import annotations

from kvrm.errors import UsageError
from kvrm.memory import GuestFault, Memory


class MemoryView:
    """`machine.memory[a:b]`: guest bytes, readable and assignable whatever the guest's permissions.

    An address that is not mapped is a UsageError.
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

    def __setitem__(self, key: int | slice, data: bytes) -> None:
        start, length = _range(key)
        if len(data) != length:
            raise UsageError(f"{len(data)} bytes assigned to {length} bytes of guest memory")
        try:
            self._memory.poke(start, data)
        except GuestFault as fault:
            raise UsageError(f"no guest memory at {fault.address:#x}") from None


def _range(key: int | slice) -> tuple[int, int]:
    if isinstance(key, int):
        return key, 1
    if key.step not in (None, 1) or key.start is None or key.stop is None or not 0 <= key.start <= key.stop:
        raise UsageError("guest memory takes [start:stop] with 0 <= start <= stop")
    return key.start, key.stop - key.start
