"""What staged system calls (`kvrm.linux.resident`) need to know of a lane on the host."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from kvrm.backend.cpu import space
from kvrm.backend.cpu.table import Field
from kvrm.staging.emitter import I64, PTR, Emitter
from kvrm.staging.translation import define


class HostLane:
    """The present lane of a table, whose address calls have as their third argument."""

    def __init__(self, e: Emitter, fn: ir.Function) -> None:
        self._e, self._module = e, fn.module
        self._table = e.inttoptr(fn.args[2], PTR)
        self._words = e.load_at(self._table, 8 * Field.WORDS, PTR)
        self.process = e.load_at(self._table, 8 * Field.PROCESS, PTR)

    def own(self, word: ir.Value) -> ir.Value:
        """Where one of the lane's own words is."""
        return self._e.at(self._words, self._e.shl(word, ir.Constant(I64, 3)))

    def pointer(self, address: ir.Value) -> ir.Value:
        """A host address as a pointer."""
        return self._e.inttoptr(address, PTR)

    def part(self, base: ir.Value, size: ir.Value, at: ir.Value) -> ir.Value:
        """A byte of a buffer: the worker's, for its lanes run one after another."""
        return self.pointer(self._e.add(base, at))

    def local(self, words: int) -> ir.Value:
        """Words on the host's stack."""
        found = self._e.alloca(ir.ArrayType(I64, words))
        found.type, found.align = PTR, 16
        return found

    def read(self, address: ir.Value, size: ir.Value, to: ir.Value) -> ir.Value:
        """Copy from the guest; whether that was refused."""
        return self._refused(space.read_guest, address, size, self._e.ptrtoint(to, I64))

    def write(self, address: ir.Value, size: ir.Value, source: ir.Value) -> ir.Value:
        """Copy to the guest; whether that was refused."""
        return self._refused(space.write_guest, address, size, self._e.ptrtoint(source, I64))

    def _refused(self, function: Callable[..., int], *arguments: ir.Value) -> ir.Value:
        return self._e.icmp_unsigned("!=", self._call(function, *arguments), ir.Constant(I64, 0))

    def examine(self, start: ir.Value, end: ir.Value) -> ir.Value:
        """What the pages of a range are."""
        return self._call(space.examine, start, end)

    def change(self, start: ir.Value, end: ir.Value, become: ir.Value) -> None:
        """Set what the pages of a range are."""
        self._call(space.change, start, end, become)

    def show(
        self,
        start: ir.Value,
        end: ir.Value,
        become: ir.Value,
        content: ir.Value,
        size: ir.Value,
        rest: ir.Value,
    ) -> ir.Value:
        """Map pages, which is always done."""
        done = self._call(space.show, start, end, become, content, size, rest)
        return self._e.icmp_unsigned("!=", done, ir.Constant(I64, 0))

    def _call(self, function: Callable[..., int], *arguments: ir.Value) -> ir.Value:
        return self._e.call(define(self._module, function), [self._table, *arguments])
