"""What the interpreter asks of the component that skips loops (`kvrm.loops.sites`)."""

from __future__ import annotations

from typing import Protocol


class Skipping(Protocol):
    """Puts handlers into slots of its choice, and is told when these are laid out anew."""

    def sampled(self, pc: int) -> None:
        """Control was at `pc` when a slice ended."""

    def forget(self, page: int) -> None:
        """The slots of this page are empty, or gone."""
