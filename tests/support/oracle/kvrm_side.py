"""KVRM in the oracles' terms: the same cases through a bare `kvrm.Machine`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import kvrm
from kvrm.engine.interpreter.library import library
from kvrm.isa.context import System

from .case import (
    ADDRESS_MASK,
    BRK_WORD,
    CODE_BASE,
    CODE_SIZE,
    DATA_BASE,
    DATA_END,
    DATA_SIZE,
    ENTRY,
    STEP_LIMIT,
    Case,
    Kind,
    Outcome,
    changed_words,
    check_case,
    data_area,
)

SIGBUS: Final = 7
_KINDS: Final = {
    kvrm.Stop.BUDGET: Kind.TIMEOUT,
    kvrm.Stop.BRK: Kind.BRK,
    kvrm.Stop.FAULT: Kind.FAULT,
    kvrm.Stop.UNDEFINED: Kind.UNDEFINED,
}


class KvrmSide:
    """Answers cases by KVRM's engine `engine`, with all features.

    `fp_flags`: floating-point exceptions are tracked, as the other oracles do. `step_limit`: instructions
    that a case may take. After `run`, `retired` has the instructions that each case took.
    """

    def __init__(
        self, engine: str = "interpreter", fp_flags: bool = False, step_limit: int | None = None
    ) -> None:
        self.engine = engine
        self.retired: list[int] = []
        self._limit = step_limit or STEP_LIMIT
        self._machine = kvrm.Machine(engine=engine, features="all", fp_flags=fp_flags)
        self._machine.write_memory(CODE_BASE, struct.pack("<I", BRK_WORD) * (CODE_SIZE // 4), prot="rx")
        self._machine.write_memory(DATA_BASE, bytes(DATA_SIZE), prot="rw")
        self._blank = self._machine.snapshot()
        self._ready = self._blank
        self._ready_for: tuple[tuple[int, ...], int] | None = None

    def run(self, cases: Sequence[Case]) -> list[Outcome]:
        """The outcome of each case, in order. ValueError if one has no, too many, or SVC words."""
        for case in cases:
            check_case(case)
        if self.engine != "reference":
            library().ensure_words(w for case in cases for w in case.words)
        return [self._run_one(case) for case in cases]

    def _load(self, case: Case) -> None:
        machine = self._machine
        if self._ready_for == (case.words, case.data_seed):
            machine.restore(self._ready)
        else:
            machine.restore(self._blank)
            code = struct.pack(f"<{len(case.words)}I", *case.words)
            machine.memory[ENTRY : ENTRY + len(code)] = code
            machine.memory[DATA_BASE:DATA_END] = data_area(case.data_seed)
            self._ready = machine.snapshot()
            self._ready_for = case.words, case.data_seed
        for i, value in enumerate(case.x):
            machine.x[i] = value
        for i, value in enumerate(case.v):
            machine.v[i] = value
        machine.sp, machine.nzcv, machine.fpcr, machine.fpsr = case.sp, case.nzcv, case.fpcr, case.fpsr
        machine.state.set_system(System.TPIDR_EL0, case.tpidr)
        machine.set_pc(ENTRY)

    def _run_one(self, case: Case) -> Outcome:
        self._load(case)
        machine = self._machine
        result = machine.run(max_instructions=self._limit)
        self.retired.append(result.retired)
        return Outcome(
            kind=Kind.ALIGNMENT if result.signal == SIGBUS else _KINDS.get(result.stop, Kind.BROKEN),
            pc=machine.pc,
            fault_address=result.fault.address & ADDRESS_MASK if result.fault else None,
            x=tuple(machine.x),
            sp=machine.sp,
            v=tuple(machine.v),
            nzcv=machine.nzcv,
            fpcr=machine.fpcr,
            fpsr=machine.fpsr,
            tpidr=machine.state.system(System.TPIDR_EL0),
            data=changed_words(case.data_seed, bytes(machine.memory[DATA_BASE:DATA_END])),
        )
