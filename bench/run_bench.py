"""Compares KVRM with qemu-aarch64 and Unicorn on integer and floating-point programs, in one run.

`--programs` is a directory of static AArch64 programs; each takes a scale as its argument and prints one line
that depends on nothing else. Peers take turns, round by round. Reported are medians of CPU seconds of the
whole process, and guest instructions per CPU second:
  total   instructions and seconds of the whole process, start-up and compilation included
  steady  the same less a run at scale 1
Unicorn runs only programs that need no more than write and exit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

from measure import Cost, kvrm_command, run, write_results

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
}
SHORTEST = 0.1
"""CPU seconds below which a difference of two runs says nothing."""
INTEGER = ("tight", "strloop", "coremix", "sha256", "memops", "chase", "quick", "sieve")


@dataclass
class Row:
    """One program under all peers."""

    name: str
    retired: int
    retired_at_start: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    start_seconds: dict[str, list[float]] = field(default_factory=dict)

    def total(self, peer: str) -> float:
        """Instructions per CPU second of the whole process."""
        return self.retired / statistics.median(self.seconds[peer])

    def steady(self, peer: str) -> float | None:
        """Instructions per CPU second behind start-up; None where that took too short to tell."""
        seconds = statistics.median(self.seconds[peer]) - statistics.median(self.start_seconds[peer])
        return (self.retired - self.retired_at_start) / seconds if seconds >= SHORTEST else None


def peers(engine: str) -> dict[str, list[str]]:
    """Name to the command line in front of the program, for those that are here."""
    found = {"kvrm": kvrm_command("run", "--engine", engine)}
    if qemu := shutil.which("qemu-aarch64"):
        found["qemu"] = [qemu]
    try:
        import unicorn  # noqa: F401
    except ImportError:
        return found
    found["unicorn"] = [sys.executable, str(Path(__file__).with_name("unicorn_guest.py"))]
    return found


def retired(program: Path, scale: int, engine: str) -> tuple[int, Cost]:
    """Instructions that the program retires; this run also fills KVRM's cache of compiled code."""
    cost = run(kvrm_command("run", "--engine", engine, "--stats", str(program), str(scale)))
    if cost.code:
        raise SystemExit(f"{program.name}: kvrm returned {cost.code}: {cost.stderr.strip()}")
    return json.loads(cost.stderr.splitlines()[-1])["retired"], cost


def measure(program: Path, scale: int, commands: dict[str, list[str]], rounds: int, engine: str) -> Row:
    """All peers on one program. Exits where one prints something else than KVRM."""
    count, reference = retired(program, scale, engine)
    row = Row(program.name, count, retired(program, 1, engine)[0])
    broken = set()
    for number in range(rounds):
        for peer, command in commands.items():
            if peer in broken:
                continue
            start = run([*command, str(program), "1"])
            cost = run([*command, str(program), str(scale)])
            if cost.code and not number:
                broken.add(peer)
                continue
            if cost.stdout != reference.stdout:
                raise SystemExit(f"{program.name}: {peer} printed {cost.stdout!r}, kvrm {reference.stdout!r}")
            row.seconds.setdefault(peer, []).append(cost.cpu)
            row.start_seconds.setdefault(peer, []).append(start.cpu)
    return row


def mean(values: list[float | None]) -> float | None:
    """The geometric mean of the values that are known, or None of nothing."""
    known = [value for value in values if value is not None]
    return statistics.geometric_mean(known) if known else None


def ratio(one: float | None, other: float | None) -> float | None:
    """One by the other, where both are known."""
    return one / other if one is not None and other is not None else None


def shown(value: float | None, unit: float = 1e6, width: int = 15) -> str:
    """A cell of the table."""
    return f"{'-':>{width}}" if value is None else f"{value / unit:{width}.{1 if unit > 1 else 2}f}"


def report(rows: list[Row], names: list[str]) -> dict[str, object]:
    """Print the table; return what goes into the file."""
    print(f"{'M instructions/s':<16}" + "".join(f"{f'{p} total':>15}{f'{p} steady':>15}" for p in names))
    for row in rows:
        cells = "".join(
            shown(row.total(p)) + shown(row.steady(p)) if p in row.seconds else shown(None) * 2 for p in names
        )
        print(f"{row.name:<16}{cells}")
    means: dict[str, dict[str, float | None]] = {}
    for title, chosen in (("integer", [r for r in rows if r.name in INTEGER]), ("all", rows)):
        for peer in names:
            both = [r for r in chosen if peer in r.seconds]
            means[f"{title}/{peer}"] = {
                "total": mean([r.total(peer) for r in both]),
                "steady": mean([r.steady(peer) for r in both]),
                "kvrm_total_ratio": mean([ratio(r.total("kvrm"), r.total(peer)) for r in both]),
                "kvrm_steady_ratio": mean([ratio(r.steady("kvrm"), r.steady(peer)) for r in both]),
                "programs": float(len(both)),
            }
    print(f"\n{'geometric means':<16}{'total':>15}{'steady':>15}{'kvrm/peer':>15}{'steady':>15}")
    for key, values in means.items():
        rates = shown(values["total"]) + shown(values["steady"])
        print(f"{key:<16}{rates}" + "".join(shown(values[f"kvrm_{k}_ratio"], 1) for k in ("total", "steady")))
    return {
        "programs": [
            {
                "name": row.name,
                "retired": row.retired,
                "retired_at_scale_1": row.retired_at_start,
                "cpu_seconds": row.seconds,
                "cpu_seconds_at_scale_1": row.start_seconds,
                "ips_total": {p: row.total(p) for p in row.seconds},
                "ips_steady": {p: row.steady(p) for p in row.seconds},
            }
            for row in rows
        ],
        "geometric_means": means,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="*", choices=SCALES, default=list(SCALES), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="run at one N-th of the scale")
    parser.add_argument("--engine", default="interpreter")
    options = parser.parse_args()
    commands = peers(options.engine)
    programs = [options.programs / name for name in options.only if (options.programs / name).is_file()]
    if not programs:
        parser.error(f"{options.programs} holds none of {', '.join(options.only)}")
    rows = []
    for program in programs:
        print(f"{program.name} ...", file=sys.stderr, flush=True)
        scale = max(SCALES[program.name] // options.divide, 1)
        rows.append(measure(program, scale, commands, options.rounds, options.engine))
    print(write_results("programs", report(rows, list(commands))))


if __name__ == "__main__":
    main()
