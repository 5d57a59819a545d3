"""What a run's end means: from an engine's exit, or a process's, to the fields of a Result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kvrm.lane.stops import Reason, Stop
from kvrm.machine.result import Fault, Result
from kvrm.memory import AlignmentFault, BeyondFile, SPAlignmentFault

SIGILL, SIGTRAP, SIGBUS, SIGSEGV = 4, 5, 7, 11

Fields = dict[str, Any]
BUDGET: Final[Fields] = {"stop": Stop.BUDGET, "message": "the instruction budget is used up"}
CANCELLED: Final[Fields] = {"stop": Stop.CANCELLED, "message": "the run was cancelled"}
OUT_OF_MEMORY: Final[Fields] = {"stop": Stop.OUT_OF_MEMORY, "message": "the guest used up its memory limit"}


def breakpoint_at(pc: int) -> Fields:
    """The run stopped at a breakpoint."""
    return {"stop": Stop.BREAKPOINT, "message": f"breakpoint at {pc:#x}"}


def explain(left: Any, pc: int, word_at_pc: Callable[[], int | None]) -> Fields:
    """What an engine's exit (`kvrm.engine.exits.Exit`) other than BUDGET stands for."""
    if left.kind is Reason.BREAKPOINT:
        return breakpoint_at(pc)
    if left.kind is Reason.SVC:
        return {"stop": left.kind.stop, "message": f"svc #{left.value} before {pc:#x}"}
    word = word_at_pc()
    if left.kind is Reason.BRK:
        message = f"brk #{left.value:#x} at {pc:#x}"
        return {"stop": left.kind.stop, "signal": SIGTRAP, "word": word, "message": message}
    if left.kind is Reason.FAULT:
        return _explain_fault(left.fault, pc, word)
    if left.kind is Reason.MISPLACED:
        return _explain_misplaced(left.value, pc, word)
    text = "" if word is None else f"{word:08x}"
    message = f"undefined instruction {text} ({assembly(word, pc)}) at pc {pc:#x}"
    return {"stop": left.kind.stop, "signal": SIGILL, "word": word, "message": message}


def _explain_misplaced(chosen: int, pc: int, word: int | None) -> Fields:
    from kvrm.isa.definition import Execution

    what = f"{word or 0:08x} ({assembly(word, pc)}) at pc {pc:#x}"
    message = f"the dispatch policy takes {what} for {Execution(chosen).label}"
    return {"stop": Stop.MISPLACED, "word": word, "message": message}


def _explain_fault(f: Any, pc: int, word: int | None) -> Fields:
    signal, why = SIGSEGV, _why_refused(f.mapped)
    if isinstance(f, AlignmentFault):
        signal, why = SIGBUS, "not aligned"
    elif isinstance(f, BeyondFile):
        signal, why = SIGBUS, "past the end of the mapped file"
    fault = Fault(f.address, f.kind, f.mapped)
    message = _fault_message(fault, pc, why)
    if isinstance(f, SPAlignmentFault):
        message = f"SP alignment fault at pc {pc:#x}: sp {f.address:#x} is not a multiple of 16"
    return {"stop": Stop.FAULT, "signal": signal, "word": word, "fault": fault, "message": message}


def _why_refused(mapped: bool) -> str:
    return "not allowed" if mapped else "nothing is mapped there"


def _fault_message(fault: Fault, pc: int, why: str) -> str:
    return f"{fault.kind.name.lower()} of {fault.address:#x} at pc {pc:#x}: {why}"


def explain_end(over: Any) -> Fields:
    """What a process says when it ends (`kvrm.linux.Outcome`)."""
    from kvrm.linux import Exited, Killed

    if isinstance(over, Exited):
        return {"stop": over.stop, "exit_code": over.code, "message": _exit_message(over.code)}
    if isinstance(over, Killed):
        return {"stop": over.stop, "signal": over.signal, "message": _signal_message(over.signal)}
    return {"stop": over.stop, "message": over.reason}


def _exit_message(code: int) -> str:
    return f"exit code {code}"


def _signal_message(signal: int) -> str:
    return f"ended by signal {signal}"


def message_of(stop: Stop, pc: int, exit_code: int, signal: int, fault: Fault | None) -> str:
    """The message of a Result with these fields, as far as they tell what it says."""
    if fault is not None:
        bus_error = "not aligned, or past the end of the mapped file"
        return _fault_message(fault, pc, bus_error if signal == SIGBUS else _why_refused(fault.mapped))
    known = {end["stop"]: str(end["message"]) for end in (BUDGET, CANCELLED, OUT_OF_MEMORY)} | {
        Stop.EXIT: _exit_message(exit_code),
        Stop.SIGNAL: _signal_message(signal),
        Stop.BREAKPOINT: str(breakpoint_at(pc)["message"]),
        Stop.UNDEFINED: f"undefined instruction at pc {pc:#x}",
        Stop.SYSCALL: f"svc before {pc:#x}",
        Stop.BRK: f"brk at {pc:#x}",
        Stop.MISPLACED: f"the dispatch policy has the instruction at pc {pc:#x} in a wrong class",
    }
    return known.get(stop, stop.value)


def hint(process: Any, ended: Fields) -> str:
    """What KVRM lacks that may be why a program (`kvrm.linux.Process`) ended badly; "" if nothing is known.

    Without it a user reads the program's own last words, such as a request to report a fault of its runtime.
    """
    from kvrm.linux.abi import signal_name

    if ended["stop"] in _GUEST_SIGNALS and (handler := process.signals.handler(ended["signal"])):
        name = signal_name(ended["signal"])
        return f"the program has a handler for {name} at {handler:#x}, and KVRM does not call handlers yet"
    if process.refused and ended["stop"] in _ENDS and ended.get("exit_code") != 0:
        calls = ", ".join(process.refused)
        return f"before that KVRM refused calls that it does not have (ENOSYS), which may be why: {calls}"
    return ""


_GUEST_SIGNALS = frozenset((Stop.FAULT, Stop.UNDEFINED, Stop.BRK))
_ENDS = _GUEST_SIGNALS | {Stop.EXIT, Stop.SIGNAL}


def end_again(ended: Result) -> Fields:
    """The end that a program has had before, for lanes that begin after it."""
    fields: Fields = {"stop": ended.stop, "message": ended.message, "hint": ended.hint}
    if ended.exit_code is not None:
        fields["exit_code"] = ended.exit_code
    if ended.signal is not None:
        fields["signal"] = ended.signal
    return fields


def assembly(word: int | None, pc: int) -> str:
    """A word's assembly text, "unknown" if it has none."""
    from kvrm.isa.a64 import disassemble

    return (disassemble(word, pc) if word is not None else None) or "unknown"
