"""A lane on the device as staged system calls see it: by the words that its thread gives them (`Here`)."""

from __future__ import annotations

from enum import IntEnum, auto

from kvrm.backend.gpu import group_memory, ranges
from kvrm.backend.gpu.device_abi import GROUP, LINUX, PAGES_LEFT
from kvrm.lane import words as layout
from kvrm.linux.resident import of_words
from kvrm.linux.resident.lane_view import Lane
from kvrm.staging.device import DEVICE
from kvrm.staging.host import load, store
from kvrm.staging.kernel import Array
from kvrm.staging.operations import Operations, standing_for


class Here(IntEnum):
    """What a thread knows of its lane."""

    STATE = 0  # where the lane's state is while it runs
    REGISTERS = auto()  # where its general registers are
    PARAMS = auto()
    RETIRED = auto()  # instructions
    PROCESS = auto()  # what Param.PROCESS is
    WORDS = auto()  # where the first of its words is among those of its group
    NUMBER = auto()  # of the lane
    TABLE = auto()  # the group's page table
    LANE = auto()  # the number in the group


def x(t: Array, number: int) -> int:
    """A general register."""
    return load(t[Here.REGISTERS] + 8 * number)


def put_x(t: Array, number: int, value: int) -> int:
    """Set a general register."""
    return store(t[Here.REGISTERS] + 8 * number, value)


def end(t: Array, code: int) -> int:
    """Note the exit code."""
    return store(t[Here.STATE] + layout.ADDRESS, code)


def retired(t: Array) -> int:
    """Instructions that the lane has retired."""
    return t[Here.RETIRED]  # type: ignore[no-any-return]


def word(t: Array, index: int) -> int:
    """One of the lane's own words: those of a group lie side by side."""
    return load(t[Here.WORDS] + 8 * GROUP * (LINUX + index))


def put(t: Array, index: int, value: int) -> int:
    """Set one of them."""
    return store(t[Here.WORDS] + 8 * GROUP * (LINUX + index), value)


def fixed(t: Array, word: int) -> int:
    """One of the words that are the same for all lanes."""
    return load(t[Here.PROCESS] + 8 * word)


def place(t: Array, word: int) -> int:
    """The address of one of them."""
    return t[Here.PROCESS] + 8 * word  # type: ignore[no-any-return]


def part(t: Array, base: int, size: int, at: int) -> int:
    """A byte of the lane's part of a buffer."""
    return base + t[Here.NUMBER] * size + at  # type: ignore[no-any-return]


def read(t: Array, address: int, size: int, to: int) -> int:
    """Copy from the guest."""
    return group_memory.read_slow(
        t[Here.STATE], t[Here.PARAMS], t[Here.TABLE], t[Here.LANE], address, size, to
    )


def write(t: Array, address: int, size: int, source: int) -> int:
    """Copy to the guest."""
    return group_memory.write_slow(
        t[Here.STATE], t[Here.PARAMS], t[Here.TABLE], t[Here.LANE], address, size, source
    )


def examine(t: Array, start: int, end: int) -> int:
    """What the pages of a range are."""
    return ranges.examine(t[Here.PARAMS], t[Here.TABLE], t[Here.LANE], start, end)


def change(t: Array, start: int, end: int, become: int) -> int:
    """Set what the pages of a range are."""
    left = t[Here.STATE] + PAGES_LEFT
    return ranges.change(t[Here.PARAMS], t[Here.TABLE], t[Here.LANE], start, end, become, left)


def show(t: Array, start: int, end: int, become: int, content: int, size: int, rest: int) -> int:
    """Map pages; 0 if one of them shows something else to another lane."""
    left = t[Here.STATE] + PAGES_LEFT
    return ranges.show(
        t[Here.PARAMS], t[Here.TABLE], t[Here.LANE], start, end, become, left, content, size, rest
    )


OPERATIONS: Operations = {
    **DEVICE,
    **of_words.OPERATIONS,
    **standing_for(
        Lane, x, put_x, end, retired, word, put, fixed, place, part, read, write, examine, change, show
    ),
}
"""What stands for operations in the system calls of a kernel."""
