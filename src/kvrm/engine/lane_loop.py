"""Lanes in native code: reset, input, run and result of one fresh lane after another, without Python.

`run_lanes(table)` works through lanes that all start from one snapshot. Each is set up by copying: the pages
that earlier lanes wrote, the snapshot's registers, then the lane's own registers and memory. Where a lane
stops in a way that Python need not see, its results are stored and the next one begins. For everything else
it returns a `Verdict`, and Python takes over that one lane.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum, auto
from typing import Any

from llvmlite import ir

from kvrm.engine.interpreter.abi import untagged
from kvrm.engine.interpreter.slots import Reason
from kvrm.machine import state as layout
from kvrm.machine.stops import SIGBUS, SIGSEGV
from kvrm.memory import PAGE, AccessKind
from kvrm.staging import native
from kvrm.staging.emitter import I8, I64, PTR, Emitter


class Word(IntEnum):
    """The table's words. Those that end in S are addresses of rows or arrays, the number of rows after.

    A row of words each: PAGES private page, pristine page, entry of the code table; REGISTERS source, stride,
    offset in the state; INPUTS source, stride, destination, length; KEPT destination, stride, offset in the
    state; COLLECTED destination, stride, entry of the page table, offset in the page, length; REGIONS first
    address, end, permissions.
    """

    STATE = 0
    SAVED = auto()  # the snapshot's architectural state
    PC = auto()
    START = auto()  # retired count of the snapshot
    BUDGET = auto()  # instructions that a lane may run
    SLICE = auto()  # instructions left until Python wants to look
    ENTER = auto()  # the engine's entry; 0: return once a lane is set up
    COPY = auto()  # the C library's memmove
    ENDS = auto()  # a byte for each `Reason`: the code of the stop, or NOT_AN_END
    CANCEL = auto()  # address of a word: not 0 to return
    COUNTERS = auto()  # finished lanes, retired instructions, lanes for each code
    PLACES = auto()  # PLACE_ROWS of slot address and pc: where stops are known to be
    ORDER = auto()  # numbers of the lanes to run
    NEXT = auto()  # index in ORDER, of the present lane when the function returns
    END = auto()
    STOP = auto()  # array of bytes, by lane
    RETIRED = auto()  # array of words, by lane
    STOPPED_AT = auto()  # array of words, by lane: pc
    SIGNAL = auto()  # arrays of faults, by lane: bytes, words, bytes, bytes
    FAULT_ADDRESS = auto()
    FAULT_KIND = auto()
    FAULT_MAPPED = auto()
    PAGES = auto()
    PAGES_COUNT = auto()
    REGISTERS = auto()
    REGISTERS_COUNT = auto()
    INPUTS = auto()
    INPUTS_COUNT = auto()
    KEPT = auto()
    KEPT_COUNT = auto()
    COLLECTED = auto()
    COLLECTED_COUNT = auto()
    REGIONS = auto()  # of the snapshot, which fresh lanes have as long as Python has run none of them
    REGIONS_COUNT = auto()


class Verdict(IntEnum):
    """Why `run_lanes` returned."""

    DONE = 0
    HOST = 1
    """The present lane was set up, and ran if there is an entry: Python runs it to its end."""
    STALE = 2
    """Code was predecoded from a page that a lane wrote: memory must be restored."""
    CANCELLED = 3
    PAUSE = 4
    """The slice is used up, with the end of a lane."""


NOT_AN_END = 255
NOT_MAPPED = 1 << 8
"""Instead of permissions."""
PLACE_ROWS = 64
FINISHED, COUNTED, BY_CODE = 0, 1, 2
"""Indices of the counters."""


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


class _Build:
    """The two functions under construction share their vocabulary."""

    def __init__(self, module: ir.Module, name: str, result: ir.Type, arguments: int) -> None:
        fn = ir.Function(module, ir.FunctionType(result, [PTR] + [I64] * arguments), name)
        self.e = Emitter(fn.append_basic_block("entry"))
        self.fn, self.table = fn, fn.args[0]

    def get(self, word: Word) -> ir.Value:
        return self.e.load_at(self.table, 8 * word, I64)

    def pointer(self, word: Word) -> ir.Value:
        """A word of the table that is an address."""
        return self.e.load_at(self.table, 8 * word, PTR)

    def set(self, word: Word, value: ir.Value) -> None:
        self.e.store_at(value, self.table, 8 * word)

    def element(self, array: Word, index: ir.Value, size: int = 8) -> ir.Value:
        """The address of an array's element."""
        return self.e.at(self.pointer(array), self.e.mul(index, _c(size)))

    @contextmanager
    def rows(self, word: Word, width: int) -> Iterator[ir.Value]:
        """What is emitted inside runs for each row, of `width` words."""
        e, count = self.e, self.get(Word(word + 1))
        before, loop = e.block, e.append_basic_block("loop")
        body, after = e.append_basic_block("body"), e.append_basic_block("after")
        e.branch(loop)
        e.position_at_end(loop)
        i = e.phi(I64)
        i.add_incoming(_c(0), before)
        e.cbranch(e.icmp_unsigned("<", i, count), body, after)
        e.position_at_end(body)
        yield self.element(word, i, 8 * width)
        i.add_incoming(e.add(i, _c(1)), e.block)
        e.branch(loop)
        e.position_at_end(after)

    def of_lane(self, row: ir.Value, lane: ir.Value) -> ir.Value:
        """The lane's element of a row that begins with an array's address and stride."""
        return self.e.at(self.e.load_at(row, 0, PTR), self.e.mul(lane, self.e.load_at(row, 8, I64)))

    def copy(self, to: ir.Value, source: ir.Value, length: ir.Value) -> None:
        """Copy bytes. The object refers to no symbol outside, which llvmlite's loader has no room for."""
        signature = ir.FunctionType(PTR, [PTR, PTR, I64])
        self.e.call(_Pointer(self.pointer(Word.COPY), signature), [to, source, length])

    def leave_if(self, condition: ir.Value, verdict: Verdict) -> None:
        """Return if the condition, a rare one, holds."""
        with self.e.if_then(condition, likely=False):
            self.e.ret(_c(verdict))


def _is_zero(e: Emitter, value: ir.Value) -> ir.Value:
    return e.icmp_unsigned("==", value, ir.Constant(value.type, None if value.type == PTR else 0))


def _store_results(module: ir.Module) -> ir.Function:
    """`store_results(table, lane, code, retired, pc)`: put down how a lane stopped, and its registers."""
    b = _Build(module, "store_results", ir.VoidType(), 4)
    e, (_, lane, code, retired, pc) = b.e, b.fn.args
    e.store(e.trunc(code, I8), b.element(Word.STOP, lane, 1))
    e.store(retired, b.element(Word.RETIRED, lane))
    e.store(pc, b.element(Word.STOPPED_AT, lane))
    state = b.pointer(Word.STATE)
    with b.rows(Word.KEPT, 3) as row:
        e.store(e.load_at(state, e.load_at(row, 16, I64), I64), b.of_lane(row, lane))
    e.ret_void()
    return b.fn


def _set_up(b: _Build, lane: ir.Value, state: ir.Value) -> None:
    """Everything of the lane as the snapshot has it, then its inputs."""
    e = b.e
    with b.rows(Word.PAGES, 3) as row:
        b.leave_if(e.not_(_is_zero(e, e.load(e.load_at(row, 16, PTR), typ=I64))), Verdict.STALE)
        b.copy(e.load_at(row, 0, PTR), e.load_at(row, 8, PTR), _c(PAGE))
    b.copy(state, b.pointer(Word.SAVED), _c(layout.EXIT_OFFSET))
    e.store_at(b.get(Word.PC), state, layout.PC)
    with b.rows(Word.REGISTERS, 3) as row:
        e.store_at(e.load(b.of_lane(row, lane), typ=I64), state, e.load_at(row, 16, I64))
    with b.rows(Word.INPUTS, 4) as row:
        b.copy(e.load_at(row, 16, PTR), b.of_lane(row, lane), e.load_at(row, 24, I64))


def _enter(b: _Build, state: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Run what was set up; instructions that retired, and the code of the stop."""
    e = b.e
    budget, left = b.get(Word.BUDGET), b.get(Word.SLICE)
    allowed = e.select(e.icmp_unsigned("<", budget, left), budget, left)
    e.store_at(allowed, state, layout.REMAINING)
    e.store_at(e.add(b.get(Word.START), allowed), state, layout.HORIZON)
    e.store_at(_c(0), state, layout.REGION)
    enter = b.pointer(Word.ENTER)
    b.leave_if(_is_zero(e, enter), Verdict.HOST)
    e.call(_Pointer(enter, ir.FunctionType(ir.VoidType(), [PTR])), [state])
    retired = e.sub(allowed, e.load_at(state, layout.REMAINING, I64))
    b.set(Word.SLICE, e.sub(left, retired))
    code = e.zext(e.load(b.element(Word.ENDS, e.load_at(state, layout.REASON, I64), 1), typ=I8), I64)
    b.leave_if(e.icmp_unsigned("==", code, _c(NOT_AN_END)), Verdict.HOST)
    return retired, code


def _store_fault(b: _Build, lane: ir.Value, state: ir.Value) -> None:
    """What was refused to a lane that stopped for MEMORY or CODE; Python goes on with it if nothing was.

    A page that is allowed, and not there yet, is given to the lane by Python. So is code that is not decoded
    yet; where the budget or the slice ended with the jump, whether there is code is for later to find out.
    """
    e = b.e
    reason = e.load_at(state, layout.REASON, I64)
    jumped = e.icmp_unsigned("==", reason, _c(Reason.CODE))
    with e.if_then(e.or_(jumped, e.icmp_unsigned("==", reason, _c(Reason.MEMORY))), likely=False):
        ended = _is_zero(e, e.load_at(state, layout.REMAINING, I64))
        b.leave_if(e.and_(jumped, ended), Verdict.HOST)
        address = e.select(jumped, *(e.load_at(state, at, I64) for at in (layout.PC, layout.ADDRESS)))
        address = untagged(e, address)
        kind = e.select(jumped, _c(AccessKind.FETCH), e.load_at(state, layout.KIND, I64))
        misplaced = e.icmp_unsigned("!=", e.and_(address, _c(3)), _c(0))
        misaligned = e.and_(jumped, misplaced)
        with e.goto_entry_block():
            found = e.alloca(I64)
        e.store(_c(NOT_MAPPED), found)
        with b.rows(Word.REGIONS, 3) as row:
            first, end, prot = (e.load_at(row, 8 * i, I64) for i in range(3))
            inside = e.and_(e.icmp_unsigned(">=", address, first), e.icmp_unsigned("<", address, end))
            e.store(e.select(inside, prot, e.load(found, typ=I64)), found)
        prot = e.load(found, typ=I64)
        allowed = e.icmp_unsigned("!=", e.and_(prot, kind), _c(0))
        b.leave_if(e.and_(allowed, e.not_(misaligned)), Verdict.HOST)
        mapped = e.icmp_unsigned("!=", prot, _c(NOT_MAPPED))
        signal = e.select(misaligned, _c(SIGBUS), _c(SIGSEGV))
        e.store(address, b.element(Word.FAULT_ADDRESS, lane))
        for array, value in ((Word.SIGNAL, signal), (Word.FAULT_KIND, kind), (Word.FAULT_MAPPED, mapped)):
            byte = (e.zext if value.type.width == 1 else e.trunc)(value, I8)
            e.store(byte, b.element(array, lane, 1))


class _Pointer:
    """A function's address as something that llvmlite can call."""

    def __init__(self, pointer: ir.Value, signature: ir.FunctionType) -> None:
        self.get_reference, self.function_type = pointer.get_reference, signature


def _stopped_at(b: _Build, state: ir.Value) -> ir.Value:
    """The pc; Python must find it if the slot is not a known one."""
    e = b.e
    ip = e.load_at(state, layout.IP, I64)
    row = b.element(Word.PLACES, e.and_(e.lshr(ip, _c(5)), _c(PLACE_ROWS - 1)), 16)
    known = e.icmp_unsigned("==", e.load(row, typ=I64), ip)
    in_state = _is_zero(e, ip)
    b.leave_if(e.not_(e.or_(known, in_state)), Verdict.HOST)
    return e.select(in_state, e.load_at(state, layout.PC, I64), e.load_at(row, 8, I64))


def _collect(b: _Build, lane: ir.Value) -> None:
    """Copy the guest memory that is wanted of each lane."""
    e = b.e
    with b.rows(Word.COLLECTED, 5) as row:
        page = e.and_(e.load(e.load_at(row, 16, PTR), typ=I64), _c(-PAGE))
        source = e.inttoptr(e.or_(page, e.load_at(row, 24, I64)), PTR)
        b.copy(b.of_lane(row, lane), source, e.load_at(row, 32, I64))


def _count(b: _Build, code: ir.Value, retired: ir.Value) -> None:
    e = b.e
    for index, more in ((_c(FINISHED), _c(1)), (_c(COUNTED), retired), (e.add(code, _c(BY_CODE)), _c(1))):
        counter = b.element(Word.COUNTERS, index)
        e.store(e.add(e.load(counter, typ=I64), more), counter)


def build(module: ir.Module) -> None:
    """Emit `store_results` and `run_lanes`."""
    store_results = _store_results(module)
    b = _Build(module, "run_lanes", I64, 0)
    e = b.e
    start = e.append_basic_block("lane")
    e.branch(start)
    e.position_at_end(start)
    number = b.get(Word.NEXT)
    b.leave_if(e.icmp_unsigned("==", number, b.get(Word.END)), Verdict.DONE)
    b.leave_if(_is_zero(e, b.get(Word.SLICE)), Verdict.PAUSE)
    b.leave_if(e.not_(_is_zero(e, e.load(b.pointer(Word.CANCEL), typ=I64))), Verdict.CANCELLED)
    lane, state = e.load(b.element(Word.ORDER, number), typ=I64), b.pointer(Word.STATE)
    _set_up(b, lane, state)
    retired, code = _enter(b, state)
    pc = _stopped_at(b, state)
    _store_fault(b, lane, state)
    e.call(store_results, [b.table, lane, code, retired, pc])
    _collect(b, lane)
    _count(b, code, retired)
    b.set(Word.NEXT, e.add(number, _c(1)))
    e.branch(start)


class LaneLoop:
    """The compiled functions. Use `lane_loop()`: there is one."""

    def __init__(self) -> None:
        self._loader = native.load_kept("lanes", _text)
        words = ctypes.c_uint64
        run = ctypes.CFUNCTYPE(words, ctypes.c_void_p)
        store = ctypes.CFUNCTYPE(None, ctypes.c_void_p, words, words, words, words)
        self.run = run(self._loader.address("run_lanes"))
        self.store_results = store(self._loader.address("store_results"))


def _text() -> str:
    module = ir.Module(name="lanes")
    build(module)
    return str(module)


def address_of(function: Any) -> int:
    """The host address of a ctypes function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.cache
def lane_loop() -> LaneLoop:
    """The process's native loop."""
    return LaneLoop()


def table_of_ends(ends: Mapping[int, int]) -> bytes:
    """What `Word.ENDS` points to, for the reasons (`Reason`) that end a lane and their codes."""
    table = bytearray([NOT_AN_END] * 64)
    for reason, code in ends.items():
        table[reason] = code
    return bytes(table)
