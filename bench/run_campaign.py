"""Measures a campaign: one function of 11,005 instructions, run again and again on new input.

Every run is fresh: registers and the buffer of 4 KiB are as at the beginning, but for two words at the
buffer's start that run i has of its own. KVRM runs lanes of a fork, on one thread and on all. Unicorn, if it
is installed, is driven from Python: context_restore, mem_write of the whole buffer, emu_start. Peers
alternate; figures are medians of runs per second, from new input to results as arrays, by wall and CPU
seconds.

All must agree on x0 of every run i that they make, and some of them are computed here in Python as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Samples, note, shown, table, write_results

import kvrm
from kvrm.machine.lanes import Lanes

WORDS = (  # programs/campaign.s
    *(0xF9400002, 0xF9400403, 0xD2800004, 0x927D2045, 0xF8656806, 0xCA060042, 0x93C23442, 0x8B030042),
    *(0x9B021863, 0x91002084, 0x927D2085, 0xF8256802, 0xF1000421, 0x54FFFEC1, 0xCA030040, 0xD65F03C0),
)
CODE = struct.pack(f"<{len(WORDS)}I", *WORDS)
FUNCTION, BUFFER, ROUNDS, INSTRUCTIONS = 0x10000, 0x20000, 1000, 11_005
PRISTINE = bytes(range(256)) * 16
GOLDEN, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
CHECKED = (0, 1, 2, 1000, 4999)
"""Runs that are also computed in Python."""


def inputs(first: int, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The words that runs first, first + 1 ... find at the buffer's start: shape (count, 2)."""
    i = np.arange(first, first + count, dtype=np.uint64)
    return np.stack([i * np.uint64(GOLDEN), i], axis=1)


def expected(i: int) -> int:
    """What run i returns in x0."""
    words = [*struct.unpack("<512Q", PRISTINE)]
    words[0], words[1] = i * GOLDEN & MASK, i
    x2, x3, x4 = words[0], words[1], 0
    for _ in range(ROUNDS):
        x6 = words[(x2 & 0xFF8) >> 3]
        x2 ^= x6
        x2 = (x2 >> 13 | x2 << 51) & MASK
        x2 = (x2 + x3) & MASK
        x3 = (x3 * x2 + x6) & MASK
        x4 += 8
        words[(x4 & 0xFF8) >> 3] = x2
    return x2 ^ x3


def kvrm_lanes(engine: str | None, runs: int, threads: int, target: str = "cpu") -> Lanes:
    """The function with its buffer, forked into as many lanes."""
    m = kvrm.Machine(engine=engine, target=target)
    m.write_memory(FUNCTION, CODE, prot="rx")
    m.write_memory(BUFFER, PRISTINE, prot="rw")
    m.x[0], m.x[1], m.x[30] = BUFFER, ROUNDS, FUNCTION + len(CODE)
    m.breakpoints.add(FUNCTION + len(CODE))
    m.set_pc(FUNCTION)
    return m.fork(runs, threads)


def run_kvrm(lanes: Lanes, data: Any = None) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """x0 of runs 0, 1 ...; `data`, if it is there already, is what they find."""
    lanes.reset()
    lanes.memory[BUFFER : BUFFER + 16] = inputs(0, len(lanes)).view(np.uint8) if data is None else data
    results = lanes.run()
    assert (results.stop == kvrm.Stop.BREAKPOINT.code).all() and (results.retired == INSTRUCTIONS).all()
    return results.registers["x0"]


def unicorn_run(runs: int) -> Callable[[], np.ndarray[Any, np.dtype[np.uint64]]]:
    """What does `runs` runs in Unicorn; x0 of each."""
    from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc
    from unicorn.arm64_const import UC_ARM64_REG_X0, UC_ARM64_REG_X1, UC_ARM64_REG_X30

    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.mem_map(FUNCTION, 0x1000)
    uc.mem_map(BUFFER, 0x1000)
    uc.mem_write(FUNCTION, CODE)
    end = FUNCTION + len(CODE)
    for register, value in ((UC_ARM64_REG_X0, BUFFER), (UC_ARM64_REG_X1, ROUNDS), (UC_ARM64_REG_X30, end)):
        uc.reg_write(register, value)
    start = uc.context_save()
    rest = PRISTINE[16:]

    def run() -> np.ndarray[Any, np.dtype[np.uint64]]:
        found = np.zeros(runs, np.uint64)
        data = inputs(0, runs).tobytes()
        for i in range(runs):
            uc.context_restore(start)
            uc.mem_write(BUFFER, data[16 * i : 16 * i + 16] + rest)
            uc.emu_start(FUNCTION, end)
            found[i] = uc.reg_read(UC_ARM64_REG_X0)
        return found

    return run


def check(peer: str, found: np.ndarray[Any, np.dtype[np.uint64]], other: Any) -> None:
    """Exit unless `found` is right where Python computes it, and the same as the other peer's."""
    wrong = [i for i in CHECKED if i < len(found) and int(found[i]) != expected(i)]
    both = min(len(found), len(other))
    if wrong or (found[:both] != other[:both]).any():
        raise SystemExit(f"{peer} computed something else: runs {wrong or 'other than those in Python'}")


def race(
    peers: dict[str, Callable[[], np.ndarray[Any, np.dtype[np.uint64]]]], rounds: int
) -> tuple[dict[str, Samples], dict[str, int]]:
    """Samples of each peer, and how many runs each of them is."""
    samples: dict[str, Samples] = {peer: Samples() for peer in peers}
    reference = np.zeros(0, np.uint64)
    counts = {}
    for number in range(rounds + 1):
        for peer, run in peers.items():
            wall, cpu = time.perf_counter(), time.process_time()
            found = run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            check(peer, found, reference)
            reference = max(reference, found, key=len)
            counts[peer] = len(found)
            if number:  # the first round translates
                samples[peer].wall.append(wall)
                samples[peer].cpu.append(cpu)
            note(f"{peer}: {len(found) / wall:,.0f} runs/s")
    return samples, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=400_000, help="of KVRM in each round, for each thread")
    parser.add_argument("--unicorn-runs", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine")
    options = parser.parse_args()
    threads = {f"kvrm, {n} thread{'s' * (n > 1)}": n for n in sorted({1, options.threads})}
    lanes = {name: kvrm_lanes(options.engine, options.runs * n, n) for name, n in threads.items()}
    peers = {name: (lambda its=its: run_kvrm(its)) for name, its in lanes.items()}
    if importlib.util.find_spec("unicorn"):
        peers["unicorn, Python"] = unicorn_run(options.unicorn_runs)
    samples, counts = race(peers, options.rounds)
    rates = {
        peer: {
            "wall": counts[peer] / statistics.median(s.wall),
            "core": counts[peer] / statistics.median(s.wall) / threads.get(peer, 1),
            "cpu": counts[peer] / statistics.median(s.cpu),
        }
        for peer, s in samples.items()
    }
    rows = [[peer, *(shown(rate[key], 0) for key in ("wall", "core", "cpu"))] for peer, rate in rates.items()]
    table("Fresh runs of 11,005 instructions", ["", "runs/s", "and thread", "by CPU seconds"], rows)
    record = {"instructions": INSTRUCTIONS, "runs": counts, "seconds": samples, "runs_per_second": rates}
    print(write_results("campaign", record))


if __name__ == "__main__":
    main()
