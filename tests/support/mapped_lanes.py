"""Files that lanes map, and the operations that map them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cuda_tools import (
    PAGE,
    READ,
    WRITE,
    Op,
    mapping,
    opening,
    result,
    scratch,
)

SHARED, PRIVATE, VALIDATE, FIXED, NO_REPLACE = 1, 2, 3, 0x10, 0x100000
NAMES = {"text": 2 * PAGE + 900, "other": PAGE + 100, "empty": 0, "pages": 2 * PAGE, "large": 9 * PAGE + 1}
"""Files and their sizes; they are opened in this order, as descriptors from 3 on."""
TEXT, OTHER, EMPTY, PAGES, LARGE = range(3, 8)
OPEN = [op for name in NAMES for op in opening(name)]
IN_STEP = (*[20] * 200, None)
"""Budgets with which no lane does two calls while another does none; on a GPU lanes are in step anyway."""
OPENED = 2 * len(NAMES)
"""Operations before those of a test."""
MAPS: list[Op | bytes] = [
    ("umask", 0),
    *opening("/proc/self/maps"),
    ("dup", 20),
    ("read", 3, scratch(3000), 9000),
    ("write", 1, scratch(3000), 9000),
]
"""Has the CPU show all mappings, by descriptor 3."""


def with_files(directory: Path) -> Path:
    """The directory, with the files in it, which have been read once."""
    for name, size in NAMES.items():
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
        (directory / name).write_bytes(data)
        (directory / name).read_bytes()
    return directory


def of_file(fd: int, length: int, prot: int = READ, flags: int = PRIVATE, offset: int = 0) -> Op:
    return "mmap", 0, length, prot, flags, fd, offset


def at(number: int, offset: int = 0) -> int:
    """The result of operation `number` of a test, and something added."""
    return result(OPENED + number, offset)


USE: list[Op | bytes] = [
    of_file(TEXT, 3 * PAGE, READ | WRITE),
    of_file(LARGE, 8 * PAGE, READ, SHARED, PAGE),
    ("store", at(0, PAGE + 70), 5),
    mapping(2 * PAGE),
    ("store", at(3, 100), 6),
    of_file(LARGE, 2 * PAGE, READ | WRITE, PRIVATE, 8 * PAGE),
    ("store", at(5, PAGE + 70), 5),
    ("close", LARGE),
    ("munmap", at(1, 2 * PAGE), PAGE),
    *opening("other"),
    of_file(LARGE, 2 * PAGE, READ | WRITE),
    ("store", at(11, 3), 7),
    ("mprotect", at(1, 6 * PAGE), PAGE, 0),
    ("mprotect", at(1, 6 * PAGE), PAGE, READ),
    ("munmap", at(11), 2 * PAGE),
    of_file(TEXT, 2 * PAGE, READ, SHARED, PAGE),
    ("mprotect", at(0, 2 * PAGE), PAGE, 0),
    ("dup3", OTHER, TEXT, 0),
    of_file(TEXT, 2 * PAGE, READ, SHARED),
]
"""Mappings that come and go, of descriptors that do, too."""
SHOWN: list[Op | bytes] = [
    ("write", 1, at(0), 2 * PAGE),
    ("write", 1, at(1), 2 * PAGE),
    ("write", 1, at(1, 3 * PAGE), 5 * PAGE),
    ("write", 1, at(3), 2 * PAGE),
    ("write", 1, at(5), 2 * PAGE),
    ("write", 1, at(16), 2 * PAGE),
    ("write", 1, at(19), 2 * PAGE),
]


def apart(*ops: list[Op | bytes]) -> list[list[Op | bytes]]:
    """Each lane in a group of its own."""
    return [one for first in ops for one in (first, *[[]] * 31)]
