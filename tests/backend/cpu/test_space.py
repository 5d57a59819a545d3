"""The memory of native lanes: what is compiled does what the same text does as Python."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from mmap import mmap
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from kvrm.backend.cpu import space
from kvrm.backend.cpu.compiled_loop import address_of
from kvrm.backend.cpu.space import MAPPED, PRIVATE
from kvrm.backend.cpu.table import Field
from kvrm.linux.resident.layout import FILE, KEEP, MAP
from kvrm.memory import PAGE, access
from kvrm.memory.pages import HOST, ZERO_PAGE, anonymous, host_address
from kvrm.staging import native
from kvrm.staging.operations import HOST as HOST_OPERATIONS
from kvrm.staging.translation import define
from space_methods import as_space

COUNT = 24
"""Pages of the address space that are looked at."""
FUNCTIONS: list[Callable[..., int]] = [
    space.own,
    access.reach,
    space.peek,
    access.read,
    access.write,
    space.examine,
    space.change,
    space.show,
    space.reset,
]
PYTHON = {function.__name__: function for function in FUNCTIONS}
WORD = ctypes.c_int64
LOADERS: list[native.Loader] = []
"""Code is there as long as its loader."""


@pytest.fixture(scope="module")
def functions() -> dict[str, Callable[..., int]]:
    """The functions in native code, by name; the table is passed as an array."""
    module = ir.Module(name="space")
    for function in FUNCTIONS:
        define(module, function, {**HOST_OPERATIONS, **space.OPERATIONS})
    loader = native.loaded(str(module))
    LOADERS.append(loader)

    def call(function: Callable[..., int], count: int) -> Callable[..., int]:
        signature = ctypes.CFUNCTYPE(WORD, ctypes.c_void_p, *[WORD] * count)
        entry = signature(loader.address(function.__name__))
        return lambda t, *arguments: entry(t.ctypes.data, *arguments)

    return {f.__name__: call(f, f.__code__.co_argcount - 1) for f in FUNCTIONS}


Words = as_space(list, space.OPERATIONS)
"""A table, as Python."""


class Lane:
    """A table with memory behind it: pages of a file, of zeros, of code, and holes."""

    def __init__(self, file: mmap, room: int, left: int) -> None:
        self.table: Any = Words([0] * len(Field))
        self.words = {
            f: np.zeros(2 * COUNT + 200, np.int64) for f in (Field.ENTRIES, Field.ORIGINS, Field.ARENAS)
        }
        self.words |= {f: np.zeros(2 * room, np.int64) for f in (Field.OWNED, Field.CHANGED)}
        self.arena = anonymous(COUNT * PAGE)
        for field, array in self.words.items():
            self.table[field] = array.ctypes.data
        self.words[Field.ARENAS][0] = host_address(self.arena)
        origins = self.words[Field.ORIGINS]
        for index in range(COUNT // 2):
            shown = host_address(file) + PAGE * index if index % 3 else ZERO_PAGE
            origins[index] = shown | MAPPED | (1, 3, 5, 7, 0, 2)[index % 6] | PRIVATE * (index % 4 == 3)
        self.table[Field.ZEROS], self.table[Field.MOVE] = ZERO_PAGE, address_of(ctypes.memmove)
        self.table[Field.OWNED_ROOM] = self.table[Field.CHANGED_ROOM] = room
        self.table[Field.PAGES_LEFT] = self.table[Field.PAGES_MOST] = left

    def facts(self) -> list[object]:
        """All that can be seen, with addresses of this lane's own memory told by their offsets."""
        own = self.words[Field.ARENAS][0]
        entries = [
            e - own if own <= e < own + COUNT * PAGE else e for e in self.words[Field.ENTRIES].tolist()
        ]
        counts = [int(self.table[f]) for f in (Field.OWNED_COUNT, Field.CHANGED_COUNT, Field.PAGES_LEFT)]
        lists = [self.words[f].tolist() for f in (Field.ORIGINS, Field.OWNED, Field.CHANGED)]
        return [entries, counts, lists, self.arena[:]]


def random_call(rng: random.Random, file: int, data: int) -> tuple[str, tuple[int, ...]]:
    """A function's name, and arguments after the table."""
    index = rng.randrange(COUNT - 1)
    address = index * PAGE + rng.choice([0, 5, PAGE - 3, rng.randrange(PAGE)]) | rng.choice(
        [0, 0, 0x5A << 56]
    )
    if address >> 63:
        address -= 1 << 64
    start, end = index * PAGE, PAGE * rng.randrange(index, min(COUNT, index + 4))
    size, content = rng.randrange(1, PAGE + 1), file + PAGE * rng.randrange(4)
    return rng.choice(
        [
            ("reach", (address, rng.choice([1, 2, 4]))),
            ("peek", (address,)),
            ("own", (index % (COUNT // 2) * PAGE,)),
            ("read", (address, size, data)),
            ("write", (address, size, data)),
            ("write", (address, size, data)),
            ("examine", (start, end)),
            ("change", (start, end, rng.choice([0, MAP, MAP | 1, MAP | 3, MAP | KEEP | 1, MAP | KEEP | 3]))),
            (
                "show",
                (
                    start,
                    end,
                    MAP | rng.choice([1, 3]),
                    content,
                    rng.randrange(3 * PAGE),
                    FILE * rng.randrange(2),
                ),
            ),
            *[("reset", ())] * (rng.random() < 0.1),
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_native_code_does_what_python_does(seed: int, functions: dict[str, Callable[..., int]]) -> None:
    rng = random.Random(seed)
    file, data = anonymous(COUNT * PAGE), anonymous(PAGE)
    file[:] = rng.randbytes(COUNT * PAGE)
    room, left = rng.choice([4, 200]), rng.choice([3, 200])
    one, other = Lane(file, 200 + room, left), Lane(file, 200 + room, left)
    other.table = np.array(other.table, np.int64)
    for _ in range(600):
        name, arguments = random_call(rng, host_address(file), host_address(data))
        data[:] = rng.randbytes(PAGE)
        results, seen = [], []
        for lane, call in ((one, PYTHON[name]), (other, functions[name])):
            before = data[:]
            found, own = call(lane.table, *arguments), int(lane.words[Field.ARENAS][0])
            results.append(found - own if own <= found < own + COUNT * PAGE else found)
            seen.append(data[:])
            data[:] = before
        assert results[0] == results[1] and seen[0] == seen[1], (name, arguments)
        assert one.facts() == other.facts(), (name, arguments)


def test_reset_undoes_everything() -> None:
    rng = random.Random(9)
    file, data = anonymous(COUNT * PAGE), anonymous(PAGE)
    file[:] = rng.randbytes(COUNT * PAGE)
    lane = Lane(file, 400, 100)
    begun = lane.words[Field.ORIGINS].copy()
    for _ in range(20):
        for _ in range(40):
            name, arguments = random_call(rng, host_address(file), host_address(data))
            PYTHON[name](lane.table, *arguments)
        space.reset(lane.table)
        assert (lane.words[Field.ORIGINS] == begun).all()
        assert lane.table[Field.PAGES_LEFT] == 100
        for index in range(COUNT):
            entry, origin = int(lane.words[Field.ENTRIES][index]), int(begun[index])
            # what the page table still says is true, and it allows no write
            assert entry == 0 or (entry & -PAGE == origin & -PAGE and entry & 7 == origin & 5)
        assert HOST[ZERO_PAGE : ZERO_PAGE + PAGE].tobytes() == bytes(PAGE)
