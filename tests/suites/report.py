"""The report: a table of counts, the programs that did not pass, and the same as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from suites.catalogue import SUITES
from suites.session import Result
from suites.verdict import Verdict


def show(console: Console, results: Sequence[Result]) -> None:
    """Print what there is to know."""
    for verdict in (Verdict.NOT_RUNNABLE, Verdict.FAILED):
        for result in results:
            if result.judgement.verdict is verdict:
                line = f"{verdict}: {result.program.id}: {result.judgement.reason}"
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(_table(results))


def _table(results: Sequence[Result]) -> Table:
    table = Table("suite", "programs", "pass under QEMU", *Verdict)
    for column in table.columns[1:]:
        column.justify = "right"
    for suite in SUITES:
        mine = [result for result in results if result.program.suite == suite]
        if mine:
            table.add_row(suite, *map(str, _counts(mine)))
    table.add_section()
    table.add_row("all", *map(str, _counts(results)))
    return table


def _counts(results: Sequence[Result]) -> list[int]:
    """Programs, those that pass under QEMU, and those of each verdict."""
    by = Counter(result.judgement.verdict for result in results)
    return [
        len(results),
        sum(result.passes_qemu for result in results),
        *(by[verdict] for verdict in Verdict),
    ]


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """Counts by suite, and every program with its verdict and outcomes."""
    suites = [suite for suite in SUITES if any(r.program.suite == suite for r in results)]
    names = ("programs", "pass under QEMU", *(str(verdict) for verdict in Verdict))
    return {
        "counts": {
            suite: dict(zip(names, _counts([r for r in results if r.program.suite == suite]), strict=True))
            for suite in suites
        },
        "programs": [_entry(result) for result in results],
    }


def _entry(result: Result) -> dict[str, Any]:
    return {
        "program": result.program.id,
        "verdict": str(result.judgement.verdict),
        "reason": result.judgement.reason,
        "qemu": None if result.qemu is None else asdict(result.qemu),
        "kvrm": None if result.kvrm is None else asdict(result.kvrm),
    }
