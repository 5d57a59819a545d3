"""Measures what tracking floating-point exceptions costs, and half precision beside single.

`--programs` is a directory of static AArch64 programs that take a scale: nbody, mandel, vec. Each runs at a
large scale without tracking and at a small one with it; figures are guest instructions per second of the run.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from pathlib import Path

from measure import kvrm_command, run, write_results

import kvrm
from kvrm.isa.a64 import disassemble

SCALES = {"nbody": (200_000, 300), "mandel": (300, 12), "vec": (4_000, 10)}
PAIRS = {
    0x1EE22820: 0x1E222820,  # fadd h, fadd s
    0x6E421C20: 0x6E22DC20,  # fmul v.8h, fmul v.4s
    0x4E420C20: 0x4E22CC20,  # fmla v.8h, fmla v.4s
}
SUBS_X0, LOOP, BRK = 0xF1000400, 0x54FFFF61, 0xD4200000
ITERATIONS = 10_000_000


def speed(program: Path, scale: int, *options: str) -> float:
    """Instructions per second of a program; the second of two runs, so that nothing is compiled in it."""
    command = kvrm_command("run", "--stats", *options, str(program), str(scale))
    cost = [run(command), run(command)][-1]
    if cost.code:
        raise SystemExit(f"{program.name}: kvrm returned {cost.code}: {cost.stderr.strip()}")
    return float(json.loads(cost.stderr.splitlines()[-1])["ips"])


def loop_seconds(word: int | None) -> float:
    """Seconds of ITERATIONS iterations of a loop with four times `word` in it, or with nothing."""
    m = kvrm.Machine()
    body = [word or 0xD503201F] * 4  # nop
    m.write_memory(0x1000, struct.pack("<7I", *body, SUBS_X0, LOOP, BRK), prot="rx")
    m.x[0], m.v[1], m.v[2] = ITERATIONS, 0x3C00_3C00, 0x3C00_3C00
    m.set_pc(0x1000)
    m.run(max_instructions=7)
    start = time.process_time()
    m.run()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True)
    options = parser.parse_args()
    flags = {}
    for name, (large, small) in SCALES.items():
        program = options.programs / name
        flags[name] = speed(program, large), speed(program, small, "--fp-flags")
        off, on = flags[name]
        print(f"{name:8} {off / 1e6:8.1f} M/s  tracking {on / 1e6:8.3f} M/s  {off / on:8.0f} times slower")
    empty = loop_seconds(None)
    halves = {}
    for pair in PAIRS.items():
        half, single = ((loop_seconds(w) - empty) / (4 * ITERATIONS) * 1e9 for w in pair)
        halves[str(disassemble(pair[0]))] = half, single
        print(
            f"{disassemble(pair[0]):26} {half:5.2f} ns more than NOP, {disassemble(pair[1])} {single:5.2f} ns"
        )
    print(write_results("fp-flags", {"instructions_per_second": flags, "nanoseconds": halves}))


if __name__ == "__main__":
    main()
