"""The part of a program that is the same for all its lanes: what it does before it sees any input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux.files.streams import BytesInput
from kvrm.linux.outcome import Outcome, Stopped
from kvrm.linux.syscall_table import TABLE

if TYPE_CHECKING:
    from kvrm.linux.lane import LaneProcess

LONGEST: Final = 1 << 25
"""Instructions that are looked at: some 100 ms."""
_SEE_INPUT: Final = frozenset(["read", "readv", "ioctl"])
_END: Final = frozenset(["exit", "exit_group", "ppoll"])
"""Calls that end it, whatever they are given."""
ENOUGH: Final = Stopped("the next call may see input")


class Startup:
    """What a run needs of a `LaneProcess`; it ends before the first call that may see standard input.

    That is a call that is not staged too: few programs make one before they read, and what it sees is not
    looked at here.
    """

    def __init__(self, process: LaneProcess) -> None:
        self._process = process

    @property
    def due(self) -> int | None:
        """As `LaneProcess.due`."""
        return self._process.due

    def expire(self, retired: int) -> Outcome | None:
        """As `LaneProcess.expire`."""
        return self._process.expire(retired)

    def syscall(self, retired: int) -> Outcome | None:
        """As `LaneProcess.syscall`, or ENOUGH."""
        process = self._process.current()
        call = TABLE.get(process.task.state.words[8] & 0xFFFFFFFF)
        if call is None or not call.resident or call.name in _END:
            return ENOUGH
        if call.name in _SEE_INPUT:
            descriptor = process.descriptors.get(process.task.state.words[0] & 0xFFFFFFFF)
            if descriptor is not None and isinstance(descriptor.file, BytesInput):
                return ENOUGH
        return self._process.syscall(retired)
