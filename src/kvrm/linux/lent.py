"""What the process of a machine of one lane lends native code, which then answers some of its system calls.

These are the words by which staged calls know a lane (`kvrm.linux.resident`), and the next bytes of a file
that the guest reads in small pieces: shells read byte by byte, hash programs page by page. They are lent
between two calls that Python does: only those, timers and snapshots can see what has become of them.
"""

from __future__ import annotations

import ctypes
import weakref
from ctypes import addressof, c_uint64
from typing import TYPE_CHECKING, Any, Final, Protocol

from kvrm.lane import words as layout
from kvrm.linux.errno import Failure
from kvrm.linux.resident.layout import (
    ANSWER_WORDS,
    DESCRIPTORS,
    LANE_WORDS,
    PROCESS_WORDS,
    Answer,
    Fixed,
    Stream,
    Word,
)
from kvrm.linux.syscall_table import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvrm.linux.files.regular import GuestFile
    from kvrm.linux.process import Process

_NAMES: Final = frozenset(
    """getpid gettid getppid getuid geteuid getgid getegid sched_yield clock_gettime clock_getres gettimeofday
    rt_sigprocmask read ppoll""".split()
)
ANSWERED: Final = frozenset(number for number, row in TABLE.items() if row.name in _NAMES)
"""Calls that need nothing but what is lent."""
SIZE: Final = 1 << 16
"""Bytes of a file that are lent."""
ENOUGH: Final = 64
"""Such calls that Python does first: to get native code ready takes longer than many programs run."""
_FILE: Final = 1
"""The number of the one open file that native code knows, and of the answer that has its bytes."""


class Answering(Protocol):
    """Native code that answers calls (`kvrm.backend.cpu.answers`)."""

    @property
    def function(self) -> int:
        """Its address (`layout.ANSWER`)."""

    @property
    def table(self) -> int:
        """What it is given."""

    def counted(self) -> dict[int, int]:
        """Calls that it answered since the last time, by number."""


class Lent:
    """What a process lends; `state` are the words of the machine's state.

    `make` makes the native code for the addresses of the words of all lanes (`Fixed`) and of one (`Word`).
    Without it nothing is ever lent.
    """

    def __init__(self, state: Any, make: Callable[[int, int], Answering] | None = None) -> None:
        self._state, self._make = state, make
        self._calls = 0
        self._answering: Answering | None = None
        self._read: Callable[[], GuestFile | None] = lambda: None
        self._next: tuple[int, GuestFile] | None = None
        self._file: GuestFile | None = None

    def reads(self, fd: int, file: GuestFile) -> None:
        """The guest has read a little of a file; if it did so before, it may go on."""
        if file is self._read() and fd < DESCRIPTORS:
            self._next = fd, file
        self._read = weakref.ref(file)

    def begin(self, process: Process) -> None:
        """Python has done a call: native code may answer those after it, unless a filter is to see them."""
        following, self._next, task = self._next, None, process.task
        if self._answering is None and self._make is not None:
            self._calls += self._state[8] in ANSWERED
            if self._calls >= ENOUGH:
                self._answering = self._get_ready(process, self._make)
        if self._answering is None or task.seccomp:
            return
        self._words[Word.SKIPPED], self._words[Word.BLOCKED] = process.kernel.skipped, task.blocked
        self._block[Fixed.PENDING] = process.pending_signals
        if following is not None:
            self._lend(process, *following)
        self._state[layout.ANSWER >> 3] = self._answering.function

    def end(self, process: Process) -> None:
        """Nothing is lent any more, and the process is what native code has made of it."""
        if self._answering is None or self._state[layout.ANSWER >> 3] == 0:
            return
        self._state[layout.ANSWER >> 3] = 0
        process.task.blocked = self._words[Word.BLOCKED]
        if self._file is not None:
            self._file.offset = self._words[Word.OFFSET + _FILE]
            self._file, self._words[Word.DESCRIPTOR + self._fd] = None, 0

    def counted(self) -> dict[int, int]:
        """Calls that native code answered since the last time, by number."""
        return {} if self._answering is None else self._answering.counted()

    def _get_ready(self, process: Process, make: Callable[[int, int], Answering]) -> Answering:
        self._words, self._block = (c_uint64 * LANE_WORDS)(), (c_uint64 * PROCESS_WORDS)()
        self._answers = (c_uint64 * (ANSWER_WORDS * (_FILE + 1)))()
        self._data = ctypes.create_string_buffer(SIZE)
        who, block = process.credentials, self._block
        block[Fixed.PID], block[Fixed.UID], block[Fixed.GID] = process.pid, who.uid, who.gid
        block[Fixed.FILES], block[Fixed.BEYOND] = addressof(self._answers), True
        self._words[Word.OPENED + _FILE] = _FILE
        answering = make(addressof(block), addressof(self._words))
        self._state[layout.ANSWER_TABLE >> 3] = answering.table
        return answering

    def _lend(self, process: Process, fd: int, file: GuestFile) -> None:
        """Lend the next bytes of a file."""
        try:
            data = file.pread(process, SIZE, file.offset)
        except (Failure, OSError):
            return
        ctypes.memmove(self._data, data, len(data))
        row, answer = ANSWER_WORDS * _FILE, self._answers
        answer[row + Answer.KIND], answer[row + Answer.GOES_ON] = Stream.FILE, True
        answer[row + Answer.CONTENT] = addressof(self._data) - file.offset
        answer[row + Answer.SIZE] = file.offset + len(data)
        self._file, self._fd = file, fd
        self._words[Word.DESCRIPTOR + fd], self._words[Word.OFFSET + _FILE] = _FILE, file.offset
