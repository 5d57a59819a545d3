"""Lanes: each is what a machine of one lane would be, whatever the others do."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest

import kvrm
from kvrm import Stop
from kvrm.engine.interpreter.library import library
from kvrm.lane.stops import Reason
from kvrm.machine.lanes_results import LaneResults
from lane_tools import (
    CODE,
    DATA,
    FIXED,
    LAST,
    OWN,
    SPANS,
    Do,
    facts,
    lanes_of,
    machine,
    mixture,
    one_by_one,
)
from patience import SECONDS
from places import SUPPORT

BUDGET = 2000


def same(one: LaneResults, other: LaneResults) -> bool:
    return all(facts(one, i) == facts(other, i) for i in range(len(one)))


def test_results_stay_as_they_were() -> None:
    """Later runs do not change them, and changes to them do not reach later ones."""
    lanes = lanes_of(machine(), np.full(3, Do.COUNT), np.array([3, 50, 500]))
    first = lanes.run(100)
    before = first.retired.tolist(), first.registers["x1"].tolist(), first.memory[SPANS[0]].tolist()
    with pytest.raises(ValueError, match="read-only"):
        first.retired[0] = 7
    second = lanes.run(BUDGET)
    assert (first.retired.tolist(), first.registers["x1"].tolist(), first.memory[SPANS[0]].tolist()) == before
    assert second.retired[0] == first.retired[0] and second.retired[2] > first.retired[2]


class TestEachLaneIsOneMachine:
    @pytest.mark.parametrize("threads", [1, 3])
    def test_a_mixture_of_everything(self, engine: str, threads: int) -> None:
        m = machine(engine)
        what, number = mixture(30 if engine in ("reference", "stress") else 150)
        expected = one_by_one(m, what, number, BUDGET)
        results = lanes_of(m, what, number, threads).run(BUDGET)
        assert set(results.stops) >= {Stop.BREAKPOINT, Stop.FAULT, Stop.BUDGET, Stop.SYSCALL}
        for lane, facts_of_lane in enumerate(expected):
            assert facts(results, lane) == facts_of_lane, (Do(int(what[lane])), int(number[lane]))

    def test_one_thing_many_times(self, engine: str) -> None:
        m = machine(engine)
        for do in Do:
            number = mixture(400, do)[1][mixture(400, do)[0] == do][:12]
            what = np.full(len(number), do)
            expected = one_by_one(m, what, number, 400)
            results = lanes_of(m, what, number).run(400)
            assert [facts(results, lane) for lane in range(len(number))] == expected

    def test_the_number_of_threads_changes_nothing(self) -> None:
        what, number = mixture(800)
        runs = [lanes_of(machine(), what, number, threads).run(BUDGET) for threads in (1, 2, 5)]
        assert same(runs[0], runs[1]) and same(runs[0], runs[2])

    @pytest.mark.parametrize("size", [1, 7, 13, 30])
    def test_slices_change_nothing(self, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
        """13 instructions are a whole lane, so that a slice ends where a lane does."""
        what, number = mixture(120)
        what[::2], number[::2] = Do.SNEAK, 4
        expected = lanes_of(machine(), what, number).run(300)
        monkeypatch.setattr("kvrm.backend.cpu.worker.SLICE", size)
        for engine in ("tiered", "interpreter"):
            lanes = lanes_of(machine(engine), what, number, 2)
            assert same(lanes.run(300), expected)
            assert lanes.poll().retired == expected.retired.sum()

    def test_in_any_order(self) -> None:
        what, number = mixture(500)
        forward = lanes_of(machine(), what, number).run(BUDGET)
        back = lanes_of(machine(), what[::-1], number[::-1]).run(BUDGET)
        assert all(facts(forward, i) == facts(back, len(what) - 1 - i) for i in range(len(what)))


class TestIsolation:
    def test_code_that_one_lane_wrote_is_not_run_by_another(self, engine: str) -> None:
        m = machine(engine)
        m.x[30] = LAST
        calls = np.arange(12) % 3 == 0
        lanes = m.fork(12, 1)
        lanes.registers["x0"] = np.where(calls, Do.MODIFY, 0)
        lanes.registers["x1"] = np.arange(12) + 5
        lanes.registers["pc"] = np.where(calls, CODE, OWN)
        results = lanes.run(BUDGET)
        assert results.registers["x0"].tolist() == [i + 5 if i % 3 == 0 else 0 for i in range(12)]

    def test_unannounced_code_does_not_depend_on_other_lanes(self, engine: str) -> None:
        for other in (Do.SNEAK, Do.MODIFY, Do.COUNT):
            lanes = lanes_of(machine(engine), [other, Do.SNEAK] * 4, np.arange(8) + 1)
            if other is Do.COUNT:
                lanes.registers["pc"] = [OWN, CODE] * 4
            results = lanes.run(BUDGET)
            assert results.registers["x0"].tolist()[1::2] == [2, 4, 6, 8], other

    def test_out_of_memory_is_by_the_lanes_own_pages(self) -> None:
        m = machine(memory_limit=250 * 4096)
        what = [Do.STRADDLE, Do.MANY] * 6
        results = lanes_of(m, what, np.ones(12, int)).run(BUDGET)
        assert results.stops == {Stop.BREAKPOINT: 6, Stop.OUT_OF_MEMORY: 6}
        m = machine(memory_limit=8 * 4096)
        lanes = lanes_of(m, [Do.STRADDLE] * 6, [1] * 6)
        lanes.registers["x2"] = DATA + 0x2000 * np.arange(6)
        assert lanes.run().stops == {Stop.BREAKPOINT: 6}
        m = machine(memory_limit=310 * 4096)
        expected = one_by_one(m, what, np.ones(12, int), None)
        results = lanes_of(m, what, np.ones(12, int)).run()
        assert [facts(results, lane) for lane in range(12)] == expected

    def test_the_machine_and_its_forks_go_their_own_ways(self) -> None:
        m = machine()
        one = lanes_of(m, [Do.STRADDLE] * 3, [1, 2, 3])
        m.memory[DATA + 0xFF0 : DATA + 0x1010] = bytes(32)
        other = lanes_of(m, [Do.STRADDLE] * 3, [1, 2, 3])
        m.x[0], m.x[1] = Do.COUNT, 9
        assert m.run().stop is Stop.BREAKPOINT
        changed, first = other.run(), one.run()
        assert first.registers["x0"].tolist() != changed.registers["x0"].tolist()
        assert same(lanes_of(machine(), [Do.STRADDLE] * 3, [1, 2, 3]).run(), first)


def test_a_handler_that_another_thread_has_added_is_no_undefined_instruction() -> None:
    engine = kvrm.Machine(engine="interpreter").lane.engine
    library().ensure_words([0, 0x91000400])
    engine.ready()
    library().version += 1
    assert engine._new_handler(0x91000400) is None, "the tables are old: look again"
    engine.ready()
    assert engine._new_handler(0).kind is Reason.UNDEFINED


class TestRuns:
    def test_in_pieces(self) -> None:
        what, number = mixture(80)
        for pieces in ([1] * 30, [7] * 20, [100, 3, 500]):
            m = machine()
            expected = one_by_one(m, what, number, *pieces)
            lanes = lanes_of(m, what, number, 2)
            results = [lanes.run(piece) for piece in pieces][-1]
            assert [facts(results, lane) for lane in range(80)] == expected

    def test_memory_is_kept_of_lanes_that_end_after_one_that_was_put_aside(self) -> None:
        """That one was the first to write to a page; the program: cbz x0, 1f; str x1, [x2]; b .; 1: brk."""
        m = kvrm.Machine(engine="interpreter")
        m.write_memory(CODE, struct.pack("<4I", 0xB4000060, 0xF9000041, 0x14000000, 0xD4200000), "rx")
        m.lane.memory.map(DATA, 0x1000, kvrm.Prot.R | kvrm.Prot.W)
        m.x[2] = DATA
        m.set_pc(CODE)
        lanes = m.fork(3, 1)
        lanes.registers["x0"], lanes.registers["x1"] = [1, 0, 0], [7, 7, 7]
        lanes.keep = (slice(DATA, DATA + 8),)
        results = lanes.run(100)
        assert results.stops == {Stop.BUDGET: 1, Stop.BRK: 2}
        assert results.memory[lanes.keep[0]][:, 0].tolist() == [7, 0, 0]

    def test_batches(self) -> None:
        what, number = mixture(120)
        whole = lanes_of(machine(), what, number).run(BUDGET)
        batches = lanes_of(machine(), what, number, 2).run(max_batches=200, instructions_per_batch=10)
        assert same(batches, whole)
        unlimited = lanes_of(machine(), what, number).run(BUDGET, instructions_per_batch=64)
        assert same(unlimited, whole)

    def test_lanes_that_stopped_stay_as_they_are(self) -> None:
        lanes = lanes_of(machine(), [Do.COUNT, Do.LOOP, Do.READ], [3, 3, 0])
        first = lanes.run(50)
        assert first.stops == {Stop.BREAKPOINT: 1, Stop.FAULT: 1, Stop.BUDGET: 1}
        second = lanes.run(50)
        assert (second.retired - first.retired).tolist() == [0, 50, 0]
        assert facts(first, 0) == facts(second, 0) and facts(first, 2) == facts(second, 2)
        assert lanes.poll().retired == 50 and lanes.poll().finished == 2

    def test_no_budget_at_all(self) -> None:
        lanes = lanes_of(machine(), [Do.COUNT] * 3, [1, 2, 3])
        assert lanes.run(0).stops == {Stop.BUDGET: 3}
        assert lanes.run(max_batches=0).stops == {Stop.BUDGET: 3}
        assert lanes.run().stops == {Stop.BREAKPOINT: 3}

    def test_breakpoints_on_the_way(self, engine: str) -> None:
        m = machine(engine)
        m.breakpoints |= {CODE, CODE + 0x40 + 16, CODE + 0x64}  # the start, COUNT's b.ne, WRITE
        what, number = [Do.COUNT, Do.WRITE, Do.READ], [3, 1, DATA]
        expected = one_by_one(m, what, number, 1000)
        for batch in (None, 1, 3, 9):
            results = lanes_of(m, what, number).run(1000, instructions_per_batch=batch)
            assert [facts(results, i) for i in range(3)] == expected

    def test_a_breakpoint_on_a_page_that_no_lane_has_run(self, engine: str) -> None:
        m = machine(engine)
        m.breakpoints.add(OWN)
        results = lanes_of(m, [Do.LOST] * 3, [OWN] * 3).run()
        assert results.stops == {Stop.BREAKPOINT: 3} and set(results.pc.tolist()) == {OWN}

    def test_a_fork_counts_from_its_own_beginning(self, engine: str) -> None:
        m = machine(engine)
        m.x[0], m.x[1] = Do.COUNT, 1000
        m.run(max_instructions=100)
        rest = m.snapshot()
        lanes = m.fork(3)
        lanes.registers["x1"] = [2, 4, 8]
        results = lanes.run()
        for lane, x1 in enumerate((2, 4, 8)):
            m.restore(rest)
            m.x[1] = x1
            assert (m.run().retired, m.x[0]) == (results.retired[lane], results.registers["x0"][lane])

    def test_the_clock_is_the_lanes_own(self, engine: str) -> None:
        m = kvrm.Machine(engine=engine)
        # nop; mrs x0, cntvct_el0; brk #0
        m.write_memory(CODE, struct.pack("<3I", 0xD503201F, 0xD53BE040, 0xD4200000))
        m.set_pc(CODE)
        m.run(max_instructions=1)
        alone = m.snapshot()
        m.run()
        expected = m.x[0]
        m.restore(alone)
        assert m.fork(4, 1).run().registers["x0"].tolist() == [expected] * 4

    def test_keeping_memory_that_the_guest_cannot_read(self, engine: str) -> None:
        m = machine(engine)
        m.lane.memory.protect(FIXED, 4096, 0)
        lanes = lanes_of(m, [Do.COUNT] * 3, [1, 2, 3])
        lanes.keep = ("x1", slice(FIXED, FIXED + 8))
        results = lanes.run()
        assert [row.tobytes() for row in results.memory[FIXED : FIXED + 8]] == [b"constant"] * 3
        assert results.stops == {Stop.BREAKPOINT: 3}


class TestMachineWithLanes:
    def test_the_whole_of_it(self) -> None:
        m = kvrm.Machine(lanes=4)
        m.write_memory(CODE, struct.pack("<2I", 0x9B017C00, 0xD4200000), prot="rx")  # mul x0, x0, x1; brk
        m.set_pc(CODE)
        m.x[1] = 3
        m.lanes.registers["x0"] = [1, 2, 3, 4]
        results = m.run()
        assert isinstance(results, LaneResults) and len(results) == 4
        assert results.registers["x0"].tolist() == [3, 6, 9, 12]
        assert (m.x[0], m.pc, m.retired) == (0, CODE, 0), "the machine itself is only where they begin"
        m.x[1] = 5
        assert m.run().registers["x0"].tolist() == [3, 6, 9, 12], "they have stopped"
        m.lanes.reset()
        m.start()
        assert m.wait(SECONDS).registers["x0"].tolist() == [5, 10, 15, 20]
        assert not m.is_running() and m.poll().finished == 4

    def test_results_as_text(self) -> None:
        results = lanes_of(machine(), [Do.COUNT, Do.READ, Do.COUNT], [1, 0, 1]).run()
        assert repr(results) == "<kvrm.LaneResults 3 lanes: 2 breakpoint, 1 fault>"
        one = results.lane(1)
        assert one.message == "read of 0x1 at pc 0x1005c: nothing is mapped there" and one.ips > 0


MANY_LANES = """
import resource
import numpy as np
from kvrm import Stop
from lane_tools import lanes_of, Do, machine

lanes = machine().fork(100_000, 2)
number = np.arange(100_000)
odd = number % 1000 == 7
lanes.registers["x0"] = np.where(odd, number // 1000 % len(Do), Do.COUNT)
lanes.registers["x1"] = rounds = 2500 + number % 3
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
results = lanes.run(20_000)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert (results.stop[~odd] == Stop.BREAKPOINT.code).all()
assert (results.retired[~odd] == 4 * rounds[~odd] + 6).all()
for count in (2500, 2501, 2502):
    x0 = 0
    for x1 in range(count, 0, -1):
        x0 = (x0 * x1 + x1) % 2**64
    assert (results.registers["x0"][~odd & (rounds == count)] == x0).all()
print(len(results.stops), (after - before) // 1024)
"""


def test_a_hundred_thousand_lanes_in_bounded_memory() -> None:
    """10,000 instructions each, and a hundred that fault, never end, or whatever else they can do."""
    command = [sys.executable, "-c", MANY_LANES]
    here = SUPPORT
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)
    assert not done.returncode, done.stderr
    kinds, megabytes = map(int, done.stdout.split())
    assert kinds >= 5
    assert megabytes < 150, "their results alone are 3 MB, a page of each would be 400"
