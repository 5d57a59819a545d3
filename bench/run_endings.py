"""Measures what it costs on a GPU that lanes end: by themselves, by a fault, or on the CPU.

One program (programs/endings.s), always from its beginning: every lane exits, every lane loads from an
address of its own where nothing is mapped, or every lane makes a system call that only the CPU does, and
exits there. All that results hold is fetched. Cases alternate; the figure is the median of the wall time of
`run`, and beside it what kernels took. How often and how much is copied from the device is counted.

Results of some lanes are compared with lanes on the CPU.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import REPOSITORY, driver_version, note, table, write_results

import kvrm

WORDS = (  # programs/endings.s
    *(0xD2807D14, 0xF81F0FF4, 0xF1000694, 0x54FFFFE1, 0xD2800020, 0x910003E1, 0xD2800102, 0xD2800808),
    *(0xD4000001, 0xF100067F, 0x540000C3, 0x54000048, 0xF94002A0, 0xD2800000, 0xD2801328, 0xD4000001),
    *(0xD2800000, 0xD2800BC8, 0xD4000001),
)
ENTRY, NOWHERE = 0x40_0000, 1 << 36
ENDINGS = ("exit", "fault", "leave")
"""What x19 stands for."""
STOPS = {"exit": kvrm.Stop.EXIT, "fault": kvrm.Stop.FAULT, "leave": kvrm.Stop.EXIT}
COMPARED = 64
"""Lanes that the CPU runs too."""
PATIENCE = 15
"""Seconds of a case that is run once only, so that its figure has what the first run fills caches with."""


def program(directory: str) -> Path:
    """The words as a static executable: one segment that may be read and executed."""
    code, header = struct.pack(f"<{len(WORDS)}I", *WORDS), 64 + 56
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    elf = struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, ENTRY + header, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = header + len(code)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, ENTRY, ENTRY, size, size, 0x1000)
    path = Path(directory) / "endings"
    path.write_bytes(ident + elf + segment + code)
    path.chmod(0o755)
    return path


class Copies:
    """Counts copies from the device: wraps the driver's function, if there is a driver."""

    def __init__(self) -> None:
        self.number = self.bytes = 0
        try:
            driver = importlib.import_module("cuda.bindings.driver")
        except ImportError:
            return
        copy = driver.cuMemcpyDtoH

        def counted(to: Any, source: Any, size: int) -> Any:
            self.number += 1
            self.bytes += size
            return copy(to, source, size)

        driver.cuMemcpyDtoH = counted


def lanes_of(path: Path, target: str, count: int) -> Any:
    """Lanes of the program."""
    machine = kvrm.Machine(path, target=target, engine="interpreter", lanes=count)
    machine.lanes.keep = ("x0", "x20", "sp", "stdout")
    return machine.lanes


def run(lanes: Any, ending: str) -> Any:
    """The results of all lanes, from their beginning to this ending."""
    lanes.reset()
    lanes.registers["x19"] = np.full(len(lanes), ENDINGS.index(ending), np.uint64)
    lanes.registers["x21"] = NOWHERE + 8 * np.arange(len(lanes), dtype=np.uint64)
    return lanes.run()


def check(ending: str, results: Any, expected: Any) -> None:
    """Exit unless all lanes ended so, and the first of them as on the CPU."""
    if results.stops != {STOPS[ending]: len(results)}:
        raise SystemExit(f"{ending}: lanes ended otherwise: {results.stops}")
    columns = ("stop", "retired", "pc", "exit_code", "signal", "fault_address", "fault_kind", "fault_mapped")
    some = slice(0, len(expected))
    same = all((getattr(results, name)[some] == getattr(expected, name)).all() for name in columns)
    same &= all(
        (results.registers[name][some] == values).all() for name, values in expected.registers.items()
    )
    if not same or list(results.stdout[some]) != list(expected.stdout):
        raise SystemExit(f"{ending}: lanes are not as on the CPU")


def measure(path: Path, count: int, endings: list[str], rounds: int, copies: Copies) -> dict[str, Any]:
    """Run `count` lanes to each ending in turn; what each took."""
    lanes = lanes_of(path, "cuda", count)
    few = lanes_of(path, "cpu", min(COMPARED, count))
    found: dict[str, Any] = {
        ending: {"lanes": count, "seconds": [], "kernel_seconds": []} for ending in endings
    }
    for number in range(rounds + 1):
        for ending, one in found.items():
            if max(one["seconds"], default=0.0) > PATIENCE:
                continue
            before = copies.number, copies.bytes
            began = time.perf_counter()
            results = run(lanes, ending)
            seconds = time.perf_counter() - began
            check(ending, results, run(few, ending))
            if number or seconds > PATIENCE:  # the first round compiles, or fills caches
                one["seconds"].append(seconds)
                one["kernel_seconds"].append(lanes.device_seconds)
            one["left_device"] = lanes.left_device
            one["copies"], one["bytes_copied"] = copies.number - before[0], copies.bytes - before[1]
            note(f"{count:,} lanes, {ending}: {seconds:.4f} s, {one['copies']:,} copies from the device")
    return found


def row(ending: str, one: dict[str, Any], exit_seconds: float) -> list[str]:
    """A line of the table."""
    seconds, lanes = statistics.median(one["seconds"]), one["lanes"]
    return [
        f"{lanes:,} {ending}",
        f"{seconds * 1e3:,.2f}",
        f"{statistics.median(one['kernel_seconds']) * 1e3:,.2f}",
        f"{seconds / lanes * 1e6:,.3f}",
        f"{seconds / exit_seconds:,.1f}",
        f"{one['left_device']:,}",
        f"{one['copies']:,}",
        f"{one['bytes_copied'] / 1e6:,.1f}",
    ]


def card() -> str:
    """The GPU's name, as nvidia-smi says it."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lanes", type=int, nargs="+", default=[4096, 131_072])
    parser.add_argument("--most-leaving", type=int, default=131_072, help="with more lanes, none leave")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    copies, cases, rows = Copies(), [], []
    with tempfile.TemporaryDirectory(prefix="kvrm-bench-") as directory:
        path = program(directory)
        for count in options.lanes:
            endings = [ending for ending in ENDINGS if ending != "leave" or count <= options.most_leaving]
            found = measure(path, count, endings, options.rounds, copies)
            exit_seconds = statistics.median(found["exit"]["seconds"])
            cases += [{"ending": ending, **one} for ending, one in found.items()]
            rows += [row(ending, one, exit_seconds) for ending, one in found.items()]
    name = card()
    heads = ["lanes", "ms", "kernel ms", "us a lane", "of exit", "on the CPU", "copies", "MB"]
    table(f"{name}, kvrm of {Path(kvrm.__file__).parent}", heads, rows)
    source = os.path.relpath(Path(kvrm.__file__).parent, REPOSITORY)
    write_results("endings", {"card": name, "driver": driver_version(), "source": source, "cases": cases})


if __name__ == "__main__":
    main()
