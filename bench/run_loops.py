"""Measures what skipping loops brings and costs: the interpreter without a policy, with rule and network.

Bare loops over SIZE bytes, of kinds that compilers and C libraries make, show what it brings to the loops
concerned. `--programs` is a directory of static AArch64 programs that take a scale (those of
`bench/programs`): some fill and copy much, others have no loop that can be skipped. Figures are CPU seconds,
medians of five rounds in which the ways alternate, and how many times as fast as without a policy.

With `--target cuda` they run on a GPU, without and with the rule, medians of three rounds: one lane in wall
seconds, `--lanes` N in seconds of kernels. A round before those compiles kernels and finds loops. Each lane
does the same; registers of all of them and the ends of buffers are compared.
"""

from __future__ import annotations

import argparse
import gc
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import driver_version, note, shown, table, write_results

import kvrm

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
INSTRUCTIONS, ON_DEVICE = 600_000_000, 6_000_000
"""What a bare loop retires, about, on the CPU, and in each lane on a GPU."""
HEAVY = {"memops": 2000, "sieve": 30, "strloop": 300_000_000, "tight": 400_000_000}
POOR = {
    "sha256": 700,
    "nbody": 1_000_000,
    "chase": 30_000_000,
    "coremix": 60_000,
    "quick": 20,
    "mandel": 150,
}
"""Programs and their scales; on a GPU it is a hundredth."""
TARGET, SOURCE = 0x100000, 0x200000
ENDS = tuple(slice(at, at + 64) for at in (TARGET, TARGET + SIZE // 2, TARGET + SIZE - 64))
REGISTERS = (*(f"x{i}" for i in range(31)), "nzcv")
Measured = tuple[float, int, int, object]
"""Seconds, instructions that retired and that were skipped, and what was left."""


class LeftDevice(Exception):
    """Lanes went to the CPU: seconds of kernels are not all."""


@dataclass(frozen=True)
class Plan:
    """What is measured: ways, rounds that count, and rounds before them."""

    ways: tuple[str, ...]
    rounds: int
    before: int


CPU, CUDA = Plan(("off", "rule", "network"), 5, 0), Plan(("off", "rule"), 3, 1)


def loop_machine(words: str, way: str, target: str = "cpu") -> kvrm.Machine:
    """A machine with a bare loop and its buffers."""
    policies = {} if way == "off" else {"loops": way}
    m = kvrm.Machine(target=target, engine="interpreter", policies=policies)
    code = [int(word, 16) for word in words.split()]
    m.write_memory(0x1000, struct.pack(f"<{len(code) + 1}I", *code, BRK), "rx")
    for start in (TARGET, SOURCE):
        m.write_memory(start, b"\x55" * SIZE + bytes(4096), "rw")
    return m


def begin(m: kvrm.Machine, iterations: int) -> None:
    """Have it do that many iterations of the outer loop."""
    m.x[5] = 0
    m.x[3], m.x[20], m.x[21], m.x[22], m.x[23] = 0x2A, TARGET, SOURCE, SIZE, iterations
    m.set_pc(0x1000)


def bare(words: str, iterations: int, way: str) -> Measured:
    """A bare loop on the CPU."""
    m = loop_machine(words, way)
    begin(m, iterations)
    m.run(max_instructions=len(words.split()))
    began = time.process_time()
    result = m.run()
    seconds = time.process_time() - began
    left = list(m.x), m.nzcv, m.memory[TARGET : TARGET + SIZE], result.retired
    return seconds, result.retired, skipped(m), left


def whole(program: Path, scale: int, way: str) -> Measured:
    """A program on the CPU."""
    m = program_machine(program, scale, way)
    began = time.process_time()
    result = m.run()
    seconds = time.process_time() - began
    return seconds, result.retired, skipped(m), (result.retired, result.exit_code, result.stdout)


def program_machine(program: Path, scale: int, way: str, **options: Any) -> kvrm.Machine:
    """A machine that is about to run a program."""
    policies = {} if way == "off" else {"loops": way}
    return kvrm.Machine(program, args=[str(scale)], engine="interpreter", policies=policies, **options)


def skipped(m: kvrm.Machine) -> int:
    """Instructions that retired without being executed."""
    return int(m.policies["loops"].skipped) if "loops" in m.policies else 0


# -- on a GPU ------------------------------------------------------------------------------------------------
def one_bare(words: str, iterations: int) -> Callable[[str], Measured]:
    """A bare loop in one lane, whose machine stays as it is from round to round."""
    made: dict[str, kvrm.Machine] = {}

    def run(way: str) -> Measured:
        m = made.setdefault(way, loop_machine(words, way, "cuda"))
        begin(m, iterations)
        before, spared, began = m.retired, skipped(m), time.perf_counter()
        m.run()
        seconds, retired = time.perf_counter() - began, m.retired - before
        return seconds, retired, skipped(m) - spared, (list(m.x), m.nzcv, m.memory[TARGET : TARGET + SIZE])

    return run


def one_whole(program: Path, scale: int) -> Callable[[str], Measured]:
    """A program in one lane, which begins anew in each round."""

    def run(way: str) -> Measured:
        m = program_machine(program, scale, way, target="cuda")
        began = time.perf_counter()
        result = m.run()
        seconds = time.perf_counter() - began
        return seconds, result.retired, skipped(m), (result.retired, result.exit_code, result.stdout)

    return run


def many(
    make: Callable[[str], kvrm.Machine], lanes: int, keep: Sequence[str | slice]
) -> Callable[[str], Measured]:
    """Lanes that begin anew in each round, on code that stays on the device."""
    made: dict[str, tuple[kvrm.Machine, Any]] = {}

    def run(way: str) -> Measured:
        if way not in made:
            m = make(way)
            made[way] = m, m.fork(lanes)
            made[way][1].keep = keep
        m, these = made[way]
        these.reset()
        before = skipped(m)
        results = these.run()
        left = [results.retired.tobytes(), dict(results.stops)]
        left += [results.registers[name].tobytes() for name in keep if name in REGISTERS]
        left += [results.memory[span].tobytes() for span in keep if isinstance(span, slice)]
        left += [list(results.stdout)] if "stdout" in keep else []
        if these.left_device:
            raise LeftDevice(f"{these.left_device} lanes went to the CPU")
        return these.device_seconds, int(results.retired.sum()), skipped(m) - before, left

    return run


def many_bare(words: str, iterations: int, lanes: int) -> Callable[[str], Measured]:
    """A bare loop in each of that many lanes."""

    def make(way: str) -> kvrm.Machine:
        m = loop_machine(words, way, "cuda")
        begin(m, iterations)
        return m

    return many(make, lanes, (*REGISTERS, *ENDS))


# -- tables --------------------------------------------------------------------------------------------------
def race(name: str, plan: Plan, run: Callable[[str], Measured]) -> dict[str, object]:
    """Run all ways, alternating; exits where one leaves something else than the others."""
    seconds: dict[str, list[float]] = {way: [] for way in plan.ways}
    counts: dict[str, int] = {}
    expected: object = None
    gc.collect()  # what earlier machines have on the device
    for number in range(-plan.before, plan.rounds):
        for way in plan.ways:
            took, retired, counts[way], left = run(way)
            if number >= 0:
                seconds[way].append(took)
            if expected not in (None, left):
                raise SystemExit(f"{name}: {way} leaves something else")
            expected = left
    medians = {way: sorted(took)[plan.rounds // 2] for way, took in seconds.items()}
    note(f"  {name}: " + ", ".join(f"{way} {median:.3f} s" for way, median in medians.items()))
    return {"name": name, "retired": retired, "skipped": counts, "seconds": medians, "all": seconds}


def raced(name: str, plan: Plan, run: Callable[[str], Measured]) -> list[dict[str, object]]:
    """The race's row; none if it cannot be measured on the device."""
    try:
        return [race(name, plan, run)]
    except LeftDevice as error:
        note(f"  {name} is left out: {error}")
        return []


def line(row: dict[str, Any], ways: Sequence[str]) -> list[str]:
    """A line of the table."""
    seconds, counts, retired = row["seconds"], row["skipped"], row["retired"]
    shares = [f"{counts[way] / retired:.1%}" for way in ways[1:]]
    times = [shown(seconds["off"] / seconds[way]) for way in ways[1:]]
    return [str(row["name"]), f"{retired:,}", *(shown(seconds[way], 3) for way in ways), *shares, *times]


def runs_of_loop(words: str, target: str, lanes: int) -> Callable[[str], Measured]:
    """What a round does with a bare loop."""
    once = bare(words, 1, "off")[1]
    iterations = max(1, (INSTRUCTIONS if target == "cpu" else ON_DEVICE) // once)
    if target == "cpu":
        return lambda way: bare(words, iterations, way)
    return one_bare(words, iterations) if lanes == 1 else many_bare(words, iterations, lanes)


def runs_of_program(program: Path, scale: int, target: str, lanes: int) -> Callable[[str], Measured]:
    """What a round does with a program."""
    if target == "cpu":
        return lambda way: whole(program, scale, way)
    small = max(1, scale // 100)
    if lanes == 1:
        return one_whole(program, small)
    return many(lambda way: program_machine(program, small, way, target="cuda"), lanes, ("x0", "stdout"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=Path, help="without it, only bare loops are measured")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--lanes", type=int, default=1, help="on a GPU")
    options = parser.parse_args()
    target, lanes, plan = options.target, options.lanes, CPU if options.target == "cpu" else CUDA
    results: dict[str, list[dict[str, object]]] = {"bare loops": []}
    for name, words in LOOPS.items():
        results["bare loops"] += raced(name, plan, runs_of_loop(words, target, lanes))
    for title, programs in (("fill and copy much", HEAVY), ("no loops to skip", POOR)):
        results[title] = []
        for name, scale in programs.items() if options.programs else ():
            run = runs_of_program(options.programs / name, scale, target, lanes)
            results[title] += raced(name, plan, run)
    ways = plan.ways
    heads = ["", "retired", *(f"{way} s" for way in ways), *(f"{way} skipped" for way in ways[1:])]
    heads += [f"{way} times" for way in ways[1:]]
    for title, rows in results.items():
        if rows:
            table(title, heads, [line(row, ways) for row in rows])
    where: dict[str, Any] = {"target": target, "lanes": lanes}
    if target == "cuda":
        from kvrm.backend.gpu.driver import device

        where |= {"gpu": device().name, "driver": driver_version()}
    print(write_results("loops" if target == "cpu" else "gpu-loops", where | results))


if __name__ == "__main__":
    main()
