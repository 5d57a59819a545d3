"""The compiled loop of lanes and what Python calls of it; there is one in a process."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable
from typing import Any

from kvrm.backend.cpu import loop, space
from kvrm.backend.cpu.linux import OPERATIONS
from kvrm.backend.cpu.table import NOT_AN_END
from kvrm.lane.stops import Reason
from kvrm.staging import native
from kvrm.staging.kernel import module_text


class LaneLoop:
    """The compiled functions, which take the address of a table. Use `lane_loop()`."""

    def __init__(self) -> None:
        self._loader = native.load_kept("lanes", loop_text)
        words = ctypes.c_int64
        table = ctypes.c_void_p
        self.run = ctypes.CFUNCTYPE(words, table)(self._loader.address("run_lanes"))
        self.reset = ctypes.CFUNCTYPE(words, table)(self._loader.address("reset"))
        self.store_results = ctypes.CFUNCTYPE(words, table, *[words] * 4)(
            self._loader.address("store_results")
        )


def loop_text() -> str:
    """LLVM text of the loop with its system calls."""
    kernels = (space.reset, loop.store_results, loop.run_lanes)
    return module_text("lanes", {kernel.__name__: kernel for kernel in kernels}, OPERATIONS)


@functools.cache
def lane_loop() -> LaneLoop:
    """The process's native loop."""
    return LaneLoop()


def address_of(function: Any) -> int:
    """The host address of a ctypes function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def table_of_ends(ends: Iterable[Reason]) -> bytes:
    """What `Field.ENDS` points to, for the reasons that end a lane."""
    table = bytearray([NOT_AN_END] * 64)
    for reason in ends:
        assert reason.stop is not None
        table[reason] = reason.stop.code
    return bytes(table)
