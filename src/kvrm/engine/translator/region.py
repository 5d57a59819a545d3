"""Regions: blocks of a program that become one function."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection
from dataclasses import dataclass

from kvrm.engine.translator.graph import postorder
from kvrm.engine.translator.survey import Flow

LONGEST_ITERATION = 64
"""Instructions of a loop that is worth a copy of its own."""


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


@dataclass(frozen=True, slots=True)
class Region:
    """Blocks that become one function, entered at `entry`, and perhaps at all the `others`.

    `targets` has for each indirect branch (the address after it) where it was seen to go, most often first.
    A `brief` region is one that control leaves after few instructions: it is compiled quickly, and its
    registers stay in the state. Else each way in would load, and each way out store, what the whole region
    uses, and LLVM would spend half its time on that.
    """

    entry: int
    blocks: dict[int, Block]
    targets: dict[int, tuple[int, ...]]
    others: tuple[int, ...] = ()
    brief: bool = False

    def successors(self, start: int) -> list[int]:
        """The blocks of the region that may follow one of its blocks."""
        block = self.blocks[start]
        last, out = block.last, list(self.targets.get(block.end, ()))
        if last.target is not None:
            out.append(last.target)
        if last.stays and (last.conditional or not last.branches):
            out.append(block.end)
        return [pc for pc in dict.fromkeys(out) if pc in self.blocks]

    def covers(self, address: int) -> bool:
        """Whether the instruction at an address is part of the region."""
        return any(block.start <= address < block.end for block in self.blocks.values())

    @property
    def size(self) -> int:
        return sum(len(b.words) for b in self.blocks.values())

    @property
    def flows(self) -> list[Flow]:
        """Those of all instructions."""
        return [flow for block in self.blocks.values() for flow in block.flows]

    def order(self) -> list[int]:
        """The blocks that can be reached, each after one that leads to it."""
        out: dict[int, None] = {}
        for start in (self.entry, *self.others):
            work = [start]
            while work:
                pc = work.pop()
                if pc not in out:
                    out[pc] = None
                    work += self.successors(pc)
        return list(out)

    def only_predecessors(self) -> dict[int, int]:
        """For blocks that control enters from one block only, which that is."""
        before: dict[int, list[int]] = {}
        for pc in self.order():
            for other in self.successors(pc):
                before.setdefault(other, []).append(pc)
        return {pc: only[0] for pc, only in before.items() if len(only) == 1 and pc != self.entry}

    @property
    def loops(self) -> bool:
        """Whether there is a cycle."""
        return len(self.checked()) > 1 or any(self.entry in self.successors(pc) for pc in self.order())

    def checked(self) -> dict[int, int]:
        """The blocks that must look at the budget, the entry and those that close cycles.

        The value is the most instructions that can follow before the budget is looked at again.
        """
        heads, longest = self._until_checked()
        return {pc: longest[pc] for pc in heads}

    @property
    def longest(self) -> int:
        """The most instructions that can follow any block before the budget is looked at again."""
        return max(self._until_checked()[1].values())

    def _until_checked(self) -> tuple[set[int], dict[int, int]]:
        """The blocks that look at the budget; how many instructions can follow each block until then."""
        order = postorder((self.entry, *self.others), self.successors)
        place = {pc: at for at, pc in enumerate(order)}
        heads = {self.entry}
        heads.update(s for pc in order for s in self.successors(pc) if place[s] >= place[pc])
        longest: dict[int, int] = {}
        for pc in order:
            ahead = [longest[s] for s in self.successors(pc) if s not in heads]
            longest[pc] = len(self.blocks[pc].words) + max(ahead, default=0)
        return heads, longest

    def simple_loops(self, heads: Collection[int]) -> dict[int, list[Block]]:
        """The loops at `heads` whose every iteration is the same blocks, in this order; not too long ones."""
        iterations = {head: [self.blocks[pc] for pc in self._iteration(head, heads)] for head in heads}
        sizes = {head: sum(len(block.words) for block in iteration) for head, iteration in iterations.items()}
        return {
            head: iteration for head, iteration in iterations.items() if 0 < sizes[head] <= LONGEST_ITERATION
        }

    def _iteration(self, head: int, heads: Collection[int]) -> list[int]:
        if head in self.successors(head):
            return [head]
        inside: set[int] = set()
        work = [head]
        while work:
            following = work.pop()
            before = [pc for pc in self.blocks if following in self.successors(pc)]
            new = [pc for pc in before if pc not in inside and pc not in heads]
            inside.update(new)
            work += new
        way = [head]
        while True:
            ahead = [pc for pc in self.successors(way[-1]) if pc == head or pc in inside]
            if len(ahead) != 1:
                return []
            if ahead[0] == head:
                return way
            way.append(ahead[0])

    @property
    def number(self) -> int:
        """The key as a number that is not 0."""
        return int(self.key, 16) | 1

    @property
    def key(self) -> str:
        """A name for the code that the region becomes: equal keys mean equal code."""
        digest = hashlib.blake2b(struct.pack("<Q?", self.entry, self.brief), digest_size=8)
        digest.update(struct.pack(f"<{len(self.others)}Q", *self.others))
        for start in sorted(self.blocks):
            words = self.blocks[start].words
            targets = self.targets.get(self.blocks[start].end, ())
            digest.update(struct.pack(f"<QII{len(words)}I", start, len(words), len(targets), *words))
            digest.update(struct.pack(f"<{len(targets)}Q", *targets))
        return digest.hexdigest()
