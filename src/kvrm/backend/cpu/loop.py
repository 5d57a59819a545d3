"""Lanes in native code on the host: reset, input, run, system calls and result of one after another.

`run_lanes` works through lanes that all start from one snapshot. It returns a `Verdict` where Python must do
something: for the present lane, for files, or for the worker. Python is not needed for what staged system
calls do (`kvrm.linux.resident`), nor for pages and exits.
"""

from __future__ import annotations

from typing import Final

from kvrm.backend.cpu.space import (
    MAPPED,
    OF_FILE,
    own,
    peek,
    reset,
)
from kvrm.backend.cpu.table import NOT_AN_END, Field, Phase, Verdict
from kvrm.engine.interpreter.slots import CHUNK_PAGES, OPERANDS, PAGE_BYTES, PAGE_SLOTS, SLOT, SLOT_PER_PC
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.linux.resident.layout import ASKED, EXIT, LEAVE, Fixed, Word
from kvrm.machine.stops import SIGBUS, SIGSEGV
from kvrm.memory import PAGE, X_BIT, AccessKind
from kvrm.memory.access import reach
from kvrm.memory.flat import page, page_of
from kvrm.memory.page_table import ENTRIES
from kvrm.memory.space import within
from kvrm.staging.host import load, load_byte, move, run, store, store_byte, store_half
from kvrm.staging.kernel import Array

CHUNK_BYTES: Final = CHUNK_PAGES * PAGE_BYTES
UNTAGGED: Final = (1 << 56) - 1
KERNELS: Final = 1 << 55
"""An address with this bit belongs to the kernel's half, where a tag has no meaning to a user."""
GO_ON: Final = -1
"""Instead of the code of a stop."""
RETURN: Final = -2
"""Instead of a stop's code, less a `Verdict`."""
OUT_WORD: Final = 8 * Fixed.OUTPUTS
ERR_WORD: Final = 8 * (Fixed.OUTPUTS + 1)


def resident(t: Array) -> int:
    """Do the system call that the registers ask for: `kvrm.linux.resident.dispatch` has this function."""
    raise NotImplementedError


def run_lanes(t: Array) -> int:
    """Run lanes until all are done, or Python must do something (`Verdict`)."""
    while t[Field.NEXT] != t[Field.END]:
        if t[Field.PHASE] == Phase.FRESH:
            if t[Field.SLICE] == 0 or not has_room(t):
                return Verdict.PAUSE
            if load(t[Field.CANCEL]):
                return Verdict.CANCELLED
            if not set_up(t, lane_of(t)):
                return Verdict.HOST
            t[Field.PHASE] = Phase.RUN
        code = run_lane(t)
        if code < 0:
            give_back(t)
            return RETURN - code
        finish(t, lane_of(t), code)
        t[Field.PHASE] = Phase.FRESH
        t[Field.NEXT] += 1
    return Verdict.DONE


def lane_of(t: Array) -> int:
    """The number of the present lane."""
    return load(t[Field.ORDER] + 8 * t[Field.NEXT])


def has_room(t: Array) -> int:
    """Whether a lane's output fits into the buffers."""
    process = t[Field.PROCESS]
    if process == 0:
        return 1
    if load(process + OUT_WORD) > t[Field.OUTPUT_END]:
        return 0
    return 1 if load(process + ERR_WORD) <= t[Field.ERROR_END] else 0


# -- setting up ------------------------------------------------------------------------------------------
def set_up(t: Array, lane: int) -> int:
    """Everything of the lane as the snapshot has it, then its inputs; 0 if those take Python."""
    state = t[Field.STATE]
    reset(t)
    move(t[Field.MOVE], state, t[Field.SAVED], layout.EXIT_OFFSET)
    store(state + layout.PC, t[Field.PC])
    store(state + layout.IP, 0)
    store(state + layout.REASON, Reason.BUDGET)
    store(state + layout.REMAINING, 0)
    store(state + layout.HORIZON, t[Field.BEGUN])
    store(state + layout.REGION, 0)
    t[Field.LEFT] = t[Field.BUDGET] - (t[Field.BEGUN] - t[Field.START])
    t[Field.REPORTED] = 0
    if t[Field.PROCESS]:
        begin_process(t, lane)
    for i in range(t[Field.REGISTERS_COUNT]):
        row = t[Field.REGISTERS] + 24 * i
        store(state + load(row + 16), load(load(row) + lane * load(row + 8)))
    for i in range(t[Field.INPUTS_COUNT]):
        row = t[Field.INPUTS] + 32 * i
        address = load(row + 16)
        mine = own(t, address)
        if mine == 0:
            return 0
        move(t[Field.MOVE], page(mine) + within(address), load(row) + lane * load(row + 8), load(row + 24))
    return 1


def begin_process(t: Array, lane: int) -> int:
    """The lane's own words, and where its standard input is."""
    words = t[Field.WORDS]
    move(t[Field.MOVE], words, t[Field.FIRST_WORDS], t[Field.WORDS_SIZE])
    if t[Field.TEXT_STARTS]:
        start = load(t[Field.TEXT_STARTS] + 8 * lane)
        store(words + 8 * Word.INPUT, start)
        store(words + 8 * Word.INPUT_END, start + load(t[Field.TEXT_LENGTHS] + 8 * lane))
    return 0


# -- running ---------------------------------------------------------------------------------------------
def run_lane(t: Array) -> int:
    """Run the present lane; the code of its stop, or RETURN less a verdict."""
    state = t[Field.STATE]
    while True:
        if t[Field.PHASE] == Phase.CALL:
            done = call(t)
            if done != GO_ON:
                return done
        elif t[Field.PHASE] == Phase.LEFT:
            t[Field.PHASE] = Phase.RUN
        else:
            if load(state + layout.REMAINING) == 0:
                if t[Field.LEFT] == 0:
                    return RETURN - Verdict.HOST
                if t[Field.SLICE] == 0:
                    return RETURN - Verdict.PAUSE
                grant(t)
            run(t[Field.ENTER], state)
            locate(t)
        code = serve(t)
        if code != GO_ON:
            return code


def grant(t: Array) -> int:
    """More of the lane's budget, as far as the slice goes."""
    state = t[Field.STATE]
    more: int = min(t[Field.LEFT], t[Field.SLICE])
    t[Field.LEFT] -= more
    t[Field.SLICE] -= more
    store(state + layout.REMAINING, more)
    store(state + layout.HORIZON, load(state + layout.HORIZON) + more)
    return more


def give_back(t: Array) -> int:
    """Take back what is left of the grant: Python may give another slice."""
    state = t[Field.STATE]
    left = load(state + layout.REMAINING)
    t[Field.LEFT] += left
    t[Field.SLICE] += left
    store(state + layout.REMAINING, 0)
    store(state + layout.HORIZON, load(state + layout.HORIZON) - left)
    return left


def locate(t: Array) -> int:
    """Have PC say where the lane is, instead of a slot."""
    state = t[Field.STATE]
    ip = load(state + layout.IP)
    if ip:
        for i in range(t[Field.CHUNKS_COUNT]):
            base = load(t[Field.CHUNKS] + 8 * i)
            if base <= ip and ip < base + CHUNK_BYTES:
                page = base + (ip - base) // PAGE_BYTES * PAGE_BYTES
                # the last slot of a page has the address of the page after it
                after = load(page + (PAGE_SLOTS - 1) * SLOT + OPERANDS)
                store(state + layout.PC, after - PAGE + (ip - page) // SLOT_PER_PC)
        store(state + layout.IP, 0)
    return 0


def serve(t: Array) -> int:
    """Do what the lane left for: GO_ON, the code of its stop, or RETURN less a verdict."""
    state = t[Field.STATE]
    reason = load(state + layout.REASON)
    if reason == Reason.BUDGET:
        return GO_ON
    if reason == Reason.MEMORY:
        return serve_access(t)
    if reason == Reason.CODE:
        return serve_jump(t)
    if reason == Reason.SVC and t[Field.PROCESS] and load(state + layout.ADDRESS) == 0:
        t[Field.PHASE] = Phase.CALL
        return GO_ON
    if reason == Reason.HANDLER or reason == Reason.UNTRANSLATED:
        return RETURN - Verdict.SERVE
    return end_by(t, reason)


def end_by(t: Array, reason: int) -> int:
    """The code of a stop for this reason; Python must end the lane if there is none."""
    code = load_byte(t[Field.ENDS] + reason)
    return RETURN - Verdict.HOST if code == NOT_AN_END else code


def call(t: Array) -> int:
    """Do the system call that the lane has arrived at: GO_ON, EXIT's code, or RETURN less a verdict."""
    state = t[Field.STATE]
    done = resident(t)
    if done == ASKED:
        return RETURN - Verdict.ASKED
    t[Field.PHASE] = Phase.RUN
    if done == LEAVE:
        return RETURN - Verdict.HOST
    store(state + layout.REASON, Reason.BUDGET)
    if done == EXIT:
        store(state + layout.REASON, Reason.EXIT)
        return end_by(t, Reason.EXIT)
    return GO_ON


def serve_access(t: Array) -> int:
    """Fill the page table for the access that was refused, or say what fault it is."""
    state = t[Field.STATE]
    address = load(state + layout.ADDRESS)
    kind = load(state + layout.KIND)
    index = page_of(address)
    mapped = 0
    if index < ENTRIES:
        origin = load(t[Field.ORIGINS] + 8 * index)
        if origin & kind:
            allowed = reach(t, address, kind)  # type: ignore[arg-type]  # tables are spaces here
            return GO_ON if allowed else RETURN - Verdict.HOST
        if origin & OF_FILE:
            return RETURN - Verdict.HOST
        mapped = origin & MAPPED
    return fault(t, Reason.MEMORY, SIGSEGV, address, kind, mapped)


def serve_jump(t: Array) -> int:
    """Have the page predecoded that the lane has branched to, or say what fault it is."""
    state = t[Field.STATE]
    if load(state + layout.REMAINING) == 0:
        return GO_ON  # whether there is code is for the next grant to find out, if there is one
    address = load(state + layout.PC)
    index = page_of(address)
    mapped = 0
    if index < ENTRIES:
        origin = load(t[Field.ORIGINS] + 8 * index)
        mapped = origin & MAPPED
        if address & 3:
            return fault(t, Reason.CODE, SIGBUS, address, AccessKind.FETCH, mapped)
        if origin & X_BIT:
            entry = load(t[Field.ENTRIES] + 8 * index)
            if not entry & X_BIT and reach(t, address, X_BIT):  # type: ignore[arg-type]
                return GO_ON
            return RETURN - Verdict.SERVE
        made = 0
        if t[Field.PROCESS]:
            made = load(t[Field.WORDS] + 8 * Word.HAS_CODE)
        if origin & OF_FILE or (mapped and made):
            return RETURN - Verdict.HOST
    if address & 3:
        return fault(t, Reason.CODE, SIGBUS, address, AccessKind.FETCH, mapped)
    return fault(t, Reason.CODE, SIGSEGV, address, AccessKind.FETCH, mapped)


def fault(t: Array, reason: int, signal: int, address: int, kind: int, mapped: int) -> int:
    """Note a fault; the code of the stop, unless Python must end the lane."""
    code = end_by(t, reason)
    if code < 0:
        return code
    lane = lane_of(t)
    shown = address if address & KERNELS else address & UNTAGGED
    store_byte(t[Field.SIGNAL] + lane, signal)
    store(t[Field.FAULT_ADDRESS] + 8 * lane, shown)
    store_byte(t[Field.FAULT_KIND] + lane, kind)
    store_byte(t[Field.FAULT_MAPPED] + lane, 1 if mapped else 0)
    return code


# -- results ---------------------------------------------------------------------------------------------
def finish(t: Array, lane: int, code: int) -> int:
    """Store how the lane stopped, what it wrote, and all that is kept of it."""
    state = t[Field.STATE]
    left = load(state + layout.REMAINING)
    retired = load(state + layout.HORIZON) - left - t[Field.START]
    t[Field.SLICE] += left
    store_results(t, lane, code, retired, load(state + layout.PC))
    if load(state + layout.REASON) == Reason.EXIT:
        store_half(t[Field.EXIT_CODE] + 2 * lane, load(state + layout.ADDRESS))
    for i in range(t[Field.COLLECTED_COUNT]):
        row = t[Field.COLLECTED] + 32 * i
        address = load(row + 16)
        shown = peek(t, address)
        if shown:
            to = load(row) + lane * load(row + 8)
            move(t[Field.MOVE], to, shown + within(address), load(row + 24))
    if t[Field.PROCESS]:
        keep_output(t)
    counted = load(t[Field.COUNTERS])
    store(t[Field.COUNTERS], counted + retired - t[Field.REPORTED])
    return 0


def store_results(t: Array, lane: int, code: int, retired: int, pc: int) -> int:
    """Put down how a lane stopped, and its registers."""
    store_byte(t[Field.STOP] + lane, code)
    store(t[Field.RETIRED] + 8 * lane, retired)
    store(t[Field.STOPPED_AT] + 8 * lane, pc)
    for i in range(t[Field.KEPT_COUNT]):
        row = t[Field.KEPT] + 24 * i
        store(load(row) + lane * load(row + 8), load(t[Field.STATE] + load(row + 16)))
    return 0


def keep_output(t: Array) -> int:
    """Leave in the buffers what the lane has written: the next one writes after it."""
    process = t[Field.PROCESS]
    words = t[Field.WORDS]
    row = t[Field.WRITTEN] + 16 * t[Field.NEXT]
    out = load(words + 8 * Word.STDOUT)
    err = load(words + 8 * Word.STDERR)
    store(row, out)
    store(row + 8, err)
    store(process + OUT_WORD, load(process + OUT_WORD) + out)
    store(process + ERR_WORD, load(process + ERR_WORD) + err)
    return 0
