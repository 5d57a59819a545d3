"""The order of a region's blocks in which lanes that parted wait for each other."""

from __future__ import annotations

from collections.abc import Iterable

from kvrm.engine.translator.graph import Successors, postorder
from kvrm.engine.translator.region import Region


def in_flow_order(region: Region) -> list[int]:
    """The blocks of a region: where a block is in this list is its number."""
    return flow_order(region.order(), region.successors)


def flow_order(starts: Iterable[int], successors: Successors) -> list[int]:
    """All that is reached from `starts`, each cycle together, its first block first, before what follows it.

    A weak topological order (Bourdoncle, "Efficient chaotic iteration strategies with widenings", 1993).
    """
    out: list[int] = []
    for head, inside in _components(starts, successors):
        out += _cycle(head, inside, successors) if inside else [head]
    return out


def _cycle(head: int, inside: set[int], successors: Successors) -> list[int]:
    """Without the ways back to its first block, a cycle is ordered as anything else."""
    return flow_order([head], lambda pc: [s for s in successors(pc) if s in inside])


def _components(starts: Iterable[int], successors: Successors) -> list[tuple[int, set[int]]]:
    """Strongly connected components in topological order: the block that is reached first, and the others."""
    order = postorder(starts, successors)[::-1]
    before: dict[int, list[int]] = {pc: [] for pc in order}
    for pc in order:
        for other in successors(pc):
            before[other].append(pc)
    taken: set[int] = set()
    out = []
    for pc in order:
        if pc not in taken:
            members = postorder([pc], lambda at: [p for p in before[at] if p not in taken])
            taken.update(members)
            out.append((pc, set(members) - {pc}))
    return out
