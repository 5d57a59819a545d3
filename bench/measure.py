"""Running commands in alternate rounds: what they cost, on what machine; tables and result files of it."""

from __future__ import annotations

import json
import os
import platform
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

REPOSITORY = Path(__file__).resolve().parent.parent
LIMIT = 600.0
"""Wall seconds after which a process is killed."""
BUSY = 0.3
"""Cores that others may keep busy on a machine that counts as idle."""

BUDGET_EXIT = 124
"""What `kvrm run --max-instructions` returns when it has stopped the guest."""

Clock = Literal["wall", "cpu"]
CLOCKS: tuple[Clock, ...] = ("wall", "cpu")


@dataclass(frozen=True)
class Cost:
    """One finished process: its output, CPU and wall seconds, and its largest resident size in bytes."""

    code: int
    stdout: bytes
    stderr: str
    cpu: float
    wall: float
    resident: int


@dataclass
class Samples:
    """Wall and CPU seconds of one command, run after run."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, cost: Cost) -> None:
        """One more run."""
        self.wall.append(cost.wall)
        self.cpu.append(cost.cpu)

    def median(self, clock: Clock) -> float:
        """The median of the runs, in seconds."""
        return statistics.median(self.wall if clock == "wall" else self.cpu)


def run(command: list[str], limit: float = LIMIT, **environment: str) -> Cost:
    """Run a command to its end; children that it waited for count as its own, all its threads do.

    One that takes longer than `limit` seconds is killed, and returns -9.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=os.environ | environment
        )
        _wait(process, limit)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Cost(
            process.returncode,
            out.read(),
            err.read().decode(errors="replace"),
            usage.ru_utime + usage.ru_stime,
            wall,
            usage.ru_maxrss * 1024,
        )


def _wait(process: subprocess.Popen[bytes], limit: float) -> None:
    """Until the process has ended, which is then still to be reaped."""
    ended = os.pidfd_open(process.pid)
    try:
        if not select.select([ended], [], [], limit)[0]:
            process.kill()
    finally:
        os.close(ended)


def race(
    commands: Mapping[str, list[str]], expected: bytes, rounds: int, limit: float = LIMIT
) -> dict[str, Samples]:
    """Run all commands once a round. One that fails in the first round is left out, and said so.

    Exits where one prints something else than `expected`.
    """
    samples = {name: Samples() for name in commands}
    for _ in range(rounds):
        for name, runs in list(samples.items()):
            cost = run(commands[name], limit)
            if cost.code and not runs.wall:
                note(f"  {name} is left out: it returned {cost.code}")
                del samples[name]
            elif cost.code or cost.stdout != expected:
                raise SystemExit(
                    f"{name} returned {cost.code} and printed {_short(cost.stdout)} where {_short(expected)} "
                    f"is right: {' '.join(commands[name])[:300]}\n{cost.stderr[-300:]}"
                )
            else:
                runs.add(cost)
    return samples


def _short(output: bytes) -> str:
    return repr(output) if len(output) < 100 else f"{output[:80]!r}... ({len(output)} bytes)"


def note(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


# -- KVRM ----------------------------------------------------------------------------------------------------
def kvrm_command(*arguments: str) -> list[str]:
    """A `kvrm` command line under the Python that runs the benchmark."""
    return [sys.executable, "-m", "kvrm", *arguments]


def kvrm_run(engine: str | None, *arguments: str) -> list[str]:
    """`kvrm run` with an engine, or with the default one."""
    return kvrm_command("run", *(["--engine", engine] if engine else []), *arguments)


def succeeded(command: list[str], **environment: str) -> Cost:
    """Run a command that must return 0."""
    cost = run(command, LIMIT, **environment)
    if cost.code:
        raise SystemExit(f"{' '.join(command)[:300]} returned {cost.code}: {cost.stderr.strip()[-300:]}")
    return cost


def retired(cost: Cost) -> int:
    """The instructions that a `kvrm run --stats` says to have retired."""
    return int(json.loads(cost.stderr.splitlines()[-1])["retired"])


def teach_interpreter(directory: str, *arguments: str) -> None:
    """Have a cache directory hold the interpreter's handlers for a program, and no translation of it."""
    cost = run(kvrm_run("interpreter", "--max-instructions", "1", *arguments), KVRM_CACHE=directory)
    if cost.code != BUDGET_EXIT:
        raise SystemExit(f"{arguments[-1]}: kvrm returned {cost.code}: {cost.stderr.strip()[-300:]}")


@contextmanager
def cache(like: Path | None = None) -> Iterator[str]:
    """A cache directory for as long as the block runs: an empty one, or a copy."""
    with tempfile.TemporaryDirectory(prefix="kvrm-bench-") as directory:
        if like is not None:
            shutil.copytree(like, directory, dirs_exist_ok=True)
        yield directory


# -- figures -------------------------------------------------------------------------------------------------
def ratio(one: float | None, other: float | None) -> float | None:
    """One by the other, where both are known."""
    return one / other if one is not None and other else None


def mean(values: Iterable[float | None]) -> float | None:
    """The geometric mean of the values that are known, or None of nothing."""
    known = [value for value in values if value]
    return statistics.geometric_mean(known) if known else None


def shown(value: float | None, digits: int = 2) -> str:
    """A cell of a table."""
    return "-" if value is None else f"{value:.{digits}f}"


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their heads, the first column to the left."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    print(f"\n{title}")
    for first, *rest in lines:
        cells = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        print("  ".join([f"{first:<{widths[0]}}", *cells]))


# -- machine and results -------------------------------------------------------------------------------------
class Busy:
    """How many cores something else than this process and its children keeps busy, from now on."""

    def __init__(self) -> None:
        self._start = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        line = Path("/proc/stat").read_text().splitlines()[0].split()
        user, nice, system, _, _, irq, softirq, steal = map(int, line[1:9])
        everyone = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), everyone - sum(os.times()[:4])

    def others(self) -> float:
        """The mean number of cores up to now; time that a hypervisor took is in it."""
        (began, before), (now, after) = self._start, self._now()
        return max((after - before) / max(now - began, 1e-9), 0.0)


_BUSY = Busy()
_LOAD = os.getloadavg()[0]


def write_results(name: str, results: dict[str, Any], path: Path | None = None) -> Path:
    """Write results to `bench/results/NAME-TIME.json` or `path`, with machine, commit and command."""
    others = _BUSY.others()
    if others > BUSY:
        note(f"not an idle machine: others kept {others:.1f} cores busy, wall seconds are too long")
    record = {
        "command": [Path(argument).name for argument in sys.argv],
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain")),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load_before": _LOAD,
            "cores_busy_with_others": round(others, 3),
        },
        **results,
    }
    path = path or REPOSITORY / "bench/results" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_on_one_line(json.dumps(record, indent=1, default=asdict)) + "\n")
    return path


def _on_one_line(text: str) -> str:
    """JSON with every list of plain numbers on a line of its own."""
    return re.sub(r"\[[\s\d.,e+-]+\]", lambda found: f"[{' '.join(found[0][1:-1].split())}]", text)


def _git(*arguments: str) -> str:
    if not shutil.which("git"):
        return ""
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def driver_version() -> str:
    """What nvidia-smi says."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def on_device(data: Any) -> Any:
    """The same array in the GPU's memory."""
    import cupy

    return cupy.asarray(data)
