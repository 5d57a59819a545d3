"""Lanes that fault on the CPU: native code ends them by itself, as a machine of one lane would have ended."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import kvrm
from cuda_tools import PAGE, mapping, script
from kvrm import Stop
from kvrm.backend.cpu.worker import Worker
from lane_tools import CODE, DATA, FIXED, LAST, OWN, Do, facts, lanes_of, machine, one_by_one

BUDGET = 2000
TAGGED = 0x5A << 56
WILD = [0, 2, 1 << 40, 1 << 63, (1 << 56) - 4, (1 << 39) - 4, TAGGED | 4, TAGGED | 6, DATA, DATA + 2, FIXED]
WILD += [TAGGED | CODE + 0x48, OWN, LAST]
READ = [0, 1 << 34, (1 << 39) - 1, TAGGED | 8, (1 << 63) | (1 << 55), (1 << 64) - 9, FIXED + 0xFFB, DATA + 7]


@contextmanager
def finished_in_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Lanes that native code could not end, while the block runs."""
    found: list[int] = []
    finish = Worker._finish

    def spy(worker: Worker, lane: int) -> None:
        found.append(lane)
        finish(worker, lane)

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "_finish", spy)
        yield found


@pytest.mark.parametrize(
    ("what", "numbers"), [(Do.READ, READ[:-1]), (Do.WRITE, [7]), (Do.LOST, WILD[:-3])], ids=["r", "w", "x"]
)
def test_python_is_not_asked(what: Do, numbers: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code fills the page table itself, and tells faults."""
    count = 400
    lanes = lanes_of(
        machine("interpreter"), np.full(count, what), np.resize(np.array(numbers, np.uint64), count)
    )
    lanes.threads = 1
    with finished_in_python(monkeypatch) as asked:
        results = lanes.run(BUDGET)
    assert results.stops == {Stop.FAULT: count} and not asked


@pytest.mark.parametrize("engine", ["interpreter", "tiered"])
def test_lanes_fault_as_a_machine_does(engine: str) -> None:
    """Between lanes that end otherwise, map nothing and write to their pages."""
    pairs = [(Do.READ, number) for number in READ] + [(Do.LOST, number) for number in WILD]
    pairs += [(Do.WRITE, 3), (Do.STRADDLE, 5), (Do.MODIFY, 9), (Do.COUNT, 4), (Do.CALL, 1), (Do.LOOP, 2)]
    pairs = [pairs[at] for at in np.random.default_rng(1).integers(0, len(pairs), 200)]
    what, number = [int(do) for do, _ in pairs], [n for _, n in pairs]
    m = machine(engine)
    lanes = lanes_of(m, np.array(what), np.array(number, np.uint64))
    want = one_by_one(m, what, number, BUDGET)
    got = lanes.run(BUDGET)
    for lane in range(len(pairs)):
        assert facts(got, lane) == want[lane], pairs[lane]


@pytest.mark.parametrize("pages", [1, 2, 5])
@pytest.mark.parametrize("engine", ["interpreter", "tiered"])
def test_pages_that_a_lane_gets_on_its_way_are_not_the_next_ones(engine: str, pages: int) -> None:
    """Python gives a lane pages at the instruction that faults later: str x1, [x2], #8; b to it."""
    m = kvrm.Machine(engine=engine)
    m.write_memory(CODE, struct.pack("<2I", 0xF8008441, 0x17FFFFFF), prot="rx")
    m.write_memory(DATA, bytes(pages * PAGE), prot="rw")
    m.set_pc(CODE)
    # by turns from further ahead, where pages are new, and from the end
    starts = [DATA + max(pages * PAGE + 8 - 97 * 8 * (lane * (lane % 3)), 8 * lane) for lane in range(60)]
    lanes = m.fork(60, 1)
    lanes.registers["x1"], lanes.registers["x2"] = np.arange(60) + 1, np.array(starts)
    lanes.keep = ("x2", slice(DATA, DATA + pages * PAGE))
    results = lanes.run()
    assert results.stops == {Stop.FAULT: 60}
    for lane, start in enumerate(starts):
        expected = np.zeros(pages * PAGE // 8, np.uint64)
        expected[(start - DATA) // 8 :] = lane + 1
        assert results.memory[DATA : DATA + pages * PAGE][lane].tobytes() == expected.tobytes(), lane
        assert results.fault_address[lane] == max(start, DATA + pages * PAGE)


@pytest.mark.parametrize("budgets", [(n, 1, BUDGET) for n in range(3, 8)])
def test_a_budget_that_ends_with_the_jump(budgets: tuple[int, ...]) -> None:
    """Where it led is for the next run to find out."""
    m = machine("interpreter")
    what = [int(Do.LOST)] * len(WILD)
    lanes = lanes_of(m, np.array(what), np.array(WILD, np.uint64))
    for done in range(1, 4):
        results = lanes.run(budgets[done - 1])
        want = one_by_one(m, what, WILD, *budgets[:done])
        assert [facts(results, lane) for lane in range(len(WILD))] == want


@pytest.mark.parametrize("place", [0, DATA, (1 << 40) + 4])
def test_breakpoints_where_nothing_can_run(place: int) -> None:
    """A lane that branches to one stops there; other lanes fault."""
    m = machine("interpreter")
    m.breakpoints.add(place)
    places = [place, 4, DATA + 4, place, FIXED, 6]
    results = lanes_of(m, np.full(6, Do.LOST), np.array(places, np.uint64)).run(BUDGET)
    assert [results.lane(lane).stop for lane in range(6)] == [
        Stop.BREAKPOINT if at == place else Stop.FAULT for at in places
    ]


def test_a_lane_that_maps_memory_leaves_none_to_the_next(calls: Path) -> None:
    """The first of each pair maps a page and reads it; the second reads there, where it has none."""
    page = kvrm.Machine(calls, stdin=script([mapping(PAGE)])).run().stdout[:8]
    address = int.from_bytes(page, "little")
    texts = [script([mapping(PAGE), ("load", address)]), script([("load", address)])] * 20
    results = kvrm.Machine(calls, lanes=40, stdin=texts).run()
    assert [results.lane(lane).stop for lane in range(40)] == [Stop.EXIT, Stop.FAULT] * 20
    assert (results.fault_address[1::2] == address).all() and not results.fault_mapped.any()
