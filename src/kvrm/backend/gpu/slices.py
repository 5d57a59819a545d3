"""How many instructions a launch runs, so that it takes about as long as is wanted."""

from __future__ import annotations

FIRST, LONGEST = 1 << 18, 1 << 31
"""Instructions of the first and shortest launch, which no program takes long for, and of the longest: what a
launch grants is below 2^32."""


class Slices:
    """`size` is what the next launch may run, if launches are wanted to take `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.size = FIRST

    def took(self, seconds: float) -> None:
        """A launch of that size took so long."""
        if seconds < self._seconds / 2:
            self.size = min(2 * self.size, LONGEST)
        elif seconds > 2 * self._seconds:
            self.size = max(self.size // 2, FIRST)
