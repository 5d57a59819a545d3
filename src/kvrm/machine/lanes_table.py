"""The table that native code runs lanes by (`kvrm.engine.lane_loop`), with the arrays that it points to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import addressof, c_uint64
from typing import Any

import numpy as np

from kvrm.engine.lane_loop import Word
from kvrm.machine.lanes_inputs import offset_of, words_of
from kvrm.machine.lanes_results import Outputs
from kvrm.memory import PAGE


class LaneTable:
    """`table[word]` is what native code reads; arrays are kept for as long as one of these points there."""

    def __init__(self) -> None:
        self._words = (c_uint64 * len(Word))()
        self.address = addressof(self._words)
        self._arrays: dict[Word, Any] = {}

    def __getitem__(self, word: Word) -> int:
        return self._words[word]

    def __setitem__(self, word: Word, value: int) -> None:
        self._words[word] = value

    def point(self, word: Word, array: Any) -> None:
        """Have a word point to an array."""
        self._arrays[word] = array
        self._words[word] = array.ctypes.data

    def point_to_rows(self, word: Word, rows: Sequence[tuple[int, ...]]) -> None:
        """Have a word point to rows of words, and the next one count them."""
        self.point(word, np.array(rows, np.uint64))
        self._words[word + 1] = len(rows)

    def point_to_outputs(self, out: Outputs, page_table: int) -> None:
        """Have results go to these arrays, kept memory from pages that the host's page table leads to."""
        arrays = {
            Word.STOP: out.stop,
            Word.RETIRED: out.retired,
            Word.STOPPED_AT: out.pc,
            Word.SIGNAL: out.signal,
            Word.FAULT_ADDRESS: out.fault_address,
            Word.FAULT_KIND: out.fault_kind,
            Word.FAULT_MAPPED: out.fault_mapped,
        }
        for word, array in arrays.items():
            self.point(word, array)
        kept = []
        for name, values in out.registers.items():
            size = 8 * words_of(name)
            kept += [(values.ctypes.data + i, size, offset_of(name) + i) for i in range(0, size, 8)]
        self.point_to_rows(Word.KEPT, kept)
        collected = []
        for (start, stop), rows_of in out.memory.items():
            for address, done, size in pieces(start, stop):
                entry = page_table + 8 * (address // PAGE)
                collected.append((rows_of.ctypes.data + done, stop - start, entry, address % PAGE, size))
        self.point_to_rows(Word.COLLECTED, collected)


def pieces(start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Cut a range of addresses at page ends: address, bytes before it, bytes in it."""
    at = start
    while at < stop:
        size = min(PAGE - at % PAGE, stop - at)
        yield at, at - start, size
        at += size
