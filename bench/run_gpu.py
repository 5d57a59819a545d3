"""Measures lanes on a GPU: programs and a campaign, translated and interpreted, one lane and very many.

`--programs` is a directory of static AArch64 programs without a C library (`bench/README.md`). Each lane runs
the same instructions on its own memory; a figure is the median of rounds of one launch, all lanes set up anew
before each, by the device's clock. Registers of the first and last lane are compared with the CPU's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import run_campaign
from measure import driver_version, on_device, table, write_results

import kvrm
from kvrm.backend.gpu.driver import device
from kvrm.machine.policies import make_policies

WARM = 3000
"""Instructions that the machine runs before it is forked."""
ROUNDS = 5
LARGE = 1 << 17
PROGRAMS = {
    "tight": (10**6, "1000000"),
    "sha256": (250_000, "10"),
    "quick": (40_000, "1"),
    "coremix": (100_000, "20"),
}
"""Instructions that each of many lanes runs, and the program's argument."""


Make = Callable[[str, str], kvrm.Machine]
"""Makes a machine, given its target and its engine."""


def program(directory: Path, name: str, argument: str, policies: Mapping[str, Any] | None = None) -> Make:
    """What makes the machine of a program that is past its beginning; on target cuda with these policies."""

    def make(target: str, engine: str) -> kvrm.Machine:
        m = kvrm.Machine(directory / name, args=[argument], target="cpu", engine="interpreter")
        m.run(max_instructions=WARM)
        m.target, m.engine = target, engine
        if policies and target == "cuda":
            m.policies = make_policies(policies)
        return m

    return make


def measure(make: Make, engine: str, lanes: int, budget: int, rounds: int) -> dict[str, Any]:
    """Run `lanes` lanes for `budget` instructions; what it took."""
    machine = make("cuda", engine)
    began = time.perf_counter()
    many = machine.fork(lanes)
    many.keep = ("x0", "x1", "x2", "sp")
    want = make("cpu", "tiered").fork(1)
    want.keep = many.keep
    results = many.run(budget)
    built = time.perf_counter() - began
    expected = want.run(budget)
    same = all((results.registers[n][[0, -1]] == expected.registers[n][0]).all() for n in many.keep)
    on_device = many.backend.device
    seconds, rates = [], []
    for _ in range(rounds):
        on_device.begin(many._job)
        took, _, retired = on_device.run(budget)
        seconds.append(took)
        rates.append(retired / took)
    return {
        "lanes": lanes,
        "engine": engine,
        "instructions": budget,
        "seconds": statistics.median(seconds),
        "rate": statistics.median(rates),
        "spread": (min(rates), max(rates)),
        "first_run": built,
        "registers": many.backend.code.kernels["run"].registers,
        "stops": {stop.value: n for stop, n in results.stops.items()},
        "same_as_cpu": bool(same),
        "left_device": many.left_device,
        "policies": {question: policy.report for question, policy in machine.policies.items()},
        "prefetching": many.backend.code.sites,
        "ready_pages": len(on_device.ready),
    }


def campaign(runs: int, rounds: int, place: Callable[[Any], Any] = np.asarray) -> dict[str, Any]:
    """Fresh runs of run_campaign.py's function from Python: from inputs, put by `place`, to results."""
    lanes = run_campaign.kvrm_lanes(None, runs, 1, "cuda")
    data = place(run_campaign.inputs(0, runs).view(np.uint8))
    whole, kernel = [], []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        x0 = run_campaign.run_kvrm(lanes, data)
        whole.append(time.perf_counter() - began)
        kernel.append(lanes.device_seconds)
        run_campaign.check("cuda", x0, x0)
    return {
        "runs": runs,
        "runs_per_second": runs / statistics.median(whole[1:]),
        "runs_per_second_of_kernel": runs / statistics.median(kernel[1:]),
        "first_run": whole[0],
    }


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--lanes", type=int, nargs="+", default=[LARGE, 4 * LARGE])
    options = parser.parse_args()
    found: dict[str, Any] = {"card": device().name, "driver": driver_version()}
    rows: list[list[str]] = []
    for name in options.only:
        budget, argument = PROGRAMS[name]
        make = program(options.programs, name, argument)
        for engine in ("tiered", "interpreter"):
            for lanes in [1, *options.lanes] if name == "tight" else options.lanes[:1]:
                length = budget if engine == "tiered" or lanes == 1 else budget // 10
                one = measure(make, engine, lanes, length, options.rounds)
                found[f"{name} {engine} {lanes}"] = one
                rows.append(
                    [name, engine, f"{lanes:,}", f"{one['rate'] / 1e9:,.3f}", str(one["same_as_cpu"])]
                )
                print(rows[-1], flush=True)
    for runs in options.lanes:
        for name, place in (("campaign", np.asarray), ("campaign, inputs on the device", on_device)):
            found[f"{name} {runs}"] = one = campaign(runs, options.rounds, place)
            rows.append([name, "tiered", f"{runs:,}", f"{one['runs_per_second']:,.0f} runs/s", "True"])
            print(one, flush=True)
    table(found["card"], ["program", "engine", "lanes", "G instructions/s", "like the CPU"], rows)
    write_results("gpu", found)


if __name__ == "__main__":
    main()
