"""Which execution class each of the 2^32 words belongs to: a total function, made of the definitions.

A definition says the class of its words (`Definition.execution`). Twenty bits of a word, 31:19 and 16:10,
decide it: no two definitions of different classes share them in any of their allocated words, which is
checked exactly when this table is made.

A word that is not allocated has no definition, and stops as undefined in any class. It goes where its
neighbours go: the words with a definition whose deciding bits differ from its own in as few as it takes of
NEAREST, from the front. If these have several classes, or if no definition has its top byte, it is SYSTEM.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from kvrm.isa.definition import Definition, DefinitionError, Execution, definitions
from kvrm.isa.encoding import Cube

Words = npt.NDArray[np.uint32]
Classes = npt.NDArray[np.uint8]

TOP_BITS = tuple(range(31, 23, -1))
SIDE_BITS = (23, 22, 21, 20, 19, 16, 15, 14, 13, 12, 11, 10)
CLASS_BITS = TOP_BITS + SIDE_BITS
"""The bits that decide, highest first."""
NEAREST = (20, 19, 16, 22, 23, 12, 13, 14, 15, 10, 11, 21)
"""The side bits in the order in which neighbours may differ: registers, sizes, opcodes, encoding groups."""
CELLS = 1 << len(CLASS_BITS)
WORDS_PER_CELL = (1 << 32) // CELLS
FREE = len(Execution)
"""Instead of a class: no definition has such a word."""


def cells_of(words: Words) -> Words:
    """The deciding bits of words (uint32, any shape) as a number below CELLS; same shape and type."""
    return words >> np.uint32(19) << np.uint32(7) | words >> np.uint32(10) & np.uint32(0x7F)


def words_of(cells: Words) -> Words:
    """A word with the deciding bits of each cell (uint32, any shape), the others zero; same shape."""
    return cells >> np.uint32(7) << np.uint32(19) | (cells & np.uint32(0x7F)) << np.uint32(10)


def class_table(bits: tuple[int, ...] = CLASS_BITS) -> Classes:
    """For each value of `bits` (highest first), the class of all definitions that have such words, or FREE.

    Exact: the allocated words of a definition are a union of cubes, and all words of a cube are looked at.
    DefinitionError names two definitions that differ in class and not in `bits`.
    """
    table = np.full((2,) * len(bits), FREE, np.uint8)
    for definition in _registered():
        for cube in definition.cubes():
            part = table[_projected(cube, bits)]
            if ((part != FREE) & (part != definition.execution)).any():
                raise DefinitionError(_conflict(definition, cube, bits))
            part[...] = definition.execution
    return table.reshape(-1)


def allocated_words() -> npt.NDArray[np.int64]:
    """How many words of each cell definitions allocate, exactly."""
    counts = np.zeros((2,) * len(CLASS_BITS), np.int64)
    decided = sum(1 << b for b in CLASS_BITS)
    for definition in _registered():
        for cube in definition.cubes():
            counts[_projected(cube, CLASS_BITS)] += 1 << 32 - (cube.mask | decided).bit_count()
    return counts.reshape(-1)


def _registered() -> list[Definition]:
    """All definitions; the import comes late, because definitions import this module."""
    import kvrm.isa.a64  # noqa: F401 - importing it registers them

    return definitions


def _projected(cube: Cube, bits: tuple[int, ...]) -> tuple[slice, ...]:
    """Where the words of a cube are in an array with an axis for each bit."""
    ones = [cube.value >> b & 1 for b in bits]
    free = [not cube.mask >> b & 1 for b in bits]
    return tuple(slice(None) if f else slice(one, one + 1) for f, one in zip(free, ones, strict=True))


def _conflict(definition: Definition, cube: Cube, bits: tuple[int, ...]) -> str:
    seen = Cube(sum(1 << b for b in bits), 0)
    for other in definitions:
        for theirs in other.cubes():
            mask = seen.mask & cube.mask & theirs.mask
            if other.execution != definition.execution and not (cube.value ^ theirs.value) & mask:
                return (
                    f"{definition.source}: {definition.name} is {definition.execution.name} and {other.name} "
                    f"({other.source}) is {other.execution.name}, but the bits that decide do not differ"
                )
    raise AssertionError("a conflict has two sides")


@functools.cache
def classes() -> Classes:
    """The class of each cell: CELLS bytes, read-only."""
    bits = TOP_BITS + NEAREST[::-1]
    allocated = class_table(bits)
    table = allocated.copy()
    for differ in range(1, len(NEAREST) + 1):
        neighbours = allocated.reshape(-1, 1 << differ)
        lowest, highest = neighbours.min(axis=1), np.where(neighbours == FREE, 0, neighbours).max(axis=1)
        agreed = np.where((lowest == highest) | (lowest == FREE), lowest, np.uint8(Execution.SYSTEM))
        table = np.where(table == FREE, agreed.repeat(1 << differ), table)
    table[table == FREE] = Execution.SYSTEM
    axes = [bits.index(b) for b in CLASS_BITS]
    ordered = np.ascontiguousarray(table.reshape((2,) * len(bits)).transpose(axes)).reshape(-1)
    ordered.flags.writeable = False
    return ordered


def execution_of(words: Words) -> Classes:
    """The class of each word (uint32, any shape); same shape."""
    return classes()[cells_of(words)]
