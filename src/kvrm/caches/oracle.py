"""The perfect future: what a prefetcher could gain that knows a trace's misses beforehand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvrm.caches.cache import DEFAULT, LINE_SHIFT, MOST_PREFETCHES, Shape, nothing
from kvrm.caches.rewards import examples_of
from kvrm.caches.session import PolicySession, Session
from kvrm.caches.sites import Questions, rule
from kvrm.caches.traces import Trace
from kvrm.staging.kernel import Array, Kernel

EARLIEST = 4096
"""Cycles before a miss from which its line would be thrown out again."""


def foreseen(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """What was planned for this access: two lines each, 0 for none."""
    out[0] = table[2 * index]
    out[1] = table[2 * index + 1]
    return 2


def plan(
    missed: Array, address: Array, retired: Array, n: int, latency: int, channel: int, table: Array
) -> int:
    """Give each miss, from the last to the first, the latest access from which its line comes in time.

    No access gets more than two, and memory has `channel` cycles for each. Returns how many come too late.
    """
    i = n - 1
    used = 0
    limit = retired[n - 1]
    late = 0
    for back in range(n):
        m = n - 1 - back
        if missed[m] != 0:
            limit = max(min(limit - channel, retired[m] - latency), retired[m] - EARLIEST)
            while i > 0 and (i >= m or retired[i] > limit or used == MOST_PREFETCHES):
                i -= 1
                used = 0
            late += retired[i] > limit
            if used < MOST_PREFETCHES:
                table[2 * i + used] = address[m] >> LINE_SHIFT
                used += 1
    return late


plan_natively = Kernel(plan)


def perfect(trace: Trace, shape: Shape = DEFAULT) -> Session:
    """A session that has run the trace with all of its misses foreseen."""
    stream = trace.stream()
    missed = Session(nothing, np.zeros(1, np.int64), shape)
    table = np.zeros(2 * len(trace), np.int64)
    latency = shape.l2_latency + shape.memory_latency
    misses = missed.feed(*stream)
    plan_natively(misses, trace.address, trace.retired, len(trace), latency, shape.channel, table)
    session = Session(foreseen, table, shape)
    session.feed(*stream)
    return session


class Hindsight(PolicySession):
    """Each site gets the config that was the best one for it in this same trace."""

    def __init__(self, trace: Trace, shape: Shape = DEFAULT) -> None:
        super().__init__(rule, shape)
        examples, sites = examples_of(trace)
        self._best = np.zeros(len(trace.pc), np.int64)
        self._best[sites] = examples.rewards.argmax(axis=1)
        self.words = trace.words

    def choose(self, sites: Array, questions: Questions) -> npt.NDArray[np.integer]:
        return self._best[sites]
