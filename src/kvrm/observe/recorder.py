"""What the guest loads and stores, in order: noted by handlers, and handed out some thousands at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvrm.lane import words as layout
from kvrm.memory.pages import anonymous, host_address
from kvrm.observe.observer import Accesses, AccessObserver, Watched
from kvrm.observe.recording import MOST_ROWS, ROW, WRITE

CHUNK = 1 << 16
"""Instructions between two looks at the buffer: it has room for as many as they can note."""
_ROW = np.dtype([("address", "<u8"), ("slot", "<u8"), ("left", "<u4"), ("what", "<u4")])


class Recorder:
    """A `StagedObserver` that hands the guest's accesses to `observers`.

    An instruction that the host steps (one that is not aligned, or with FPCR set) notes none, nor do calls of
    the system.
    """

    stage = "kvrm.observe.recording:RecordingStage"
    most = CHUNK

    def __init__(self, observers: Sequence[AccessObserver]) -> None:
        self.observers = tuple(observers)
        self._buffer = anonymous(CHUNK * MOST_ROWS * ROW)
        self._start = host_address(self._buffer)
        self._rows = np.frombuffer(self._buffer, _ROW)

    def attach(self, watched: Watched) -> None:
        """The observers look at code, too."""
        self._watched = watched
        for observer in self.observers:
            observer.attach(watched.peek)

    def enter(self) -> None:
        """The buffer is empty."""
        self._watched.state.set(layout.OBSERVED, self._start)

    def leave(self) -> None:
        """Hand out what has been noted."""
        count = (self._watched.state.get(layout.OBSERVED) - self._start) // ROW
        if count:
            accesses = self._accesses(self._rows[:count])
            for observer in self.observers:
                observer.feed(accesses)

    def _accesses(self, rows: npt.NDArray[np.void]) -> Accesses:
        slots, which = np.unique(rows["slot"], return_inverse=True)
        pcs = np.array([self._watched.pc_of(int(slot)) for slot in slots], np.uint64)
        horizon = self._watched.state.get(layout.HORIZON)
        return Accesses(
            pc=pcs[which],
            address=rows["address"] & np.uint64((1 << 56) - 1),
            retired=horizon - rows["left"].astype(np.int64),
            size=(rows["what"] & np.uint32(WRITE - 1)).astype(np.uint8),
            write=rows["what"] >= WRITE,
        )
