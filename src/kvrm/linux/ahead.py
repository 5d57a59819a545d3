"""The next bytes of a file that the guest reads in small pieces, for native code to give to it.

Shells and hash programs read byte by byte or page by page. From the second such `read` on, the file's next
bytes are where native code finds them (`kvrm.engine.interpreter.answers`). Whatever else a program asks its
Linux for first takes back what was not read: only then can the file or its offset be seen.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any, Final

from kvrm.linux.abi import NR_PPOLL, NR_READ
from kvrm.linux.errno import Failure
from kvrm.machine import state as layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvrm.linux.files.regular import GuestFile
    from kvrm.linux.process import Process

LARGEST_READ: Final = 4096
SIZE: Final = 1 << 16
"""Bytes read ahead."""
_READS, _POLLS = (NR_READ, layout.AHEAD_READS), (NR_PPOLL, layout.AHEAD_POLLS)


class Ahead:
    """What is read ahead, of one file at most; `words` are those of the machine's state."""

    def __init__(self, words: Any) -> None:
        self._words = words
        self._file: GuestFile | None = None
        self._last: Callable[[], GuestFile | None] = lambda: None
        self._data = ctypes.create_string_buffer(SIZE)
        self._size = 0
        self._set(layout.AHEAD_COPY, ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0)

    def begin(self, process: Process, fd: int, file: GuestFile) -> None:
        """The guest has read a little of a file: if it did so before, read ahead."""
        if file is not self._last():
            self._last = weakref.ref(file)
            return
        try:
            data = file.pread(process, SIZE, file.offset)
        except (Failure, OSError):
            return
        ctypes.memmove(self._data, data, len(data))
        self._file, self._size = file, len(data)
        self._set(layout.AHEAD_BYTES, ctypes.addressof(self._data))
        self._set(layout.AHEAD_LEFT, len(data))
        self._set(layout.AHEAD_FD, fd + 1)

    def end(self) -> None:
        """Nothing is read ahead any more, and the file's offset is what the guest has read."""
        if self._file is not None:
            self._file.offset += self._size - self._words[layout.AHEAD_LEFT >> 3]
            self._file = None
            self._set(layout.AHEAD_FD, 0)

    def counted(self) -> dict[int, int]:
        """Calls that native code answered since the last time, by number."""
        counts = {}
        for number, offset in (_READS, _POLLS):
            if count := self._words[offset >> 3]:
                counts[number] = count
                self._set(offset, 0)
        return counts

    def _set(self, offset: int, value: int) -> None:
        self._words[offset >> 3] = value
