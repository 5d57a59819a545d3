"""Measures what a start of `kvrm run` costs: the first on a machine, later ones, and memory.

The first start has an empty cache of compiled code. Memory is the largest resident size of the whole process
for a guest that touches 10 MiB, beside one that touches almost none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from measure import REPOSITORY, Samples, cache, kvrm_run, succeeded, write_results

MIB = 1 << 20


def main() -> None:
    guests = REPOSITORY / "examples/guests/bin"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=guests / "hello", help="what to start")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", help="KVRM's default if not given")
    options = parser.parse_args()
    start = kvrm_run(options.engine, str(options.program))
    primes = kvrm_run(options.engine, str(guests / "primes"))
    later = Samples()
    with cache() as directory:
        first = succeeded(start, KVRM_CACHE=directory)
        for _ in range(options.rounds):
            later.add(succeeded(start, KVRM_CACHE=directory))
        succeeded([*primes, "100"], KVRM_CACHE=directory)
        small = succeeded([*primes, "100"], KVRM_CACHE=directory)
        large = succeeded([*primes, str(10 * MIB)], KVRM_CACHE=directory)
    wall, cpu = later.median("wall"), later.median("cpu")
    print(f"first start   {first.wall:.2f} s: {first.stderr.strip() or 'it printed nothing'}")
    print(f"later starts  {wall:.3f} s, CPU {cpu:.3f} s (medians of {options.rounds})")
    print(f"resident      {small.resident / MIB:.0f} MiB; {large.resident / MIB:.0f} MiB with 10 MiB touched")
    results = {
        "program": options.program.name,
        "engine": options.engine or "default",
        "first_wall": first.wall,
        "first_cpu": first.cpu,
        "first_stderr": first.stderr,
        "later_wall": later.wall,
        "later_cpu": later.cpu,
        "resident_small": small.resident,
        "resident_10_mib": large.resident,
    }
    print(write_results("start", results))


if __name__ == "__main__":
    main()
