"""Which regions the device has: each block is in one of them only, so that lanes at one block can meet."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence, Set

from kvrm.engine.translator.paths import Paths
from kvrm.engine.translator.region import Region

ENOUGH = 0.003
"""The part of a path that may stay interpreted, as on the CPU (`kvrm.engine.translator.plan`)."""
LARGEST = 40
"""Instructions of a region, if there must be several: lanes of a block run one of them at a time, and wait
less for others that go round its loops the smaller it is. Of 3,000 down to 20, a parser was fastest with 40
(docs/measurements/gpu.md)."""
ALL = 1000
"""Instructions of all regions that the GPU's instruction cache has room for, about. Above it, warps that
choose by themselves wait for code most of the time (docs/measurements/gpu.md)."""
MOST = 400
"""Regions, at most: the driver compiles all of them before the first launch."""
MOST_TARGETS = 16
"""Of an indirect branch: to leave a region takes longer than to look for a block in it."""
RAREST = 0.001
"""How often, for each time that the hottest block of a region runs, control must pass between two blocks for
one to bring the other into the region."""


def plan(paths: Paths, path: list[int]) -> list[Region]:
    """The regions in which most of `path`, blocks that ran one after the other, would run."""
    weights = {pc: times * paths.size(pc) for pc, times in Counter(path).items() if paths.block(pc)}
    enough = ENOUGH * sum(weights.values())
    largest = ALL if _size(paths, weights, enough) <= ALL else LARGEST
    taken: set[int] = set()
    out: list[Region] = []
    while sum(weights.values()) > enough and len(out) < MOST:
        starts = _around(max(weights, key=weights.__getitem__), paths, taken, largest)
        ways = {pc: paths.backward.get(pc, {}).items() for pc in starts}
        outside = {pc: sum(n for other, n in ways[pc] if other not in starts) for pc in starts}
        taken |= starts
        out.append(paths.region(max(sorted(starts), key=outside.__getitem__), starts, everywhere=True))
        for pc in starts:
            weights.pop(pc, None)
    return out


def fits(regions: Sequence[Region]) -> bool:
    """Whether the GPU's instruction cache has room for regions, about."""
    return sum(region.size for region in regions) < ALL


def _size(paths: Paths, weights: dict[int, int], rest: float) -> int:
    """Instructions of the fewest blocks that have all of the weight but `rest`."""
    left, size = sum(weights.values()), 0
    for pc in sorted(weights, key=weights.__getitem__, reverse=True):
        if left <= rest:
            break
        left -= weights[pc]
        size += paths.size(pc)
    return size


def _around(start: int, paths: Paths, taken: Set[int], largest: int) -> set[int]:
    """A block and those that control passes to and from most often, up to a size."""
    inside: set[int] = set()
    size, work = 0, [(0, start)]
    hottest = paths.backward.get(start, Counter()).total()
    while work:
        times, pc = heapq.heappop(work)
        if pc in inside or pc in taken or paths.block(pc) is None:
            continue
        size += paths.size(pc)
        if inside and (size > largest or -times < RAREST * hottest):
            break
        inside.add(pc)
        for edges in (paths.edges, paths.backward):
            for other, n in edges.get(pc, {}).items():
                heapq.heappush(work, (-n, other))
    return inside
