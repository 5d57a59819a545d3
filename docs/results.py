"""Files of bench/results, and Markdown tables of what they hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "bench/results"
BUSY = 0.3
"""Cores that other work may keep busy on a machine that counts as idle; the same as in bench/measure.py."""


@dataclass(frozen=True, slots=True)
class Result:
    """One file: what a benchmark wrote."""

    name: str
    data: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    @property
    def machine(self) -> str:
        """The card or the processor that its figures are of."""
        if "card" in self.data:
            return str(self["card"])
        cpu = re.sub(r"\(R\)| Processor", "", self["machine"]["cpu"])
        return f"{cpu}, {self['machine']['cores']} cores"

    @property
    def source(self) -> list[str]:
        """The paragraph below its table: machine, driver, command, commit and file."""
        parts = [self.machine]
        if "driver" in self.data:
            parts.append(f"driver {self['driver']}")
        command = self.data.get("command", [])
        words = command if isinstance(command, str) else " ".join(command)
        if words:
            parts.append(
                f"`python bench/{words}`" if words.startswith("run_") and words != command else words
            )
        if "commit" in self.data:
            parts.append(f"commit {self['commit'][:7]}{' with changes' if self.data.get('changed') else ''}")
        parts.append(f"`bench/results/{self.name}`")
        busy = self.data.get("machine", {}).get("cores_busy_with_others", 0)
        beside = f" Other work kept {busy:.1f} cores busy." if busy > BUSY else ""
        return ["", f"{'; '.join(parts)}.{beside}"]


def every(kind: str) -> list[Result]:
    """All files of a benchmark, the oldest first."""
    paths = [path for path in RESULTS.iterdir() if re.fullmatch(rf"{kind}-\d{{8}}-\d{{6}}\.json", path.name)]
    return [Result(path.name, json.loads(path.read_text())) for path in sorted(paths)]


def newest(kind: str, *keys: str, **values: Any) -> Result:
    """The newest file of a benchmark that has these keys and values."""
    for result in reversed(every(kind)):
        data = result.data
        if all(key in data for key in keys) and all(data.get(key) == value for key, value in values.items()):
            return result
    raise LookupError(f"bench/results has no {kind} with {keys} and {values}")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """A table in Markdown; all columns after the first `left` ones hold numbers and are aligned right."""
    rule = [*["---"] * left, *["---:"] * (len(titles) - left)]
    return [f"| {' | '.join(row)} |" for row in (titles, rule, *rows)]


def number(value: float | None) -> str:
    """A count or a rate in three digits, or all before the point; nothing if it was not measured."""
    if not value:
        return "" if value is None else "0"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def percent(part: float) -> str:
    """A share."""
    return f"{100 * part:.1f} %"
