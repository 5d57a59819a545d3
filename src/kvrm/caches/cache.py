"""An exact model of two caches with LRU, and a simple model of time.

Defaults: L1 64 KiB, 4 ways; L2 1 MiB, 8 ways; lines of 64 bytes. An instruction takes one cycle. A load that
misses L1 waits L2_LATENCY if L2 has the line, else MEMORY_LATENCY more, and memory gives one line in CHANNEL
cycles. Stores wait for nothing. A line that was prefetched is there when it would have come; a load that is
earlier waits for the rest. Nothing overlaps a wait, so what prefetching gains is overstated against a core
that runs out of order. An access that straddles two lines counts as one of the first.

A prefetcher is a kernel `propose(table, site, address, miss, now, index, out)`: it keeps what it wants in
`table`, puts at most two line numbers into `out`, and returns how many. `miss` is 0 for a hit, 1 for a miss,
2 for the first use of a prefetched line, which would have been a miss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvrm.staging.kernel import Array, Kernel

LINE_SHIFT = 6
LINE = 1 << LINE_SHIFT
MOST_PREFETCHES = 2

L1_MASK, L1_WAYS, L2_MASK, L2_WAYS, L2_WAIT, MEMORY_WAIT, PER_LINE, STALL, FREE = range(9)
"""Places in the array `model`: sets minus 1, ways; latencies; cycles stalled; when memory is free again."""
TAG, READY, OWNER, COST, WIDTH = range(5)
"""Of a line in L1: number, when it is there, site that prefetched it plus 1 (0 once used), what it saves."""
ACCESSES, MISSES, MEMORY, ISSUED, USEFUL, LATE, SAVED, COUNTS = range(8)
"""Counters of a site: accesses, misses, those that went to memory; prefetches issued, those that were used,
those of them that came late, and cycles that they saved loads."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Bytes and ways of the caches, latencies in cycles."""

    l1_bytes: int = 64 << 10
    l1_ways: int = 4
    l2_bytes: int = 1 << 20
    l2_ways: int = 8
    l2_latency: int = 12
    memory_latency: int = 100
    channel: int = 6

    def model(self) -> Array:
        """The array `model` at the start."""
        sets = [self.l1_bytes // LINE // self.l1_ways, self.l2_bytes // LINE // self.l2_ways]
        waits = [self.l2_latency, self.memory_latency, self.channel]
        return np.array([sets[0] - 1, self.l1_ways, sets[1] - 1, self.l2_ways, *waits, 0, 0], np.int64)


DEFAULT = Shape()


def find(lines: Array, base: int, ways: int, width: int, tag: int) -> int:
    """The way of a set that has the line, or -1."""
    for way in range(ways):
        if lines[base + way * width] == tag:
            return way
    return -1


def to_front(lines: Array, base: int, way: int, width: int) -> int:
    """Make a way the most recent of its set."""
    for k in range(width):
        kept = lines[base + way * width + k]
        w = way
        while w > 0:
            lines[base + w * width + k] = lines[base + (w - 1) * width + k]
            w -= 1
        lines[base + k] = kept
    return 0


def fetch(l2: Array, model: Array, line: int, now: int) -> int:
    """When the line would be in L1, if it is asked for now."""
    ways = model[L2_WAYS]
    base = (line & model[L2_MASK]) * ways
    way = find(l2, base, ways, 1, line)
    ready: int = now + model[L2_WAIT]
    if way < 0:
        way = ways - 1
        l2[base + way] = line
        start = max(ready, model[FREE])
        model[FREE] = start + model[PER_LINE]
        ready = start + model[MEMORY_WAIT]
    to_front(l2, base, way, 1)
    return ready


def place(l1: Array, model: Array, line: int, ready: int, owner: int, cost: int) -> int:
    """Replace the least recent line of a set of L1."""
    base = (line & model[L1_MASK]) * model[L1_WAYS] * WIDTH
    to_front(l1, base, model[L1_WAYS] - 1, WIDTH)
    l1[base + TAG] = line
    l1[base + READY] = ready
    l1[base + OWNER] = owner
    l1[base + COST] = cost
    return 0


def demand(
    l1: Array, l2: Array, model: Array, counts: Array, site: int, line: int, write: int, now: int
) -> int:
    """The guest accesses a line: `miss` as prefetchers are told it."""
    base = (line & model[L1_MASK]) * model[L1_WAYS] * WIDTH
    way = find(l1, base, model[L1_WAYS], WIDTH, line)
    counts[site * COUNTS + ACCESSES] += 1
    if way < 0:
        ready = fetch(l2, model, line, now)
        place(l1, model, line, ready, 0, 0)
        counts[site * COUNTS + MISSES] += 1
        counts[site * COUNTS + MEMORY] += ready - now > model[L2_WAIT]
        if write == 0:
            model[STALL] += ready - now
        return 1
    if way > 0:
        to_front(l1, base, way, WIDTH)
    wait = max(l1[base + READY] - now, 0)
    if write == 0:
        model[STALL] += wait
    owner = l1[base + OWNER]
    if owner == 0:
        return 0
    l1[base + OWNER] = 0
    at = (owner - 1) * COUNTS
    counts[at + USEFUL] += 1
    counts[at + LATE] += wait > 0
    if write == 0:
        counts[at + SAVED] += max(l1[base + COST] - wait, 0)
    return 2


def prefetch(l1: Array, l2: Array, model: Array, counts: Array, site: int, line: int, now: int) -> int:
    """Get a line into L1, if it is not there."""
    base = (line & model[L1_MASK]) * model[L1_WAYS] * WIDTH
    if line > 0 and find(l1, base, model[L1_WAYS], WIDTH, line) < 0:
        ready = fetch(l2, model, line, now)
        place(l1, model, line, ready, site + 1, ready - now)
        counts[site * COUNTS + ISSUED] += 1
    return 0


Propose = Callable[[Array, int, int, int, int, int, Array], int]


def nothing(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    return 0


def simulator(propose: Propose) -> Kernel:
    """The kernel that runs n accesses with a prefetcher; `first` is the number of the first of them."""

    def simulate(
        site: Array,
        address: Array,
        retired: Array,
        write: Array,
        missed: Array,
        n: int,
        first: int,
        l1: Array,
        l2: Array,
        model: Array,
        counts: Array,
        table: Array,
        out: Array,
    ) -> int:
        for i in range(n):
            now = retired[i] + model[STALL]
            miss = demand(l1, l2, model, counts, site[i], address[i] >> LINE_SHIFT, write[i], now)
            missed[i] = miss
            wanted = propose(table, site[i], address[i], miss, now, first + i, out)
            for k in range(wanted):
                prefetch(l1, l2, model, counts, site[i], out[k], now)
        return 0

    return Kernel(simulate, f"simulate_{propose.__name__}")
