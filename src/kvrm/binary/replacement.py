"""Calls of functions that passed the execution check, answered on the host.

Only functions are replaced that are alone (`kvrm.binary.alone`). So what was tested depends on
nothing but their words, which are compared again at every call. A call whose memory is not wholly there with
the right permissions, or whose result the standard leaves open, runs as it always did, and so do faults.

A call that is answered changes x0 and memory as the standard says, and the pc. Registers that a callee may
change stay as they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvrm.binary.alone import RememberingChecker, candidates_in
from kvrm.binary.naming import name_functions
from kvrm.engine.exits import Exit
from kvrm.errors import UsageError
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import GuestFault, Memory, OutOfMemory

if TYPE_CHECKING:
    from kvrm.machine.lane import Lane
    from kvrm.machine.machine import Machine

LONGEST = 64 << 20
"""Bytes that one call may be answered for."""
AT_ONCE = 1 << 16
"""Bytes of a string that are looked at together."""
LINK = 30

Native = Callable[[Memory, Any], "int | None"]
"""From memory and x registers to the result. None, GuestFault and OutOfMemory mean that the call must run."""


def _memcpy(memory: Memory, x: Any) -> int | None:
    to, source, n = x[0], x[1], x[2]
    if n > LONGEST or abs(to - source) < n:
        return None
    memory.write(to, memory.read(source, n))
    return int(to)


def _memmove(memory: Memory, x: Any) -> int | None:
    to, source, n = x[0], x[1], x[2]
    if n > LONGEST:
        return None
    memory.write(to, memory.read(source, n))
    return int(to)


def _memset(memory: Memory, x: Any) -> int | None:
    to, c, n = x[0], x[1], x[2]
    if n > LONGEST:
        return None
    memory.write(to, bytes([c & 0xFF]) * n)
    return int(to)


def _memchr(memory: Memory, x: Any) -> int | None:
    s, c, n = x[0], x[1], x[2]
    if n > LONGEST:
        return None
    at = memory.read(s, n).find(c & 0xFF)
    return 0 if at < 0 else int(s) + at


def _strlen(memory: Memory, x: Any) -> int | None:
    length = len(memory.read_cstring(x[0], AT_ONCE))
    return length if length < AT_ONCE else None


def _strnlen(memory: Memory, x: Any) -> int | None:
    most = min(x[1], AT_ONCE)
    length = len(memory.read_cstring(x[0], most))
    return length if length < most or most == x[1] else None


def _strchr(memory: Memory, x: Any) -> int | None:
    text = memory.read_cstring(x[0], AT_ONCE)
    at = (text + b"\0").find(x[1] & 0xFF)
    return None if len(text) == AT_ONCE else 0 if at < 0 else int(x[0]) + at


NATIVE: Mapping[str, Native] = {
    "memcpy": _memcpy,
    "memmove": _memmove,
    "memset": _memset,
    "memchr": _memchr,
    "strlen": _strlen,
    "strnlen": _strnlen,
    "strchr": _strchr,
}
"""The functions that are replaced. All that they do follows from the standard, to the bit."""


@dataclass(slots=True)
class Replaced:
    """A function whose calls are answered: how many were, and how many ran because they could not be."""

    name: str
    words: bytes
    answered: int = 0
    ran: int = 0


@dataclass(slots=True)
class Replacements:
    """The replaced functions of a machine by address.

    `functions_found`, `alone`, `proposed`, `checks` and `accepted` tell how they came about. What an earlier
    machine of the same program has tested is not in `checks`.
    """

    functions: dict[int, Replaced] = field(default_factory=dict)
    functions_found: int = 0
    alone: int = 0
    proposed: int = 0
    checks: int = 0
    accepted: int = 0

    def takes(self, lane: Lane, left: Exit) -> bool:
        """Whether an exit was at a replaced function and no breakpoint; its call is answered if it can be."""
        if left.kind is not Reason.BREAKPOINT or lane.state.pc in lane.breakpoints:
            return False
        self.answer(lane.state, lane.memory)
        return True

    def answer(self, state: State, memory: Memory) -> bool:
        """Answer the call of the function at pc; False if it must run."""
        function = self.functions[state.pc]
        try:
            if memory.peek(state.pc, len(function.words)) == function.words:
                result = NATIVE[function.name](memory, state.x)
                if result is not None and state.x[LINK] != state.pc:
                    state.x[0] = result
                    state.pc = state.x[LINK]
                    function.answered += 1
                    return True
        except (GuestFault, OutOfMemory):
            pass
        function.ran += 1
        return False

    def as_json(self) -> dict[str, object]:
        """For `kvrm run --stats`."""
        return {
            "functions": self.functions_found,
            "alone": self.alone,
            "proposed": self.proposed,
            "checks": self.checks,
            "accepted": self.accepted,
            "calls": {
                f"{address:#x} {f.name}": {"answered": f.answered, "ran": f.ran}
                for address, f in self.functions.items()
            },
        }

    @property
    def answered(self) -> int:
        """Calls that were answered; their instructions did not retire."""
        return sum(function.answered for function in self.functions.values())


def make_replacements(machine: Machine, program: str | os.PathLike[str] | bytes | None) -> Replacements:
    """What of a program can be replaced, by the machine's policy and the check. Raises UsageError.

    Nothing else is asked about, or tested.
    """
    if program is None or machine.target != "cpu":
        raise UsageError("a patterns policy is for programs on target cpu")
    data = program if isinstance(program, bytes) else Path(program).read_bytes()
    among, policy = candidates_in(data, machine.features), machine.policies["patterns"]
    checker = RememberingChecker(machine, among.verdicts)
    made = Replacements(functions_found=among.found, alone=len(among.functions))
    for named in name_functions(among.program, policy, checker, functions=among.functions, names=NATIVE):
        made.proposed += named.name is not None
        if named.is_replaceable:
            raw = named.function.words.astype("<u4").tobytes()
            made.functions[named.address] = Replaced(str(named.name), raw)
    made.checks, made.accepted = checker.checks, len(made.functions)
    return made
