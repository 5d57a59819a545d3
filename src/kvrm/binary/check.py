"""The execution check: a function is run in lanes on many inputs and compared with a model of the standard's.

Compared are the result, all memory that the function may write, and what the procedure call standard
(AAPCS64) has it keep: x19 to x29, sp, the low halves of v8 to v15, and the stack from sp on. Nothing else can
be written: it is not writable, so a function that does faults. The pages around the thread pointer are,
but must stay as they are, except that a function which the standard lets set errno may set it to EINVAL.
System calls are not allowed. What passes is "tested equivalent": a test, not a proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import kvrm
from kvrm.binary.arena import AREA, BASE, ONE, OTHER, Arena
from kvrm.binary.cases import CASES, COMPARE, Case, cases
from kvrm.binary.labels import LABELS
from kvrm.binary.models import MODELS, Returns
from kvrm.isa.context import System
from kvrm.lane.stops import STOPS
from kvrm.machine.lanes_results import LaneResults
from kvrm.memory import PAGE, Prot

BUDGET = 200_000
"""Instructions that a call may take; the longest input has 8 KiB."""
STARTED = 100_000
"""Instructions for which a program runs first, so that its C library has set itself up."""
STACK = BASE + 16 * PAGE
STACK_SIZE, KEPT_STACK = 16 * PAGE, 512
SP = STACK + STACK_SIZE - KEPT_STACK
HELPERS = BASE + 64 * PAGE
RETURN = HELPERS + PAGE // 2
COMPARISON = bytes.fromhex(
    "020040b9"  # ldr w2, [x0]
    "230040b9"  # ldr w3, [x1]
    "5f00036b"  # cmp w2, w3
    "e0d79f1a"  # cset w0, gt
    "e1a79f1a"  # cset w1, lt
    "0000014b"  # sub w0, w0, w1
    "c0035fd6"  # ret
)
SAVED = (*(f"x{i}" for i in range(19, 30)), "sp", *(f"v{i}" for i in range(8, 16)))
WORD = (1 << 64) - 1
EINVAL = 22
SETS_ERRNO = {"strtol"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a function passed as `name`; if it did not, `reason` is the first counterexample."""

    name: str
    equivalent: bool
    reason: str = ""

    def __str__(self) -> str:
        return "tested equivalent" if self.equivalent else f"different: {self.reason}"


class Checker:
    """Checks functions of one program, or of one bare machine, whose memory it copies first.

    `checks` and `retired` count what was run. A program is run for STARTED instructions without any input
    before; that run is a machine of its own, whose system calls reach nothing outside of it.
    """

    def __init__(self, program: Any) -> None:
        source = program if isinstance(program, kvrm.Machine) else _started(program)
        self._thread = _thread_pages(source)
        self._machine = _copied(source, self._thread)
        self._lanes = self._machine.fork(CASES, threads=1)
        areas = [slice(start, start + AREA) for start in (ONE, OTHER)] + [slice(SP, SP + KEPT_STACK)]
        areas += [slice(page, page + PAGE) for page in self._thread]
        self._lanes.keep = ("x0", *SAVED, *areas)
        self.checks = self.retired = 0

    def check(self, address: int, name: str, seed: int = 0) -> Verdict:
        """Run the function at `address`, as memory has it, as if it were `name`."""
        given = list(cases(name, seed))
        inputs = _registers(given, address, seed)
        lanes = self._lanes
        lanes.reset()
        for register, values in inputs.items():
            lanes.registers[register] = values
        memory = np.array([np.frombuffer(case.memory, np.uint8) for case in given])
        lanes.memory[ONE : ONE + AREA] = memory[:, :AREA]
        lanes.memory[OTHER : OTHER + AREA] = memory[:, OTHER - BASE :]
        results = lanes.run(max_instructions=BUDGET)
        self.checks += 1
        self.retired += int(results.retired.sum())
        for number, case in enumerate(given):
            reason = _difference(name, case, results, number, inputs) or self._thread_written(
                name, results, number
            )
            if reason:
                return Verdict(name, False, f"{_call(name, case)}: {reason}")
        return Verdict(name, True)

    def _thread_written(self, name: str, results: LaneResults, lane: int) -> str:
        for page in self._thread:
            before = np.frombuffer(self._machine.memory[page : page + PAGE], "<u4")
            after = results.memory[page : page + PAGE][lane].view("<u4")
            changed = np.flatnonzero(before != after)
            if len(changed) and not (name in SETS_ERRNO and after[changed].tolist() == [EINVAL]):
                return f"it writes to its thread's memory at {page + 4 * int(changed[0]):#x}"
        return ""


def _started(program: Any) -> kvrm.Machine:
    machine = kvrm.Machine(program, engine="interpreter")
    machine.run(max_instructions=STARTED)
    return machine


def _thread_pages(source: kvrm.Machine) -> list[int]:
    """The page that the thread pointer is in and the one before, as far as they are mapped and writable."""
    page = source.state.system(System.TPIDR_EL0) & -PAGE
    regions = [r for r in source.lane.memory.regions() if r.prot & Prot.W]
    return [p for p in (page - PAGE, page) if any(r.start <= p < r.end for r in regions)]


def _copied(source: kvrm.Machine, writable: list[int]) -> kvrm.Machine:
    """A bare machine with a copy of what is mapped in `source`, and the arena.

    Only that and some pages can be written.
    """
    machine = kvrm.Machine(engine="interpreter", features=source.features)
    memory, theirs = machine.lane.memory, source.lane.memory
    for region in theirs.regions():
        if region.name == "[stack]" and not any(region.start <= page < region.end for page in writable):
            continue
        memory.map(region.start, region.end - region.start, region.prot & ~Prot.W)
        if filled := theirs.filled(region):
            memory.poke(region.start, theirs.peek(region.start, filled))
    for page in writable:
        memory.protect(page, PAGE, Prot.R | Prot.W)
    for start, size in ((ONE, AREA), (OTHER, AREA), (STACK, STACK_SIZE)):
        memory.map(start, size, Prot.R | Prot.W)
    machine.write_memory(HELPERS, COMPARISON, prot="rx")
    machine.state.set_system(System.TPIDR_EL0, source.state.system(System.TPIDR_EL0))
    machine.breakpoints.add(RETURN)
    return machine


def _registers(given: list[Case], address: int, seed: int) -> dict[str, npt.NDArray[np.uint64]]:
    """What each lane begins with: arguments, and anything in all other registers.

    Registers that could be further arguments have small numbers and addresses in them as well as large ones,
    or a function that takes one more than the model would pass.
    """
    rng = np.random.default_rng([seed, 1])
    found = {f"x{i}": rng.integers(0, 1 << 64, CASES, np.uint64) for i in range(31)}
    for i in range(8):
        likely = np.choose(rng.integers(0, 3, CASES), [rng.integers(0, n, CASES) for n in (3, 40, AREA)])
        likely[rng.random(CASES) < 0.3] += ONE
        chosen = rng.random(CASES) < 0.75
        found[f"x{i}"][chosen] = likely[chosen].astype(np.uint64)
    found |= {f"v{i}": rng.integers(0, 1 << 64, (CASES, 2), np.uint64) for i in range(32)}
    for i in range(len(given[0].arguments)):
        values = [HELPERS if c.arguments[i] == COMPARE else c.arguments[i] for c in given]
        found[f"x{i}"] = np.array(values, np.uint64)
    for name, value in (("x30", RETURN), ("sp", SP), ("pc", address)):
        found[name] = np.full(CASES, value, np.uint64)
    found["nzcv"] = rng.integers(0, 16, CASES, np.uint64)
    return found


def _difference(
    name: str, case: Case, results: LaneResults, lane: int, inputs: dict[str, npt.NDArray[np.uint64]]
) -> str:
    """What is not as it must be; nothing if all is."""
    stop = STOPS[results.stop[lane]]
    if stop is kvrm.Stop.FAULT:
        return f"a fault at {int(results.fault_address[lane]):#x}"
    if stop is not kvrm.Stop.BREAKPOINT or int(results.pc[lane]) != RETURN:
        return f"it does not return ({stop.value} at {int(results.pc[lane]):#x})"
    model, returns = MODELS[name]
    arena = Arena(bytes(case.memory))
    wanted = model(arena, *case.arguments)
    got = int(results.registers["x0"][lane])
    if wanted is not None and not _same(got, wanted, returns):
        return f"the result is {got:#x}, not {_shown(wanted, returns)}"
    for start in (ONE, OTHER):
        written = results.memory[start : start + AREA][lane].tobytes()
        right = bytes(arena.data[start - BASE : start - BASE + AREA])
        if written != right:
            at = next(i for i in range(AREA) if written[i] != right[i])
            return f"the byte at {start + at:#x} is {written[at]:#x}, not {right[at]:#x}"
    if results.memory[SP : SP + KEPT_STACK][lane].any():
        return "it writes to its caller's stack"
    for register in SAVED:
        before, after = inputs[register][lane] if register != "sp" else SP, results.registers[register][lane]
        if np.atleast_1d(before)[0] != np.atleast_1d(after)[0]:
            return f"{register} is not what it was"
    return ""


def _same(got: int, wanted: int, returns: Returns) -> bool:
    if returns is Returns.WORD:
        return got == wanted & WORD
    low = got & 0xFFFFFFFF
    if returns is Returns.INT:
        return low == wanted & 0xFFFFFFFF
    return (low != 0) - 2 * (low >> 31) == wanted


def _shown(wanted: int, returns: Returns) -> str:
    if returns is Returns.SIGN:
        return ("zero", "above zero", "below zero")[wanted]
    return f"{wanted & (WORD if returns is Returns.WORD else 0xFFFFFFFF):#x}"


def _call(name: str, case: Case) -> str:
    return f"{name}({', '.join(a if isinstance(a, str) else f'{a:#x}' for a in case.arguments)})"


assert set(MODELS) == set(LABELS)
