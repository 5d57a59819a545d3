"""What each config would have been worth for each site of a trace: what the network learns from.

A site is asked about as in a run without prefetching; then all sites get the same config, one config after
the other, and the caches say what each site's prefetches saved. That others have the config too is a
simplification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kvrm.caches.cache import ISSUED, SAVED, USEFUL, nothing
from kvrm.caches.session import PIECE, Session
from kvrm.caches.sites import (
    CONFIGS,
    F_SITES,
    F_WIDTH,
    H_WIDTH,
    Questions,
    configure,
    engine,
    observe_natively,
    questions_of,
)
from kvrm.caches.traces import Trace
from kvrm.memory.pages import PAGE_SHIFT
from kvrm.staging.kernel import Array

PENALTY = 12
"""Cycles that a prefetched line costs which is not used."""
PAGES = ("none", "next", "previous", "other")
"""The page that a site goes to next, seen from that of its last access."""


@dataclass(frozen=True, slots=True)
class Examples:
    """n sites that were asked about: what a policy sees, and what it should have said.

    `rewards` (float64, n by configs) are millionths of the time that the trace takes without prefetching;
    `pages` (int64, n) are indices of PAGES.
    """

    questions: Questions
    rewards: npt.NDArray[np.float64]
    pages: Array

    def __len__(self) -> int:
        return len(self.pages)


def examples_of(trace: Trace) -> tuple[Examples, Array]:
    """All sites of a trace that would be asked about, and their numbers."""
    site, address, retired, write, sites = trace.stream()
    asked, cycles = _asked(trace)
    everyone = np.concatenate([found for _, found, _ in asked]) if asked else np.zeros(0, np.int64)
    rewards = np.zeros((len(everyone), len(CONFIGS)))
    for config in range(1, len(CONFIGS)):
        session = Session(engine, np.zeros(F_SITES + sites * F_WIDTH, np.int64))
        due = {piece: (found, questions) for piece, found, questions in asked}
        for piece, part in enumerate(_pieces(len(trace))):
            session.feed(site[part], address[part], retired[part], write[part], sites)
            if piece in due:
                found, questions = due[piece]
                configure(session.table, found, questions, np.full(len(found), config))
        counts = session.counts[everyone]
        rewards[:, config] = counts[:, SAVED] - PENALTY * (counts[:, ISSUED] - counts[:, USEFUL])
    rewards *= 1e6 / cycles
    return Examples(joined([q for _, _, q in asked]), rewards, _next_pages(trace, asked)), everyone


def _pieces(count: int) -> list[slice]:
    return [slice(first, first + PIECE) for first in range(0, count, PIECE)]


def _asked(trace: Trace) -> tuple[list[tuple[int, Array, Questions]], int]:
    """Without prefetching: in which piece which sites are asked about, and what; and all cycles."""
    site, address, retired, write, sites = trace.stream()
    session = Session(nothing, np.zeros(1, np.int64))
    history, due, asked = np.zeros(sites * H_WIDTH, np.int64), np.zeros(sites, np.int64), []
    for piece, part in enumerate(_pieces(len(trace))):
        missed = session.feed(site[part], address[part], retired[part], write[part], sites)
        count = observe_natively(site[part], address[part], retired[part], missed, len(missed), history, due)
        if count:
            found = due[:count].copy()
            asked.append((piece, found, questions_of(history, found, trace.words)))
    return asked, session.outcome.cycles


def _next_pages(trace: Trace, asked: list[tuple[int, Array, Questions]]) -> Array:
    order = np.argsort(trace.site, kind="stable")
    first = np.searchsorted(trace.site[order], np.arange(len(trace.pc) + 1))
    pages = []
    for _, sites, q in asked:
        ends = zip(sites.tolist(), q.address[:, -1].tolist(), q.retired[:, -1].tolist(), strict=True)
        for site, last, retired in ends:
            own = order[first[site] : first[site + 1]]
            own = own[np.searchsorted(trace.retired[own], retired, side="right") :]
            steps = (trace.address[own] >> PAGE_SHIFT) - (last >> PAGE_SHIFT)
            moved = steps[steps != 0]
            pages.append(0 if not len(moved) else {1: 1, -1: 2}.get(int(moved[0]), 3))
    return np.array(pages, np.int64)


def joined(parts: list[Questions]) -> Questions:
    """Questions one after the other."""
    names = ("words", "address", "retired", "missed")
    if not parts:
        empty = np.zeros((0, 16), np.int64)
        return Questions(np.zeros(0, np.uint32), empty, empty, empty)
    return Questions(*(np.concatenate([getattr(q, name) for q in parts]) for name in names))


def together(parts: list[Examples]) -> Examples:
    """Examples one after the other."""
    return Examples(
        joined([e.questions for e in parts]),
        np.concatenate([e.rewards for e in parts]),
        np.concatenate([e.pages for e in parts]),
    )


TRAINED, SEGMENTS = 0.7, 7
"""The part of each training trace that examples come from, and into how many pieces it is cut: each begins
with empty caches, and a site is asked about in each. The rest of the trace is the split by time."""


def examples_in(
    traces: Mapping[str, Trace], report: Callable[[str, int], None], later: bool = False
) -> Examples:
    """Those of the first TRAINED of each trace, or of what is `later`.

    `report` is told a trace's name and how many it gave.
    """
    found = []
    first, last, count = (TRAINED, 1.0, 3) if later else (0.0, TRAINED, SEGMENTS)
    for name, trace in traces.items():
        cuts = np.linspace(first, last, count + 1).tolist()
        some = [examples_of(trace.part(a, b))[0] for a, b in pairwise(cuts)]
        report(name, sum(map(len, some)))
        found += some
    return together(found)
