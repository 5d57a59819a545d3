"""Measures what skipping loops brings and costs: the interpreter without a policy, with rule and network.

Bare loops over SIZE bytes, of kinds that compilers and C libraries make, show what it brings to the loops
concerned. `--programs` is a directory of static AArch64 programs that take a scale (those of
`bench/programs`): some fill and copy much, others have no loop that can be skipped. Figures are CPU seconds,
medians of five rounds in which the ways take turns, and how many times as fast as without a policy.
"""

from __future__ import annotations

import argparse
import struct
import time
from pathlib import Path

from measure import note, shown, table, write_results

import kvrm

WAYS = ("off", "rule", "network")
ROUNDS = 5
SIZE = 1 << 16
BRK = 0xD4200000
LOOPS = {
    "fill bytes": "aa1403e0 aa1603e2 38001403 d1000442 b5ffffc2 d10006f7 b5ffff57",
    "fill words": "aa1403e0 aa1603e2 f8008403 f1002042 54ffffc8 d10006f7 b5ffff57",
    "fill every third": "aa1403e0 aa1603e2 38003403 f1000c42 54ffffc8 d10006f7 b5ffff57",
    "memset of glibc": "d1008283 aa1603e2 ad010060 ad820060 f1010042 54ffffa8 d10006f7 b5ffff37",
    "copy bytes": "aa1403e0 aa1503e1 aa1603e2 38401424 38001404 d1000442 b5ffffa2 d10006f7 b5ffff17",
    "copy words": "aa1403e0 aa1503e1 aa1603e2 f8408424 f8008404 f1002042 54ffffa8 d10006f7 b5ffff17",
    "memcpy of glibc": "d1004283 aa1503e1 ad408420 ad418c22 aa1603e2 ad008460 ad428420 ad018c62 "
    "ad438c22 91010021 91010063 f1010042 54ffff28 d10006f7 b5fffe57",
    "sum of bytes": "aa1403e0 8b160282 38401404 0b0400a5 eb02001f 54ffffa1 d10006f7 b5ffff37",
    "length of a string": "aa1403e0 38401404 35ffffe4 d10006f7 b5ffff97",
    "counting": "aa1603e2 8b0300a5 d1000442 b5ffffc2 d10006f7 b5ffff77",
}
"""Words, in hexadecimal, of a loop inside another that x23 counts: x20 and x21 are buffers, x22 is SIZE."""
INSTRUCTIONS = 600_000_000
"""What a bare loop retires, about."""
HEAVY = {"memops": 2000, "sieve": 30, "strloop": 300_000_000, "tight": 400_000_000}
POOR = {
    "sha256": 700,
    "nbody": 1_000_000,
    "chase": 30_000_000,
    "coremix": 60_000,
    "quick": 20,
    "mandel": 150,
}
"""Programs and their scales."""


def bare(words: str, turns: int, way: str) -> tuple[float, int, int, object]:
    """CPU seconds of a bare loop, instructions that retired and that were skipped, and what it left."""
    m = kvrm.Machine(engine="interpreter", policies={} if way == "off" else {"loops": way})
    code = [int(word, 16) for word in words.split()]
    m.write_memory(0x1000, struct.pack(f"<{len(code) + 1}I", *code, BRK), "rx")
    for start in (0x100000, 0x200000):
        m.write_memory(start, b"\x55" * SIZE + bytes(4096), "rw")
    m.x[3], m.x[20], m.x[21], m.x[22], m.x[23] = 0x2A, 0x100000, 0x200000, SIZE, turns
    m.set_pc(0x1000)
    m.run(max_instructions=len(code))
    began = time.process_time()
    result = m.run()
    seconds = time.process_time() - began
    left = list(m.x), m.nzcv, m.memory[0x100000 : 0x100000 + SIZE], result.retired
    return seconds, result.retired, skipped(m), left


def whole(program: Path, scale: int, way: str) -> tuple[float, int, int, object]:
    """The same of a program."""
    policies = {} if way == "off" else {"loops": way}
    m = kvrm.Machine(program, args=[str(scale)], engine="interpreter", policies=policies)
    began = time.process_time()
    result = m.run()
    seconds = time.process_time() - began
    return seconds, result.retired, skipped(m), (result.retired, result.exit_code, result.stdout)


def skipped(m: kvrm.Machine) -> int:
    """Instructions that retired without being executed."""
    return int(m.policies["loops"].skipped) if "loops" in m.policies else 0


def race(name: str, run: object) -> dict[str, object]:
    """Run all ways in turns; exits where one leaves something else than the others."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    counts: dict[str, int] = {}
    expected: object = None
    for _ in range(ROUNDS):
        for way in WAYS:
            took, retired, counts[way], left = run(way)  # type: ignore[operator]
            seconds[way].append(took)
            if expected not in (None, left):
                raise SystemExit(f"{name}: {way} leaves something else")
            expected = left
    medians = {way: sorted(took)[ROUNDS // 2] for way, took in seconds.items()}
    note(f"  {name}: " + ", ".join(f"{way} {median:.3f} s" for way, median in medians.items()))
    return {"name": name, "retired": retired, "skipped": counts, "seconds": medians}


def line(row: dict[str, object]) -> list[str]:
    """A line of the table."""
    seconds, counts, retired = row["seconds"], row["skipped"], row["retired"]
    assert isinstance(seconds, dict) and isinstance(counts, dict) and isinstance(retired, int)
    shares = [f"{counts[way] / retired:.1%}" for way in WAYS[1:]]
    times = [shown(seconds["off"] / seconds[way]) for way in WAYS[1:]]
    return [str(row["name"]), f"{retired:,}", *(shown(seconds[way], 3) for way in WAYS), *shares, *times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=Path, help="without it, only bare loops are measured")
    options = parser.parse_args()
    results: dict[str, list[dict[str, object]]] = {"bare loops": []}
    for name, words in LOOPS.items():
        once = bare(words, 1, "off")[1]
        turns = max(1, INSTRUCTIONS // once)
        results["bare loops"].append(race(name, lambda way, w=words, n=turns: bare(w, n, way)))
    for title, programs in (("fill and copy much", HEAVY), ("no loops to skip", POOR)):
        results[title] = [
            race(name, lambda way, p=options.programs / name, n=scale: whole(p, n, way))
            for name, scale in (programs.items() if options.programs else ())
        ]
    heads = ["", "retired", *(f"{way} s" for way in WAYS), "skipped", "", "times", ""]
    for title, rows in results.items():
        if rows:
            table(f"{title}: rule, then network, in the last two pairs of columns", heads, map(line, rows))
    print(write_results("loops", dict(results)))


if __name__ == "__main__":
    main()
