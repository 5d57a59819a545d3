"""Compares KVRM with qemu-aarch64, native code and Unicorn on integer and floating-point programs.

`--programs` are directories of static AArch64 programs; each takes a scale as its argument and prints one
line that depends on nothing else. Peers alternate, round by round; figures are medians. Rates are guest
instructions per second, by the clock that `--clock` names:
  whole    instructions and seconds of the whole process, start-up and translation included
  steady   the same less a run at scale 1
  kvrm     a cache of compiled code that earlier runs filled; kvrm-new: one that knows the interpreter, but no
           translation; kvrm-cold: an empty one (both once)
  native   seconds of the x86-64 build in `--native`, instructions of the AArch64 build
Unicorn runs only programs that need no more than write and exit. README.md says more.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measure import (
    BUDGET_EXIT,
    CLOCKS,
    LIMIT,
    Clock,
    Samples,
    cache,
    kvrm_run,
    mean,
    note,
    race,
    ratio,
    retired,
    run,
    shown,
    succeeded,
    table,
    teach_interpreter,
    write_results,
)

from kvrm.cache import root as cache_root

SCALES = {
    "tight": 300_000_000,
    "strloop": 200_000_000,
    "coremix": 60_000,
    "sha256": 400,
    "memops": 1_000,
    "chase": 100_000_000,
    "quick": 10,
    "sieve": 20,
    "nbody": 400_000,
    "mandel": 600,
    "vec": 8_000,
    "saxpy": 50_000,
    "matmul": 700,
}
"""Names of the programs to quick scales: about 10^9 instructions each."""
FLOATING = ("nbody", "mandel", "vec", "saxpy", "matmul")
INTEGER = ("tight", "strloop", "coremix", "sha256", "memops", "chase", "quick", "sieve")
GROUPS = {"integer": INTEGER, "floating": FLOATING, "all": INTEGER + FLOATING}
SHORTEST = 0.1
"""Seconds below which a difference of two runs says nothing."""
MARGIN = 1.15
"""A calibrated run aims at this much more than the seconds asked for, since later ones may be faster."""
PATIENCE = 3
"""A peer whose run takes this many times what QEMU's may is left out."""

Caches = dict[str, Callable[[], AbstractContextManager[str]]]


@dataclass
class FirstSecond:
    """Instructions in the first second of wall time, and the runs that say so: (retired, wall seconds)."""

    retired: float
    runs: list[tuple[int, float]]


@dataclass
class Row:
    """One program under all peers. KVRM's states of the cache are peers too."""

    name: str
    scale: int
    retired: int
    retired_at_start: int
    whole: dict[str, Samples]
    start: dict[str, Samples]
    first_second: dict[str, FirstSecond]

    def rate(self, peer: str, clock: Clock) -> float | None:
        """Instructions per second of the whole process; None where the peer did not run it."""
        return self.retired / self.whole[peer].median(clock) if peer in self.whole else None

    def steady(self, peer: str, clock: Clock) -> float | None:
        """Instructions per second after start-up; None where that took too short to tell."""
        if peer not in self.whole or peer not in self.start:
            return None
        seconds = self.whole[peer].median(clock) - self.start[peer].median(clock)
        return (self.retired - self.retired_at_start) / seconds if seconds >= SHORTEST else None


Figure = Callable[[Row, str, Clock], float | None]
KINDS: dict[str, Figure] = {"whole": Row.rate, "steady": Row.steady}
TARGETS = (("whole", "qemu", 2.5, 1.0), ("steady", "qemu", 4.0, None), ("steady", "native", 0.6, None))
"""Kind, peer, and the least that KVRM's rate by the peer's is to be: geometric mean, worst program."""


# -- measuring -----------------------------------------------------------------------------------------------
def peers(program: Path, engine: str | None, native: Path | None) -> dict[str, list[str]]:
    """Name to the command line in front of the scale, for those that are here."""
    found = {"kvrm": kvrm_run(engine, str(program))}
    if qemu := shutil.which("qemu-aarch64"):
        found["qemu"] = [qemu, str(program)]
    if native and (native / program.name).is_file():
        found["native"] = [str(native / program.name)]
    if importlib.util.find_spec("unicorn"):
        found["unicorn"] = [sys.executable, str(Path(__file__).with_name("unicorn_guest.py")), str(program)]
    return found


def caches(template: Path) -> Caches:
    """State of KVRM's cache to how one is made; `template` has the interpreter's handlers, no translation."""
    return {
        "kvrm": lambda: nullcontext(str(cache_root())),
        "kvrm-new": lambda: cache(template),
        "kvrm-cold": cache,
    }


def calibrated(commands: dict[str, list[str]], count: Callable[[int], int], first: int, options: Any) -> int:
    """A scale at which KVRM takes `options.seconds`, or QEMU `options.longest` if that is less.

    `count` gives the instructions of a scale; they grow by some power of it, from a constant.
    """

    def wall(peer: str, scale: int) -> float:
        return succeeded([*commands[peer], str(scale)]).wall

    one, two, four = (count(factor * max(first // 4, 1)) for factor in (1, 2, 4))
    power = math.log2((four - two) / (two - one))
    start = {peer: wall(peer, 1) for peer in ("kvrm", "qemu") if peer in commands}
    highest = math.inf
    if "qemu" in start:
        seconds = max(wall("qemu", first) - start["qemu"], 0.001)
        highest = first * ((options.longest - start["qemu"]) / seconds) ** (1 / power)
    scale, goal = min(first, int(highest)), MARGIN * options.seconds - start["kvrm"]
    for _ in range(6):
        factor = max(goal / max(wall("kvrm", scale) - start["kvrm"], 0.001), 0.01)
        if 0.8 <= factor <= 1.1 or (factor > 1 and scale >= highest / 1.1):
            break
        scale = max(two_digits(min(scale * min(factor, 20) ** (1 / power), highest)), 1)
    return scale


def two_digits(value: float) -> int:
    """Rounded to two digits, as a scale that one can write down."""
    return int(float(f"{value:.1e}"))


def first_second(program: Path, scale: int, engine: str | None, new: Any, guess: float) -> FirstSecond:
    """How many instructions a process of one second retires: runs with budgets that come closer."""
    runs: list[tuple[int, float]] = []

    def wall(budget: int) -> float:
        arguments = ("--max-instructions", str(budget), str(program), str(100 * scale))
        with new() as directory:
            cost = run(kvrm_run(engine, *arguments), KVRM_CACHE=directory)
        if cost.code not in (0, BUDGET_EXIT):
            raise SystemExit(f"{program.name}: kvrm returned {cost.code}: {cost.stderr.strip()[-300:]}")
        runs.append((budget, cost.wall))
        return cost.wall

    start = wall(1)
    if start >= 1:
        return FirstSecond(0, runs)
    budget = guess * (1 - start)
    for _ in range(5):
        seconds = wall(max(int(budget), 1)) - start
        budget *= min((1 - start) / max(seconds, 0.001), 10)
        if abs(seconds + start - 1) < 0.03:
            break
    return FirstSecond(budget, runs)


def measured(program: Path, options: argparse.Namespace, states: Caches) -> Row:
    """All peers on one program. Exits where one prints something else than KVRM."""
    commands = peers(program, options.engine, options.native)
    counting = kvrm_run(options.engine, "--stats", str(program))
    scale = max(SCALES[program.name] // options.divide, 1)
    if options.seconds:
        scale = calibrated(commands, lambda n: retired(succeeded([*counting, str(n)])), scale, options)
    reference, small = succeeded([*counting, str(scale)]), succeeded([*counting, "1"])
    limit = PATIENCE * options.longest if options.seconds else LIMIT

    def turns(argument: str, expected: bytes, names: Iterable[str]) -> dict[str, Samples]:
        return race({name: [*commands[name], argument] for name in names}, expected, options.rounds, limit)

    row = Row(program.name, scale, retired(reference), retired(small), {}, {}, {})
    row.whole = turns(str(scale), reference.stdout, commands)
    row.start = turns("1", small.stdout, row.whole)
    for state, new in states.items():
        if state not in row.whole:
            with new() as directory:
                cost = succeeded([*commands["kvrm"], str(scale)], KVRM_CACHE=directory)
            row.whole[state] = Samples([cost.wall], [cost.cpu])
        guess = row.rate(state, "wall") or row.retired
        row.first_second[state] = first_second(program, scale, options.engine, new, guess)
    if steady := row.steady("qemu", "wall"):
        left = max(1 - row.start["qemu"].median("wall"), 0)
        row.first_second["qemu"] = FirstSecond(row.retired_at_start + steady * left, [])
    return row


# -- reporting -----------------------------------------------------------------------------------------------
def speed_ups(rows: Iterable[Row], kind: str, peer: str, clock: Clock) -> dict[str, float]:
    """Program to KVRM's rate by the peer's, where both are known."""
    figure = KINDS[kind]
    found = ((row.name, ratio(figure(row, "kvrm", clock), figure(row, peer, clock))) for row in rows)
    return {name: value for name, value in found if value}


def rates(rows: list[Row], kind: str, clock: Clock, columns: list[str], others: list[str]) -> None:
    """Print a table of one kind of rate, with geometric means of what each column has."""
    figure = KINDS[kind]
    ratios = {peer: speed_ups(rows, kind, peer, clock) for peer in others}
    lines = [
        [row.name, *(shown(ratio(figure(row, p, clock), 1e6), 1) for p in columns)]
        + [shown(ratios[p].get(row.name)) for p in others]
        for row in rows
    ]
    for group, names in GROUPS.items():
        if not (members := [row for row in rows if row.name in names]):
            continue
        means = [mean(figure(row, p, clock) for row in members) for p in columns]
        gains = [mean(ratios[p].get(row.name) for row in members) for p in others]
        lines.append([f"mean, {group}", *(shown(ratio(m, 1e6), 1) for m in means), *map(shown, gains)])
    title = f"{kind}: M guest instructions per {clock} second"
    table(title, ["program", *columns, *(f"kvrm/{p}" for p in others)], lines)


def targets(rows: list[Row]) -> dict[str, Any]:
    """Print how far KVRM is by both clocks, in the mean and in the program where it does worst."""
    lines, results = [], {}
    for kind, peer, least, lowest in TARGETS:
        gains = {clock: speed_ups(rows, kind, peer, clock) for clock in CLOCKS}
        if not gains["wall"]:
            continue
        means = {clock: mean(gains[clock].values()) for clock in CLOCKS}
        worst = min(gains["wall"], key=gains["wall"].__getitem__)
        lines.append([f"{kind}, mean", peer, *verdict(means, least)])
        lines.append([f"{kind}, {worst}", peer, *verdict({c: gains[c].get(worst) for c in CLOCKS}, lowest)])
        results[f"{kind}/{peer}"] = {"mean": means, "worst": worst, "gains": gains}
    table("targets: KVRM's rate by the peer's", ["", "peer", *CLOCKS, "at least", ""], lines)
    return results


def verdict(values: Mapping[Clock, float | None], least: float | None) -> list[str]:
    """Cells: the values by both clocks, what is wanted, whether the one by wall seconds is there."""
    wall = values["wall"]
    word = "" if least is None or wall is None else "met" if wall >= least else "missed"
    return [*(shown(values[clock]) for clock in CLOCKS), shown(least), word]


def report(rows: list[Row], clock: Clock) -> dict[str, Any]:
    """Print the tables; return what goes into the file."""
    columns = [p for p in ("kvrm", "qemu", "native", "unicorn") if any(p in row.whole for row in rows)]
    states = [p for p in ("kvrm-new", "kvrm-cold") if any(p in row.whole for row in rows)]
    others = columns[1:]
    table(
        "seconds of the whole process: wall (CPU)",
        ["program", "scale", "M instructions", *columns, *states, *(f"{p} start" for p in columns)],
        [
            [row.name, str(row.scale), shown(row.retired / 1e6, 0)]
            + [both(row.whole.get(p)) for p in columns + states]
            + [both(row.start.get(p), 3) for p in columns]
            for row in rows
        ],
    )
    rates(rows, "whole", clock, columns + states, others)
    rates(rows, "steady", clock, columns, others)
    second = ["kvrm", *states, "qemu"]
    table(
        "first second: M guest instructions (QEMU: estimated by its start and its steady rate)",
        ["program", *second],
        [
            [
                row.name,
                *(
                    shown(row.first_second[p].retired / 1e6, 1) if p in row.first_second else "-"
                    for p in second
                ),
            ]
            for row in rows
        ],
    )
    programs = [
        asdict(row)
        | {
            f"{kind}_ips": {
                p: {"wall": figure(row, p, "wall"), "cpu": figure(row, p, "cpu")} for p in columns + states
            }
            for kind, figure in KINDS.items()
        }
        for row in rows
    ]
    return {"programs": programs, "targets": targets(rows)}


def both(samples: Samples | None, digits: int = 2) -> str:
    """Both clocks in one cell."""
    if samples is None:
        return "-"
    return f"{shown(samples.median('wall'), digits)} ({shown(samples.median('cpu'), digits)})"


def find(name: str, directories: list[Path]) -> Path | None:
    """The program of that name in the first directory that has it."""
    return next((place for d in directories if (place := d / name).is_file()), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--programs", type=Path, nargs="+", required=True, metavar="DIR")
    add("--native", type=Path, metavar="DIR", help="the same programs for this machine")
    add("--only", nargs="*", choices=SCALES, default=list(SCALES), metavar="NAME")
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=0, help="calibrate scales: KVRM runs at least that long")
    add("--longest", type=float, default=40, help="a calibrated scale gives QEMU no more seconds")
    add("--divide", type=int, default=1, metavar="N", help="quick scales by N")
    add("--engine", help="KVRM's default if not given")
    add("--clock", choices=("wall", "cpu"), default="wall", help="cpu on a machine that is not idle")
    add("--warm-only", action="store_true", help="leave out kvrm-new, kvrm-cold and first seconds")
    options = parser.parse_args()
    programs = [found for name in options.only if (found := find(name, options.programs))]
    if not programs:
        parser.error(f"none of {', '.join(options.only)} is there")
    rows = []
    with cache() as template:
        for program in programs:
            note(f"{program.name} ...")
            states = {} if options.warm_only else caches(Path(template))
            if states:
                teach_interpreter(template, str(program))
            rows.append(measured(program, options, states))
    engine = options.engine or "default"
    print(write_results("programs", {"engine": engine, **report(rows, options.clock)}))


if __name__ == "__main__":
    main()
