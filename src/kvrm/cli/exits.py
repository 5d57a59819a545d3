"""Exit codes of the command line that are not the guest's own."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """A guest killed by signal n, or by a fault that would send it, gives 128 + n as in a shell."""

    OK = 0
    LANES = 1
    """Not all of many lanes exited with 0."""
    UNPROVED = 1
    """The weights of a network are wrong for some word."""
    USAGE = 2
    """Bad options, or a program that cannot be loaded."""
    HOST = 70
    """KVRM itself failed; please report it."""
    MISPLACED = 71
    """A policy has an instruction where it cannot run."""
    BUDGET = 124
    """`--max-instructions` was reached, as timeout(1) says it."""
    SIGNAL = 128
    INTERRUPTED = 130
    OUT_OF_MEMORY = 137
    """The guest exceeded its memory limit, as if the kernel had killed it."""
    BROKEN_PIPE = 141
