"""System calls that native code answers itself: `read` and `ppoll` of the file that is read ahead.

The host has put the next bytes of a file where native code finds them (`kvrm.linux.ahead`). All that is not
usual is left to the host: too few bytes, buffers that the guest may not write now or that take three pages,
several descriptors, a limit on waiting.
"""

from __future__ import annotations

from llvmlite import ir

from kvrm.engine.interpreter.memory_access import entry, host_address, page_table
from kvrm.lane.stops import Reason
from kvrm.linux import abi
from kvrm.machine import state as layout
from kvrm.memory import PAGE, R_BIT, VA_BITS, W_BIT
from kvrm.staging.emitter import I16, I32, I64, PTR, Callee, Emitter

READY = abi.POLLIN | abi.POLLOUT | abi.POLLRDNORM | abi.POLLWRNORM
"""What holds of each regular file."""
_MEMMOVE = ir.FunctionType(PTR, [PTR, PTR, I64])


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value & (1 << 64) - 1)


class _Answer:
    """Code that answers a call, or branches to `no` before anything has happened."""

    def __init__(self, e: Emitter, state: ir.Value, no: ir.Block) -> None:
        self._e, self._state, self._no = e, state, no

    def word(self, offset: int, t: ir.Type = I64) -> ir.Value:
        return self._e.load_at(self._state, offset, t)

    def set(self, offset: int, value: ir.Value) -> None:
        """Set a word of the state."""
        self._e.store_at(value, self._state, offset)

    def require(self, condition: ir.Value) -> None:
        """Go on only if the condition holds."""
        met = self._e.append_basic_block("met")
        self._e.cbranch(condition, met, self._no)
        self._e.position_at_end(met)

    def require_file(self, fd: ir.Value) -> None:
        """Go on only if the descriptor, 32 bits, is the file's."""
        e = self._e
        self.require(e.icmp_unsigned("==", e.add(e.zext(fd, I64), _c(1)), self.word(layout.AHEAD_FD)))

    def page(self, address: ir.Value, bits: int) -> ir.Value:
        """The page-table entry of an address, which has no tag, and whose page allows what `bits` say."""
        e = self._e
        self.require(e.icmp_unsigned("<", address, _c(1 << VA_BITS)))
        found = entry(e, page_table(e, self._state), address, self._no)
        self.require(e.icmp_unsigned("==", e.and_(found, _c(bits)), _c(bits)))
        return found

    def read(self) -> None:
        """`read(fd, buffer, count)`, of 1 byte to a page."""
        e = self._e
        self.require_file(self.word(0, I32))
        buffer, count, left = self.word(8), self.word(16), self.word(layout.AHEAD_LEFT)
        self.require(e.icmp_unsigned("<", e.sub(count, _c(1)), _c(PAGE)))
        self.require(e.icmp_unsigned("<=", count, left))
        offset = e.and_(buffer, _c(PAGE - 1))
        first = self.page(buffer, W_BIT)
        last = self.page(e.add(buffer, e.sub(count, _c(1))), W_BIT)
        room = e.sub(_c(PAGE), offset)
        head = e.select(e.icmp_unsigned("<", count, room), count, room)
        source = self.word(layout.AHEAD_BYTES, PTR)
        copy = Callee(self.word(layout.AHEAD_COPY, PTR), _MEMMOVE)
        e.call(copy, [host_address(e, first, offset), source, head])
        with e.if_then(e.icmp_unsigned("!=", head, count), likely=False):
            e.call(copy, [host_address(e, last, _c(0)), e.at(source, head), e.sub(count, head)])
        self.set(layout.AHEAD_BYTES, e.at(source, count))
        self.set(layout.AHEAD_LEFT, e.sub(left, count))
        self.set(0, count)
        self._count(layout.AHEAD_READS)

    def ppoll(self) -> None:
        """`ppoll(fds, 1, NULL, ...)` for what holds."""
        e = self._e
        fds = self.word(0)
        self.require(e.icmp_unsigned("==", self.word(8), _c(1)))
        self.require(e.icmp_unsigned("==", self.word(16), _c(0)))
        offset = e.and_(fds, _c(PAGE - 1))
        self.require(e.icmp_unsigned("<=", offset, _c(PAGE - 8)))
        at = host_address(e, self.page(fds, R_BIT | W_BIT), offset)
        self.require_file(e.load_at(at, 0, I32, align=1))
        found = e.and_(e.load_at(at, 4, I16, align=1), ir.Constant(I16, READY))
        self.require(e.icmp_unsigned("!=", found, ir.Constant(I16, 0)))
        e.store_at(found, at, 6, align=1)
        self.set(0, _c(1))
        self._count(layout.AHEAD_POLLS)

    def _count(self, offset: int) -> None:
        self.set(offset, self._e.add(self.word(offset), _c(1)))


def answer(e: Emitter, state: ir.Value, no: ir.Block) -> None:
    """Answer the system call that native code has just left for, or go to `no`."""
    a = _Answer(e, state, no)
    a.require(e.icmp_unsigned("==", a.word(layout.REASON), _c(Reason.SVC)))
    a.require(e.icmp_unsigned("==", a.word(layout.ADDRESS), _c(0)))
    a.require(e.icmp_unsigned("!=", a.word(layout.REMAINING), _c(0)))
    a.require(e.icmp_unsigned("!=", a.word(layout.AHEAD_FD), _c(0)))
    read, ppoll, done = (e.append_basic_block(name) for name in ("read", "ppoll", "answered"))
    chosen = e.switch(a.word(8 * 8, I32), no)
    for number, block, emit in ((abi.NR_READ, read, a.read), (abi.NR_PPOLL, ppoll, a.ppoll)):
        chosen.add_case(ir.Constant(I32, number), block)
        e.position_at_end(block)
        emit()
        e.branch(done)
    e.position_at_end(done)
