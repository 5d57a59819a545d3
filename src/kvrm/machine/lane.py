"""One lane: the state, memory, process and engine of one guest machine, and the loop that runs it."""

from __future__ import annotations

import time
from typing import Any

from kvrm.errors import HostError, KvrmError
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.machine.breakpoints import Breakpoints
from kvrm.machine.runner import Watch
from kvrm.machine.stops import (
    BUDGET,
    CANCELLED,
    OUT_OF_MEMORY,
    Fields,
    assembly,
    breakpoint_at,
    explain,
    explain_end,
)
from kvrm.memory import GuestFault, Memory, OutOfMemory


class Lane:
    """What a machine of one lane runs, and a worker runs one after the other.

    `process` is None on a bare machine, `engine` one of `kvrm.machine.engines`; `watch` is told while it
    runs; `replacements` answers calls of known functions (`kvrm.binary.replacement`), None if none are.
    """

    def __init__(self, state: State, memory: Memory, process: Any, engine: Any, watch: Watch) -> None:
        self.state, self.memory, self.process, self.engine, self.watch = state, memory, process, engine, watch
        self.breakpoints = Breakpoints()
        self.replacements: Any = None
        memory.on_remap = engine.invalidate

    @property
    def retired(self) -> int:
        """Instructions retired since the lane was made or restored to."""
        count: int = self.engine.retired
        return count

    def run_to(self, end: int, resumed: bool = False) -> Fields:
        """Run to a retired count, serving system calls; the fields of the Result that tell why it stopped.

        `resumed`: native code has left already, entered by another loop.
        """
        engine, process, watch, system_call = self.engine, self.process, self.watch, Reason.SVC
        replaced, budget = self.replacements, Reason.BUDGET
        stops = self.breakpoints | (replaced.functions.keys() if replaced else set())
        words, account = self.state.words, engine.account
        retired = engine.retired
        while True:
            over, due = None, None if process is None else process.due
            try:
                if resumed:
                    left, resumed = engine.resume(end), False
                else:
                    until = end if due is None else min(end, due)
                    left = engine.run(min(until - retired, watch.slice), stops)
                retired = engine.retired
                if left is not None and left.kind is system_call and process is not None:
                    number, began = words[8] & 0xFFFFFFFF, time.perf_counter()
                    over = process.syscall(retired)
                    account.called(number, time.perf_counter() - began)
                elif left and left.kind is not budget and not (replaced and replaced.takes(self, left)):
                    return explain(left, self.state.pc, self._word)
                if over is None and due is not None and retired >= due:
                    over = process.expire(retired)
            except OutOfMemory:
                return OUT_OF_MEMORY
            except (KvrmError, KeyboardInterrupt, GuestFault):
                raise
            except Exception as error:
                raise self._host_error(error) from error
            if over is not None:
                return explain_end(over)
            if retired >= end:
                return BUDGET
            if self.state.pc in self.breakpoints:
                return breakpoint_at(self.state.pc)
            if watch.tick(retired):
                return CANCELLED

    def settle(self) -> None:
        """Nothing is lent while the lane does not run; calls that native code answered count."""
        if self.process is not None:
            self.process.lent.end(self.process)
            for number, count in self.process.lent.counted().items():
                self.engine.account.called(number, 0.0, count)

    def _word(self) -> int | None:
        try:
            return int.from_bytes(self.memory.peek(self.state.pc, 4), "little")
        except GuestFault:
            return None

    def _host_error(self, error: Exception) -> HostError:
        word = self._word()
        return HostError(
            f"{type(error).__name__}: {error}",
            pc=self.state.pc,
            word=word,
            disassembly=assembly(word, self.state.pc),
            advice="this is a fault of KVRM, please report it with the program and this line",
        )
