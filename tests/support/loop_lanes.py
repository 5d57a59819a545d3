"""Lanes that begin in one of many loops: plainly on the CPU, and on the device with iterations skipped."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import kvrm
from kvrm.loops import plan
from kvrm.memory import PAGE
from loop_maker import Maker, random_start
from loop_tools import BRK, CODE, RX, WINDOWS, Lab

REGISTERS = (*(f"x{i}" for i in range(31)), "sp", "nzcv", *(f"v{i}" for i in range(32)))
SPANS = tuple(slice(start, start + pages * PAGE) for start, pages, _ in WINDOWS)
Start = tuple[bytes, int]


@dataclass(frozen=True)
class Case:
    """A lane: the number of its loop, and its state."""

    loop: int
    state: Start


class Lanes:
    """Lanes over the memory of a lab, `target` being where they run and `policies` the machine's."""

    def __init__(
        self,
        lab: Lab,
        bodies: Sequence[Sequence[int]],
        cases: Sequence[Case],
        target: str,
        **options: Any,
    ) -> None:
        self.bodies = [tuple(body) for body in bodies]
        self.machine = m = kvrm.Machine(target=target, engine="interpreter", **options)
        self.places = list(_places(bodies))
        last = self.places[-1] + 4 * len(bodies[-1])
        m.lane.memory.map(CODE, (last - CODE) // PAGE * PAGE + PAGE, RX)
        for at, body in zip(self.places, bodies, strict=True):
            m.lane.memory.poke(at, b"".join(word.to_bytes(4, "little") for word in [*body, BRK]))
        for start, pages, prot in WINDOWS:
            m.lane.memory.map(start, pages * PAGE, prot)
            for page in range(start, start + pages * PAGE, PAGE):
                if any(data := lab.memory.peek(page, PAGE)):
                    m.lane.memory.poke(page, data)
        m.set_pc(CODE)
        self.lanes = m.fork(len(cases))
        self.lanes.keep = (*REGISTERS, *SPANS)
        self._begin(lab, cases)

    def _begin(self, lab: Lab, cases: Sequence[Case]) -> None:
        columns: dict[str, list[Any]] = {name: [] for name in (*REGISTERS, "pc")}
        state = lab.state
        for case in cases:
            state.load(case.state)
            for i, value in enumerate(state.x):
                columns[f"x{i}"].append(value)
            for i, value in enumerate(state.v):
                columns[f"v{i}"].append((value & (1 << 64) - 1, value >> 64))
            columns["sp"].append(state.sp)
            columns["nzcv"].append(state.nzcv)
            columns["pc"].append(self.places[case.loop])
        for name, values in columns.items():
            self.lanes.registers[name] = np.array(values, np.uint64)

    def install(self, least: int | None = 1) -> int:
        """Have the device skip all loops that it can; how many."""
        self.lanes.run(1)
        sites = self.lanes.backend._sites
        sites._least = least
        done = [sites.install(at, body) for at, body in zip(self.places, self.bodies, strict=True)]
        self.lanes.reset()
        return sum(done)

    def counts(self) -> tuple[int, int, int]:
        """Entries of loops, those at which iterations were skipped, and iterations."""
        rows = self.lanes.backend.code.skipped.words()
        entries, skips, iterations = (
            int(rows[:, at // 8].sum()) for at in (plan.ENTRIES, plan.SKIPS, plan.ITERATIONS)
        )
        return entries, skips, iterations


class Pair:
    """The same lanes twice: on the CPU, and on the device, where loops are skipped."""

    def __init__(
        self,
        lab: Lab,
        bodies: Sequence[Sequence[int]],
        cases: Sequence[Case],
        least: int | None = 1,
        install: bool = True,
        **options: Any,
    ) -> None:
        self.cases = cases
        self.plain = Lanes(lab, bodies, cases, "cpu", **options)
        self.skipping = Lanes(lab, bodies, cases, "cuda", policies={"loops": "oracle"}, **options)
        self.installed = self.skipping.install(least) if install else 0

    def run(self, budget: int) -> None:
        """Both; they must be the same."""
        one, other = self.plain.lanes.run(budget), self.skipping.lanes.run(budget)
        wrong = differences(one, other)
        assert not wrong, [(self.cases[lane].loop, one.lane(lane), other.lane(lane)) for lane in wrong[:3]]

    def set_breakpoints(self, breakpoints: set[int]) -> None:
        """The ones that there are from now on."""
        for lanes in (self.plain.lanes, self.skipping.lanes):
            lanes.breakpoints.clear()
            lanes.breakpoints.update(breakpoints)

    def reset(self) -> None:
        """Both back to their beginning."""
        self.plain.lanes.reset()
        self.skipping.lanes.reset()


def _places(bodies: Sequence[Sequence[int]]) -> Iterator[int]:
    """Where loops are, each with a word after it and on one page."""
    at = CODE
    for body in bodies:
        if at % PAGE + 4 * len(body) + 4 > PAGE:
            at += -at % PAGE
        yield at
        at += 4 * len(body) + 4


def differences(one: Any, other: Any) -> list[int]:
    """Lanes in which two results differ."""
    same = (one.retired == other.retired) & (one.pc == other.pc)
    pairs = [(one.registers[name], other.registers[name]) for name in REGISTERS]
    pairs += [(one.memory[span], other.memory[span]) for span in SPANS]
    for values, found in pairs:
        same &= (values == found).reshape(len(same), -1).all(axis=1)
    return [
        lane
        for lane in range(len(same))
        if not same[lane]
        or (one.lane(lane).stop, one.lane(lane).fault) != (other.lane(lane).stop, other.lane(lane).fault)
    ]


def random_lanes(
    seed: int, loops: int, each: int, filled: float = 0.8
) -> tuple[Lab, list[list[int]], list[Case]]:
    """Random loops that are understood, and lanes that begin in them, neighbours in different ones.

    `filled` is the part of pages that have something in them.
    """
    lab, bodies, cases, number = Lab(seed, filled), [], [], 0
    while len(bodies) < loops:
        number += 1
        rng = random.Random(seed << 32 | number)
        lab.load(Maker(rng).body())
        if lab.install():
            bodies.append(list(lab.body))
            cases += [Case(len(bodies) - 1, random_start(rng, lab)) for _ in range(each)]
    random.Random(seed).shuffle(cases)
    return lab, bodies, cases
