"""Measures memory policies on a GPU: kernel time of lanes that prefetch, and whose pages are made ready.

`--programs` is a directory that has chase and quick, without a C library, and irregular, of bench/memory,
linked statically; those that are there are measured. Each lane runs the same instructions on its own
memory, in the kernel of the GPU's interpreter: without a policy, with pages made ready and nothing
prefetched, and with each policy, which has pages made ready too. Figures are medians of rounds by the
device's clock, with the time that it takes to make pages ready. Results are compared with the CPU's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import run_gpu
from measure import driver_version, shown, table, write_results

from kvrm.backend.gpu import prefetch
from kvrm.backend.gpu.driver import device

PROGRAMS = {
    "chase": ("chase", 1_000_000, "3000000"),
    "quick": ("quick", 400_000, "1"),
    "tree": ("irregular", 400_000, "tree"),
    "heap": ("irregular", 400_000, "heap"),
    "list": ("irregular", 400_000, "list"),
}
"""File, instructions that each lane runs, and argument."""
WAYS: dict[str, Any] = {
    "off": None,
    "pages": lambda questions: np.zeros(len(questions), int),
    "rule": "rule",
    "network": "network",
    "table": "table",
    "random": "random",
    "off again": None,
}
"""Policies: the second one gives every site the config that prefetches nothing."""


def main() -> None:
    """Measure all programs that are there; exits where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--lanes", type=int, nargs="+", default=[1 << 15])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--level", choices=["L1", "L2"], default="L1", help="the cache that is prefetched to")
    options = parser.parse_args()
    prefetch.INSTRUCTION = prefetch.INSTRUCTION.replace("L1", options.level)
    found: dict[str, Any] = {"card": device().name, "driver": driver_version(), "level": options.level}
    rows = []
    for name in options.only:
        file, budget, argument = PROGRAMS[name]
        for lanes in options.lanes if (options.programs / file).exists() else ():
            every = {}
            for way, policy in WAYS.items():
                policies = None if policy is None else {"memory": policy}
                make = run_gpu.program(options.programs, file, argument, policies)
                every[way] = one = run_gpu.measure(make, "interpreter", lanes, budget, options.rounds)
                if not one["same_as_cpu"] or one["left_device"]:
                    raise SystemExit(
                        f"{name}, {lanes} lanes, {way}: not what the CPU gives, or not on the GPU"
                    )
            found[f"{name} {lanes}"] = every
            rows.append([name, f"{lanes:,}", *(shown(1e3 * every[way]["seconds"]) for way in WAYS)])
            print(rows[-1], flush=True)
    table(f"{device().name}, ms of kernel time", ["program", "lanes", *WAYS], rows)
    print(write_results("memory-gpu", found))


if __name__ == "__main__":
    main()
