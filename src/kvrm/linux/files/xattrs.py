"""Extended attributes, which stay in memory: those of the host's files are neither seen nor changed."""

from __future__ import annotations

from typing import Final

from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.content import Budget
from kvrm.linux.layout import FileId

_OVERHEAD: Final = 128


class Xattrs:
    """Values by file and name; `budget` pays for them."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._files: dict[FileId, dict[bytes, bytes]] = {}

    def copy(self, budget: Budget) -> Xattrs:
        """An independent copy, for which `budget` counts the bytes already."""
        other = Xattrs(budget)
        other._files = {file: values.copy() for file, values in self._files.items()}
        return other

    def of(self, file: FileId) -> dict[bytes, bytes]:
        """The attributes of a file; not to be changed."""
        return self._files.get(file, {})

    def set(self, file: FileId, name: bytes, value: bytes) -> None:
        """Set an attribute; ENOSPC if the overlay is full."""
        old = self.of(file).get(name)
        self._budget.change(_cost(name, value) - (_cost(name, old) if old is not None else 0))
        self._files.setdefault(file, {})[name] = value

    def remove(self, file: FileId, name: bytes) -> None:
        """Remove an attribute; ENODATA if there is none of that name."""
        value = self._files.get(file, {}).pop(name, None)
        if value is None:
            raise Failure(Errno.ENODATA)
        self._budget.change(-_cost(name, value))

    def drop(self, file: FileId) -> None:
        """The file is gone."""
        for name, value in self._files.pop(file, {}).items():
            self._budget.change(-_cost(name, value))


def _cost(name: bytes, value: bytes) -> int:
    return _OVERHEAD + len(name) + len(value)
