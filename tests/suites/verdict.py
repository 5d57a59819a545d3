"""Passed, failed or not runnable: KVRM against QEMU's own outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from suites.catalogue import Program
from suites.outcome import EXIT_0, Outcome
from suites.sources import home

WRONG_LINES: Final = {"valgrind/fp_and_simd": frozenset({26565, 26838, 26839, 26840})}
"""Lines of an expectation, from 1, that are wrong (an FMLS, three FCVTXN): exact arithmetic gives QEMU's."""

OWN_OUTPUT: Final = frozenset({"gcc-execute/return-addr", "gcc-aarch64/pr94514", "qemu-tcg/test-mmap"})
"""Programs that print addresses, which need not be QEMU's."""

_HANDLERS: Final = "signal handlers"
_MTE: Final = "memory tagging (FEAT_MTE)"
_PAUTH: Final = "pointer authentication (FEAT_PAuth)"
_THREADS: Final = "threads"

LACKS: Final = {
    "qemu-tcg/bti-1": f"branch target identification (FEAT_BTI), {_HANDLERS}",
    "qemu-tcg/bti-2": f"branch target identification (FEAT_BTI), {_HANDLERS}",
    "qemu-tcg/bti-3": f"branch target identification (FEAT_BTI), {_HANDLERS}",
    "qemu-tcg/linux-test": f"processes, {_THREADS}, {_HANDLERS}",
    "qemu-tcg/mte-1": _MTE,
    "qemu-tcg/mte-2": _MTE,
    "qemu-tcg/mte-3": _MTE,
    "qemu-tcg/mte-4": _MTE,
    "qemu-tcg/mte-5": _MTE,
    "qemu-tcg/mte-6": _MTE,
    "qemu-tcg/mte-7": _MTE,
    "qemu-tcg/munmap-pthread": _THREADS,
    "qemu-tcg/pauth-1": _PAUTH,
    "qemu-tcg/pauth-2": _PAUTH,
    "qemu-tcg/pauth-4": _PAUTH,
    "qemu-tcg/pauth-5": _PAUTH,
    "qemu-tcg/pcalign-a64": _HANDLERS,
    "qemu-tcg/sigbus": _HANDLERS,
    "qemu-tcg/signals": f"{_THREADS}, {_HANDLERS}",
    "qemu-tcg/sve-ioctls": "scalable vectors (SVE)",
    "qemu-tcg/test-826": "scalable vectors (SVE2)",
    "qemu-tcg/testthread": _THREADS,
    "qemu-tcg/threadcount": _THREADS,
}
"""Programs that need what KVRM does not have, and what that is. They do not run under KVRM: some would end
well without having done their work."""


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
    """Compare the two sides; `kvrm` is None where it was not run."""
    if not succeeded(program, qemu):
        return Judgement(Verdict.NOT_RUNNABLE, f"fails under QEMU: {_what(qemu)}")
    if kvrm is None:
        return Judgement(Verdict.NOT_RUNNABLE, f"needs {LACKS[program.id]}")
    if not succeeded(program, kvrm):
        return Judgement(Verdict.FAILED, _what(kvrm))
    if kvrm.output != qemu.output and program.id not in OWN_OUTPUT:
        return Judgement(Verdict.FAILED, "its standard output is not QEMU's")
    return Judgement(Verdict.PASSED)


def _what(side: Outcome) -> str:
    """How a run went wrong, in one line."""
    if side.ended != EXIT_0:
        last = side.detail.replace(f"{home()}/", "").splitlines()[-1] if side.detail else ""
        return f"{side.ended}: {last}" if last else side.ended
    first = ", ".join(map(str, side.wrong[:5]))
    return (
        f"{len(side.wrong)} lines differ from the expectation (line {first}{', …' if side.wrong[5:] else ''})"
    )
