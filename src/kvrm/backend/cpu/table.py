"""The words that native code on the host runs lanes by: what it knows of a worker and its present lane."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, c_uint64
from enum import IntEnum, auto
from typing import Any

import numpy as np

from kvrm.lane.words import REGISTERS, words_of
from kvrm.machine.lanes_results import Outputs
from kvrm.memory.regions import pieces


class Field(IntEnum):
    """The table's words. What ends in S is the address of rows or an array, the number of rows after.

    A row of words each: REGISTERS source, stride, offset in the state; INPUTS source, stride, guest address,
    length within its page; KEPT destination, stride, offset in the state; COLLECTED destination, stride,
    guest address, length within its page; CHUNKS address of predecoded pages that lie one after another.
    """

    STATE = 0
    SAVED = auto()  # the snapshot's architectural state
    PC = auto()
    START = auto()  # retired count from which lanes are counted
    BEGUN = auto()  # retired count at which they begin here: of the snapshot
    BUDGET = auto()  # instructions that a lane may run
    SLICE = auto()  # instructions left until Python wants to look
    ENTER = auto()  # the engine's entry
    MOVE = auto()  # the C library's memmove
    ENDS = auto()  # a byte for each `Reason`: the code of the stop, or NOT_AN_END
    CANCEL = auto()  # address of a word: not 0 to return
    COUNTERS = auto()  # address of counts: here of retired instructions, for `Answers` of calls by number
    PHASE = auto()  # what the present lane does next (`Phase`)
    LEFT = auto()  # of its budget, apart from what it was granted
    REPORTED = auto()  # instructions of the present lane that have been counted
    # lanes
    ORDER = auto()  # numbers of the lanes to run
    NEXT = auto()  # index in ORDER, of the present lane when the function returns
    END = auto()
    # results, arrays by lane
    STOP = auto()  # bytes
    RETIRED = auto()
    STOPPED_AT = auto()  # pc
    EXIT_CODE = auto()  # 16 bits
    SIGNAL = auto()  # bytes; faults from here on
    FAULT_ADDRESS = auto()
    FAULT_KIND = auto()  # bytes
    FAULT_MAPPED = auto()  # bytes
    # rows
    REGISTERS = auto()
    REGISTERS_COUNT = auto()
    INPUTS = auto()
    INPUTS_COUNT = auto()
    KEPT = auto()
    KEPT_COUNT = auto()
    COLLECTED = auto()
    COLLECTED_COUNT = auto()
    CHUNKS = auto()
    CHUNKS_COUNT = auto()
    # memory (`kvrm.backend.cpu.space`)
    ENTRIES = auto()  # the page table
    ORIGINS = auto()  # a word for each page of guest addresses
    ARENAS = auto()  # a word for each GiB of guest addresses: where own pages lie, or 0
    ZEROS = auto()  # the page of zeros
    PAGES_LEFT = auto()  # pages of its own that the lane may still get
    PAGES_MOST = auto()  # that a lane may get
    OWNED = auto()  # array: numbers of pages that the lane got its own copy of
    OWNED_COUNT = auto()
    OWNED_ROOM = auto()
    CHANGED = auto()  # array: number and origin of each page that the lane mapped otherwise, as it was before
    CHANGED_COUNT = auto()
    CHANGED_ROOM = auto()
    # the process (`kvrm.linux.resident`); PROCESS is 0 on a bare machine
    PROCESS = auto()  # words that are the same for all lanes
    WORDS = auto()  # the present lane's own
    FIRST_WORDS = auto()  # what each lane begins with
    WORDS_SIZE = auto()  # bytes of either
    TEXT_STARTS = auto()  # array by lane, address of its standard input; 0: all have the same
    TEXT_LENGTHS = auto()
    WRITTEN = auto()  # array by index in ORDER: bytes on standard output and error
    OUTPUT_END = auto()  # where the buffer of standard output must not be entered any more; error's after it
    ERROR_END = auto()


class Phase(IntEnum):
    """What the present lane does next."""

    FRESH = 0
    RUN = 1
    CALL = 2
    """The system call that it has arrived at."""
    LEFT = 3
    """What it has left native code for."""


class Verdict(IntEnum):
    """Why `run_lanes` returned."""

    DONE = 0
    HOST = 1
    """Python runs the present lane to its end."""
    SERVE = 2
    """The engine must predecode a page or make a handler for the present lane, which then goes on."""
    CANCELLED = 3
    PAUSE = 4
    """The slice is used up, or the room for output."""
    ASKED = 5
    """The present lane's call goes on once the host has answered about a file."""


NOT_AN_END = 255


class Table:
    """`table[field]` is what native code reads; arrays are kept for as long as one of these points there."""

    def __init__(self) -> None:
        self._words = (c_uint64 * len(Field))()
        self.address = addressof(self._words)
        self._arrays: dict[Field, Any] = {}

    def __getitem__(self, field: Field) -> int:
        return self._words[field]

    def __setitem__(self, field: Field, value: int) -> None:
        self._words[field] = value

    def point(self, field: Field, array: Any) -> None:
        """Have a field point to an array."""
        self._arrays[field] = array
        self._words[field] = array.ctypes.data

    def point_to_rows(self, field: Field, rows: Sequence[tuple[int, ...]] | Sequence[int]) -> None:
        """Have a field point to rows of words, and the next one count them."""
        self.point(field, np.array(rows, np.uint64))
        self._words[field + 1] = len(rows)

    def point_to_outputs(self, out: Outputs) -> None:
        """Have results go to these arrays."""
        arrays = {
            Field.STOP: out.stop,
            Field.RETIRED: out.retired,
            Field.STOPPED_AT: out.pc,
            Field.EXIT_CODE: out.exit_code,
            Field.SIGNAL: out.signal,
            Field.FAULT_ADDRESS: out.fault_address,
            Field.FAULT_KIND: out.fault_kind,
            Field.FAULT_MAPPED: out.fault_mapped,
        }
        for field, array in arrays.items():
            self.point(field, array)
        kept = []
        for name, values in out.registers.items():
            size = 8 * words_of(name)
            kept += [(values.ctypes.data + i, size, REGISTERS[name] + i) for i in range(0, size, 8)]
        self.point_to_rows(Field.KEPT, kept)
        collected = []
        for (start, stop), rows in out.memory.items():
            for address, done, size in pieces(start, stop - start):
                collected.append((rows.ctypes.data + done, stop - start, address, size))
        self.point_to_rows(Field.COLLECTED, collected)
