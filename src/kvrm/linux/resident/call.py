"""Staged system calls: what the code of each is written with, and the one function that chooses.

`resident(state, registers, block, retired)` does the call that the registers ask for, exactly as
`kvrm.linux.calls` would, or nothing: then Python does it. What a call changes is in the lane's own words
(`Word`), in its memory and buffers, and in its log, from which `kvrm.linux.resident.start` makes a process.
The same code runs on every target: what differs between them is a `Lane`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from llvmlite import ir

from kvrm.linux.clock import EPOCH
from kvrm.linux.errno import Errno
from kvrm.linux.layout import BILLION
from kvrm.linux.resident.layout import (
    ANSWER_WORDS,
    ARGUMENTS,
    DESCRIPTORS,
    KINDS,
    RECORD,
    SOME_FIXED,
    Answer,
    Fixed,
    Stream,
    Word,
)
from kvrm.linux.syscall_table import TABLE
from kvrm.machine import state as layout
from kvrm.memory import PAGE, VA_BITS
from kvrm.staging.emitter import I8, I32, I64, PTR, Emitter

NUMBERS = {row.name: number for number, row in TABLE.items()}
"""Of system calls, by name."""
LEAVE, DONE, EXIT, ASKED = range(4)
"""What `resident` returns: nothing was done; the result is in x0; the exit code is in ADDRESS; nothing was
done, and the call is to be done again when the host has answered."""
NOT_HERE, UNANSWERED = 1 << 63, (1 << 63) + 1
"""Instead of the result of a call that must be done on the CPU, and of one that has asked the host."""
LARGEST = 1 << 26
"""Bytes of the largest range of addresses that a call changes here."""
BUILDS = ir.FunctionType(I64, [PTR, PTR, I64, I64])
"""Arguments: state, general registers, what the target's `Lane` begins with, instructions retired."""


def const(value: int) -> ir.Constant:
    """A 64-bit constant."""
    return ir.Constant(I64, value & (1 << 64) - 1)


class Lane(Protocol):
    """The lane whose call is under construction, as a target keeps it; values are LLVM's."""

    process: ir.Value
    """Where the words are that are the same for all lanes (`Fixed`); null on a bare machine."""

    def own(self, word: ir.Value) -> ir.Value:
        """Where one of the lane's own words (`Word`) is."""

    def pointer(self, address: ir.Value) -> ir.Value:
        """An address of the target's memory as a pointer."""

    def part(self, base: ir.Value, size: ir.Value, at: ir.Value) -> ir.Value:
        """Byte `at` of the lane's part of buffers of `size` bytes that begin at the address `base`."""

    def local(self, words: int) -> ir.Value:
        """Where words are that only this call uses; to be called in the function's first block."""

    def read(self, address: ir.Value, size: ir.Value, to: ir.Value) -> ir.Value:
        """Copy 1 to `PAGE` bytes from the guest; whether that was refused."""

    def write(self, address: ir.Value, size: ir.Value, source: ir.Value) -> ir.Value:
        """Copy 1 to `PAGE` bytes to the guest, all or nothing; whether that was refused."""

    def examine(self, start: ir.Value, end: ir.Value) -> ir.Value:
        """What the pages of a range are: SOME_..."""

    def change(self, start: ir.Value, end: ir.Value, become: ir.Value) -> None:
        """Set what the pages of a range are: bits of `Prot`, MAP and KEEP."""

    def show(
        self,
        start: ir.Value,
        end: ir.Value,
        become: ir.Value,
        content: ir.Value,
        size: ir.Value,
        rest: ir.Value,
    ) -> ir.Value:
        """The same of pages that are not mapped. They show `size` bytes from an address, then `rest`.

        That is 0 for zeros, or FILE for what is past a file's end. The result: whether it was done.
        """


LaneOf = Callable[[Emitter, ir.Function], Lane]
"""The lane of a function with the arguments of `BUILDS`, at its beginning."""


class Call:
    """A system call under construction: the machine as its code sees it, and the ways to end."""

    def __init__(self, module: ir.Module, name: str, lane_of: LaneOf) -> None:
        self.fn = ir.Function(module, BUILDS, name)
        self.fn.linkage = "internal"
        self.e = Emitter(self.fn.append_basic_block("entry"))
        self.state, self.registers, _, self.retired = self.fn.args
        self.lane = lane_of(self.e, self.fn)

    # -- values ----------------------------------------------------------------------------------------------
    def x(self, number: int, kind: str = "n") -> ir.Value:
        """An argument; i is signed and u unsigned 32 bits, all others 64."""
        raw = self.e.load_at(self.registers, 8 * number, I64)
        if kind == "n":
            return raw
        return (self.e.sext if kind == "i" else self.e.zext)(self.e.trunc(raw, I32), I64)

    def get(self, word: Word, index: ir.Value | int = 0) -> ir.Value:
        """One of the lane's own words, or one of those after it."""
        return self.e.load(self._own(word, index), typ=I64)

    def put(self, word: Word, value: ir.Value, index: ir.Value | int = 0) -> None:
        self.e.store(value, self._own(word, index))

    def _own(self, word: Word, index: ir.Value | int) -> ir.Value:
        later = const(index) if isinstance(index, int) else index
        return self.lane.own(self.e.add(later, const(word)))

    def fixed(self, first: int, index: ir.Value | int = 0) -> ir.Value:
        """A word that is the same for all lanes."""
        return self.e.load(self.place(first, index), typ=I64)

    def place(self, first: int, index: ir.Value | int = 0) -> ir.Value:
        """Where such a word is."""
        later = const(index) if isinstance(index, int) else index
        return self.e.at(self.lane.process, self.e.mul(self.e.add(later, const(first)), const(8)))

    def local(self, words: int) -> ir.Value:
        """The address of words that only this call uses."""
        with self.e.goto_entry_block():
            return self.lane.local(words)

    def uptime(self) -> ir.Value:
        """CLOCK_MONOTONIC."""
        return self.e.add(self.retired, self.get(Word.SKIPPED))

    def realtime(self) -> ir.Value:
        """CLOCK_REALTIME."""
        return self.e.add(self.uptime(), const(EPOCH * BILLION))

    # -- conditions ------------------------------------------------------------------------------------------
    def equal(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        """Whether two words are equal."""
        return self.e.icmp_unsigned("==", a, const(b) if isinstance(b, int) else b)

    def below(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        """Whether `a` is less than `b`, unsigned."""
        return self.e.icmp_unsigned("<", a, const(b) if isinstance(b, int) else b)

    def has(self, value: ir.Value, bits: int) -> ir.Value:
        """Whether any of these bits is set."""
        return self.e.not_(self.equal(self.e.and_(value, const(bits)), 0))

    # -- ways to end -----------------------------------------------------------------------------------------
    def ret(self, value: ir.Value | int) -> None:
        self.e.ret(const(value) if isinstance(value, int) else value)

    def refuse(self) -> None:
        """The CPU must do it."""
        self.ret(NOT_HERE)

    def ret_if(self, condition: ir.Value, value: ir.Value | int) -> None:
        """The result, if the condition holds."""
        end, after = self.e.append_basic_block("end"), self.e.append_basic_block("after")
        self.e.cbranch(condition, end, after)
        self.e.position_at_end(end)
        self.ret(value)
        self.e.position_at_end(after)

    def refuse_if(self, condition: ir.Value) -> None:
        """The CPU must do it."""
        self.ret_if(condition, NOT_HERE)

    def refuse_unless(self, condition: ir.Value) -> None:
        """The CPU must do it, unless the condition holds."""
        self.refuse_if(self.e.not_(condition))

    def fail_if(self, condition: ir.Value, errno: Errno) -> None:
        self.ret_if(condition, -errno)

    # -- guest memory ----------------------------------------------------------------------------------------
    def read(self, address: ir.Value, size: ir.Value | int, to: ir.Value) -> None:
        """Copy 1 to `PAGE` bytes from the guest."""
        self.refuse_if(self.lane.read(address, const(size) if isinstance(size, int) else size, to))

    def write(self, address: ir.Value, size: ir.Value | int, source: ir.Value) -> None:
        """Copy 1 to `PAGE` bytes to the guest, all or nothing."""
        self.refuse_if(self.lane.write(address, const(size) if isinstance(size, int) else size, source))

    def read_string(self, address: ir.Value, to: ir.Value, size: int) -> None:
        """Copy a string with the zero at its end; refused if there is none in `size` bytes."""
        e, at = self.e, self.local(1)
        e.store(const(0), at)
        loop, step, done = (e.append_basic_block(name) for name in ("loop", "step", "done"))
        e.branch(loop)
        e.position_at_end(loop)
        i = e.load(at, typ=I64)
        self.refuse_unless(self.below(i, size))
        here = e.at(to, i)
        self.read(e.add(address, i), 1, here)
        e.cbranch(e.icmp_unsigned("==", e.load(here, typ=I8), ir.Constant(I8, 0)), done, step)
        e.position_at_end(step)
        e.store(e.add(i, const(1)), at)
        e.branch(loop)
        e.position_at_end(done)

    def write_words(self, address: ir.Value, *words: ir.Value) -> None:
        """Write 64-bit words to the guest."""
        data = self.local(len(words))
        for i, word in enumerate(words):
            self.e.store_at(word, data, 8 * i)
        self.write(address, 8 * len(words), data)

    def read_words(self, address: ir.Value, count: int) -> list[ir.Value]:
        """Read 64-bit words of the guest."""
        data = self.local(count)
        self.read(address, 8 * count, data)
        return [self.e.load_at(data, 8 * i, I64) for i in range(count)]

    @contextmanager
    def pieces(self, address: ir.Value, size: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
        """For each page of a range: first address, bytes before it, bytes in it. Refused if it has a tag."""
        e = self.e
        end = e.add(address, size)
        self.refuse_unless(e.and_(self.below(address, 1 << VA_BITS), self.below(size, 1 << VA_BITS)))
        first, last = e.lshr(address, const(12)), e.lshr(e.add(end, const(PAGE - 1)), const(12))
        with e.repeat(e.select(self.equal(size, 0), const(0), e.sub(last, first))) as i:
            page = e.shl(e.add(first, i), const(12))
            at = e.select(self.below(page, address), address, page)
            following = e.add(page, const(PAGE))
            stop = e.select(self.below(end, following), end, following)
            yield at, e.sub(at, address), e.sub(stop, at)

    def examine(self, start: ir.Value, end: ir.Value) -> ir.Value:
        """What the pages of a range are: SOME_..."""
        self.refuse_if(self.e.or_(self.below(const(1 << VA_BITS), end), self.below(end, start)))
        self.refuse_unless(self.below(self.e.sub(end, start), LARGEST + 1))
        return self.lane.examine(start, end)

    def require_writable(self, address: ir.Value, size: ir.Value) -> None:
        """Refused unless the guest may write all of a range."""
        e = self.e
        self.refuse_unless(e.and_(self.below(address, 1 << VA_BITS), self.below(size, LARGEST)))
        end = e.add(e.add(address, size), const(PAGE - 1))
        found = self.examine(e.and_(address, const(-PAGE)), e.and_(end, const(-PAGE)))
        self.refuse_if(self.has(found, SOME_FIXED))

    def change(self, start: ir.Value, end: ir.Value, become: ir.Value | int) -> None:
        """Set what the pages of a range are: bits of `Prot`, MAP and KEEP."""
        self.lane.change(start, end, const(become) if isinstance(become, int) else become)

    def show(
        self,
        start: ir.Value,
        end: ir.Value,
        become: ir.Value,
        content: ir.Value,
        size: ir.Value,
        rest: ir.Value,
    ) -> None:
        """As `Lane.show`; the CPU must do it if that did not."""
        self.refuse_unless(self.lane.show(start, end, become, content, size, rest))

    # -- descriptors -----------------------------------------------------------------------------------------
    def open_file(self, fd: ir.Value) -> ir.Value:
        """The number of the open file that a descriptor below DESCRIPTORS refers to; 0 if there is none."""
        return self.e.and_(self.get(Word.DESCRIPTOR, fd), const(0xFFFFFFFF))

    def kind(self, fd: ir.Value) -> ir.Value:
        """What that is: a `Stream`."""
        number = self.open_file(fd)
        opened = self.get(Word.OPENED, number)
        # answer 0 is none, and there is room for its kind all the same
        of_answer = self.e.load_at(self.answer(self.e.and_(opened, const(0xFFFFFFFF))), 8 * Answer.KIND, I64)
        return self.e.select(self.equal(opened, 0), self.fixed(KINDS, number), of_answer)

    def stream(self, fd: ir.Value) -> ir.Value:
        """The same of any descriptor; EBADF if it is none, and those that are not known are for the CPU."""
        beyond = self.e.not_(self.below(fd, DESCRIPTORS))
        self.refuse_if(self.e.and_(beyond, self.has(self.fixed(Fixed.BEYOND), 1)))
        self.fail_if(beyond, Errno.EBADF)
        kind = self.kind(fd)
        self.refuse_if(self.equal(kind, Stream.OTHER))
        self.fail_if(self.equal(kind, Stream.NONE), Errno.EBADF)
        return kind

    def answer(self, number: ir.Value) -> ir.Value:
        """Where an answer of the host is (`Answer`)."""
        e = self.e
        return e.at(self.lane.pointer(self.fixed(Fixed.FILES)), e.mul(number, const(8 * ANSWER_WORDS)))

    # -- the log ---------------------------------------------------------------------------------------------
    def require_room_in_log(self) -> None:
        """Refused if nothing more can be logged."""
        self.refuse_unless(self.below(self.get(Word.LOGGED), self.fixed(Fixed.RECORDS)))

    def log(self, number: int, result: ir.Value, *arguments: ir.Value) -> None:
        """Note a call that the CPU will have to repeat, if it takes the lane; the arguments, unless given."""
        e, used = self.e, self.get(Word.LOGGED)
        words = arguments or [self.x(i) for i in range(ARGUMENTS)]
        for i, value in enumerate([const(number), result, *words]):
            e.store_at(value, self.record(used), 8 * i)
        self.put(Word.LOGGED, e.add(used, const(1)))

    def record(self, index: ir.Value) -> ir.Value:
        """Where a record of the log is: number, result, arguments."""
        e = self.e
        size = e.mul(self.fixed(Fixed.RECORDS), const(RECORD))
        return self.lane.part(self.fixed(Fixed.LOG), size, e.mul(index, const(RECORD)))


Build = Callable[[Call], None]


def build_resident(module: ir.Module, calls: Mapping[int, Build], lane_of: LaneOf) -> ir.Function:
    """Emit `resident` with these calls by number."""
    c = Call(module, "resident", lane_of)
    e = c.e
    c.ret_if(e.icmp_unsigned("==", c.lane.process, ir.Constant(PTR, None)), LEAVE)
    leave, unknown, end, done = (e.append_basic_block(name) for name in ("leave", "unknown", "end", "done"))
    switch = e.switch(e.trunc(c.x(8), I32), unknown)
    results: list[tuple[ir.Value, ir.Block]] = [(const(-Errno.ENOSYS), unknown)]
    for number, row in TABLE.items():
        case = e.append_basic_block(row.name)
        switch.add_case(ir.Constant(I32, number), case)
        e.position_at_end(case)
        if row.name in ("exit", "exit_group"):
            e.branch(end)
        elif number in calls:
            body = Call(module, f"sys_{row.name}", lane_of)
            calls[number](body)
            results.append((e.call(body.fn, list(c.fn.args)), e.block))
            e.branch(done)
        else:
            e.branch(leave)
    e.position_at_end(unknown)
    e.branch(done)
    e.position_at_end(leave)
    e.ret(const(LEAVE))
    e.position_at_end(end)
    e.store_at(e.and_(c.x(0), const(0xFF)), c.state, layout.ADDRESS)
    e.ret(const(EXIT))
    e.position_at_end(done)
    result = e.phi(I64)
    for value, block in results:
        result.add_incoming(value, block)
    c.ret_if(c.equal(result, NOT_HERE), LEAVE)
    c.ret_if(c.equal(result, UNANSWERED), ASKED)
    e.store(result, c.registers)
    e.ret(const(DONE))
    return c.fn
