"""Ordinary programs in lanes, each with random input of its own, beside a QEMU process for each input.

The programs are those of programs/lanes: a word count in C++, Lua, SQLite, zlib and a JSON parser, all with
the C library. KVRM runs them on one thread and on `--threads`; QEMU runs that many processes at a time. A run
is everything from a fresh guest to its output. All peers run the same inputs, again and again until a sample
takes `--seconds`. Peers alternate; figures are medians of rounds, by wall seconds.

Every exit code and every byte of output is compared: of QEMU with KVRM, and of KVRM with itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lane_inputs import SEED, inputs
from lane_programs import PROGRAMS, Missing, built
from measure import BUSY, Samples, mean, note, ratio, shown, table, write_results

import kvrm

QEMU = "qemu"
MOST_LANES = 1 << 16
QUIET = 1.0
"""Seconds of running lanes without a translation, after which no more is expected."""
Output = tuple[int, bytes]
"""A guest's exit code, and what it printed."""


@dataclass(frozen=True)
class Run:
    """All runs of one sample: their outputs, seconds, and instructions where they are counted."""

    outputs: list[Output]
    wall: float
    cpu: float
    retired: int = 0


@dataclass(frozen=True)
class Figures:
    """A peer's runs in a sample, its samples, its rates by their median, and its runs/s by others'.

    `cores_translating` is how much of a core KVRM's translator had meanwhile.
    """

    runs: int
    seconds: Samples
    runs_per_second: float
    instructions_per_second: float
    instructions_per_cpu_second: float | None
    over: dict[str, float]
    cores_translating: float

    def columns(self) -> dict[str, float | None]:
        """What the table shows."""
        by_cpu = self.instructions_per_cpu_second
        return {
            "runs/s": self.runs_per_second,
            "M/s": self.instructions_per_second / 1e6,
            "M/CPU s": by_cpu and by_cpu / 1e6,
            **{f"over {peer}": value for peer, value in self.over.items()},
        }


Peer = Callable[[], Run]
"""Takes one sample."""


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What `work` returns, and its wall and CPU seconds, those of finished children included."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    done = work()
    return done, time.perf_counter() - wall, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """Of this process and of the children that it has waited for."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in every)


def translation_seconds() -> float:
    """CPU seconds of the process in which KVRM translates, the only child that lives between samples."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[1]) == os.getpid() else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def warm_up(run: Peer, most: float) -> None:
    """Run until nothing was translated for a second, or for as long as that if KVRM goes on translating."""
    translated, began = translation_seconds(), time.monotonic()
    last = began
    while time.monotonic() < min(last + QUIET, began + most):
        run()
        if (now := translation_seconds()) > translated:
            translated, last = now, time.monotonic()


# -- peers ---------------------------------------------------------------------------------------------------
def with_lanes(program: Path, texts: list[bytes], target: str, threads: int, passes: int) -> Peer:
    """Lanes for all texts, `passes` lanes for each."""
    machine = kvrm.Machine(program, lanes=len(texts) * passes, stdin=texts * passes, target=target)
    if target == "cpu":
        machine.lanes.threads = threads

    def fresh() -> Any:
        machine.lanes.reset()
        return machine.run()

    def run() -> Run:
        results, wall, cpu = timed(fresh)
        if set(results.stops) != {kvrm.Stop.EXIT}:
            raise SystemExit(f"{program.name}: {results}")
        outputs = list(zip(results.exit_code.tolist(), results.stdout, strict=True))
        return Run(outputs, wall, cpu, int(results.retired.sum()))

    return run


def with_qemu(command: Sequence[str], files: list[Path], processes: int, passes: int) -> Peer:
    """A process for each file, `processes` at a time; each file `passes` times."""
    jobs = [(file, file.with_suffix(f".{number}")) for number in range(passes) for file in files]

    def one(job: tuple[Path, Path]) -> int:
        with job[0].open("rb") as stdin, job[1].open("wb") as stdout:
            return subprocess.run(command, stdin=stdin, stdout=stdout).returncode

    def run() -> Run:
        with ThreadPoolExecutor(processes) as pool:
            codes, wall, cpu = timed(lambda: list(pool.map(one, jobs)))
        return Run([(code, job[1].read_bytes()) for code, job in zip(codes, jobs, strict=True)], wall, cpu)

    return run


# -- measuring -----------------------------------------------------------------------------------------------
class Checked:
    """What each input gave first, with which everything later is compared."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._first: tuple[str, list[Output]] | None = None

    def check(self, peer: str, outputs: list[Output]) -> None:
        """Exit where an output is not what the same input gave before."""
        known, first = self._first = self._first or (peer, outputs)
        for number, output in enumerate(outputs):
            expected = first[number % len(first)]
            if output != expected:
                lane = number % len(first)
                raise SystemExit(
                    f"{self._program}, input {lane}: {known} returned {expected[0]} and printed"
                    f" {expected[1][:300]!r}, {peer} {output[0]} and {output[1][:300]!r}"
                )


def ways(options: argparse.Namespace) -> dict[str, int]:
    """KVRM's ways to run lanes, and the threads of each."""
    if options.target != "cpu":
        return {options.target: 1}
    return {f"{n} thread{'s' * (n > 1)}": n for n in sorted({1, options.threads})}


def measured(name: str, program: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All peers on one program. Exits where two of them disagree."""
    texts = inputs(name, options.lanes, options.seed)
    checked = Checked(name)
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory) / f"{number}.in" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_bytes(text)
        makers: dict[str, Callable[[int], Peer]] = {
            way: partial(with_lanes, program, texts, options.target, threads)
            for way, threads in ways(options).items()
        }
        if options.qemu:
            makers[QEMU] = partial(with_qemu, [options.qemu, str(program)], files, options.threads)
        peers, passes, retired = {}, {}, 0
        for peer, make in makers.items():
            most = 0 if peer == QEMU else options.warm_up
            peers[peer], passes[peer], warm = sized(make, options.seconds, MOST_LANES // len(texts), most)
            checked.check(peer, warm.outputs)
            retired = warm.retired // passes[peer] or retired
        samples = {peer: Samples() for peer in peers}
        translation = dict.fromkeys(peers, 0.0)
        for _ in range(options.repeat):
            for peer, run in peers.items():
                before = translation_seconds()
                sample = run()
                translation[peer] += translation_seconds() - before
                checked.check(peer, sample.outputs)
                samples[peer].wall.append(sample.wall)
                samples[peer].cpu.append(sample.cpu)
    translating = {peer: translation[peer] / sum(its.wall) for peer, its in samples.items()}
    if max(translating.values()) > BUSY:
        note(f"  KVRM's translator kept {max(translating.values()):.1f} cores busy: a second run is warmer")
    rates = {peer: passes[peer] * len(texts) / its.median("wall") for peer, its in samples.items()}
    bases = [peer for peer in (next(iter(rates)), QEMU) if peer in rates]
    figures = {
        peer: Figures(
            passes[peer] * len(texts),
            its,
            rates[peer],
            passes[peer] * retired / its.median("wall"),
            ratio(passes[peer] * retired, its.median("cpu")),
            {base: rates[peer] / rates[base] for base in bases},
            translating[peer],
        )
        for peer, its in samples.items()
    }
    return {
        "instructions_per_run": retired / len(texts),
        "input_bytes": sum(map(len, texts)),
        "peers": figures,
    }


def sized(make: Callable[[int], Peer], seconds: float, most: int, warming: float) -> tuple[Peer, int, Run]:
    """A peer whose samples take that many seconds, if `most` passes are enough; its passes; a run of it.

    The peer is warm, after at most `warming` seconds: KVRM has compiled what it needs, the files are in the
    host's memory. A cold one would take fewer passes for that many seconds, and its samples would then be so
    short that what a run costs once is most of them.
    """
    run = make(1)
    run()
    warm_up(run, warming)
    sample = run()
    passes = max(min(round(seconds / sample.wall), most), 1)
    if passes > 1:
        run = make(passes)
        run()
        warm_up(run, warming)
        sample = run()
    return run, passes, sample


# -- reporting -----------------------------------------------------------------------------------------------
def report(programs: dict[str, dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Print the table; return the geometric means of each peer's columns."""
    rows: list[tuple[str, str, dict[str, float | None]]] = []
    for name, found in programs.items():
        million = found["instructions_per_run"] / 1e6
        rows += [(name, peer, {"M a run": million} | its.columns()) for peer, its in found["peers"].items()]
    means = {}
    for wanted in dict.fromkeys(peer for _, peer, _ in rows):
        every = [columns for _, peer, columns in rows if peer == wanted]
        means[wanted] = {title: mean(columns[title] for columns in every) for title in every[0]}
    rows += [("mean", peer, columns) for peer, columns in means.items()]
    table(
        "Runs a second, and millions of the guest's instructions",
        ["program", "peer", *rows[0][2]],
        [[name, peer, *map(cell, columns.values())] for name, peer, columns in rows],
    )
    return means


def cell(value: float | None) -> str:
    """Three digits, or all before the point."""
    return shown(value, 2 if value is not None and value < 100 else 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--programs", type=names, default=list(PROGRAMS), metavar="A,B", help=f"of {','.join(PROGRAMS)}")
    add("--lanes", type=int, default=32, metavar="N", help="inputs; more lanes begin with them anew")
    add("--threads", type=int, default=cores, metavar="N", help="and processes of QEMU; all cores")
    add("--repeat", type=int, default=5, metavar="N", help="rounds")
    add("--seconds", type=float, default=0.5, metavar="S", help="of a sample, at least")
    add("--warm-up", type=float, default=3, metavar="S", help="at most, while KVRM translates")
    add("--seed", type=int, default=SEED, help="of the inputs")
    add("--target", default="cpu", choices=["cpu", "cuda"])
    add("--qemu", default=shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static"), metavar="QEMU")
    add("--built", type=Path, metavar="DIR", help="where built programs are, or are put; the user's cache")
    add("--json", type=Path, metavar="FILE", help="where figures go; bench/results/lanes-TIME.json")
    options = parser.parse_args(arguments)
    if not options.qemu:
        note("qemu-aarch64 is missing, so nothing is compared with it: apt-get install qemu-user, or --qemu")
    try:
        programs = {name: built(name, options.built) for name in options.programs}
    except Missing as reason:
        parser.exit(2, f"{parser.prog}: {reason}\n")
    found = {}
    for name, program in programs.items():
        note(f"{name} ...")
        found[name] = measured(name, program, options)
    settings = {
        name: getattr(options, name) for name in ("lanes", "threads", "seconds", "warm_up", "seed", "target")
    }
    print(write_results("lanes", settings | {"programs": found, "means": report(found)}, options.json))


def names(text: str) -> list[str]:
    """Names of programs, separated by commas."""
    chosen = text.split(",")
    if unknown := set(chosen) - set(PROGRAMS):
        raise argparse.ArgumentTypeError(f"no program is called {', '.join(sorted(unknown))}")
    return chosen


if __name__ == "__main__":
    main()
