"""Regions: which blocks of a program become one function, chosen from paths that were seen to run."""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kvrm.engine.translator.survey import Flow, flow_of

LONGEST_BLOCK = 64
"""Instructions after which a block ends, whatever follows."""
LARGEST_REGION = 250
"""Instructions of a region: LLVM's time grows faster than the size of a function."""
SMALL = 16
"""Instructions that a region around an address has at least, if they can be reached."""
MOST_TARGETS = 4
"""Targets of an indirect branch that a region looks for; any other leaves the region."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive instructions; only the last may branch. `flows` has what the survey knows of each."""

    start: int
    words: tuple[int, ...]
    flows: tuple[Flow, ...]

    @property
    def end(self) -> int:
        """The address after the last instruction."""
        return self.start + 4 * len(self.words)

    @property
    def last(self) -> Flow:
        """How the block ends."""
        return self.flows[-1]


@dataclass(frozen=True)
class Region:
    """Blocks that become one function, entered at `entry`.

    `targets` has for each indirect branch (the address after it) where it was seen to go, most often first.
    """

    entry: int
    blocks: dict[int, Block]
    targets: dict[int, tuple[int, ...]]

    def successors(self, start: int) -> list[int]:
        """The blocks of the region that may follow one of its blocks."""
        block = self.blocks[start]
        last, out = block.last, list(self.targets.get(block.end, ()))
        if last.target is not None:
            out.append(last.target)
        if last.stays and (last.conditional or not last.branches):
            out.append(block.end)
        return [pc for pc in dict.fromkeys(out) if pc in self.blocks]

    @property
    def size(self) -> int:
        """Instructions."""
        return sum(len(b.words) for b in self.blocks.values())

    @cached_property
    def covered(self) -> frozenset[int]:
        """The addresses of all instructions."""
        return frozenset(pc for b in self.blocks.values() for pc in range(b.start, b.end, 4))

    @property
    def flows(self) -> list[Flow]:
        """Those of all instructions."""
        return [flow for block in self.blocks.values() for flow in block.flows]

    def order(self) -> list[int]:
        """The blocks that can be reached, each after one that leads to it."""
        out, work = {self.entry: None}, [self.entry]
        while work:
            for pc in self.successors(work.pop()):
                if pc not in out:
                    out[pc] = None
                    work.append(pc)
        return list(out)

    def only_predecessors(self) -> dict[int, int]:
        """For blocks that control enters from one block only, which that is."""
        before: dict[int, list[int]] = {}
        for pc in self.order():
            for other in self.successors(pc):
                before.setdefault(other, []).append(pc)
        return {pc: only[0] for pc, only in before.items() if len(only) == 1 and pc != self.entry}

    def checked(self) -> dict[int, int]:
        """The blocks that must look at the budget, the entry and those that close cycles.

        The value is the most instructions that can follow before the budget is looked at again.
        """
        heads: set[int] = {self.entry}
        state: dict[int, int] = {}
        order: list[int] = []
        work = [(self.entry, iter(self.successors(self.entry)))]
        state[self.entry] = 1
        while work:
            pc, following = work[-1]
            for other in following:
                if state.get(other) == 1:
                    heads.add(other)
                elif other not in state:
                    state[other] = 1
                    work.append((other, iter(self.successors(other))))
                    break
            else:
                state[pc] = 2
                order.append(pc)
                work.pop()
        longest: dict[int, int] = {}
        for pc in order:
            ahead = [longest[s] for s in self.successors(pc) if s not in heads]
            longest[pc] = len(self.blocks[pc].words) + max(ahead, default=0)
        return {pc: longest[pc] for pc in heads}

    @property
    def pages(self) -> set[int]:
        """Numbers of the pages that the code lies on; a block does not cross a page."""
        return {start >> 12 for start in self.blocks}

    @property
    def number(self) -> int:
        """The key as a number that is not 0."""
        return int(self.key, 16) | 1

    @property
    def key(self) -> str:
        """A name for the code that the region becomes: equal keys mean equal code."""
        digest = hashlib.blake2b(struct.pack("<Q", self.entry), digest_size=8)
        for start in sorted(self.blocks):
            words = self.blocks[start].words
            targets = self.targets.get(self.blocks[start].end, ())
            digest.update(struct.pack(f"<QII{len(words)}I", start, len(words), len(targets), *words))
            digest.update(struct.pack(f"<{len(targets)}Q", *targets))
        return digest.hexdigest()


class Paths:
    """What was seen of a program's control flow: blocks, and how often one followed another.

    `fetch(pc)` gives the words from `pc` to the end of its page, or none of them if it cannot be executed.
    """

    def __init__(self, fetch: Callable[[int], tuple[int, ...]], features: frozenset[str]) -> None:
        self._fetch, self._features = fetch, features
        self._blocks: dict[int, Block | None] = {}
        self.edges: dict[int, Counter[int]] = {}

    def block(self, start: int) -> Block | None:
        """The longest block at an address; None if not even its first instruction can be translated."""
        if start not in self._blocks:
            self._blocks[start] = self._cut(start, frozenset())
        return self._blocks[start]

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
        path: list[int] = []
        at = 0
        while at < len(trace):
            path.append(trace[at])
            block = self.block(trace[at])
            at += len(block.words) if block else 1
        for one, other in pairwise(path):
            self.edges.setdefault(one, Counter())[other] += 1
        return path

    def forget(self, start: int, end: int) -> None:
        """The code in [start, end) is not what it was."""
        for pc in [pc for pc in self._blocks if start <= pc < end]:
            del self._blocks[pc]
            self.edges.pop(pc, None)

    def region(self, path: list[int]) -> Region | None:
        """The region around the most frequent block of a path just seen; None if nothing can be translated.

        Where that block is on a cycle, the region is all that lies on cycles through it, hottest blocks first
        up to a size; else it is the path.
        """
        count = Counter(pc for pc in path if self.block(pc))
        if not count:
            return None
        entry = count.most_common(1)[0][0]
        cycle = self._reach(entry, self.edges) & self._reach(entry, _reversed(self.edges))
        chosen = cycle if len(cycle) > 1 or entry in self.edges.get(entry, ()) else list(count)
        weight = Counter({pc: sum(self.edges.get(pc, Counter()).values()) for pc in chosen})
        kept, size = {entry}, 0
        for pc, _ in weight.most_common():
            if (block := self.block(pc)) and size + len(block.words) <= LARGEST_REGION:
                kept.add(pc)
                size += len(block.words)
        return self._build(entry, self._reach(entry, self.edges, kept))

    def around(self, start: int) -> Region | None:
        """A small region from an address on, along branches whose targets are known, seen or not."""
        starts, work, size = {start}, [start], 0
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
        return self._build(start, starts) if self.block(start) else None

    def _reach(
        self, start: int, edges: dict[int, Counter[int]], within: Iterable[int] | None = None
    ) -> set[int]:
        seen, work = {start}, [start]
        while work:
            for pc in edges.get(work.pop(), ()):
                if pc not in seen and (within is None or pc in within):
                    seen.add(pc)
                    work.append(pc)
        return seen

    def _build(self, entry: int, starts: set[int]) -> Region:
        blocks = {pc: block for pc in sorted(starts) if (block := self._cut(pc, starts))}
        seen: dict[int, Counter[int]] = {}
        for pc in starts:
            whole = self.block(pc)
            if whole and whole.last.branches and whole.last.target is None:
                seen.setdefault(whole.end, Counter()).update(self.edges.get(pc, ()))
        targets = {
            end: tuple(t for t, _ in to.most_common(MOST_TARGETS) if t in blocks) for end, to in seen.items()
        }
        return Region(entry, blocks, targets)


def _reversed(edges: dict[int, Counter[int]]) -> dict[int, Counter[int]]:
    out: dict[int, Counter[int]] = {}
    for one, others in edges.items():
        for other, times in others.items():
            out.setdefault(other, Counter())[one] = times
    return out
