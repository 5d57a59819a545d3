"""Kernels that bring together what some of the lanes have, for the host to read in one go: staged text.

`places` is a word for each lane and one more: where what the lane has goes, and where that ends; a lane whose
two are equal is left out.
"""

from __future__ import annotations

from typing import Final

from kvrm.backend.gpu.device_abi import GROUP, Param
from kvrm.backend.gpu.group_memory import (
    ENTRY_BYTES,
    OWN,
    OWN_STRIDE,
    WORD,
    has,
    page_of,
    parameter,
    table_of,
    words_of,
)
from kvrm.memory import PAGE
from kvrm.staging.device import copy_words, load, load_byte, store, store_byte

ROW_WORDS: Final = 1 + PAGE // WORD
"""Words of a row of `pages`."""


def gather(params: int, number: int, sources: int, places: int, to: int) -> int:
    """Copy bytes from the address that the lane has in `sources`."""
    source = load(sources + WORD * number)
    first = load(places + WORD * number)
    for i in range(load(places + WORD * number + WORD) - first):
        store_byte(to + first + i, load_byte(source + i))
    return 0


def states(params: int, number: int, _: int, places: int, to: int) -> int:
    """Copy all words of the lane."""
    source = words_of(params, number)
    first = load(places + WORD * number)
    for i in range(load(places + WORD * number + WORD) - first):
        store(to + WORD * (first + i), load(source + GROUP * WORD * i))
    return 0


def owned(params: int, number: int, _: int, __: int, column: int) -> int:
    """Count the pages that the lane has its own copy of."""
    count = 0
    table = table_of(params, number)
    for index in range(parameter(params, Param.TABLE_BYTES) // ENTRY_BYTES):
        count += has(table + ENTRY_BYTES * index + OWN, number % GROUP)
    return store(column + WORD * number, count)


def pages(params: int, number: int, rows: int, places: int, to: int) -> int:
    """Copy each page that the lane has its own copy of to a row: the index of its entry, and its words.

    Rows whose places are not in [0, `rows`) are left out.
    """
    row = load(places + WORD * number)
    if row == load(places + WORD * number + WORD):
        return 0
    table = table_of(params, number)
    for index in range(parameter(params, Param.TABLE_BYTES) // ENTRY_BYTES):
        entry = table + ENTRY_BYTES * index
        if has(entry + OWN, number % GROUP):
            if 0 <= row < rows:
                there = to + WORD * ROW_WORDS * row
                store(there, index)
                source = page_of(entry, number % GROUP) & -2
                copy_words(there + WORD, WORD, source, OWN_STRIDE, PAGE // WORD)
            row += 1
    return 0
