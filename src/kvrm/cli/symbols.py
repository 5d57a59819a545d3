"""`kvrm symbols`: names for the functions of a program that has none."""

from __future__ import annotations

import json
from pathlib import Path

import kvrm
from kvrm.binary.check import Checker
from kvrm.binary.labels import LABELS
from kvrm.binary.naming import Named, name_functions
from kvrm.binary.program import Program
from kvrm.cli.exits import Exit
from kvrm.cli.run import chosen_policies
from kvrm.machine.policies import POLICIES, policy_named

DEFAULT = "network"


def list_symbols(path: Path, settings: list[str], *, check: bool, every: bool, json_file: Path | None) -> int:
    """Print the functions that have a name, or all of them; return the exit code. Raises `kvrm.KvrmError`."""
    chosen = {"patterns": DEFAULT} | chosen_policies(settings)
    if set(chosen) != {"patterns"} or chosen["patterns"] not in POLICIES["patterns"]:
        known = ", ".join(POLICIES["patterns"])
        raise kvrm.UsageError(f"--policy {settings[-1]}: it is patterns= and one of {known}")
    program = Program.of(path)
    checker = Checker(path) if check else None
    found = name_functions(program, policy_named("patterns", chosen["patterns"]), checker)
    shown = [named for named in found if every or named.name]
    if json_file is not None:
        json_file.write_text(json.dumps([as_json(named) for named in shown], indent=1) + "\n")
    for named in shown:
        print(line(named).rstrip())
    names = sum(named.name is not None for named in found)
    print(f"{len(found):,} functions, {names:,} with a name{_told(found, checker)}")
    return Exit.OK


def _told(found: list[Named], checker: Checker | None) -> str:
    if checker is None:
        return ""
    good = sum(named.is_replaceable for named in found)
    every = len(found) * len(LABELS)
    return f", {good:,} tested equivalent; {checker.checks:,} checks of {every:,} that there are"


def line(named: Named) -> str:
    """Address, size, name, confidence and verdict."""
    f = named.function
    sure = f"{named.confidence:.3f}" if named.name else ""
    verdict = str(named.verdict or "")
    return f"{f.start:016x}  {f.end - f.start:6}  {named.name or '':<12}  {sure:<5}  {verdict}"


def as_json(named: Named) -> dict[str, object]:
    """What a line says, and the evidence for the start."""
    f, verdict = named.function, named.verdict
    return {
        "address": f.start,
        "size": f.end - f.start,
        "evidence": f.evidence.value,
        "name": named.name,
        "confidence": round(named.confidence, 6),
        "equivalent": None if verdict is None else verdict.equivalent,
        "verdict": None if verdict is None else str(verdict),
    }
