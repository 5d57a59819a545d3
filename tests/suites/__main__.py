"""Compile all suites, run them under QEMU and KVRM, and report (docs/measurements/suites.md)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console

from kvrm.machine.engines import ENGINES
from suites import building, report, running
from suites.catalogue import SUITES, Program, programs
from suites.session import Session
from suites.sources import Unavailable, home, sources


def main() -> int:
    """0: nothing that passes under QEMU fails under KVRM; 1: something does; 2: it cannot be run here."""
    options = _options()
    console = Console()
    if reason := building.missing() or running.missing():
        console.print(f"cannot run: {reason}")
        return 2
    try:
        with console.status("fetching the sources (about 150 MB, once)"):
            chosen = _chosen(programs(sources(), f"-O{options.level}"), options.names)
    except Unavailable as reason:
        console.print(f"cannot fetch the suites: {reason}")
        return 2
    if not chosen:
        console.print("no program has such a name")
        return 2
    session = Session(console, options.jobs, options.engine, options.again, options.lacking)
    try:
        results = session.run(chosen)
    except KeyboardInterrupt:
        console.print("interrupted; the same command goes on from here")
        return 130
    report.show(console, results)
    path = options.json or home() / "results.json"
    path.write_text(json.dumps(report.as_json(results), indent=1) + "\n")
    console.print(f"results: {path}", soft_wrap=True)
    return 1 if any(result.failed for result in results) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m suites", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a suite, or a pattern of SUITE/PROGRAM")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (default 2)")
    parser.add_argument("--engine", choices=ENGINES, default="tiered", help="KVRM's (default tiered)")
    parser.add_argument("--again", action="store_true", help="run under KVRM what it ran already")
    parser.add_argument("--lacking", action="store_true", help="run also what needs what KVRM lacks")
    parser.add_argument(
        "--level", default="2", choices=[*"0123s"], help="optimisation, where a program asks for none"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go")
    return parser.parse_args()


def _chosen(everything: list[Program], names: list[str]) -> list[Program]:
    """The programs that one of the names, or no name, asks for."""
    patterns = [f"{name}/*" if name in SUITES else name for name in names or ["*"]]
    return [p for p in everything if any(fnmatchcase(p.id, pattern) for pattern in patterns)]


if __name__ == "__main__":
    sys.exit(main())
