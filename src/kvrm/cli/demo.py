"""`kvrm demo`: the carried Mandelbrot program, with a word on what just happened."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import kvrm
from kvrm.cli.run import exit_code


def carried_guest(name: str) -> Path:
    """The path of a guest that comes with KVRM: in the package when installed, else in the checkout."""
    checkout = Path(__file__).parents[3] / "examples/guests/bin"
    for directory in (Path(str(files("kvrm"))) / "guests", checkout):
        if (directory / name).is_file():
            return directory / name
    raise kvrm.UsageError(f"this installation does not carry the guest {name}")


def run_demo() -> int:
    """Run the program, print its picture and what it cost; return the exit code."""
    guest = carried_guest("mandelbrot")
    result = kvrm.Machine(guest).run()
    sys.stdout.write(result.stdout.decode("ascii", "replace"))
    sys.stdout.flush()
    print(
        f"\n{guest.name}, an AArch64 Linux program: {result.retired:,} instructions in {result.seconds:.3f} s"
        f" ({result.ips / 1e6:,.0f} million a second); {result.message}\n"
        f"  kvrm run --stats {guest} 150 5000\n"
        f"  kvrm disasm {guest}\n"
        f"  kvrm where {guest}@main",
    )
    return exit_code(result)
