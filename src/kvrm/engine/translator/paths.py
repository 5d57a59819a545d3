"""What was seen of a program's control flow, and the regions that can be made of it."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise

from kvrm.engine.translator.graph import postorder
from kvrm.engine.translator.region import Block, Region
from kvrm.engine.translator.survey import flow_of

LONGEST_BLOCK = 64
"""Instructions after which a block ends, whatever follows."""
LARGEST_LOOP, LARGEST_REGION = 800, 100
"""Instructions of a region that is all that lies on cycles, and of any other: large functions take LLVM long,
and functions with many exits crowd the host's caches. With 400 the same helpers are part of many regions:
for Lua and SQLite a quarter more instructions are compiled, and less of what runs is."""
LARGEST_TRIMMED = 100
"""Those of a loop that lost its rarest branches: these lead out of it, and every way out writes back all
registers that the region changed, so the more it holds the more it pays."""
SMALL = 16
"""Instructions that a region around an address has at least, if they can be reached."""
NEARLY_ALWAYS = 0.9
RAREST = 0.1
"""How often, per entry, a block must be reached to be worth its size in a region."""
MOST_TARGETS = 4
"""Of an indirect branch: each takes a comparison."""

Edges = dict[int, Counter[int]]
_NONE: Counter[int] = Counter()


class Paths:
    """Blocks, and how often one followed another (`edges`; `backward` has the same by the latter).

    `fetch(pc)` gives the words from `pc` to the end of its page, or none of them if it cannot be executed.
    `most_targets` of an indirect branch are looked for in a region; any other leaves it.
    """

    def __init__(
        self,
        fetch: Callable[[int], tuple[int, ...]],
        features: frozenset[str],
        most_targets: int = MOST_TARGETS,
    ) -> None:
        self._fetch, self._features, self._most_targets = fetch, features, most_targets
        self._blocks: dict[int, Block | None] = {}
        self.edges: Edges = {}
        self.backward: Edges = {}
        self._cycles: dict[int, dict[int, set[int]]] = {}

    def block(self, start: int) -> Block | None:
        """The longest block at an address; None if not even its first instruction can be translated."""
        if start not in self._blocks:
            self._blocks[start] = self._cut(start, frozenset())
        return self._blocks[start]

    def size(self, start: int) -> int:
        """Instructions of the block at an address, 1 where nothing can be translated."""
        block = self.block(start)
        return len(block.words) if block else 1

    def _cut(self, start: int, leaders: Iterable[int]) -> Block | None:
        words, flows, pc = [], [], start
        for word in self._fetch(start)[:LONGEST_BLOCK]:
            if pc != start and pc in leaders:
                break
            flow = flow_of(word, pc, self._features)
            if not flow.stays:
                break
            words.append(word)
            flows.append(flow)
            if flow.branches:
                break
            pc += 4
        return Block(start, tuple(words), tuple(flows)) if words else None

    def add(self, trace: list[int]) -> list[int]:
        """Learn from the addresses of instructions that ran one after the other; the blocks they make up."""
        self._cycles.clear()
        path: list[int] = []
        at = 0
        while at < len(trace):
            path.append(trace[at])
            at += self.size(trace[at])
        for one, other in pairwise(path):
            self.edges.setdefault(one, Counter())[other] += 1
            self.backward.setdefault(other, Counter())[one] += 1
        return path

    def forget(self, start: int, end: int) -> None:
        """The code in [start, end) is not what it was."""
        self._cycles.clear()
        for pc in [pc for pc in self._blocks if start <= pc < end]:
            del self._blocks[pc]
            for other in self.edges.pop(pc, ()):
                del self.backward[other][pc]

    # -- regions ---------------------------------------------------------------------------------------------
    def grow(self, entry: int, known: Container[int] = ()) -> Region | None:
        """The region to enter at an address; None if nothing can be translated there.

        It is all that lies on cycles through the entry, without the rarest branches if that would be too
        large; where there is no cycle, what is reached from there most often, up to a size. That ends where
        other regions begin (`known` entries), but for what is reached nearly always.
        """
        if self.block(entry) is None:
            return None
        return self.region(entry, self._cycle(entry) or self._frequent(entry, known))

    def _cycle(self, entry: int) -> set[int]:
        """All on cycles through the entry, of branches frequent enough that it is not too large."""
        rarest = 0
        while True:
            cycle = self._components(rarest).get(entry, set())
            if len(cycle) <= 1 and self.edges.get(entry, _NONE)[entry] <= rarest:
                return set()
            if sum(map(self.size, cycle)) <= (LARGEST_TRIMMED if rarest else LARGEST_LOOP):
                return cycle
            rarest = max(2 * rarest, 1)

    def _components(self, rarest: int) -> dict[int, set[int]]:
        """For each block all that lie on cycles with it, of branches seen more often than `rarest`."""
        if rarest not in self._cycles:
            found = self._cycles[rarest] = {}
            for start in reversed(postorder(self.edges, partial(_after, self.edges, rarest))):
                if start not in found:
                    component, work = {start}, [start]
                    while work:
                        new = [pc for pc in _after(self.backward, rarest, work.pop()) if pc not in found]
                        work += (pc for pc in new if pc not in component)
                        component.update(new)
                    found.update(dict.fromkeys(component, component))
        return self._cycles[rarest]

    def around(self, entry: int) -> Region | None:
        """A small region to enter at an address, along branches whose targets are known, seen or not.

        The first word says which kind it is, so that code made of random words has both.
        """
        starts, work, size = {entry}, [entry], 0
        while work and size < SMALL:
            block = self.block(work.pop(0))
            if block is None:
                continue
            size += len(block.words)
            last = block.last
            falls = block.end if last.conditional or not last.branches else None
            for pc in (last.target, falls):
                if pc is not None and pc not in starts and self.block(pc):
                    starts.add(pc)
                    work.append(pc)
        first = self.block(entry)
        if first is None:
            return None
        return replace(self.region(entry, starts), brief=first.words[0].bit_count() % 2 == 1)

    def _frequent(self, entry: int, known: Container[int]) -> set[int]:
        kept: set[int] = set()
        size, work = 0, [(-1.0, entry)]
        while work:
            share, pc = heapq.heappop(work)
            if pc in kept or self.block(pc) is None or (pc in known and -share < NEARLY_ALWAYS):
                continue
            size += self.size(pc)
            if size > LARGEST_REGION:
                break
            kept.add(pc)
            following = self.edges.get(pc, Counter())
            total = following.total()
            for other, times in following.items():
                if -share * times / total >= RAREST:
                    heapq.heappush(work, (share * times / total, other))
        return kept

    def region(self, entry: int, starts: set[int], everywhere: bool = False) -> Region:
        """The region of the blocks that begin at `starts`, to enter at one of them, or at all."""
        blocks = {pc: block for pc in sorted(starts) if (block := self._cut(pc, starts))}
        seen: dict[int, Counter[int]] = {}
        for pc in starts:
            whole = self.block(pc)
            if whole and whole.last.branches and whole.last.target is None:
                seen.setdefault(whole.end, Counter()).update(self.edges.get(pc, ()))
        targets = {
            end: tuple(t for t, _ in to.most_common(self._most_targets) if t in blocks)
            for end, to in seen.items()
        }
        return Region(entry, blocks, targets, tuple(pc for pc in blocks if pc != entry) if everywhere else ())


def _after(edges: Edges, rarest: int, pc: int) -> list[int]:
    """Where edges from a block lead that were seen more often than the rarest."""
    return [to for to, times in edges.get(pc, _NONE).items() if times > rarest]
