"""Measures what it costs that a network chose the handlers: the interpreter with it and without, alternating.

`--programs` is a directory of static AArch64 programs that take a scale. Each runs on one lane: without a
policy, with one that is asked once about each word, and with the same network asked about each instruction
that runs. The first instructions, in which pages are predecoded, are measured apart. CPU seconds.

With `--target cuda` lanes run the programs of run_gpu.py, which have no C library, in the kernel of the GPU's
interpreter: the same three ways, by the device's clock, results compared with the CPU's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import run_gpu
from measure import driver_version, mean, shown, table, write_results

import kvrm

PROGRAMS = {
    "tight": 10**9,
    "strloop": 10**9,
    "coremix": 10**6,
    "sha256": 10**6,
    "chase": 10**9,
    "quick": 10**6,
    "sieve": 10**6,
}
"""Scales at which they do not end before all is measured."""
FIRST = 1_000_000
"""Instructions in which a program meets its code."""
WAYS: dict[str | None, int] = {None: 100_000_000, "network": 100_000_000, "inline": 3_000_000}
"""Dispatch policies, and instructions of one measurement."""
HEADS = ("none", "network", "ratio", "inline")


def began(program: Path, policy: str | None) -> tuple[kvrm.Machine, float]:
    """A machine that has run FIRST instructions, and the CPU seconds that it took for them."""
    start = time.process_time()
    policies = {"dispatch": policy} if policy else {}
    m = kvrm.Machine(program, args=[str(PROGRAMS[program.name])], engine="interpreter", policies=policies)
    m.run(max_instructions=FIRST)
    return m, time.process_time() - start


def rates(program: Path, rounds: int) -> dict[str, Any]:
    """Instructions a CPU second each way, and seconds of the beginning."""
    machines = {policy: began(program, policy) for policy in WAYS}
    found: dict[str | None, list[float]] = {policy: [] for policy in WAYS}
    for _ in range(rounds):
        for policy, (machine, _) in machines.items():
            start = time.process_time()
            result = machine.run(max_instructions=WAYS[policy])
            found[policy].append(result.retired / (time.process_time() - start))
            assert result.stop is kvrm.Stop.BUDGET, f"{program.name}: the scale is too small"
    return {
        policy or "none": {
            "rate": statistics.median(found[policy]),
            "all": found[policy],
            "seconds_of_the_beginning": machines[policy][1],
        }
        for policy in WAYS
    }


def on_the_cpu(programs: Path, rounds: int) -> None:
    """Measure all programs that are there."""
    found, rows, ratios = {}, [], []
    for name in PROGRAMS:
        if (programs / name).exists():
            found[name] = one = rates(programs / name, rounds)
            none, network, inline = (one[policy]["rate"] for policy in ("none", "network", "inline"))
            ratios.append(network / none)
            rows.append(
                [
                    name,
                    shown(none / 1e6, 0),
                    shown(network / 1e6, 0),
                    shown(network / none, 3),
                    shown(inline / 1e6),
                ]
            )
    rows.append(["mean", "", "", shown(mean(ratios), 3), ""])
    table("M instructions a second", ["program", *HEADS], rows)
    print(write_results("dispatch", {"programs": found}))


def on_the_gpu(programs: Path, lanes: list[int], rounds: int) -> None:
    """Measure the programs of run_gpu.py; exits where a result is wrong."""
    from kvrm.backend.gpu.driver import device

    found: dict[str, Any] = {"card": device().name, "driver": driver_version()}
    rows = []
    for name, (budget, argument) in run_gpu.PROGRAMS.items():
        for count in lanes:
            every = {}
            for policy in WAYS:
                chosen = {"dispatch": policy} if policy else None
                make = run_gpu.program(programs, name, argument, chosen)
                one = run_gpu.measure(make, "interpreter", count, budget // 10, rounds)
                if not one["same_as_cpu"]:
                    raise SystemExit(f"{name}, {count} lanes, dispatch={policy}: not what the CPU gives")
                every[policy or "none"] = one
            found[f"{name} {count}"] = every
            none, network, inline = (every[policy]["rate"] / 1e6 for policy in ("none", "network", "inline"))
            cells = shown(none), shown(network), shown(network / none, 3), shown(inline)
            rows.append([name, f"{count:,}", *cells])
            print(rows[-1], flush=True)
    table(f"{device().name}, M instructions a second", ["program", "lanes", *HEADS], rows)
    print(write_results("dispatch-gpu", found))


def main() -> None:
    """Measure on the target that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, run_gpu.LARGE])
    options = parser.parse_args()
    if options.target == "cuda":
        on_the_gpu(options.programs, options.lanes, options.rounds)
    else:
        on_the_cpu(options.programs, options.rounds)


if __name__ == "__main__":
    main()
