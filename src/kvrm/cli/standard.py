"""This process's standard streams, of which the caller may have closed some (daemons and cron do)."""

from __future__ import annotations

import functools
import io
import os
import sys

import kvrm


@functools.cache
def closed_streams() -> frozenset[int]:
    """Which of descriptors 0, 1 and 2 were closed at the first call; from then on their numbers are taken.

    Otherwise the next file that anything opens gets such a number, and what a guest or a library writes to
    "standard output" damages it. What takes them cannot be read from (0) or written to (1, 2).
    """
    closed = frozenset(fd for fd in range(3) if not _is_open(fd))
    for fd in sorted(closed):
        # A closed descriptor is the lowest free one, so it is what `open` returns.
        taken = os.open(os.devnull, os.O_WRONLY if fd == 0 else os.O_RDONLY)
        assert taken == fd
    # Python has None for a stream that it found closed, and print() then loses the text without a word.
    if 1 in closed:
        sys.stdout = _NoOutput()
    if 2 in closed:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    return closed


class _NoOutput(io.TextIOBase):
    """Standard output of a command that would lose what it prints."""

    def write(self, text: str) -> int:
        raise kvrm.UsageError("standard output is closed, and this command prints to it")


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
