"""What staged system calls (`kvrm.linux.resident`) need to know of a lane on the device."""

from __future__ import annotations

from llvmlite import ir

from kvrm.backend.gpu import ranges
from kvrm.backend.gpu.device_abi import LINUX, PAGES_LEFT, Param, pointer
from kvrm.backend.gpu.group_memory import local_words, slow_function
from kvrm.backend.gpu.thread import Thread
from kvrm.linux.resident import calls
from kvrm.staging.emitter import I64, Emitter


def resident(module: ir.Module) -> ir.Function:
    """The module's function `resident`, whose third argument is the address of the parameters."""
    made = "resident" in module.globals
    fn = calls.resident(module, DeviceLane)
    if not made:
        fn.attributes.add("noinline")  # large and rare: in the loop it would cost all handlers registers
    return fn


class DeviceLane:
    """The lane of a thread (`kvrm.linux.resident.call.Lane`)."""

    def __init__(self, e: Emitter, fn: ir.Function) -> None:
        self._e, self._module = e, fn.module
        self._state, _, self._params, _ = fn.args
        self._thread = Thread(e, self._params)
        self.process = pointer(e, e.load_at(self._thread.params, 8 * Param.PROCESS, I64))

    def own(self, word: ir.Value) -> ir.Value:
        """Where one of the lane's own words is: those of a group lie side by side."""
        e = self._e
        offset = e.mul(e.add(word, ir.Constant(I64, LINUX)), ir.Constant(I64, 256))
        return e.at(pointer(e, self._thread.state), offset)

    def pointer(self, address: ir.Value) -> ir.Value:
        """An address of device memory as a pointer."""
        return pointer(self._e, address)

    def part(self, base: ir.Value, size: ir.Value, at: ir.Value) -> ir.Value:
        """A byte of the lane's part of a buffer."""
        e = self._e
        return pointer(e, e.add(base, e.add(e.mul(self._thread.number, size), at)))

    def local(self, words: int) -> ir.Value:
        """Words of the thread's own."""
        return local_words(self._e, words)

    def read(self, address: ir.Value, size: ir.Value, to: ir.Value) -> ir.Value:
        """Copy from the guest; whether that was refused."""
        return self._copy("read_slow", address, size, to)

    def write(self, address: ir.Value, size: ir.Value, source: ir.Value) -> ir.Value:
        """Copy to the guest; whether that was refused."""
        return self._copy("write_slow", address, size, source)

    def _copy(self, name: str, address: ir.Value, size: ir.Value, data: ir.Value) -> ir.Value:
        e, t = self._e, self._thread
        arguments = [self._state, self._params, t.table, t.lane, address, size, data]
        status = e.call(slow_function(self._module, name), arguments)
        return e.icmp_unsigned("!=", status, ir.Constant(I64, 0))

    def examine(self, start: ir.Value, end: ir.Value) -> ir.Value:
        """What the pages of a range are."""
        return self._e.call(ranges.examine(self._module), [self._params, start, end])

    def change(self, start: ir.Value, end: ir.Value, become: ir.Value) -> None:
        """Set what the pages of a range are."""
        arguments = [self._params, start, end, become, self._pages_left]
        self._e.call(ranges.change(self._module), arguments)

    def show(
        self,
        start: ir.Value,
        end: ir.Value,
        become: ir.Value,
        content: ir.Value,
        size: ir.Value,
        rest: ir.Value,
    ) -> ir.Value:
        """Map pages; false if one of them shows something else to another lane."""
        arguments = [self._params, start, end, become, self._pages_left, content, size, rest]
        return self._e.call(ranges.show(self._module), arguments)

    @property
    def _pages_left(self) -> ir.Value:
        return self._e.at(self._state, PAGES_LEFT)
