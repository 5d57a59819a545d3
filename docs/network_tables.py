"""The tables of the pages about networks that are made of files in bench/results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import mean
from typing import Any

from results import newest, number, percent, table

M = 1e6
LIBRARIES = ("glibc", "musl", "dietlibc", "klibc", "picolibc")
BUILDS = {
    "gcc11": "GCC 11",
    "gcc12": "GCC 12",
    "clang14": "Clang 14",
    "O1": "-O1",
    "O2": "-O2",
    "O3": "-O3",
    "Os": "-Os",
}
POLICIES = {"rule": "rule", "table": "table", "network": "network", "random": "random weights"}
NEW = ", new"
"""After the name of a test set: only those of its functions that training data do not have."""
PARTS = ("a 10th", "a 100th", "a 1000th")


def dispatch() -> Iterator[str]:
    """The interpreter on the CPU without a policy, with a network asked once, and asked each time."""
    result = newest("dispatch", changed=False)
    yield from table(
        ["M instructions a CPU second", "no policy", "network, asked once", "inline"],
        [
            (name, *(number(ways[way]["rate"] / M) for way in ("none", "network", "inline")))
            for name, ways in result["programs"].items()
        ],
    )
    yield from result.source


def dispatch_gpu() -> Iterator[str]:
    """The same in the kernel of a GPU."""
    result = newest("dispatch-gpu")
    rows = []
    for key, ways in result.data.items():
        if match := re.fullmatch(r"(\w+) (\d+)", key):
            rates = (number(ways[way]["rate"] / M) for way in ("none", "network", "inline"))
            rows.append((match[1], f"{int(match[2]):,}", *rates))
    yield from table(["M instructions a second", "lanes", "no policy", "network, asked once", "inline"], rows)
    yield from result.source


def loops() -> Iterator[str]:
    """CPU seconds with loops skipped by the rule and by the network."""
    result = newest("loops")
    titles = [
        "",
        "off, s",
        "skipped by the rule",
        "skipped by the network",
        "rule, times as fast",
        "network, times as fast",
    ]
    rows = []
    for group in ("bare loops", "fill and copy much", "no loops to skip"):
        for run in result[group]:
            seconds = run["seconds"]
            skipped = (percent(run["skipped"][way] / run["retired"]) for way in ("rule", "network"))
            faster = (_times(seconds["off"] / seconds[way]) for way in ("rule", "network"))
            rows.append((run["name"], f"{seconds['off']:.3f}", *skipped, *faster))
    yield from table(titles, rows)
    yield from result.source


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 1.5 else f"{ratio:.3f}"


def loops_gpu() -> Iterator[str]:
    """Kernel seconds with loops skipped on a GPU."""
    result = newest("gpu-loops")
    rows = []
    for run in sorted(result["runs"], key=lambda run: int(run["command"][-1])):
        for name, seconds in run["seconds"].items():
            times = _times(seconds["off"] / seconds["rule"])
            rows.append(
                (name, f"{int(run['command'][-1]):,}", str(seconds["off"]), str(seconds["rule"]), times)
            )
    yield from table(["64 KiB in each lane", "lanes", "off, s", "rule, s", "times as fast"], rows)
    yield from result.source


def memory_gpu() -> Iterator[str]:
    """Kernel time with prefetches by each policy."""
    result = newest("memory-gpu")
    rows = [
        (name, *map(str, result[name]))
        for name in result.data
        if isinstance(result[name], list) and name not in ("ways", "command")
    ]
    yield from table(["ms of kernel time", *result["ways"]], rows)
    yield from result.source


def loops_seeds() -> Iterator[str]:
    """Recall and acceptance of each training."""
    result = newest("seeds")
    rows = []
    for seed, training in result["loops"].items():
        parts = [training[part][what] for part in ("validation", "test") for what in ("recall", "acceptance")]
        rows.append((f"{seed}", *(percent(part) for part in parts)))
    titles = ["seed", "recall, validation", "acceptance, validation", "recall, test", "acceptance, test"]
    yield from table(titles, rows)
    yield from ["", f"Trainings: `bench/results/{result.name}`."]


class Scores:
    """What each policy did on each test set of functions."""

    def __init__(self) -> None:
        self.result = newest("seeds")
        self.source = ["", f"Each training and its scores: `bench/results/{self.result.name}`."]

    def of(self, left_out: str, policy: str) -> list[dict[str, Any]]:
        """One of each seed."""
        return [
            s for s in self.result["scores"] if s["left_out"] == left_out and s["policy"].split()[0] == policy
        ]

    def means(self, sets: Iterable[str], policy: str, score: Callable[[dict[str, Any]], float]) -> str:
        """The mean over these test sets, for each seed; then the mean of all seeds and their range."""
        by_seed = zip(*([score(s) for s in self.of(left_out, policy)] for left_out in sets), strict=True)
        return _range([mean(values) for values in by_seed])


def _range(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def patterns() -> Iterator[str]:
    """Each policy on C libraries that its training leaves out."""
    scores = Scores()
    asked: dict[str, Callable[[dict[str, Any]], float]] = {
        "recall at precision .99": lambda s: s["recall"],
        "likeliest label right": lambda s: s["first"],
        "found by a 10th of all checks": lambda s: s["found"][0],
        "found by a 100th": lambda s: s["found"][1],
        "found by a 1000th": lambda s: s["found"][2],
    }
    rows = []
    for suffix, prefix in (("", ""), (NEW, "*new*: ")):
        sets = [library + suffix for library in LIBRARIES]
        for what, score in asked.items():
            rows.append((prefix + what, *(scores.means(sets, policy, score) for policy in POLICIES)))
    yield from table(["", *POLICIES.values()], rows)
    yield from scores.source


def patterns_builds() -> Iterator[str]:
    """What is found of functions by a C library, a compiler or flags that training leaves out."""
    scores = Scores()
    rows = []
    for left_out, name in [*((library, library) for library in LIBRARIES), *BUILDS.items()]:
        found = [
            scores.means([left_out + suffix], policy, lambda s: s["found"][1])
            for suffix in ("", NEW)
            for policy in ("rule", "table", "network")
        ]
        rows.append((name, str(scores.of(left_out, "network")[0]["known"]), *found))
    titles = ["left out", "known functions", "rule", "table", "network"]
    yield from table([*titles, "*new*: rule", "*new*: table", "*new*: network"], rows)
    yield from scores.source


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "dispatch": dispatch,
    "dispatch-gpu": dispatch_gpu,
    "loops": loops,
    "loops-gpu": loops_gpu,
    "loops-seeds": loops_seeds,
    "memory-gpu": memory_gpu,
    "patterns": patterns,
    "patterns-builds": patterns_builds,
}
"""Name in a page to the function that makes the lines."""
