"""Compiles programs, runs them on both sides, and judges: with progress, and without doing anything twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from suites import building, running
from suites.catalogue import Program
from suites.crew import Lost, run_all
from suites.outcome import Outcome
from suites.records import Records, kvrm_version
from suites.verdict import LACKS, Judgement, Verdict, judge, succeeded

GRACE: Final = 60.0
"""Seconds beyond a side's own time limit until its process is killed."""

Task = tuple[Program, Path]
Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Result:
    """A program, its outcomes (None: not run) and the verdict."""

    program: Program
    judgement: Judgement
    qemu: Outcome | None = None
    kvrm: Outcome | None = None

    @property
    def passes_qemu(self) -> bool:
        """Whether it does under QEMU what its authors expect."""
        return self.qemu is not None and succeeded(self.program, self.qemu)

    @property
    def failed(self) -> bool:
        """Whether it passes under QEMU and not under KVRM."""
        return self.judgement.verdict is Verdict.FAILED


def compiled(program: Program) -> Path | str:
    """The executable, or why there is none."""
    try:
        return building.build(program)
    except building.CannotCompile as complaint:
        return str(complaint)


def in_qemu(task: Task) -> Outcome:
    """The outcome under QEMU."""
    return running.under_qemu(task[1]).outcome(task[0].expected)


def in_kvrm(task: Task, engine: str) -> Outcome:
    """The outcome under KVRM."""
    program, executable = task
    return running.under_kvrm(executable, program.fp_flags, engine).outcome(program.expected)


class Session:
    """One run of the command.

    `again`: outcomes under KVRM that are known do not count. `lacking`: programs of LACKS are run, too.
    """

    def __init__(self, console: Console, jobs: int, engine: str, again: bool, lacking: bool) -> None:
        self._console = console
        self._jobs = jobs
        self._engine = engine
        self._again = again
        self._left_out = frozenset(() if lacking else LACKS)
        self._qemu = Records("qemu", f"{running.qemu_version()} -cpu max")
        self._kvrm = Records(engine, kvrm_version())

    def run(self, programs: Sequence[Program]) -> list[Result]:
        """A result for each program, in their order."""
        columns = (TextColumn("{task.description:22}"), BarColumn(), MofNCompleteColumn())
        executables: dict[str, Path] = {}
        complaints: dict[str, str] = {}

        def note(program: Program, made: Path | str | Lost) -> None:
            if isinstance(made, Path):
                executables[program.id] = made
            else:
                complaints[program.id] = made if isinstance(made, str) else made.reason

        with Progress(*columns, TimeElapsedColumn(), console=self._console) as progress:
            self._phase(progress, "compiling", compiled, programs, building.SECONDS, note)
            tasks = [(p, executables[p.id]) for p in programs if p.id in executables]
            self._side(progress, "under QEMU", in_qemu, tasks, running.QEMU_SECONDS, self._qemu)
            passing = [(p, path) for p, path in tasks if self._may_run(p, path)]
            if self._again:
                for _, path in passing:
                    self._kvrm.forget(path)
            in_engine = partial(in_kvrm, engine=self._engine)
            self._side(progress, "under KVRM", in_engine, passing, running.KVRM_SECONDS, self._kvrm)
        return [self._result(p, executables.get(p.id), complaints.get(p.id, "")) for p in programs]

    def _phase(
        self,
        progress: Progress,
        title: str,
        function: Callable[[Given], Made],
        given: Sequence[Given],
        seconds: float,
        note: Callable[[Given, Made | Lost], None],
    ) -> None:
        """Have `function` done on each of `given`, and `note` what it gives."""
        if not given:
            return
        bar = progress.add_task(title, total=len(given))
        for one, made in run_all(function, given, self._jobs, seconds + GRACE):
            note(one, made)
            progress.advance(bar)

    def _side(
        self,
        progress: Progress,
        title: str,
        function: Callable[[Task], Outcome],
        tasks: Sequence[Task],
        seconds: float,
        records: Records,
    ) -> None:
        """Run what has no outcome yet."""

        def note(task: Task, made: Outcome | Lost) -> None:
            if isinstance(made, Lost):
                records.put(task[1], Outcome("host process lost", detail=made.reason), lasting=False)
            else:
                records.put(task[1], made)

        new = [task for task in tasks if records.get(task[1]) is None]
        self._phase(progress, title, function, new, seconds, note)

    def _may_run(self, program: Program, executable: Path) -> bool:
        outcome = self._qemu.get(executable)
        return outcome is not None and succeeded(program, outcome) and program.id not in self._left_out

    def _result(self, program: Program, executable: Path | None, complaint: str) -> Result:
        if executable is None:
            reason = f"does not compile: {complaint}"
            return Result(program, Judgement(Verdict.NOT_RUNNABLE, reason))
        qemu = self._qemu.get(executable)
        kvrm = None if program.id in self._left_out else self._kvrm.get(executable)
        assert qemu is not None
        return Result(program, judge(program, qemu, kvrm), qemu, kvrm)
