"""Walks over blocks and what may follow them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Successors = Callable[[int], Iterable[int]]


def postorder(starts: Iterable[int], successors: Successors) -> list[int]:
    """All that is reached from `starts`, each after what was first reached from it, depth first.

    So an edge closes a cycle of the walk if and only if it leads to the same element or a later one.
    """
    seen: set[int] = set()
    out: list[int] = []
    work = [(-1, iter(starts))]
    while work:
        pc, following = work[-1]
        other = next((s for s in following if s not in seen), None)
        if other is None:
            out.append(pc)
            work.pop()
        else:
            seen.add(other)
            work.append((other, iter(successors(other))))
    return out[:-1]
