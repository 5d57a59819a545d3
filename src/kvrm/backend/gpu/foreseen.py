"""What is known of lanes beforehand: what a few of them do on the CPU, recorded for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from kvrm.backend.cpu.worker import Worker
from kvrm.backend.gpu.region_plan import MOST_TARGETS, plan
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.translator.paths import Paths
from kvrm.engine.translator.region import Region
from kvrm.lane.stops import Stop
from kvrm.machine.breakpoints import Breakpoints
from kvrm.machine.engines import EngineKind
from kvrm.machine.lane import Lane
from kvrm.machine.lanes_job import Job
from kvrm.memory import PAGE, GuestFault, Memory
from kvrm.observe.observer import Accesses

PIECES, PIECE, GAP = 12, 20_000, 60_000
"""How often a lane is recorded, for how many instructions, and how many it runs in between: pieces from all
over its beginning, since to record takes longer than to run."""
OTHERS, OTHER_PIECES, IN_VAIN = 40, 2, 8
"""Lanes that are recorded besides the first, how often, and how many in a row that add nothing end it."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Steps of instructions that are to prefetch (`Code`), and pages that are written, in that order."""

    ahead: Mapping[int, Sequence[int]] | None
    written: Sequence[int]


NOTHING = Foreseen(None, ())
"""What is known without a memory policy."""


def find_regions(
    origin: Lane, kind: EngineKind, job: Job, budget: int, breakpoints: Set[int]
) -> list[Region]:
    """The regions that a few of the lanes would have spent most of their first instructions in."""
    worker = Worker(origin, replace(kind.unwatched(), name="interpreter"), job)
    count = len(job.outputs.stop)
    others = Random(0).sample(range(1, count), min(OTHERS, count - 1))
    memory = worker.fresh_lane(0).memory
    paths = Paths(lambda pc: words_at(memory, pc), kind.features, MOST_TARGETS)
    path: list[int] = []
    in_vain = 0
    for number in (0, *others):
        lane = worker.fresh_lane(number)
        lane.breakpoints = Breakpoints(breakpoints)
        before = len(paths.edges)
        for trace in _recorded(lane, OTHER_PIECES if number else PIECES, lane.retired + budget):
            path += paths.add(trace)
        in_vain = in_vain + 1 if len(paths.edges) == before else 0
        if in_vain == IN_VAIN:
            break
    return plan(paths, path)


def find_accesses(origin: Lane, kind: EngineKind, job: Job, budget: int, breakpoints: Set[int]) -> Foreseen:
    """What the machine's memory policy makes of the accesses of lane 0's first instructions."""
    written = _Written()
    worker = Worker(origin, replace(kind, name="interpreter", observers=(written,)), job)
    lane = worker.fresh_lane(0)
    lane.breakpoints = Breakpoints(breakpoints)
    lane.run_to(lane.retired + budget)
    return Foreseen(kind.policies["memory"].ahead(), list(written.pages))


class _Written:
    """An `AccessObserver` that keeps the numbers of the pages that are written, in that order."""

    def __init__(self) -> None:
        self.pages: dict[int, None] = {}

    def attach(self, peek: Callable[[int, int], bytes]) -> None:
        """Code does not matter."""

    def feed(self, a: Accesses) -> None:
        numbers = a.address[a.write] // np.uint64(PAGE)
        self.pages.update(dict.fromkeys(numbers.tolist()))


def _recorded(lane: Lane, pieces: int, end: int) -> Iterator[list[int]]:
    """The addresses of the instructions that a lane runs, in pieces."""
    engine = lane.engine
    assert isinstance(engine, Interpreter)
    for _ in range(pieces):
        trace: list[int] = []
        engine.trace = trace
        going = _goes_on(lane, min(lane.retired + PIECE, end))
        engine.trace = None
        yield trace
        if not going or not _goes_on(lane, min(lane.retired + GAP, end)):
            return


def _goes_on(lane: Lane, end: int) -> bool:
    return lane.run_to(end)["stop"] is Stop.BUDGET and lane.retired >= end


def words_at(memory: Memory, pc: int) -> tuple[int, ...]:
    """The words of code from `pc` to the end of its page; none if nothing is mapped there."""
    try:
        return (
            tuple(np.frombuffer(memory.peek(pc, PAGE - pc % PAGE), np.uint32).tolist()) if not pc & 3 else ()
        )
    except GuestFault:
        return ()
