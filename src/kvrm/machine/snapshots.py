"""Snapshots of a machine, and which machine each belongs to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kvrm.arguments import shown
from kvrm.errors import UsageError
from kvrm.machine.result import Result
from kvrm.memory import Snapshot


@dataclass(frozen=True, slots=True)
class Made:
    """What of a machine's making its snapshots cannot bring along: they fit only machines made alike.

    `program` is a digest of the program's file, None for a bare machine; `streams` are those of the host that
    the guest uses, by name. The engine, the target and the number of lanes are not here, because all have the
    same state.
    """

    program: str | None
    features: frozenset[str]
    fp_flags: bool
    root: Path | None
    rw: Path | None
    streams: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    """Everything about a machine at one moment; an opaque value for `Machine.restore`.

    `ended` is the last result of a program that has ended, None of one that can go on.
    """

    made: Made
    state: tuple[bytes, int]
    memory: Snapshot
    process: Any
    retired: int
    ended: Result | None


def require_belongs(snapshot: MachineSnapshot, made: Made) -> None:
    """Raise UsageError unless a machine made like this can go back to a snapshot."""
    if not isinstance(snapshot, MachineSnapshot):
        raise UsageError(f"restore takes what Machine.snapshot() gave, not {shown(snapshot)}")
    if (snapshot.made.program is None) != (made.program is None):
        kinds = ("a program", "a bare machine")
        there, here = kinds if made.program is None else reversed(kinds)
        raise UsageError(f"the snapshot is of {there}, and this machine is {here}")
    other = [f.name for f in fields(Made) if getattr(snapshot.made, f.name) != getattr(made, f.name)]
    if other:
        what = " and ".join(other)
        raise UsageError(f"the snapshot is of a machine with other {what}; it fits machines made alike")
