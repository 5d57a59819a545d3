"""Addresses that a caller gives. What a guest does with an address is for `Memory` to judge.

The top byte of an address is ignored, as in the guest's own accesses: a pointer from a register can be used
as it is.
"""

from __future__ import annotations

from typing import Any

from kvrm.arguments import integer, shortened, shown
from kvrm.errors import UsageError
from kvrm.memory.faults import untagged
from kvrm.memory.page_table import VA_BITS, VA_END


def address(name: str, value: Any) -> int:
    """An address that guest memory can have, without its tag. Raises UsageError."""
    return span(name, value, 1)[0]


def code_address(name: str, value: Any) -> int:
    """An address that an instruction can have: a multiple of 4, without its tag. Raises UsageError."""
    number = address(name, value)
    if number % 4:
        raise UsageError(f"{name} is {number:#x}; instructions are at multiples of 4")
    return number


def target(name: str, value: Any) -> int:
    """An address that a program can branch to: a multiple of 4, without its tag. Raises UsageError."""
    number = integer(name, value, 0, (1 << 64) - 1)
    if number % 4:
        raise UsageError(f"{name} is {number:#x}; instructions are at multiples of 4")
    return untagged(number)


def span(name: str, start: Any, length: Any) -> tuple[int, int]:
    """The first address of a range, without its tag, and the one after the last. Raises UsageError."""
    first, count = integer(name, start), integer(f"the length at {name}", length, 0)
    plain = untagged(first) if 0 <= first < 1 << 64 else first
    if plain < 0 or plain + count > VA_END:
        end = f" + {_hex(count)}" if count != 1 else ""
        raise UsageError(f"{name} is {_hex(first)}{end}; guest addresses have {VA_BITS} bits")
    return plain, plain + count


def sliced(name: str, key: Any) -> tuple[int, int]:
    """The same for `name[start:stop]`. Raises UsageError."""
    if not isinstance(key, slice) or key.start is None or key.stop is None:
        raise UsageError(f"{name} takes [start:stop], both given, not {shown(key)}")
    if key.step is not None:
        integer(f"{name}'s step", key.step, 1, 1)
    start, stop = integer(f"{name}'s start", key.start), integer(f"{name}'s stop", key.stop)
    if stop < start:
        raise UsageError(f"{name}[{_hex(start)}:{_hex(stop)}]: it takes start <= stop")
    return span(f"{name}'s start", start, stop - start)


def _hex(value: int) -> str:
    return shortened(f"{value:#x}")
