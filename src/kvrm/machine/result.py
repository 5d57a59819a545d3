"""What a run gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvrm.lane.stops import Stop
from kvrm.memory import AccessKind


@dataclass(frozen=True, slots=True)
class Fault:
    """A memory access that failed: where, what kind, and whether anything was mapped there."""

    address: int
    kind: AccessKind
    mapped: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One run: why it stopped and what it cost.

    `seconds` is wall time, `ips` retired instructions per second of it. `signal` is the Linux signal that a
    fault, an undefined instruction, a BRK or the program itself stands for. `stdout` and `stderr` are what
    was captured so far. `hint` is one line where what KVRM lacks may be why a program ended badly, else "".
    """

    stop: Stop
    retired: int
    seconds: float
    pc: int
    exit_code: int | None = None
    signal: int | None = None
    word: int | None = None
    fault: Fault | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    message: str = ""
    hint: str = ""

    @property
    def ips(self) -> float:
        """Retired instructions per second."""
        return self.retired / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, or the last one came. `retired` and `finished` never go back during a run.

    `finished` of `lanes` have stopped, `stops` of them for each reason; lanes that used up their budget or
    were cancelled, and so can go on, are not among them. `retired` instructions of all lanes and `seconds`
    are those of this run.
    """

    running: bool
    lanes: int
    finished: int
    retired: int
    seconds: float
    stops: dict[Stop, int] = field(default_factory=dict)

    @property
    def ips(self) -> float:
        """Retired instructions per second, of all lanes together."""
        return self.retired / self.seconds if self.seconds else 0.0
