"""Why a system call ends the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from kvrm.lane.stops import Stop


@dataclass(frozen=True, slots=True)
class Exited:
    """The program ended itself with an exit code, 0 to 255."""

    stop: ClassVar = Stop.EXIT
    code: int


@dataclass(frozen=True, slots=True)
class Killed:
    """A signal that the program sent or caused itself ended it."""

    stop: ClassVar = Stop.SIGNAL
    signal: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The program asked for something that cannot be given; `reason` is one line that says what."""

    stop: ClassVar = Stop.SYSCALL
    reason: str


Outcome = Exited | Killed | Stopped


class Finish(Exception):
    """Raised in a system call to end the run; no result is written."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def deadlock(reason: str) -> NoReturn:
    """End the run of a program that would wait for ever."""
    raise Finish(Stopped(f"deadlock: the program waits for ever: {reason}"))
