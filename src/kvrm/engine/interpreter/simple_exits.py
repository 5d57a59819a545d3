"""Exits for which nothing has to be done in the interpreter."""

from __future__ import annotations

from kvrm.engine.exits import Exit, ExitKind
from kvrm.engine.interpreter.slots import Reason

OUT_OF_BUDGET, SYSTEM_CALL = Exit(ExitKind.BUDGET), Exit(ExitKind.SVC)
SIMPLE = {
    Reason.SVC: SYSTEM_CALL,
    Reason.BRK: Exit(ExitKind.BRK),
    Reason.UNDEFINED: Exit(ExitKind.UNDEFINED),
    Reason.BREAKPOINT: Exit(ExitKind.BREAKPOINT),
}
"""By the reasons for which native code leaves, as they are with a value of 0."""
