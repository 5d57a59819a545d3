"""A process of Python as staged system calls know one: which words are what, and those calls done in Python.

Some calls need nothing but what is said here, and their staged text is all that there is of them: it runs as
Python where native code leaves such a call to Python, and where Python does all calls.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, create_string_buffer, memmove, string_at
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kvrm.linux import layout
from kvrm.linux.delivery import block
from kvrm.linux.layout import U64
from kvrm.linux.outcome import Exited, Finish
from kvrm.linux.proc.system import DOMAINNAME, HOSTNAME, RELEASE, VERSION
from kvrm.linux.resident.layout import LIMITS, NAME, RESOURCES, UTSNAME, Fixed, Word
from kvrm.linux.waiting import wait_until

if TYPE_CHECKING:
    from kvrm.linux.process import Process

UNAME: Final = ("Linux", HOSTNAME, RELEASE, VERSION, "aarch64", DOMAINNAME)
WORDS: Final[dict[int, str]] = {
    Word.SKIPPED: "kernel.skipped",
    Word.BLOCKED: "task.blocked",
    Word.ROBUST_LIST: "task.robust_list",
    Word.CLEAR_TID: "task.clear_tid",
    Word.HEAP_END: "heap_end",
}
"""For words of a lane which attributes of the process they are."""


def _name(process: Process) -> bytes:
    return process.task.name.ljust(16, b"\0")


def _utsname(process: Process) -> bytes:
    return layout.utsname(UNAME)


def _limits(process: Process) -> bytes:
    return b"".join(layout.RLIMIT.pack(*process.limit(resource)) for resource in range(RESOURCES))


FIXED: Final[dict[int, Callable[[Process], int]]] = {
    Fixed.PID: attrgetter("pid"),
    Fixed.UID: attrgetter("credentials.uid"),
    Fixed.GID: attrgetter("credentials.gid"),
    Fixed.HEAP_START: attrgetter("heap_start"),
    Fixed.PENDING: attrgetter("pending_signals"),
}
"""What words that are the same for all lanes are of the process."""
ARRAYS: Final[dict[int, Callable[[Process], bytes]]] = {NAME: _name, UTSNAME: _utsname, LIMITS: _limits}
"""What begins at such words."""


def word_of(process: Process, word: int) -> int:
    """A word of a lane that is as the process is."""
    value: int = attrgetter(WORDS[word])(process)
    return value


def set_word(process: Process, word: int, value: int) -> None:
    """Have the process be as a word of a lane says."""
    part, _, name = WORDS[word].rpartition(".")
    setattr(attrgetter(part)(process) if part else process, name, value)


class ProcessLane:
    """A process as staged calls see a lane (`kvrm.linux.resident.lane_view.Lane`).

    It has what those need that are no calls of Python besides, which never leave: memory that the guest may
    not use is a GuestFault, and what a change of a word brings about, happens.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    def end(self, code: int) -> int:
        raise Finish(Exited(code))

    def retired(self) -> int:
        return self._process.kernel.retired

    def word(self, index: int) -> int:
        return word_of(self._process, index)

    def put(self, index: int, value: int) -> int:
        process = self._process
        if index == Word.BLOCKED:  # signals that wait act once they are not
            block(process, value & U64)
        elif index == Word.SKIPPED:  # timers expire meanwhile
            wait_until(process, process.kernel.retired + value, "a sleep")
        else:
            set_word(process, index, value)
        return value

    def fixed(self, word: int) -> int:
        # what waits is no reason to leave: `put` looks at it
        return 0 if word == Fixed.PENDING else FIXED[word](self._process)

    def place(self, word: int) -> int:
        data = ARRAYS[word](self._process)
        self._kept = create_string_buffer(data, len(data))
        return addressof(self._kept)

    def read(self, address: int, size: int, to: int) -> int:
        memmove(to, self._process.memory.read(address, size), size)
        return 0

    def write(self, address: int, size: int, source: int) -> int:
        self._process.memory.write(address, string_at(source, size))
        return 0


def in_python(text: Callable[..., int]) -> Callable[..., int]:
    """The handler of a call that is its staged text, and no call of Python besides."""

    def handler(process: Process, *arguments: int) -> int:
        return text(ProcessLane(process), *arguments)

    handler.__doc__ = text.__doc__
    return handler
