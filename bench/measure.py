"""Running a command and saying what it cost, and what it was run on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Cost:
    """One finished process: its output, CPU and wall seconds, and its largest resident size in bytes."""

    code: int
    stdout: bytes
    stderr: str
    cpu: float
    wall: float
    resident: int


def run(command: list[str], timeout: float = 600, **environment: str) -> Cost:
    """Run a command to its end; children that it waited for count as its own."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=os.environ | environment
        )
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


def kvrm_command(*arguments: str) -> list[str]:
    """A `kvrm` command line under the Python that runs the benchmark."""
    return [sys.executable, "-m", "kvrm.cli", *arguments]


def write_results(name: str, results: dict[str, Any]) -> Path:
    """Write results to `bench/results/NAME-TIME.json`, with the machine, the commit and the command."""
    record = {
        "command": [Path(argument).name for argument in sys.argv],
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain")),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load": os.getloadavg()[0],
        },
        **results,
    }
    path = REPOSITORY / "bench/results" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
