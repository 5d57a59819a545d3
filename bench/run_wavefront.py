"""What a wavefront of kernels would cost at least, beside the one kernel that holds everything.

In a wavefront each launch runs one region, for the lanes that are there, and lanes are sorted by where they
are before the next: as often as a lane passes from one region to another. Measured, for a parser that gets a
document for each lane (`--program` is programs/json.c with the C library): how often a lane does that, what
the one launch of everything takes, what launches take that end after as many instructions as a lane stays in
a region, and what CuPy takes to sort as many numbers as there are lanes.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measure import driver_version, table, write_results
from run_functions import at_main
from run_parser import documents

from kvrm.backend.cpu.worker import Worker
from kvrm.backend.gpu.driver import device

TRACED = 8
"""Lanes whose ways are recorded on the CPU."""
ROUNDS = 5
LAUNCHES = 50


def stays(lanes: Any) -> tuple[int, int]:
    """Instructions that some lanes run, and how often they pass to another region, or to none."""
    blocks = ((k, b) for k, region in enumerate(lanes.backend.code.regions) for b in region.blocks.values())
    where = {pc: k for k, block in blocks for pc in range(block.start, block.end, 4)}
    kind = replace(lanes._machine.engine_kind.unwatched(), name="interpreter")
    worker = Worker(lanes._machine.lane, kind, lanes._job)
    instructions = passages = 0
    for lane in range(TRACED):
        one = worker.fresh_lane(lane)
        engine: Any = one.engine
        trace: list[int] = []
        engine.trace = trace
        one.run_to(1 << 40)
        engine.trace = None
        instructions += len(trace)
        passages += int(np.count_nonzero(np.diff([where.get(pc, -1) for pc in trace])))
    return instructions, passages


def median(measure: Callable[[], float]) -> float:
    """The median of a few rounds, in seconds; one before them does not count."""
    measure()
    return statistics.median(measure() for _ in range(ROUNDS))


def whole(lanes: Any) -> float:
    """Seconds of kernel time in which all lanes run to their ends."""
    lanes.reset()
    lanes.run()
    return float(lanes.device_seconds)


def pieces(lanes: Any, grant: int) -> float:
    """Seconds for each launch, where each runs that many instructions."""
    lanes.backend.device.begin(lanes._job)
    return sum(lanes.backend.device.run(grant)[0] for _ in range(LAUNCHES)) / LAUNCHES


def sorting(count: int) -> float:
    """Seconds in which CuPy sorts 32-bit numbers below 400."""
    cupy = importlib.import_module("cupy")
    keys = cupy.random.randint(0, 400, count, dtype=cupy.uint32)
    cupy.argsort(keys)
    cupy.cuda.runtime.deviceSynchronize()
    began = time.perf_counter()
    for _ in range(LAUNCHES):
        cupy.argsort(keys)
    cupy.cuda.runtime.deviceSynchronize()
    return (time.perf_counter() - began) / LAUNCHES


def main() -> None:
    """Measure, and print what follows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--lanes", type=int, default=1 << 17)
    options = parser.parse_args()
    lanes: Any = at_main(options.program, "cuda")[0].fork(options.lanes)
    lanes.stdin = documents(options.lanes)[0]
    one_kernel = median(lambda: whole(lanes))
    retired = int(lanes._job.outputs.retired.sum()) / options.lanes
    instructions, passages = stays(lanes)
    stay = instructions / passages
    launch, sort = median(lambda: pieces(lanes, round(stay))), median(lambda: sorting(options.lanes))
    found = {
        "card": device().name,
        "driver": driver_version(),
        "lanes": options.lanes,
        "instructions_of_a_lane": retired,
        "instructions_in_a_region": stay,
        "launches": retired / stay,
        "one_kernel_seconds": one_kernel,
        "launch_seconds": launch,
        "sort_seconds": sort,
        "launches_over_one_kernel": retired / stay * launch / one_kernel,
        "sorts_over_one_kernel": retired / stay * sort / one_kernel,
    }
    table(
        found["card"],
        ["what", "figure"],
        [[k, f"{v:,.6g}"] for k, v in found.items() if k not in ("card", "driver")],
    )
    write_results("wavefront", found)


if __name__ == "__main__":
    main()
