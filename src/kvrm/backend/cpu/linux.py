"""The present lane of a table (`kvrm.backend.cpu.table`), as staged system calls see it, and their code."""

from __future__ import annotations

from kvrm.backend.cpu import loop, space
from kvrm.backend.cpu.table import Field
from kvrm.lane import words as layout
from kvrm.linux.resident import of_words
from kvrm.linux.resident.dispatch import resident
from kvrm.linux.resident.lane_view import Lane
from kvrm.memory import access
from kvrm.staging.host import load, store
from kvrm.staging.kernel import Array
from kvrm.staging.operations import HOST, Operations, standing_for


def x(t: Array, number: int) -> int:
    """A general register."""
    return load(t[Field.STATE] + 8 * number)


def put_x(t: Array, number: int, value: int) -> int:
    """Set a general register."""
    return store(t[Field.STATE] + 8 * number, value)


def end(t: Array, code: int) -> int:
    """Note the exit code."""
    return store(t[Field.STATE] + layout.ADDRESS, code)


def retired(t: Array) -> int:
    """Instructions that the lane has retired."""
    return load(t[Field.STATE] + layout.HORIZON) - load(t[Field.STATE] + layout.REMAINING)


def word(t: Array, index: int) -> int:
    """One of the lane's own words."""
    return load(t[Field.WORDS] + 8 * index)


def put(t: Array, index: int, value: int) -> int:
    """Set one of them."""
    return store(t[Field.WORDS] + 8 * index, value)


def fixed(t: Array, word: int) -> int:
    """One of the words that are the same for all lanes."""
    return load(t[Field.PROCESS] + 8 * word)


def place(t: Array, word: int) -> int:
    """The address of one of them."""
    return t[Field.PROCESS] + 8 * word  # type: ignore[no-any-return]


def part(t: Array, base: int, size: int, at: int) -> int:
    """A byte of a buffer: the worker's, for its lanes run one after another."""
    return base + at


OPERATIONS: Operations = {
    **HOST,
    loop.resident: resident,
    **standing_for(Lane, x, put_x, end, retired, word, put, fixed, place, part),
    **space.OPERATIONS,
    **of_words.OPERATIONS,
    Lane.read: access.read,
    Lane.write: access.write,
    **standing_for(Lane, space.examine, space.change, space.show),
}
"""What stands for operations in the loop of lanes on the host."""
