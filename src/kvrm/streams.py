"""Standard streams that a caller can give a guest besides files and bytes."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Closed(Enum):
    """The type of `CLOSED`, so that type checkers know it."""

    CLOSED = "closed"

    def __repr__(self) -> str:
        return "kvrm.CLOSED"


CLOSED: Final = Closed.CLOSED
"""As `stdin`, `stdout` or `stderr`: the guest has no such descriptor, and its calls on it return EBADF."""
