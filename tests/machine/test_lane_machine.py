"""`lanes.machine(i)`: lane i as a machine, at its beginning, where it stopped, and on from there."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import elsewhere
import kvrm
from cuda_tools import KEEP, PAGE, alarm, mapping, opening, result, scratch, script
from kvrm import Stop
from lane_tools import REGISTERS, SPANS, Do, endless_lanes, facts, lanes_of, machine, mixture

BUDGET = 2000


def seen(m: kvrm.Machine) -> dict[str, Any]:
    """What results hold of a lane, of a machine."""
    values: dict[str, Any] = {f"x{i}": m.x[i] for i in range(31)}
    values |= {"sp": m.sp, "nzcv": m.nzcv, "v0": [m.v[0] & (1 << 64) - 1, m.v[0] >> 64]}
    assert set(values) == set(REGISTERS)
    return {"registers": values, "memory": [m.memory[span] for span in SPANS]}


@pytest.mark.parametrize("engine", ["interpreter", "tiered", "reference"])
def test_each_lane_is_where_it_stopped_and_goes_on_as_it_would(engine: str) -> None:
    m = machine(engine)
    what, number = mixture(16 if engine == "reference" else 60)
    lanes = lanes_of(m, what, number, 2)
    first = lanes.run(30)
    machines = [lanes.machine(lane) for lane in range(len(what))]
    last = lanes.run(BUDGET)
    for lane, one in enumerate(machines):
        before = facts(first, lane)
        assert seen(one) == {name: before[name] for name in ("registers", "memory")}, lane
        assert one.pc == first.pc[lane]
        assert one.retired - m.retired == first.retired[lane]
        # a machine passes over the breakpoint where it stands, and goes on after an SVC; lanes stay there
        if first.lane(lane).stop not in (Stop.BREAKPOINT, Stop.SYSCALL):
            r, after = one.run(BUDGET), facts(last, lane)
            retired = one.retired - m.retired
            ended = (r.stop, retired, r.pc, r.exit_code, r.signal, r.fault, r.stdout, r.stderr)
            assert ended == after["result"], lane
            assert seen(one) == {name: after[name] for name in ("registers", "memory")}, lane
    assert set(last.stops) >= {Stop.BREAKPOINT, Stop.FAULT, Stop.BUDGET, Stop.SYSCALL}


def test_before_a_run_it_stands_at_the_beginning(examples: Path) -> None:
    m = kvrm.Machine(examples / "sha256", lanes=2, stdin=[b"abc", b"abcd"], args=[["one"], ["two"]])
    begin = [m.lanes.machine(lane) for lane in range(2)]
    assert [one.retired for one in begin] == [0, 0]
    expected = [kvrm.Machine(examples / "sha256", stdin=s).run().stdout for s in (b"abc", b"abcd")]
    assert [one.run().stdout for one in begin] == expected
    assert m.run().stdout == expected
    again = m.lanes.machine(1)
    assert (again.run().stdout, again.run().stop) == (expected[1], Stop.EXIT)


def test_registers_and_memory_of_its_own() -> None:
    lanes = machine().fork(3)
    lanes.registers["pc"] = [0x18000, 0x18000 | 0x5A << 56, 0x18004]
    lanes.registers["v1"] = [[1, 2], [3, 4], [5, 6]]
    lanes.registers["nzcv"] = [1, 2, 15]
    lanes.memory[0x18000:0x18004] = np.frombuffer(b"aaaabbbbcccc", np.uint8).reshape(3, 4)
    one = lanes.machine(1)
    assert (one.pc, one.v[1], one.nzcv) == (0x18000, 3 | 4 << 64, 2)
    assert bytes(one.memory[0x18000:0x18004]) == b"bbbb"


def test_it_is_independent_of_the_lanes() -> None:
    m = machine()
    lanes = lanes_of(m, [Do.LOOP, Do.COUNT], [7, 500])
    first = lanes.run(100)
    one = lanes.machine(1)
    one.memory[SPANS[0].start : SPANS[0].start + 8] = b"scribble"
    one.x[1] = 1
    other = lanes.machine(1)
    assert (other.x[1], seen(other)) == (first.registers["x1"][1], seen(lanes.machine(1)))
    step = other.step(3)
    assert (step.stop, step.retired, other.retired) == (Stop.BUDGET, 3, 103)
    assert lanes.run(BUDGET).retired[1] == other.run(BUDGET).retired + 103
    forked = lanes.machine(0).fork(2).run(50)
    assert forked.retired.tolist() == [50, 50]


def test_breakpoints_of_lanes_are_copied_and_do_not_stop_what_they_did_not() -> None:
    count = bytes.fromhex(
        "00040091210400d1c1ffffb5c0035fd6"
    )  # 1: add x0, x0, #1; sub x1, x1, #1; cbnz x1, 1b
    m = kvrm.Machine(lanes=2)
    m.write_memory(0x1000, count, prot="rx")
    m.set_pc(0x1000)
    m.lanes.registers["x1"] = [3, 40]
    assert m.run(60).retired.tolist() == [10, 60]
    m.breakpoints.add(0x1004)
    one = m.lanes.machine(1)
    assert (one.retired, one.pc, one.x[0]) == (60, 0x1000, 20)
    assert (one.breakpoints, one.run().stop, one.pc) == ({0x1004}, Stop.BREAKPOINT, 0x1004)
    one.breakpoints.clear()
    assert m.breakpoints == {0x1004}
    assert (one.run().stop, one.retired) == (Stop.FAULT, 121)


def test_random_numbers_are_its_own(calls: Path) -> None:
    ops: list[Any] = [("getrandom", scratch(), 16, 0), ("write", 1, scratch(), 16)]
    m = kvrm.Machine(calls, stdin=script(ops))
    lanes = m.fork(1)
    expected = lanes.machine(0).run().stdout
    assert lanes.machine(0).run().stdout == m.run().stdout == expected


def test_wrong_lanes_and_wrong_moments() -> None:
    lanes = endless_lanes()
    for lane in (-1, 5, "0"):
        with pytest.raises(IndexError, match=r"lanes.machine\["):
            lanes.machine(lane)  # type: ignore[arg-type]
    lanes.start()
    try:
        with pytest.raises(kvrm.UsageError, match="a run is going on"):
            lanes.machine(0)
    finally:
        lanes.cancel()
        cancelled = lanes.wait(60)
    assert lanes.machine(0).retired == cancelled.retired[0]


def test_every_end_stays_an_end(examples: Path) -> None:
    m = kvrm.Machine(examples / "faults", lanes=6, args=[[str(i)] for i in range(6)])
    results = m.run()
    for lane in range(6):
        one, r = m.lanes.machine(lane).run(), results.lane(lane)
        ended = (one.stop, one.exit_code, one.signal, one.fault, one.pc, one.stdout)
        assert ended == (r.stop, r.exit_code, r.signal, r.fault, r.pc, r.stdout)


OPS: list[list[Any]] = [
    [*opening("/tmp/made", 0o102), ("write", result(1), scratch(), 5), ("lseek", result(1), 0, 1)],
    [mapping(4 * PAGE), ("store", result(0, 8), 0x41), ("write", 1, result(0), 16), ("spin", 50)],
    [*alarm(0, 200), ("spin", 500)],
    [("getrandom", scratch(), 16, 0), ("write", 1, scratch(), 16)],
    [("load", 8)],
]


@pytest.mark.parametrize("budget", [60, None])
def test_lanes_of_the_device(calls: Path, place: str, budget: int | None) -> None:
    found = []
    for target in ("cpu", "cuda"):
        m = kvrm.Machine(calls, target=target, lanes=len(OPS), stdin=[script(ops) for ops in OPS])
        m.lanes.keep = KEEP
        results = m.run(max_instructions=budget)
        machines = [m.lanes.machine(lane) for lane in range(len(OPS))]
        assert [one.retired for one in machines] == results.retired.tolist()
        assert [one.x[19] for one in machines] == results.registers["x19"].tolist()
        twins = [kvrm.Machine(calls) for _ in OPS]
        for one, twin in zip(machines, twins, strict=True):
            twin.restore(pickle.loads(pickle.dumps(one.snapshot())))
        whole = [elsewhere.facts(one) for one in machines]
        assert [elsewhere.facts(twin) for twin in twins] == whole
        found.append(whole)
        again = m.run()
        assert [one["stdout"] for one in whole] == again.stdout
    assert found[0] == found[1]
