"""How lanes stopped, as columns: a kernel that also finds out what was refused to each lane that was.

A lane that stopped at an access or a jump then has FAULT, FULL, or a reason for which the CPU goes on with it
in its state; with FAULT, ADDRESS has no tag and KIND may have IS_MAPPED. So the host learns all of it by
reading columns. Staged text.
"""

from __future__ import annotations

from kvrm.backend.gpu.device_abi import GROUP, IS_MAPPED, LINUX, PAGES_LEFT, PLAIN, Param
from kvrm.backend.gpu.group_memory import (
    CODE,
    MAPPED,
    READ,
    SHARED,
    WORD,
    WRITE,
    entry_of,
    has,
    parameter,
    table_of,
    words_of,
)
from kvrm.backend.gpu.ranges import is_beyond
from kvrm.engine.interpreter.slots import PAGE_SLOTS
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.linux.resident.layout import FILE, Word
from kvrm.memory import AccessKind, untagged
from kvrm.staging.device import load, store, store_byte


def outcome(params: int, number: int, reasons: int, retired: int, pcs: int) -> int:
    """Fill in the lane's byte of `reasons` and its words of `retired` and `pcs`."""
    state = words_of(params, number)
    settle_access(params, number, state)
    settle_jump(params, number, state)
    store_byte(reasons + number, field(state, layout.REASON))
    count = field(state, layout.HORIZON) - field(state, layout.REMAINING)
    store(retired + WORD * number, count)
    store(pcs + WORD * number, pc_of(params, state))
    return 0


def field(state: int, offset: int) -> int:
    """The word at an offset of a lane's state."""
    return load(state + GROUP * offset)


def put_field(state: int, offset: int, value: int) -> int:
    """Set it."""
    return store(state + GROUP * offset, value)


def slot_of(state: int) -> int:
    """The number of the slot that the lane is at; 0 if it is at none."""
    return field(state, layout.IP) & PLAIN - 1


def pc_of(params: int, state: int) -> int:
    """Where the lane is."""
    slot = slot_of(state)
    if slot == 0:
        return field(state, layout.PC)
    page = load(parameter(params, Param.PAGES) + WORD * ((slot - 1) // PAGE_SLOTS))
    return page + 4 * ((slot - 1) % PAGE_SLOTS)


def settle_access(params: int, number: int, state: int) -> int:
    """What a refused access is: a fault, the lane's limit of pages, or something for the CPU.

    The CPU writes to code, and where the device's pool of pages has run out before the lane's limit. It knows
    what may be done past the end of a mapped file, and so which of two faults that is.
    """
    if field(state, layout.REASON) != Reason.MEMORY:
        return 0
    lane = number % GROUP
    address = field(state, layout.ADDRESS)
    kind = field(state, layout.KIND)
    entry = entry_of(parameter(params, Param.ROOT), table_of(params, number), address)
    mapped = has(entry + MAPPED, lane)
    beyond = mapped and ends_before(params, entry)
    if not beyond and not has(entry + (WRITE if kind == AccessKind.WRITE else READ), lane):
        return fault(state, address, kind, mapped)
    for_cpu = beyond or load(entry + SHARED) & CODE or field(state, PAGES_LEFT)
    return put_field(state, layout.REASON, Reason.CODE_WRITE if for_cpu else Reason.FULL)


def settle_jump(params: int, number: int, state: int) -> int:
    """A jump that led to no slot is a fault, unless what is there is code to the CPU.

    That is so if the address had a tag, and if the lane may have made the page executable itself. The CPU
    knows too which fault it is past the end of a mapped file, and that there is none yet where the run ended
    with the jump, as the grant did.
    """
    reason = field(state, layout.REASON)
    lost = reason == Reason.CODE or (reason == Reason.HANDLER and slot_of(state) == 0)
    if not lost or field(state, layout.REMAINING) == 0:
        return 0
    target = untagged(field(state, layout.PC))
    entry = entry_of(parameter(params, Param.ROOT), table_of(params, number), target)
    mapped = has(entry + MAPPED, number % GROUP)
    made = field(state, 8 * (LINUX + Word.HAS_CODE))
    for_cpu = load(entry + SHARED) & CODE or (mapped and (made or ends_before(params, entry)))
    if target & 3 or not for_cpu:
        fault(state, target, AccessKind.FETCH, mapped)
        put_field(state, layout.PC, target)
    return 0


def fault(state: int, address: int, kind: int, mapped: int) -> int:
    """Note one."""
    put_field(state, layout.REASON, Reason.FAULT)
    put_field(state, layout.ADDRESS, untagged(address))
    return put_field(state, layout.KIND, kind | (IS_MAPPED if mapped else 0))


def ends_before(params: int, entry: int) -> int:
    """Whether a page lies past the end of its file; only the lanes of a program can have files."""
    first = load(entry + SHARED)
    return first & FILE and is_beyond(params, first)
