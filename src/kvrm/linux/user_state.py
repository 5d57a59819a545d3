"""What Linux needs of a lane's registers."""

from __future__ import annotations

from typing import Any, Protocol


class State(Protocol):
    """The registers that a system call reads and writes (`kvrm.lane.state.State` has them)."""

    @property
    def words(self) -> Any:
        """A buffer of 64-bit words, x0 and so on first, that can be indexed and assigned to."""

    pc: int
    sp: int
