"""Lanes at a breakpoint stay there while it is set, and go on once it is not."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import kvrm
from kvrm import Stop
from kvrm.machine.lanes import Lanes
from patience import SECONDS

CODE, DATA, FAR = 0x1_0000, 0x2_0000, 0x7000_0000
# 1: add x0, x0, x1; str x0, [x2]; subs x3, x3, #1; b.ne 1b; brk #1
WORDS = (0x8B010000, 0xF9000040, 0xF1000463, 0x54FFFFA1, 0xD4200020)
NUMBERS = np.arange(1, 41)


def machine(**options: Any) -> kvrm.Machine:
    m = kvrm.Machine(**options)
    m.write_memory(CODE, struct.pack(f"<{len(WORDS)}I", *WORDS), prot="rx")
    m.write_memory(DATA, bytes(8), prot="rw")
    m.set_pc(CODE)
    m.x[2], m.x[3] = DATA, 9
    return m


def lanes_of(m: kvrm.Machine, threads: int = 2) -> Lanes:
    lanes = m.fork(len(NUMBERS), threads)
    lanes.registers["x1"] = NUMBERS
    lanes.keep = ("x0", "x3", slice(DATA, DATA + 8))
    return lanes


ROUTE: list[tuple[set[int], int | None]] = [
    ({CODE + 4}, None),
    ({CODE + 4}, None),
    ({CODE + 12}, None),
    ({CODE, CODE + 12}, 3),
    ({CODE}, 1),
    (set(), 7),
    ({CODE + 16}, None),
    (set(), 0),
    (set(), None),
]
"""Breakpoints and budgets of one run after the other; a lane stays in the second and the fourth."""


def alone(number: int, stays: frozenset[int] = frozenset((1, 3))) -> list[tuple[Any, ...]]:
    """What one machine does on the route."""
    m, found = machine(engine="reference"), []
    m.x[1] = number
    for at, (breakpoints, budget) in enumerate(ROUTE):
        if at not in stays:
            m.breakpoints = breakpoints
            stop = m.run(max_instructions=budget).stop
        found.append((stop, m.retired, m.pc, m.x[0], m.x[3], m.memory[DATA : DATA + 8]))
    return found


def of_lanes(lanes: Lanes, **options: Any) -> list[list[tuple[Any, ...]]]:
    """The same of lanes, lane by lane."""
    rows = []
    for breakpoints, budget in ROUTE:
        lanes.breakpoints = breakpoints
        r = lanes.run(max_instructions=budget, **options)
        numbers = [r.registers[name].tolist() for name in ("x0", "x3")]
        memory = [row.tobytes() for row in r.memory[DATA : DATA + 8]]
        stops = [kvrm.STOPS[code] for code in r.stop]
        rows.append(list(zip(stops, r.retired.tolist(), r.pc.tolist(), *numbers, memory, strict=True)))
    return [list(row) for row in zip(*rows, strict=True)]


@pytest.fixture(scope="module")
def expected() -> list[list[tuple[Any, ...]]]:
    return [alone(int(number)) for number in NUMBERS]


def test_they_go_on_as_a_machine_does(engine: str, expected: list[Any]) -> None:
    assert of_lanes(lanes_of(machine(engine=engine))) == expected


def test_they_do_in_batches(expected: list[Any]) -> None:
    assert of_lanes(lanes_of(machine()), instructions_per_batch=2) == expected


def test_those_that_have_written_read_what_they_write(engine: str) -> None:
    """Their pages were native code's until they stopped; they go on in Python's memory."""
    lanes = lanes_of(machine(engine=engine), threads=1)
    lanes.breakpoints = {CODE + 16}
    lanes.run()
    lanes.breakpoints = set()
    assert lanes.run().memory[DATA : DATA + 8].view(np.uint64)[:, 0].tolist() == (9 * NUMBERS).tolist()


def test_they_do_on_a_gpu(place: str, expected: list[Any]) -> None:
    assert of_lanes(lanes_of(machine(target="cuda"))) == expected


def test_those_that_went_to_the_cpu_do(place: str) -> None:
    """Code of the lanes' own runs on the CPU: mov x0, #number; nop; nop; brk #1."""
    m = kvrm.Machine(target="cuda")
    m.write_memory(CODE, struct.pack("<4I", 0xD2800000, 0xD503201F, 0xD503201F, 0xD4200020), prot="rwx")
    m.set_pc(CODE)
    m.breakpoints = {CODE + 4}
    lanes = m.fork(5)
    words = 0xD2800000 | np.arange(5, dtype=np.uint32) << 5
    lanes.memory[CODE : CODE + 4] = words.view(np.uint8).reshape(5, 4)
    assert lanes.run().stops == {Stop.BREAKPOINT: 5}
    lanes.breakpoints = {CODE + 8}
    again = lanes.run()
    assert again.stops == {Stop.BREAKPOINT: 5} and again.retired.tolist() == [2] * 5
    lanes.breakpoints.clear()
    done = lanes.run()
    assert done.stops == {Stop.BRK: 5} and done.registers["x0"].tolist() == list(range(5))


def test_where_nothing_is_mapped(engine: str) -> None:
    """A function that returns to a made-up address stops there; without the breakpoint it is a fault."""
    m = machine(engine=engine)
    m.write_memory(CODE + 0x100, struct.pack("<I", 0xD65F03C0), prot="rx")  # ret
    m.set_pc(CODE + 0x100)
    m.x[30] = FAR
    m.breakpoints = {FAR}
    lanes = m.fork(3)
    assert lanes.run().stops == {Stop.BREAKPOINT: 3}
    assert lanes.run().stops == {Stop.BREAKPOINT: 3}
    lanes.breakpoints.clear()
    results = lanes.run()
    assert results.stops == {Stop.FAULT: 3} and results.retired.tolist() == [1] * 3
    assert results.fault_address.tolist() == [FAR] * 3 and not results.fault_mapped.any()


def test_progress_counts_them_once() -> None:
    lanes = lanes_of(machine())
    lanes.breakpoints = {CODE + 4}
    lanes.run()
    assert lanes.poll().finished == 40 and lanes.poll().stops == {Stop.BREAKPOINT: 40}
    lanes.breakpoints = set()
    assert lanes.run(5).stops == {Stop.BUDGET: 40}
    assert lanes.poll().finished == 0 and lanes.poll().stops == {} and lanes.poll().retired == 200
    assert lanes.run().stops == {Stop.BRK: 40}
    assert lanes.poll().finished == 40 and lanes.poll().stops == {Stop.BRK: 40}
    lanes.reset()
    assert lanes.run(5).stops == {Stop.BUDGET: 40} and lanes.poll().finished == 0


def test_programs_write_nothing_twice(examples: Any) -> None:
    m = kvrm.Machine(examples / "expression", stdin=b"6 * 7\n")
    m.run(max_instructions=200)
    at = m.pc
    m = kvrm.Machine(examples / "expression", stdin=b"6 * 7\n")
    whole = kvrm.Machine(examples / "expression", stdin=b"6 * 7\n").run()
    m.breakpoints = {at}
    lanes = m.fork(4)
    assert lanes.run().stops == {Stop.BREAKPOINT: 4}
    lanes.breakpoints.clear()
    results = lanes.run()
    assert results.stops == {Stop.EXIT: 4} and results.stdout == [whole.stdout] * 4
    assert results.retired.tolist() == [whole.retired] * 4


def test_cancelling_while_they_are_run_again_loses_nothing() -> None:
    m = machine()
    m.x[3] = 30_000_000
    lanes = m.fork(2, 1)
    lanes.registers["x1"] = [1, 2]
    lanes.breakpoints = {CODE + 16}
    first = lanes.run()
    assert first.stops == {Stop.BREAKPOINT: 2}
    lanes.breakpoints.clear()
    lanes.start()
    lanes.cancel()
    lanes.wait(SECONDS)
    results = lanes.run()
    assert results.stops == {Stop.BRK: 2} and (results.retired == first.retired).all()
