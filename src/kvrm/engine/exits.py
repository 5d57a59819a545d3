"""Why an engine came back: the one vocabulary of all engines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kvrm.memory import GuestFault


class ExitKind(Enum):
    """What happened at (or, for SVC and BUDGET, just before) the machine's pc."""

    BUDGET = "budget"
    SVC = "svc"
    BRK = "brk"
    UNDEFINED = "undefined"
    FAULT = "fault"
    BREAKPOINT = "breakpoint"
    CODE_WRITE = "code write"
    MISPLACED = "misplaced"
    """The dispatch policy has the instruction in a class, `value`, whose handlers cannot run it."""


@dataclass(frozen=True, slots=True)
class Exit:
    """An engine's exit; `value` is the immediate of SVC and BRK, the address of a code write, or a class."""

    kind: ExitKind
    value: int = 0
    fault: GuestFault | None = None
