"""Which regions the device has, and in which order lanes that part wait for each other in them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kvrm.backend.gpu.flow import flow_order
from kvrm.backend.gpu.region_plan import LARGEST, MOST_TARGETS, fits, plan
from kvrm.engine.translator.paths import Paths
from kvrm.isa.features import CORTEX_A76


def order(edges: dict[int, Iterable[int]], *starts: int) -> list[int]:
    return flow_order(starts or (0,), lambda pc: edges.get(pc, ()))


class TestOrder:
    def test_ways_come_before_where_they_meet(self) -> None:
        found = order({0: (1, 2), 1: (3,), 2: (4,), 4: (3,)})
        assert found[0] == 0 and found[-1] == 3 and found.index(2) < found.index(4)

    def test_a_loop_comes_before_what_follows_it(self) -> None:
        for ways in ((2, 3), (3, 2)):
            assert order({0: (1,), 1: ways, 2: (1,)}) == [0, 1, 2, 3]

    def test_loops_in_loops(self) -> None:
        edges = {0: (1,), 1: (2,), 2: (3, 4), 3: (2,), 4: (1, 5)}
        assert order(edges) == [0, 1, 2, 3, 4, 5]

    def test_a_function_comes_before_what_follows_its_calls(self) -> None:
        edges = {0: (9, 1), 1: (9,), 9: (8,), 8: (2, 3), 2: (1,), 3: ()}
        found = order(edges)
        assert max(found.index(9), found.index(8)) < min(found.index(2), found.index(3))

    def test_more_than_one_start(self) -> None:
        assert sorted(order({0: (1,), 5: (1, 6)}, 0, 5)) == [0, 1, 5, 6]

    def test_random_graphs(self) -> None:
        """Every block once; an edge backwards stays in a cycle."""
        rng = np.random.default_rng(1)
        for _ in range(200):
            count = int(rng.integers(1, 12))
            edges = {n: list(map(int, rng.choice(count, int(rng.integers(0, 3))))) for n in range(count)}
            found = order(edges, *range(count))
            assert sorted(found) == list(range(count))
            reach = {n: _reached(edges, n) for n in edges}
            for one, other in ((a, b) for a in edges for b in edges[a]):
                assert found.index(one) < found.index(other) or one in reach[other], (edges, found)


def _reached(edges: dict[int, list[int]], start: int) -> set[int]:
    seen, work = {start}, [start]
    while work:
        new = set(edges[work.pop()]) - seen
        seen |= new
        work += new
    return seen


HEAD, JOIN, PATH = (0x10000809, 0x8B002129, 0xD61F0120), (0xF1000463, 0x54FFFF81), 0x100
"""adr x9, paths; add x9, x9, x0, lsl #8; br x9; join: subs x3, x3, #1; b.ne; bytes of a path"""
FIRST = 0x1000
"""Address of the first path."""


class TestPlan:
    """Of a loop through one of several paths."""

    @staticmethod
    def _paths(count: int) -> tuple[Paths, list[int]]:
        words = {4 * i: word for i, word in enumerate(HEAD + JOIN)}
        for path in range(count):
            at = FIRST + PATH * path
            words |= {at + 4 * i: 0x8B020021 for i in range(63)}
            words[at + 252] = 0x14000000 | (12 - at - 252) // 4 & 0x3FFFFFF
        trace: list[int] = []
        for path in [*range(count)] * 3:
            at = FIRST + PATH * path
            trace += [0, 4, 8, *range(at, at + PATH, 4), 12, 16]

        def fetch(pc: int) -> tuple[int, ...]:
            found = []
            while pc in words:
                found.append(words[pc])
                pc += 4
            return tuple(found)

        paths = Paths(fetch, CORTEX_A76, MOST_TARGETS)
        return paths, paths.add(trace)

    def test_one_region(self) -> None:
        (region,) = plan(*self._paths(4))
        assert len(region.blocks) == 6 and region.size == 4 * 64 + 5
        assert set(region.order()) == region.blocks.keys()

    def test_each_block_is_in_one_region(self) -> None:
        """A block that is too large for a region has one of its own."""
        regions = plan(*self._paths(40))
        starts = [pc for region in regions for pc in region.blocks]
        assert len(set(starts)) == len(starts) == 42 and not fits(regions)
        assert all(region.size <= LARGEST or len(region.blocks) == 1 for region in regions)

    def test_all_blocks_are_entered(self) -> None:
        """Also those that none of the region leads to."""
        paths, _ = self._paths(2)
        starts = {12, FIRST}
        region, other = paths.region(12, starts, everywhere=True), paths.region(12, starts)
        assert (region.order(), other.order()) == ([12, FIRST], [12])
        assert region.key != other.key and (region.longest, other.longest) == (64, 2)

    def test_the_budget_is_looked_at_in_time(self) -> None:
        """From whatever block, on whatever way."""
        region = plan(*self._paths(6))[0]
        for start in region.blocks:
            pc, run = start, len(region.blocks[start].words)
            while (pc := region.successors(pc)[-1]) not in region.checked():
                run += len(region.blocks[pc].words)
            assert run <= region.longest
