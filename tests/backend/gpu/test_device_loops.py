"""Loops that are skipped on target "cuda": lanes leave what they leave on the CPU without a policy."""

from __future__ import annotations

import itertools
import random
from array import array
from pathlib import Path
from typing import Any

import pytest

import device_on_host
import kvrm
from kvrm import Stop
from kvrm.backend.gpu import skipping, slices
from kvrm.backend.gpu.skipping import Site
from kvrm.loops import device_sites
from kvrm.memory import PAGE
from loop_cases import ADVERSARIES, COPY, FILL, LENGTH, READ_ONLY, SUM, TIGHT, set_registers
from loop_lanes import SPANS, Case, Lanes, Pair, random_lanes
from loop_tools import BRK, CODE, DATA, Lab

pytestmark = pytest.mark.usefixtures("place")

Wanted = list[tuple[list[int], dict[str, int]]]
"""Bodies and registers."""


def by_budget() -> dict[int, Wanted]:
    """What the adversaries run, for each budget."""
    found: dict[int, Wanted] = {}
    for run in itertools.chain.from_iterable(runs() for runs in ADVERSARIES):
        found.setdefault(run.budget, []).append((run.body, run.registers))
    return found


def pair_of(lab: Lab, wanted: Wanted, **options: Any) -> Pair:
    """Lanes with these bodies and registers."""
    bodies = list(dict.fromkeys(tuple(body) for body, _ in wanted))
    number = {body: i for i, body in enumerate(bodies)}
    cases = []
    for body, registers in wanted:
        set_registers(lab, registers)
        cases.append(Case(number[tuple(body)], lab.state.save()))
    return Pair(lab, bodies, cases, **options)


class TestLanes:
    def test_random_loops(self) -> None:
        pair = Pair(*random_lanes(5, 30, 20))
        assert pair.installed == 30
        for budget in (400, 37, 2000):
            pair.run(budget)
        _, skips, iterations = pair.skipping.counts()
        assert skips > 200 and iterations > 7_000

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(100, 110))
    def test_many_random_loops(self, seed: int) -> None:
        pair = Pair(*random_lanes(seed, 200, 40))
        for budget in (400, 37, 2000):
            pair.run(budget)
        assert pair.skipping.counts()[1] > 4_000

    @pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
    def test_adversaries(self, step: int) -> None:
        """Where there are over a thousand runs, every fifth by default; the CPU's tests do all."""
        lab = Lab(1)
        for budget, all_wanted in by_budget().items():
            wanted = all_wanted[:: step if len(all_wanted) > 1000 else 1]
            pair = pair_of(lab, wanted)
            pair.run(budget)
            assert pair.skipping.counts()[1] > len(wanted) // 50

    def test_every_budget(self) -> None:
        lab, registers = Lab(1), {"x0": DATA + 8, "x1": READ_ONLY, "x2": 25, "x3": 3}
        pair = pair_of(
            lab,
            [(body, registers | {"x2": n}) for body in (FILL, COPY, SUM, LENGTH, TIGHT) for n in (3, 25, 70)],
        )
        for budget in range(1, 90, 4):
            pair.run(budget)
            pair.reset()
        assert pair.skipping.counts()[1] > 150

    def test_short_launches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A grant may end anywhere; a skip is never longer than one."""
        monkeypatch.setattr(slices, "FIRST", 23)
        monkeypatch.setattr(slices, "LONGEST", 23)
        pair = Pair(*random_lanes(5, 30, 20))
        pair.run(600)
        assert pair.skipping.counts()[1] > 100

    def test_breakpoints_that_come_and_go(self) -> None:
        """In loops that are skipped, before and after them, while lanes are anywhere in them."""
        lab, bodies, cases = random_lanes(5, 30, 20)
        pair, rng = Pair(lab, bodies, cases), random.Random(5)
        for _ in range(12):
            places = zip(pair.plain.places, bodies, strict=True)
            pair.set_breakpoints(
                {at + 4 * rng.randrange(len(body) + 1) for at, body in places if rng.random() < 0.3}
            )
            pair.run(rng.choice((1, 7, 90)))
        pair.set_breakpoints(set())
        pair.run(1000)
        assert pair.skipping.counts()[1] > 100

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_a_limit_of_memory(self, limit: int) -> None:
        """Pages that a skip takes are those that plain execution would have taken; one page is of code."""
        pair = Pair(*random_lanes(5, 30, 20, filled=0), memory_limit=(1 + limit) * PAGE)
        pair.run(20_000)
        assert Stop.OUT_OF_MEMORY in pair.plain.lanes.run(1).stops
        assert pair.skipping.counts()[1] > 100

    def test_a_pool_that_runs_out(self, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        """Then nothing is skipped that would need a page, and lanes go on on the CPU."""
        if place != "host":
            pytest.skip("a GPU has more memory than this takes")
        monkeypatch.setattr(device_on_host.HostDevice, "memory", 40 << 20)
        pair = Pair(*random_lanes(5, 30, 20))
        for budget in (400, 37, 2000):
            pair.run(budget)
        assert pair.skipping.lanes.left_device and pair.skipping.counts()[1] > 100

    def test_loops_are_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where lanes are when a launch ends; they have different counts left."""
        monkeypatch.setattr(slices, "FIRST", 1000)
        monkeypatch.setattr(slices, "LONGEST", 1000)
        registers = {"x0": DATA, "x1": DATA + 3 * PAGE}
        wanted = [
            (body, registers | {"x2": 900 + n, "x3": n}) for n in range(40) for body in (FILL, COPY, TIGHT)
        ]
        pair = pair_of(Lab(1), wanted, install=False)
        pair.run(20_000)
        report = pair.skipping.machine.policies["loops"].report
        assert report["accepted"] == 3 and report["skipped"] > 100_000

    def test_what_was_skipped_is_still_known_when_code_is_another(self) -> None:
        pair = pair_of(Lab(1), [(TIGHT, {"x2": 900})] * 3)
        lanes, m = pair.skipping.lanes, pair.skipping.machine
        lanes.run(5000)
        before = m.policies["loops"].skipped
        assert before == 3 * 3 * 898
        lanes.backend._of = None
        lanes.reset()
        lanes.run(1)
        assert m.policies["loops"].skipped == before and len(m.policies["loops"].sites) == 2

    def test_a_loop_that_does_not_pay_rests(self) -> None:
        """Then it is plain, until it may try again."""
        lanes = pair_of(Lab(1), [(TIGHT, {"x2": n}) for n in (1, 2, 3, 4)] * 20, least=None).skipping
        lanes.lanes.run(1000)
        sites, code = lanes.lanes.backend._sites, lanes.lanes.backend.code
        assert code._ids()[code.slot(CODE), 0] != code._ids()[code.slot(CODE), 1]
        for rests in range(device_sites.REST, 0, -1):
            sites.look([])
            assert code.skipped.sites[0].rest == rests
            assert code._ids()[code.slot(CODE), 0] == code._ids()[code.slot(CODE), 1]
        sites.look([])
        assert code._ids()[code.slot(CODE), 0] != code._ids()[code.slot(CODE), 1]

    def test_there_is_room_for_so_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(skipping, "MOST", 1)
        pair = pair_of(Lab(1), [(body, {"x0": DATA, "x2": 90}) for body in (FILL, TIGHT)])
        assert pair.installed == 1
        pair.run(1000)
        code = pair.skipping.lanes.backend.code
        assert not code.skipped.add(Site(CODE, CODE + 4), array("Q", [0] * 500))


class TestOneLane:
    def test_random_loops(self) -> None:
        """One after the other, over the same memory, which is compared at the end."""
        lab, bodies, cases = random_lanes(8, 30, 12)
        plain = Lanes(lab, bodies, cases, "cpu").machine
        made = Lanes(lab, bodies, cases, "cuda", policies={"loops": "oracle"})
        skipping, sites = made.machine, made.machine.lane.engine._skipping
        sites._least, rng = 1, random.Random(8)
        assert all(sites.install(at, body) for at, body in zip(made.places, made.bodies, strict=True))
        for case in cases:
            budget, seen = rng.choice((3000, 3000, rng.randrange(1, 400))), []
            for m in (plain, skipping):
                m.state.load(case.state)
                m.set_pc(made.places[case.loop])
                before = m.retired
                result = m.run(max_instructions=budget)
                seen.append((result.stop, result.fault, m.retired - before, m.pc, m.state.save()))
            assert seen[0] == seen[1], (case.loop, seen[0][:4], seen[1][:4])
        assert all(plain.memory[span] == skipping.memory[span] for span in SPANS)
        assert skipping.policies["loops"].skipped > 5000

    def test_loops_are_found(self) -> None:
        """In a machine that was not told; they are skipped again when code has changed elsewhere."""
        m = kvrm.Machine(target="cuda", engine="interpreter", policies={"loops": "oracle"})
        m.write_memory(CODE, b"".join(word.to_bytes(4, "little") for word in [*TIGHT, BRK]), "rx")
        m.set_pc(CODE)
        m.x[2], m.x[3] = 10_000_000, 3
        result = m.run()
        assert (result.stop, result.retired, m.x[5], m.x[2]) == (Stop.BRK, 30_000_000, 30_000_000, 0)
        assert m.policies["loops"].skipped > 0.9 * result.retired
        before = m.policies["loops"].skipped
        m.write_memory(CODE + PAGE, BRK.to_bytes(4, "little"), "rx")
        m.set_pc(CODE)
        m.x[2] = 10_000_000
        assert m.run().retired == 30_000_000 and m.x[5] == 60_000_000
        assert m.policies["loops"].skipped - before > 20_000_000

    @pytest.mark.parametrize("at", range(4))
    def test_breakpoints(self, at: int) -> None:
        m = kvrm.Machine(target="cuda", engine="interpreter", policies={"loops": "oracle"})
        m.write_memory(CODE, b"".join(word.to_bytes(4, "little") for word in [*TIGHT, BRK]), "rx")
        m.set_pc(CODE)
        m.x[2], m.x[3] = 100_000, 1
        m.lane.engine._skipping.install(CODE, tuple(TIGHT))
        m.run(max_instructions=30_001)
        m.breakpoints.add(CODE + 4 * at)
        result = m.run()
        assert (result.stop, result.pc) == (Stop.BREAKPOINT, CODE + 4 * at)
        assert m.retired == (300_000 if at == 3 else 30_000 + (3, 4, 2, 0)[at])
        m.breakpoints.clear()
        assert m.run().stop is Stop.BRK and m.retired == 300_000 and m.x[5] == 100_000


PROGRAMS = {"primes": ["500"], "sha256": [], "expression": [], "hello": []}


@pytest.mark.parametrize("policy", ["rule", "random", "oracle"])
@pytest.mark.parametrize(
    "name", ["primes", *(pytest.param(name, marks=pytest.mark.slow) for name in PROGRAMS if name != "primes")]
)
def test_programs(name: str, policy: str, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One lane and several; a launch is short, so that loops are found."""
    monkeypatch.setattr(slices, "FIRST", 2000)
    monkeypatch.setattr(slices, "LONGEST", 2000)
    seen = []
    for target, policies in (("cpu", {}), ("cuda", {"loops": policy})):
        options = {"args": PROGRAMS[name], "target": target, "engine": "interpreter", "policies": policies}
        m = kvrm.Machine(examples / name, stdin=b"(1+2)*3\n", **options)
        one = m.run(max_instructions=100_000)
        lanes = kvrm.Machine(examples / name, lanes=5, **options)
        lanes.lanes.stdin = [b"1+2*%d\n" % i * i for i in range(5)]
        results = lanes.run(max_instructions=100_000)
        seen.append([(r.stop, r.retired, r.exit_code, r.stdout) for r in (one, *map(results.lane, range(5)))])
    assert seen[0] == seen[1]
