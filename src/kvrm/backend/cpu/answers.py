"""The staged system calls that native code answers in a machine of one lane, with what its process lends.

What memory they reach the page table says, which handlers read too. What it does not say yet, or not allow,
takes Python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from ctypes import addressof, c_uint64, memmove

from kvrm.backend.cpu.compiled_loop import address_of
from kvrm.backend.cpu.linux import OPERATIONS
from kvrm.backend.cpu.table import Field, Table
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.linux.lent import ANSWERED
from kvrm.linux.resident.dispatch import STAGED
from kvrm.linux.resident.lane_view import EVERYTHING, U32, Lane
from kvrm.linux.resident.layout import DONE, LEAVE, NO_RESULT
from kvrm.memory import Memory, access
from kvrm.memory.page_table import W_BIT
from kvrm.memory.space import Space
from kvrm.staging import native
from kvrm.staging.host import load, store
from kvrm.staging.kernel import Array, module_text
from kvrm.staging.operations import Operations

CALLS: Mapping[int, Callable[..., int]] = {number: STAGED[number] for number in sorted(ANSWERED)}


def answer(t: Array) -> int:
    """Do the call that the lane has left native code for: DONE, or anything else if that takes Python."""
    state = t[Field.STATE]
    if load(state + layout.REASON) != Reason.SVC or load(state + layout.ADDRESS):
        return LEAVE
    # a budget may end here for a timer, which expires before the call is done
    if load(state + layout.REMAINING) == 0:
        return LEAVE
    number = load(state + 8 * 8) & U32
    if number not in CALLS:
        return LEAVE
    result = CALLS[number](t)
    if result <= NO_RESULT:
        return result
    store(state, result)
    count = t[Field.COUNTERS] + 8 * number
    store(count, load(count) + 1)
    return DONE


def resolve(t: Array, address: int, kind: int) -> int:
    """What the page table does not allow yet is Python's to find out."""
    return 0


def examine(t: Array, start: int, end: int) -> int:
    """What the pages of a range are: 0 if the page table lets the guest write all of them."""
    size = end - start
    writable = access.reached(t, start, size, W_BIT) == size  # type: ignore[arg-type]  # tables are spaces here
    return 0 if writable else EVERYTHING


OF_ONE: Operations = {**OPERATIONS, Space.resolve: resolve, Lane.examine: examine}


@functools.cache
def _loader() -> native.Loader:
    return native.load_kept("answers", lambda: module_text("answers", {"answer": answer}, OF_ONE))


class Answers:
    """As `kvrm.linux.lent.Answering`: for a machine of this state and memory.

    `block` and `words` are addresses of words that are the same for all lanes, and of one lane's.
    """

    def __init__(self, state: State, memory: Memory, block: int, words: int) -> None:
        self.function = _loader().address("answer")
        self._counts = (c_uint64 * (max(ANSWERED) + 1))()
        self._table = table = Table()
        self.table = table.address
        table[Field.STATE], table[Field.ENTRIES] = state.address, memory.table_address
        table[Field.MOVE], table[Field.COUNTERS] = address_of(memmove), addressof(self._counts)
        table[Field.PROCESS], table[Field.WORDS] = block, words

    def counted(self) -> dict[int, int]:
        """Calls that it answered since the last time, by number."""
        counts = {number: count for number, count in enumerate(self._counts) if count}
        ctypes.memset(self._counts, 0, ctypes.sizeof(self._counts))
        return counts
