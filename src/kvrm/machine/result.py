"""What a run gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kvrm.memory import AccessKind


class Stop(Enum):
    """Why a run returned."""

    EXIT = "exit"
    """The program ended by itself; `exit_code` is its status."""
    SIGNAL = "signal"
    """The program ended itself by a signal (abort, kill)."""
    FAULT = "fault"
    """A memory access, or a fetch, that is not allowed."""
    UNDEFINED = "undefined"
    """An instruction that is not allocated, not defined yet, or not for user programs."""
    BREAKPOINT = "breakpoint"
    """`machine.breakpoints` holds the pc; its instruction has not run."""
    BUDGET = "budget"
    """`max_instructions` have retired."""
    SYSCALL = "syscall"
    """A bare machine executed SVC, or a program asked for what its Linux cannot do; pc is after the SVC."""
    BRK = "brk"
    """A BRK instruction; pc is at it."""
    OUT_OF_MEMORY = "out of memory"
    """The lane has as many private pages as its limit allows."""
    CANCELLED = "cancelled"
    """`cancel` ended the run before anything else did; another run goes on."""
    MISPLACED = "misplaced"
    """The dispatch policy has the instruction at pc in a class whose handlers cannot run it."""

    @property
    def code(self) -> int:
        """The number that stands for this reason in arrays; `STOPS[code]` is the reason."""
        return _CODES[self]


STOPS = tuple(Stop)
"""The stop reasons by their codes."""
_CODES = {stop: code for code, stop in enumerate(STOPS)}


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
