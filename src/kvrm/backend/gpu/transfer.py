"""Kernels that copy between what lanes have and arrays with a row or a word for each lane: staged text.

Each is run by one thread for each lane, with the parameter block, the lane's number and three arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvrm.backend.gpu.device_abi import GROUP, LANE_WORDS, PAGES_LEFT, Param
from kvrm.backend.gpu.gather import gather, owned, pages, states
from kvrm.backend.gpu.group_memory import (
    MAPPED,
    OFFSET,
    WORD,
    entry_of,
    give,
    has,
    make_ready,
    own,
    page_of,
    parameter,
    table_of,
    take,
    words_of,
)
from kvrm.backend.gpu.outcome import outcome
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE, AccessKind
from kvrm.staging.device import define_kernel, load, store, store_byte, thread_number
from kvrm.staging.emitter import Module

Text = Callable[[int, int, int, int, int], int]


def begin(params: int, number: int, words: int, _: int, __: int) -> int:
    """Give the lane the words in `words`."""
    to = words_of(params, number)
    for i in range(LANE_WORDS):
        store(to + GROUP * WORD * i, load(words + WORD * i))
    return 0


def put_column(params: int, number: int, offset: int, _: int, column: int) -> int:
    """Give the lane one word, at that offset."""
    return store(words_of(params, number) + GROUP * offset, load(column + WORD * number))


def get_column(params: int, number: int, offset: int, _: int, column: int) -> int:
    """Read it back."""
    return store(column + WORD * number, load(words_of(params, number) + GROUP * offset))


def ready(params: int, number: int, addresses: int, count: int, _: int) -> int:
    """Make the lane's copies of pages."""
    root = parameter(params, Param.ROOT)
    for i in range(count):
        entry = entry_of(root, table_of(params, number), load(addresses + WORD * i))
        make_ready(params, number % GROUP, entry)
    return 0


def put(params: int, number: int, address: int, length: int, rows: int) -> int:
    """Give the lane its own copies of the pages and its row of bytes there, permitted or not.

    A lane for which the pool has no page left stops before it begins.
    """
    lane = number % GROUP
    words = words_of(params, number)
    row = rows + number * length
    done = 0
    while done < length:
        entry = entry_of(parameter(params, Param.ROOT), table_of(params, number), address + done)
        page = own(params, lane, entry, words + GROUP * PAGES_LEFT)
        if page == 0:
            store(words + GROUP * layout.ADDRESS, address + done)
            store(words + GROUP * layout.KIND, AccessKind.WRITE)
            store(words + GROUP * layout.REASON, Reason.MEMORY)
            return 0
        offset = address + done & OFFSET
        size = min(PAGE - offset, length - done)
        give(page, offset, row + done, size)
        done += size
    return 0


def collect(params: int, number: int, address: int, length: int, rows: int) -> int:
    """Copy the lane's bytes to its row; what is not mapped reads as zeros."""
    lane = number % GROUP
    row = rows + number * length
    done = 0
    while done < length:
        entry = entry_of(parameter(params, Param.ROOT), table_of(params, number), address + done)
        offset = address + done & OFFSET
        size = min(PAGE - offset, length - done)
        if has(entry + MAPPED, lane):
            take(page_of(entry, lane), offset, row + done, size)
        else:
            for i in range(size):
                store_byte(row + done + i, 0)
        done += size
    return 0


KERNELS: Final[dict[str, Text]] = {
    text.__name__: text
    for text in (
        begin,
        put_column,
        get_column,
        ready,
        put,
        collect,
        outcome,
        gather,
        states,
        owned,
        pages,
    )
}


def of_lanes(text: Text) -> Callable[[int, int, int, int], int]:
    """For the thread of each lane that there is."""

    def run(params: int, a: int, b: int, c: int) -> int:
        number = thread_number()
        if number < parameter(params, Param.LANES):
            text(params, number, a, b, c)
        return 0

    return run


def build(module: Module) -> None:
    """Emit the kernels."""
    for name, text in KERNELS.items():
        define_kernel(module, name, of_lanes(text))
