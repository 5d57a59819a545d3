"""The figures of the pages about networks: bar charts of columns of their tables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kvrm.cli.charts import Chart

DOCS = Path(__file__).resolve().parent
NUMBER = re.compile(r"-?[\d,]*\.?\d+")


@dataclass(frozen=True, slots=True)
class Figure:
    """Columns of the first table of a page that has them, and what the picture of them says.

    `series` are the titles of columns, and what they are called if that is something else; the table has a
    column `having`, too. Rows without a number are left out.
    """

    page: str
    title: str
    series: Mapping[str, str]
    unit: str = ""
    logarithmic: bool = False
    having: str = ""


def columns(*titles: str) -> dict[str, str]:
    """Series that are called like their columns."""
    return dict.fromkeys(titles, "")


FIGURES = {
    "networks-dispatch-right": Figure(
        "networks/dispatch.md",
        "Words with the right class",
        columns("right", "right of allocated words"),
        "%",
    ),
    "networks-loops-policies": Figure(
        "networks/loops.md", "Loops of programs held out", columns("recall", "acceptance"), "%"
    ),
    "networks-loops-speed": Figure(
        "networks/loops.md",
        "Times as fast as without a policy",
        {"rule, times as fast": "rule", "network, times as fast": "network"},
    ),
    "networks-memory-gain": Figure(
        "networks/memory.md",
        "Modelled time saved on irregular traces",
        columns("gain", "with inference"),
        "%",
        having="in time",
    ),
    "networks-patterns-found": Figure(
        "networks/patterns.md",
        "Known functions of C libraries that were left out",
        columns("rule", "table", "network", "random weights"),
    ),
    "networks-patterns-builds": Figure(
        "networks/patterns.md",
        "Known functions found by a 100th of all checks, by what was left out",
        columns("rule", "table", "network"),
        having="left out",
    ),
}


def table(page: str, titles: set[str]) -> Iterator[dict[str, str]]:
    """The rows of the first table of a page that has columns with these titles: cells by title."""
    lines = (DOCS / page).read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if titles <= set(_cells(line)))
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :]):
        yield dict(zip(_cells(lines[first]), _cells(line), strict=True))


def _cells(line: str) -> list[str]:
    return [re.sub(r"[*`]", "", cell).strip() for cell in line.strip("|").split("|")]


def chart(name: str) -> Chart:
    """The figure of that name."""
    figure = FIGURES[name]
    rows = {}
    for cells in table(figure.page, {*figure.series} | {figure.having} - {""}):
        label = next(iter(cells.values()))
        bars = [_bar(cells[title]) for title in figure.series]
        if any(bars):
            rows[label] = bars
    names = [called or title for title, called in figure.series.items()]
    return Chart(name, figure.title, names, rows, figure.unit, figure.logarithmic)


def _bar(cell: str) -> list[float]:
    """A cell's number, and its range after it, "(A to B)"; "A to B" alone is no number."""
    number, _, around = cell.partition("(")
    if " to " in number:
        return []
    return [float(n.replace(",", "")) for n in NUMBER.findall(number) + NUMBER.findall(around)]


def svg(name: str) -> str:
    """The text of its file."""
    return chart(name).svg()


PAGES: dict[str, Callable[[], str]] = {f"plots/{name}.svg": partial(svg, name) for name in FIGURES}
"""File name to the function that makes its text."""
