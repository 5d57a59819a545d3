"""Why an engine came back, with what its caller needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from kvrm.lane.stops import Reason
from kvrm.memory import GuestFault


@dataclass(frozen=True, slots=True)
class Exit:
    """An engine's exit; `value` is the immediate of SVC and BRK, the address of a code write, or a class.

    It happened at the machine's pc or, for SVC and BUDGET, just before. CODE_WRITE is of a step only.
    """

    kind: Reason
    value: int = 0
    fault: GuestFault | None = None


OUT_OF_BUDGET, SYSTEM_CALL = Exit(Reason.BUDGET), Exit(Reason.SVC)
SIMPLE = {
    Reason.SVC: SYSTEM_CALL,
    Reason.BRK: Exit(Reason.BRK),
    Reason.UNDEFINED: Exit(Reason.UNDEFINED),
    Reason.BREAKPOINT: Exit(Reason.BREAKPOINT),
}
"""Exits for which nothing has to be done, as they are with a value of 0."""
