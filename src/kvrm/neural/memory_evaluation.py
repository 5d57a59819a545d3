"""Every policy for memory side by side, on traces that training has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvrm.caches.cache import nothing
from kvrm.caches.oracle import Hindsight, perfect
from kvrm.caches.session import Outcome, PolicySession, Session
from kvrm.caches.sites import CONFIGS, WINDOW, Config, Kind, Policy, rule
from kvrm.caches.tables import TABLES
from kvrm.caches.traces import Trace
from kvrm.caches.watch import BEST_TABLE
from kvrm.neural import memory_network as network

STEP_CYCLES = 3200
"""What one step of the network costs, measured on a GPU: int8, weights in shared memory."""
FOR_ALL = Config(Kind.DELTAS, 0, 1, 2)
"""The config that is worth most on the training traces if all sites have it."""
QUIET, HALF = 0.01, 0.5
SPATIAL = ("next line", "stride", "best-offset", "berti")
"""A trace is quiet if loads wait for less than QUIET of its time without prefetching, else irregular if none
of these covers HALF of its misses, else regular."""
NONE, PERFECT, NETWORK, RANDOM = "none", "oracle (perfect future)", "network", "random weights"


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on one trace, against no prefetching (`before`).

    `asked` sites, `seconds` that the answers took here, `bytes` of tables or parameters.
    """

    trace: str
    policy: str
    before: Outcome
    after: Outcome
    asked: int = 0
    seconds: float = 0.0
    bytes: int = 0

    @property
    def removed(self) -> float:
        """Misses that are gone, net."""
        return 1 - self.after.misses / max(self.before.misses, 1)

    @property
    def gain(self) -> float:
        """Part of the modelled time that is saved, inference left out."""
        return 1 - self.after.cycles / self.before.cycles

    @property
    def inference(self) -> int:
        """Modelled cycles of the answers."""
        runs = self.policy.startswith((NETWORK, RANDOM))
        return self.asked * WINDOW * STEP_CYCLES if runs else 0

    @property
    def net_gain(self) -> float:
        """The same with inference, as if the program waited for it."""
        return 1 - (self.after.cycles + self.inference) / self.before.cycles


def rows_of(name: str, trace: Trace, networks: Mapping[str, Policy]) -> Iterator[Row]:
    """A row for each policy."""
    before = _run(Session(nothing, np.zeros(1, np.int64)), trace).outcome
    yield Row(name, NONE, before, before)
    yield _decided(name, "rule", PolicySession(rule), trace, before)
    for label, table in TABLES.items():
        outcome = _run(Session(table.propose, table.fresh()), trace).outcome
        yield Row(name, label, before, outcome, bytes=table.bytes)
    for label, policy in networks.items():
        yield _decided(name, label, PolicySession(policy), trace, before, 4 * network.COUNT)
    constant = PolicySession(lambda q: np.full(len(q), CONFIGS.index(FOR_ALL)))
    yield _decided(name, f"{FOR_ALL} for all sites", constant, trace, before)
    random = PolicySession(network.random_policy(0))
    yield _decided(name, RANDOM, random, trace, before, 4 * network.COUNT)
    yield _decided(name, "best config of each site", Hindsight(trace), trace, before)
    yield Row(name, PERFECT, before, perfect(trace).outcome)


def _run(session: Session, trace: Trace) -> Session:
    session.feed(*trace.stream())
    return session


def _decided(
    name: str, label: str, session: PolicySession, trace: Trace, before: Outcome, size: int = 0
) -> Row:
    session.words = trace.words
    _run(session, trace)
    return Row(name, label, before, session.outcome, len(session.asked), session.seconds, size)


def kind_of(rows: list[Row]) -> str:
    """Whether a trace is quiet, irregular or regular."""
    by = {row.policy: row for row in rows}
    before = by[NONE].before
    if before.stalled < QUIET * before.cycles:
        return "quiet"
    covered = max(by[label].after.coverage for label in SPATIAL)
    return "regular" if covered >= HALF else "irregular"


def networks_in(directory: Path) -> dict[str, Policy]:
    """The weights of a directory: those that were chosen, and those of each seed if they are there."""
    seeds = sorted(directory.glob(f"{network.NAME}-seed*.npy"))
    found = {NETWORK: network.shipped(directory)}
    for path in seeds:
        found[f"{NETWORK}, {path.stem.rpartition('-')[2]}"] = network.named(path.stem, directory)
    return found


def evaluate(
    traces: Mapping[str, Trace], directory: Path, report: Callable[[str], None]
) -> dict[str, list[Row]]:
    """The rows of each trace; `report` is told its name when it begins."""
    networks = networks_in(directory)
    found = {}
    for name, trace in traces.items():
        report(name)
        found[name] = list(rows_of(name, trace, networks))
    return found


@dataclass(frozen=True, slots=True)
class Summary:
    """A policy over several traces: sums for accuracy, coverage and timeliness, means for the rest."""

    policy: str
    accuracy: float
    coverage: float
    timeliness: float
    removed: float
    gain: float
    net_gain: float
    asked: int
    microseconds: float
    bytes: int


def summaries(rows: list[list[Row]]) -> list[Summary]:
    """A summary for each policy over these traces."""
    return [_summary([trace[i] for trace in rows]) for i in range(len(rows[0]))]


def _summary(rows: list[Row]) -> Summary:
    issued, useful, misses, late = (
        sum(getattr(row.after, name) for row in rows) for name in ("issued", "useful", "misses", "late")
    )
    asked = sum(row.asked for row in rows)
    return Summary(
        rows[0].policy,
        useful / max(issued, 1),
        useful / max(useful + misses, 1),
        1 - late / max(useful, 1),
        float(np.mean([row.removed for row in rows])),
        float(np.mean([row.gain for row in rows])),
        float(np.mean([row.net_gain for row in rows])),
        asked,
        1e6 * sum(row.seconds for row in rows) / max(asked, 1),
        rows[0].bytes,
    )


def verdict(irregular: list[Summary]) -> str:
    """A plain sentence on what the network adds on irregular traces."""
    by = {s.policy: s for s in irregular}
    net, table, hand = by[NETWORK], by[BEST_TABLE], by["rule"]
    best = max((by[label] for label in TABLES), key=lambda s: s.gain)
    told = (
        f"On irregular traces the network saves {net.gain:.1%} of the modelled time ({net.net_gain:.1%} with "
        f"inference), the table chosen on training traces ({BEST_TABLE}) {table.gain:.1%}, the best table in "
        f"hindsight ({best.policy}) {best.gain:.1%}, the rule {hand.gain:.1%}"
    )
    wins = net.net_gain > max(table.gain, hand.gain)
    return told + (": the network is the default." if wins else ": the network is not the default.")
