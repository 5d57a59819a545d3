"""What lanes give back: an array for each thing, with an element for each lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kvrm import arguments
from kvrm.errors import UsageError
from kvrm.lane.stops import STOPS, Stop
from kvrm.lane.words import words_of
from kvrm.machine.lanes_inputs import STREAMS, Words, flags_of, span_of
from kvrm.machine.result import Fault, Result
from kvrm.machine.stops import SIGILL, SIGTRAP, Fields, message_of
from kvrm.machine.texts import Texts
from kvrm.memory import AccessKind

Bytes = npt.NDArray[np.uint8]
T = TypeVar("T", bound=np.generic)
NOT_RUN = 255
"""In `Outputs.stop`: the lane has not begun."""
HAS_REASON = (Stop.SYSCALL, Stop.MISPLACED)
"""Stops of a program whose message cannot be made of what results hold."""


class KeptMemory:
    """`results.memory[start:stop]`: bytes of shape (lanes, stop - start), of a range that was kept."""

    def __init__(self, ranges: dict[tuple[int, int], Bytes]) -> None:
        self._ranges = ranges

    def __getitem__(self, key: slice) -> Bytes:
        start, stop = span_of(key, "results.memory")
        for (first, last), data in self._ranges.items():
            if first <= start and stop <= last:
                return data[:, start - first : stop - first]
        raise UsageError(f"guest memory [{start:#x}:{stop:#x}] was not kept; name it in lanes.keep")


class KeptRegisters(dict[str, Words]):
    """`results.registers[name]`: an array of each register that was kept."""

    def __getitem__(self, name: str) -> Words:
        if not isinstance(name, str) or name not in self:
            raise UsageError(f"register {arguments.shown(name)} was not kept; name it in lanes.keep")
        return super().__getitem__(name)


@dataclass(frozen=True, eq=False, repr=False)
class LaneResults:
    """How each lane stopped, and what was kept of it; element i is lane i.

    `stop` are the codes of stop reasons (`STOPS[code]`, `Stop.code`); `retired` counts since the lanes began,
    over all runs. `exit_code` is -1 and `signal`, `fault_kind` (an `AccessKind`) are 0 where there is none.
    `fault_mapped` tells whether anything was mapped at `fault_address`. `registers` has an array for each
    name in `lanes.keep`, of shape (lanes,), or (lanes, 2) for v registers, low words first. Of lanes that
    have not begun, everything is 0. `stdout` and `stderr` are sequences of bytes, and arrays (`Texts`); empty
    if they were not kept. `seconds` is the wall time of the last run. Arrays are read-only.
    """

    stop: Bytes
    retired: Words
    pc: Words
    exit_code: npt.NDArray[np.int16]
    signal: Bytes
    fault_address: Words
    fault_kind: Bytes
    fault_mapped: npt.NDArray[np.bool_]
    registers: KeptRegisters
    memory: KeptMemory
    stdout: Texts
    stderr: Texts
    seconds: float
    reasons: Mapping[int, str]
    """By lane, what stopped it, where it is not what all lanes with that stop reason are told."""

    def __len__(self) -> int:
        return len(self.stop)

    @property
    def stops(self) -> dict[Stop, int]:
        """How many lanes stopped for each reason, the commonest first."""
        counts = np.bincount(self.stop, minlength=len(STOPS))
        return {STOPS[code]: int(counts[code]) for code in np.argsort(-counts, kind="stable") if counts[code]}

    def lane(self, number: int) -> Result:
        """Lane `number` as the result of one machine; `seconds` is that of all lanes.

        The message of an instruction that stopped it does not tell the instruction, of which nothing is kept.
        """
        number = arguments.position("lane", number, len(self))
        stop = STOPS[self.stop[number]]
        pc, code, signal = int(self.pc[number]), int(self.exit_code[number]), int(self.signal[number])
        fault = None
        if stop is Stop.FAULT:
            kind = AccessKind(int(self.fault_kind[number]))
            fault = Fault(int(self.fault_address[number]), kind, bool(self.fault_mapped[number]))
        return Result(
            stop=stop,
            retired=int(self.retired[number]),
            seconds=self.seconds,
            pc=pc,
            exit_code=None if code < 0 else code,
            signal=signal or None,
            fault=fault,
            stdout=self.stdout[number] if self.stdout else b"",
            stderr=self.stderr[number] if self.stderr else b"",
            message=self.reasons.get(number) or message_of(stop, pc, code, signal, fault),
        )

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {stop.value}" for stop, count in self.stops.items())
        return f"<kvrm.LaneResults {len(self)} lanes: {counts}>"


class Outputs:
    """The arrays while they are filled; worker threads write to elements of different lanes.

    `results` shows them, so `go_on` must be called before they are filled further. `empty` makes the large
    ones, which must then be filled; without it, or after `require_zeros`, they begin with zeros.
    """

    def __init__(
        self,
        lanes: int,
        keep: Sequence[str | slice],
        program: bool,
        empty: Callable[[tuple[int, ...], npt.DTypeLike], Any] | None = None,
    ) -> None:
        self._undefined, large = empty is not None, empty or np.zeros
        self.stop = np.full(lanes, NOT_RUN, np.uint8)
        self.retired: Words = large((lanes,), np.uint64)
        self.retired[...] = 0
        self.pc: Words = large((lanes,), np.uint64)
        self.exit_code = np.full(lanes, -1, np.int16)
        self.signal = np.zeros(lanes, np.uint8)
        self.fault_address = np.zeros(lanes, np.uint64)
        self.fault_kind = np.zeros(lanes, np.uint8)
        self.fault_mapped = np.zeros(lanes, np.bool_)
        self._program = program
        self._reasons: dict[int, str] = {}
        names = [name for name in keep if isinstance(name, str)]
        self.registers: dict[str, Words] = {}
        for name in names:
            if name not in STREAMS:
                shape = (lanes, 2) if words_of(name) == 2 else (lanes,)
                self.registers[name] = large(shape, np.uint64)
        self.memory: dict[tuple[int, int], Bytes] = {}
        for span in (s for s in keep if isinstance(s, slice)):
            self.memory[span.start, span.stop] = large((lanes, span.stop - span.start), np.uint8)
        nothing = [b""] * lanes if program else []
        self.streams: dict[str, Any] = {name: nothing.copy() if name in names else [] for name in STREAMS}

    def require_zeros(self) -> None:
        """Lanes that have not begun have zeros."""
        if self._undefined:
            large: list[Any] = [self.pc, *self.registers.values(), *self.memory.values()]
            for array in large:
                array[...] = 0
        self._undefined = False

    def put(self, lane: int, outcome: Fields) -> None:
        """Store what `Machine._run_to` says of a lane, but for code, count and pc."""
        self.exit_code[lane] = outcome.get("exit_code", -1)
        self.signal[lane] = outcome.get("signal", 0)
        if self._program and outcome["stop"] in HAS_REASON:
            self._reasons[lane] = outcome["message"]
        fault = outcome.get("fault")
        if fault is not None:
            self.fault_address[lane] = fault.address
            self.fault_kind[lane] = fault.kind
            self.fault_mapped[lane] = fault.mapped

    def go_on(self) -> None:
        """Have copies of all that was shown."""
        for name in ("retired", "pc", "exit_code", "fault_address", "fault_kind", "fault_mapped"):
            setattr(self, name, getattr(self, name).copy())
        self.registers = {name: values.copy() for name, values in self.registers.items()}
        self.memory = {span: data.copy() for span, data in self.memory.items()}

    def results(self, unfinished: Stop, seconds: float) -> LaneResults:
        """What there is; lanes that have not begun count as `unfinished`."""
        stop = np.where(self.stop == NOT_RUN, np.uint8(unfinished.code), self.stop)
        signal = self.signal.copy()
        for reason, number in ((Stop.BRK, SIGTRAP), (Stop.UNDEFINED, SIGILL)):
            of_reason = stop == reason.code
            if of_reason.any():
                signal[of_reason] = number
        return LaneResults(
            stop=stop,
            retired=_read_only(self.retired),
            pc=_read_only(self.pc),
            exit_code=_read_only(self.exit_code),
            signal=signal,
            fault_address=_read_only(self.fault_address),
            fault_kind=_read_only(self.fault_kind),
            fault_mapped=_read_only(self.fault_mapped),
            registers=KeptRegisters(
                {
                    name: flags_of(values) if name == "nzcv" else _read_only(values)
                    for name, values in self.registers.items()
                }
            ),
            memory=KeptMemory({span: _read_only(data) for span, data in self.memory.items()}),
            stdout=_texts(self.streams["stdout"]),
            stderr=_texts(self.streams["stderr"]),
            seconds=seconds,
            reasons=self._reasons.copy(),
        )


def _texts(stream: Sequence[bytes]) -> Texts:
    return stream if isinstance(stream, Texts) else Texts.of(stream)


def _read_only(array: npt.NDArray[T]) -> npt.NDArray[T]:
    view = array.view()
    view.flags.writeable = False
    return view
