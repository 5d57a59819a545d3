"""`resident`: does the system call that a lane's registers ask for, if it is staged."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.linux.errno import Errno
from kvrm.linux.resident.lane_view import U32, Lane
from kvrm.linux.resident.layout import DONE, LEAVE, NO_RESULT
from kvrm.linux.resident.staged import text_of
from kvrm.linux.syscall_table import TABLE, Syscall
from kvrm.staging.host import apart


def signed(x: int) -> int:
    """The low half of a register, as a signed number."""
    return ((x & U32) ^ 1 << 31) - (1 << 31)


def unsigned(x: int) -> int:
    """The low half of a register."""
    return x & U32


def whole(x: int) -> int:
    """All of a register."""
    return x


READ = {"i": signed, **dict.fromkeys("uxo", unsigned), **dict.fromkeys("lnps", whole)}
"""For an argument's kind in the table of calls how a register is read."""


def _with_arguments(row: Syscall, call: Callable[..., int]) -> Callable[[Lane], int]:
    kinds = [READ[kind] for kind in row.kinds]

    def with_arguments(lane: Lane) -> int:
        return call(lane, *[read(lane.x(i)) for i, read in enumerate(kinds)])

    with_arguments.__name__ = f"sys_{row.name}"
    return with_arguments


STAGED = {n: _with_arguments(row, text) for n, row in TABLE.items() if (text := text_of(row.name))}


@apart  # large and rare: in the loop of a GPU's kernel it would cost all handlers registers
def resident(lane: Lane) -> int:
    """Do the call as `kvrm.linux.calls` would, DONE, or nothing; EXIT if that ends the lane."""
    if not lane.place(0):
        return LEAVE
    number = lane.x(8) & U32
    result = -Errno.ENOSYS
    if number in STAGED:
        result = STAGED[number](lane)
    elif number in TABLE:
        return LEAVE
    if result <= NO_RESULT:
        return result
    lane.put_x(0, result)
    return DONE
