"""A process of Python as staged system calls know one: which words are what, and those calls done in Python.

The text of a staged call runs as Python where native code leaves such a call to Python, and where Python
does all calls. What it leaves then, only a function of `kvrm.linux.calls` can do.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, create_string_buffer
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi, layout
from kvrm.linux.delivery import block, set_action
from kvrm.linux.errno import Errno
from kvrm.linux.files.open_file import Descriptor
from kvrm.linux.layout import SIGACTION, U64
from kvrm.linux.outcome import Exited, Finish
from kvrm.linux.proc.system import DOMAINNAME, HOSTNAME, RELEASE, VERSION
from kvrm.linux.resident.layout import CWD, LEAVE, LIMITS, NAME, RESOURCES, UTSNAME, Fixed, Word
from kvrm.linux.signals import Action
from kvrm.linux.waiting import wait_until
from kvrm.memory.pages import HOST

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


def _limit(process: Process, resource: int) -> bytes:
    return layout.RLIMIT.pack(*process.limit(resource))


def _directory(process: Process) -> bytes:
    return process.cwd.path() + b"\0"


def _directory_bytes(process: Process) -> int:
    if process.cwd.dead:
        return -Errno.ENOENT
    size = len(_directory(process))
    return size if size <= abi.PATH_MAX else -Errno.ENAMETOOLONG


def _pending(process: Process) -> int:
    # a timer that has fired sends its signal again once that is no longer ignored
    return process.pending_signals or any(timer.fired for timer in process.timers.posix.values())


FIXED: Final[dict[int, Callable[[Process], int]]] = {
    Fixed.PID: attrgetter("pid"),
    Fixed.UID: attrgetter("credentials.uid"),
    Fixed.GID: attrgetter("credentials.gid"),
    Fixed.HEAP_START: attrgetter("heap_start"),
    Fixed.CWD_BYTES: _directory_bytes,
    Fixed.PENDING: _pending,
    Fixed.DESCRIPTOR_LIMIT: lambda process: process.limit(abi.RLIMIT_NOFILE)[0],
}
"""What words that are the same for all lanes are of the process."""
_NOW: Final[dict[int, Callable[[Process], int]]] = {**FIXED, Fixed.PENDING: lambda _: 0}
"""The same for one call: what is pending is no reason to leave, for `put` and `set_action` look at that."""
ARRAYS: Final[dict[int, Callable[[Process], bytes]]] = {
    NAME: _name,
    UTSNAME: _utsname,
    **{LIMITS + 2 * resource: partial(_limit, resource=resource) for resource in range(RESOURCES)},
    CWD: lambda process: _directory(process)[: abi.PATH_MAX],
}
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

    Memory that the guest may not use is a GuestFault, and what a change of a word brings about, happens.
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
        return _NOW[word](self._process)

    def place(self, word: int) -> int:
        data = ARRAYS[word](self._process)
        self._kept = create_string_buffer(data, len(data))
        return addressof(self._kept)

    def descriptor(self, fd: int) -> int:
        found = self._process.descriptors.get(fd)
        # an open file has the number of a descriptor that refers to it, plus 1
        return -Errno.EBADF if found is None else fd + 1 << 32 | found.cloexec << 31 | found.file.flags

    def lowest(self, least: int) -> int:
        return self._process.free_descriptor(least)

    def refer(self, fd: int, file: int, cloexec: int) -> int:
        descriptors = self._process.descriptors
        if fd in descriptors and fd != file - 1:
            self._process.close(fd)
        if file:
            descriptors[fd] = Descriptor(descriptors[file - 1].file, bool(cloexec))
        return fd

    def get_action(self, signal: int, to: int) -> int:
        HOST[to : to + SIGACTION.size] = self._process.signals.action(signal).packed()
        return to

    def set_action(self, signal: int, action: int) -> int:
        given = SIGACTION.unpack(HOST[action : action + SIGACTION.size])
        set_action(self._process, signal, Action(*given))
        return action

    def read(self, address: int, size: int, to: int) -> int:
        HOST[to : to + size] = self._process.memory.read(address, size)
        return 0

    def write(self, address: int, size: int, source: int) -> int:
        self._process.memory.write(address, HOST[source : source + size])
        return 0


def in_python(text: Callable[..., int], rest: Callable[..., int] | None) -> Callable[..., int]:
    """The handler of a staged call; `rest` does what its text leaves, if it ever does."""

    def handler(process: Process, *arguments: int) -> int:
        result = text(ProcessLane(process), *arguments)
        return rest(process, *arguments) if rest is not None and result == LEAVE else result

    handler.__doc__ = (rest or text).__doc__
    return handler
