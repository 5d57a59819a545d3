"""The interpreter with handlers that record: what the guest loads and stores, in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.interpreter.recording import MOST_ROWS, ROW, WRITE
from kvrm.isa.features import CORTEX_A76
from kvrm.machine import state as layout
from kvrm.machine.state import State
from kvrm.memory import Memory
from kvrm.memory.pages import anonymous, host_address
from kvrm.observe.observer import Accesses, AccessObserver

CHUNK = 1 << 16
"""Instructions between two looks at the buffer: it has room for as many as they can note."""
_ROW = np.dtype([("address", "<u8"), ("slot", "<u8"), ("left", "<u4"), ("what", "<u4")])


class Recorder(Interpreter):
    """`Interpreter` that hands the guest's accesses to `sink`, some thousands at a time.

    An instruction that the host steps (one that is not aligned, or with FPCR set) notes none, nor do calls of
    the system.
    """

    records = True

    def __init__(self, state: State, memory: Memory, features: frozenset[str] = CORTEX_A76) -> None:
        super().__init__(state, memory, features)
        self.sink: Callable[[Accesses], None] = lambda accesses: None
        self._buffer = anonymous(CHUNK * MOST_ROWS * ROW)
        self._rows = np.frombuffer(self._buffer, _ROW)

    def watch_by(self, watch: AccessObserver) -> None:
        """Hand the accesses to `watch`, which looks at code, too."""
        watch.attach(self._memory.peek)
        self.sink = watch.feed

    def _enter(self, budget: int) -> None:
        budget, start = min(budget, CHUNK), host_address(self._buffer)
        self._state.set(layout.RECORD, start)
        super()._enter(budget)
        count = (self._state.get(layout.RECORD) - start) // ROW
        if count:
            self.sink(self._accesses(self._rows[:count]))

    def _accesses(self, rows: npt.NDArray[np.void]) -> Accesses:
        slots, which = np.unique(rows["slot"], return_inverse=True)
        pcs = np.array([self._pool.pc_of(int(slot)) for slot in slots], np.uint64)
        horizon = self._state.get(layout.HORIZON)
        return Accesses(
            pc=pcs[which],
            address=rows["address"] & np.uint64((1 << 56) - 1),
            retired=horizon - rows["left"].astype(np.int64),
            size=(rows["what"] & np.uint32(WRITE - 1)).astype(np.uint8),
            write=rows["what"] >= WRITE,
        )
