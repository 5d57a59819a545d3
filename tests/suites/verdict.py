"""Passed, failed or not runnable: KVRM against QEMU's own outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from suites.catalogue import Program
from suites.outcome import EXIT_0, Outcome
from suites.sources import home

WRONG_LINES: Final[dict[str, frozenset[int]]] = {}
"""Lines of an expectation, from 1, that are wrong: exact arithmetic gives what QEMU prints."""

OWN_OUTPUT: Final[frozenset[str]] = frozenset()
"""Programs that print what differs from run to run: process numbers, addresses, times."""

LACKS: Final[dict[str, str]] = {}
"""Programs that need what KVRM does not have, and what that is."""


class Verdict(StrEnum):
    """What is reported of a program."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUNNABLE = "not runnable"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the reason where it is not PASSED."""

    verdict: Verdict
    reason: str = ""


def succeeded(program: Program, side: Outcome) -> bool:
    """Whether a program did what its authors expect."""
    return side.ended == EXIT_0 and WRONG_LINES.get(program.id, frozenset()).issuperset(side.wrong)


def judge(program: Program, qemu: Outcome, kvrm: Outcome | None) -> Judgement:
    """Compare the two sides; `kvrm` may be None where QEMU fails."""
    if not succeeded(program, qemu):
        return Judgement(Verdict.NOT_RUNNABLE, f"fails under QEMU: {_what(qemu)}")
    assert kvrm is not None
    if not succeeded(program, kvrm):
        problem = _what(kvrm)
    elif kvrm.output != qemu.output and program.id not in OWN_OUTPUT:
        problem = "its standard output is not QEMU's"
    else:
        return Judgement(Verdict.PASSED)
    if lacking := LACKS.get(program.id):
        return Judgement(Verdict.NOT_RUNNABLE, lacking)
    return Judgement(Verdict.FAILED, problem)


def _what(side: Outcome) -> str:
    """How a run went wrong, in one line."""
    if side.ended != EXIT_0:
        last = side.detail.replace(f"{home()}/", "").splitlines()[-1] if side.detail else ""
        return f"{side.ended}: {last}" if last else side.ended
    first = ", ".join(map(str, side.wrong[:5]))
    return (
        f"{len(side.wrong)} lines differ from the expectation (line {first}{', …' if side.wrong[5:] else ''})"
    )
