"""Which regions a program needs next: those that would run most of what was just seen interpreted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeAlias

from kvrm.engine.translator.paths import Paths
from kvrm.engine.translator.region import Region

Stretch: TypeAlias = tuple[int, ...]
"""Blocks that ran one after the other without a region."""
Regions: TypeAlias = Mapping[int, Set[int]]
"""The blocks of each region, by its entry."""
ENOUGH = 0.003
"""The part of a path that may stay interpreted. An interpreted instruction takes as long as twenty translated
ones: 1 in 300 costs 6 % of the time, and the regions for what is rarer cost LLVM more than they spare."""

BRIEF = 500
"""Instructions that a region runs at a time to be worth all that LLVM can do. Ordinary programs (Lua, SQLite,
a JSON parser) run 70 to 100 from the way into a region to the way out: there, registers that stay in the
state and few passes give code as fast for half of the compiler's time."""


def plan(paths: Paths, path: list[int], regions: Regions) -> Iterator[Region]:
    """New regions, the most useful first, until little of the path stays interpreted.

    `path` is blocks that ran one after the other, `regions` the blocks of each region that there is, by its
    entry. Where a path would go through regions is played through: it is in one from its entry until a block
    that the region does not have.
    """
    known = dict(regions)
    sizes = {pc: paths.size(pc) for pc in set(path)}
    total = sum(sizes[pc] for pc in path)
    useless: set[int] = set()
    stretches = Counter(_interpreted(paths, path, known))
    while True:
        weights: Counter[int] = Counter()
        for stretch, times in stretches.items():
            weights[stretch[0]] += times * sum(map(sizes.__getitem__, stretch))
        if weights.total() <= ENOUGH * total:
            return
        start = next((pc for pc, _ in weights.most_common() if pc not in useless), None)
        if start is None:
            return
        entry = _entry({s: times for s, times in stretches.items() if s[0] == start})
        region = paths.grow(entry, known)
        if region is None or entry in useless:
            useless.add(start)
            continue
        useless.add(entry)
        if known.get(entry) == region.blocks.keys():
            continue
        known[entry] = region.blocks.keys()
        stretches = _without(paths, stretches, entry, known)
        yield replace(region, brief=_stay(sizes, path, region) < BRIEF)


def _without(paths: Paths, stretches: Counter[Stretch], entry: int, regions: Regions) -> Counter[Stretch]:
    """What is left of stretches now that there is a region with that entry, too."""
    left: Counter[Stretch] = Counter()
    for stretch, times in stretches.items():
        parts = _interpreted(paths, stretch, regions) if entry in stretch else (stretch,)
        for part in parts:
            left[part] += times
    return left


def _stay(sizes: Mapping[int, int], path: Sequence[int], region: Region) -> float:
    """Instructions of the path that the region runs from the way in to the way out, on the average."""
    entries = instructions = 0
    inside = False
    for pc in path:
        if inside:
            inside = pc in region.blocks
        elif pc == region.entry:
            inside = True
            entries += 1
        if inside:
            instructions += sizes[pc]
    return instructions / max(entries, 1)


def _interpreted(paths: Paths, path: Sequence[int], regions: Regions) -> Iterator[Stretch]:
    """The stretches of a path that no region runs; each begins with a block that can be translated."""
    inside: Set[int] = frozenset()
    begin: int | None = None
    for at, pc in enumerate(path):
        if pc in inside:
            continue
        inside = regions.get(pc, frozenset())
        if inside:
            if begin is not None:
                yield tuple(path[begin:at])
                begin = None
        elif begin is None and paths.block(pc) is not None:
            begin = at
    if begin is not None:
        yield tuple(path[begin:])


def _entry(stretches: Mapping[Stretch, int]) -> int:
    """Where to enter: the block that stretches with one beginning repeat most, or that beginning."""
    count: Counter[int] = Counter()
    for stretch, times in stretches.items():
        for pc in stretch:
            count[pc] += times
    block, most = count.most_common(1)[0]
    return block if most >= 2 * sum(stretches.values()) else next(iter(stretches))[0]
