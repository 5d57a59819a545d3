"""Which regions lanes need: what one of them does on the CPU, recorded for a while."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice

import numpy as np

from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.translator.paths import Paths
from kvrm.engine.translator.plan import plan
from kvrm.engine.translator.region import Region
from kvrm.machine.lanes_worker import Job, Worker
from kvrm.machine.machine import Machine
from kvrm.machine.result import Stop
from kvrm.memory import PAGE, GuestFault, Memory

PIECES, PIECE, GAP = 12, 20_000, 60_000
"""How often a lane is recorded, for how many instructions, and how many it runs in between."""
MOST = 32
"""Regions: each costs about as much compilation as twenty handlers."""


def find_regions(origin: Machine, job: Job, lane: int, budget: int) -> list[Region]:
    """The regions that lane `lane` would have spent most of its first instructions in."""
    machine = Worker(origin, job, engine="interpreter").lane_as_machine(lane)
    engine, memory = machine._engine, machine._memory
    assert isinstance(engine, Interpreter)
    paths = Paths(lambda pc: words_at(memory, pc), machine.features)
    found: dict[int, Region] = {}
    end = machine.retired + budget
    for _ in range(PIECES):
        trace: list[int] = []
        going = True
        while going and len(trace) < PIECE and machine.retired < end:
            wanted = min(PIECE - len(trace), end - machine.retired)
            pcs = engine.record(wanted)
            trace += pcs
            # what ended the record is done here: a system call, a page that is not filled
            going = len(pcs) == wanted or _goes_on(machine, min(machine.retired + 1, end))
        if trace:
            known: dict[int, Set[int]] = {pc: region.blocks.keys() for pc, region in found.items()}
            for region in islice(plan(paths, paths.add(trace), known), MOST - len(found)):
                found[region.entry] = region
        if not going or len(found) >= MOST or not _goes_on(machine, min(machine.retired + GAP, end)):
            break
    return list(found.values())


def _goes_on(machine: Machine, end: int) -> bool:
    return machine._run_to(end)["stop"] is Stop.BUDGET and machine.retired >= end


def words_at(memory: Memory, pc: int) -> tuple[int, ...]:
    """The words of code from `pc` to the end of its page; none if nothing is mapped there."""
    try:
        return (
            tuple(np.frombuffer(memory.peek(pc, PAGE - pc % PAGE), np.uint32).tolist()) if not pc & 3 else ()
        )
    except GuestFault:
        return ()
