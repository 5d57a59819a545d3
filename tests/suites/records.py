"""Outcomes that are known already: appended line by line, so that an interrupted run goes on where it was."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import kvrm
from suites.outcome import Outcome
from suites.sources import home

KEEP = 4
"""Files of outcomes under other versions of KVRM that are kept."""


class Records:
    """Outcomes by program, of one version of one side. A line that was cut short is as good as none."""

    def __init__(self, side: str, version: str) -> None:
        stamp = hashlib.blake2b(version.encode(), digest_size=6).hexdigest()
        self.path = home() / "outcomes" / f"{side}-{stamp}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _remove_old(self.path, side)
        self._known = dict(_read(self.path))

    def get(self, executable: Path) -> Outcome | None:
        """The outcome of an executable, or None."""
        return self._known.get(_key(executable))

    def put(self, executable: Path, outcome: Outcome, lasting: bool = True) -> None:
        """Remember an outcome, `lasting` beyond this process or not."""
        self._known[_key(executable)] = outcome
        if not lasting:
            return
        with self.path.open("a") as file:
            file.write(json.dumps([_key(executable), asdict(outcome)]) + "\n")

    def forget(self, executable: Path) -> None:
        """Have an outcome made again."""
        self._known.pop(_key(executable), None)


def _key(executable: Path) -> str:
    """Suite and file name; the name holds a hash of how the program was made."""
    return f"{executable.parent.name}/{executable.name}"


def _read(path: Path) -> list[tuple[str, Outcome]]:
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            key, fields = json.loads(line)
        except json.JSONDecodeError:
            continue
        found.append((key, Outcome(**fields | {"wrong": tuple(fields["wrong"])})))
    return found


def _remove_old(path: Path, side: str) -> None:
    others = [other for other in path.parent.glob(f"{side}-*.jsonl") if other != path]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    for other in others[KEEP:]:
        other.unlink(missing_ok=True)


@functools.cache
def kvrm_version() -> str:
    """A hash of all of KVRM's source: outcomes under another one are stale."""
    package = Path(kvrm.__file__).parent
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
