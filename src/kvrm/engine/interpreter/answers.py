"""System calls that native code answers itself: `read` and `ppoll` of the file that is read ahead.

The host has put the next bytes of a file where native code finds them (`kvrm.linux.ahead`). All that is not
usual is left to the host: too few bytes, buffers that the guest may not write now, several descriptors, a
limit on waiting.
"""

from __future__ import annotations

from typing import Final

from kvrm.engine.interpreter import state_space
from kvrm.engine.interpreter.slots import Reason
from kvrm.linux import abi
from kvrm.machine import state as layout
from kvrm.memory import PAGE, R_BIT, VA_BITS, W_BIT, access
from kvrm.memory.space import Space
from kvrm.staging.host import address, below, local, move
from kvrm.staging.kernel import Array
from kvrm.staging.operations import Operations

READY: Final = abi.POLLIN | abi.POLLOUT | abi.POLLRDNORM | abi.POLLWRNORM
"""What holds of each regular file."""
VA_END: Final = 1 << VA_BITS
U32: Final = 0xFFFFFFFF
REASON: Final = layout.REASON // 8
EXTRA: Final = layout.ADDRESS // 8
REMAINING: Final = layout.REMAINING // 8
FD: Final = layout.AHEAD_FD // 8
BYTES: Final = layout.AHEAD_BYTES // 8
LEFT: Final = layout.AHEAD_LEFT // 8
COPY: Final = layout.AHEAD_COPY // 8
READS: Final = layout.AHEAD_READS // 8
POLLS: Final = layout.AHEAD_POLLS // 8
"""Indices of words of the state, which begins with x0."""


def answered(state: Array) -> int:
    """Answer the system call that native code has just left for; 0 if nothing has happened."""
    if state[REASON] != Reason.SVC or state[EXTRA] != 0 or state[REMAINING] == 0 or state[FD] == 0:
        return 0
    number = state[8] & U32
    if number == abi.NR_READ:
        return read(state)
    if number == abi.NR_PPOLL:
        return ppoll(state)
    return 0


def read(state: Array) -> int:
    """`read(fd, buffer, count)`, of 1 byte to a page."""
    buffer = state[1]
    count = state[2]
    if (state[0] & U32) + 1 != state[FD] or not below(count - 1, PAGE) or count > state[LEFT]:
        return 0
    if not below(buffer, VA_END) or access.write(state, buffer, count, state[BYTES]):  # type: ignore[arg-type]
        return 0
    state[BYTES] += count
    state[LEFT] -= count
    state[READS] += 1
    state[0] = count
    return 1


def ppoll(state: Array) -> int:
    """`ppoll(fds, 1, NULL, ...)` for what holds."""
    fds = state[0]
    if state[1] != 1 or state[2] != 0 or not below(fds, VA_END):
        return 0
    if access.reached(state, fds, 8, R_BIT | W_BIT) < 8:  # type: ignore[arg-type]  # a state has a space
        return 0
    asked = local(1)
    access.load_range(state, fds, 8, R_BIT, address(asked))  # type: ignore[arg-type]
    fd = asked[0] & U32
    asked[0] = (asked[0] >> 32) & READY
    if fd + 1 != state[FD] or asked[0] == 0:
        return 0
    access.store_range(state, fds + 6, 2, address(asked))  # type: ignore[arg-type]
    state[POLLS] += 1
    state[0] = 1
    return 1


def copy(state: Array, to: int, at: int, of: int, start: int, size: int) -> int:
    """By the C library, for up to a page."""
    return move(state[COPY], to + at, of + start, size)


OPERATIONS: Operations = {**state_space.OPERATIONS, Space.copy: copy}
