"""Measures what a start of `kvrm run` costs: the first on a machine, later ones, and memory.

The first start has an empty cache of compiled code. Memory is the largest resident size of the whole process
for a guest that touches 10 MiB, beside one that touches almost none.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from measure import REPOSITORY, Cost, kvrm_command, run, write_results

MIB = 1 << 20


def timed(program: Path, *arguments: str, cache: str) -> Cost:
    """One run, with its own cache directory."""
    cost = run(kvrm_command("run", str(program), *arguments), KVRM_CACHE=cache)
    if cost.code:
        raise SystemExit(f"{program.name}: kvrm returned {cost.code}: {cost.stderr.strip()}")
    return cost


def main() -> None:
    guests = REPOSITORY / "examples/guests/bin"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=guests / "hello", help="what to start")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        first = timed(options.program, cache=cache)
        later = [timed(options.program, cache=cache) for _ in range(options.rounds)]
        timed(guests / "primes", "100", cache=cache)
        small = timed(guests / "primes", "100", cache=cache)
        large = timed(guests / "primes", str(10 * MIB), cache=cache)
    second = statistics.median(cost.wall for cost in later)
    print(f"first start   {first.wall:.2f} s: {first.stderr.strip() or 'it printed nothing'}")
    print(f"later starts  {second:.3f} s (median of {options.rounds})")
    print(f"resident      {small.resident / MIB:.0f} MiB; {large.resident / MIB:.0f} MiB with 10 MiB touched")
    results = {
        "program": options.program.name,
        "first_wall": first.wall,
        "first_stderr": first.stderr,
        "later_wall": [cost.wall for cost in later],
        "resident_small": small.resident,
        "resident_10_mib": large.resident,
    }
    print(write_results("start", results))


if __name__ == "__main__":
    main()
