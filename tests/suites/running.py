"""Runs one compiled program under QEMU, and under KVRM in this process."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import kvrm
from suites.outcome import Run

QEMU: Final = ("qemu-aarch64", "qemu-aarch64-static")
QEMU_SECONDS: Final = 120
BUDGET: Final = 20_000_000_000
"""Instructions that a program may retire under KVRM."""
SLICE: Final = 200_000_000
"""Instructions between two looks at the clock."""
KVRM_SECONDS: Final = 300


def missing() -> str | None:
    """Why QEMU's side cannot run here, or None."""
    return None if any(map(shutil.which, QEMU)) else f"{QEMU[0]} not found (Debian: qemu-user)"


def qemu_version() -> str:
    """One line that names the emulator."""
    done = subprocess.run([_qemu(), "--version"], capture_output=True, text=True)
    return done.stdout.splitlines()[0]


def _qemu() -> str:
    return next(path for name in QEMU if (path := shutil.which(name)))


def under_qemu(executable: Path) -> Run:
    """Run a program under `qemu-aarch64 -cpu max`, in an empty directory and environment."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        try:
            done = subprocess.run(
                [_qemu(), "-cpu", "max", str(executable)],
                cwd=work,
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=QEMU_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Run(f"no end after {QEMU_SECONDS} s")
    code = done.returncode
    ended = f"exit {code}" if code >= 0 else f"signal {-code}"
    return Run(ended, done.stdout, _words(done.stderr or done.stdout), 0, time.perf_counter() - began)


def under_kvrm(executable: Path, fp_flags: bool = False, engine: str | None = None) -> Run:
    """Run a program under KVRM with every feature, in an empty directory and environment.

    `fp_flags`: with floating-point exceptions added to FPSR.
    """
    began, before = time.perf_counter(), Path.cwd()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        try:
            machine = kvrm.Machine(executable, features="all", fp_flags=fp_flags, engine=engine)
            result = _run(machine, began + KVRM_SECONDS)
        except kvrm.KvrmError as error:
            return Run(type(error).__name__, words=str(error))
        finally:
            os.chdir(before)
    ended, words = result.stop.value, result.message
    if result.stop in (kvrm.Stop.EXIT, kvrm.Stop.SIGNAL):
        exited = result.stop is kvrm.Stop.EXIT
        ended = f"exit {result.exit_code}" if exited else f"signal {result.signal}"
        words = _words(result.stderr or result.stdout)
    return Run(ended, result.stdout, words, machine.retired, time.perf_counter() - began)


def _words(output: bytes) -> str:
    """The end of what a program said."""
    return output[-400:].decode(errors="replace")


def _run(machine: kvrm.Machine, deadline: float) -> kvrm.Result:
    """Run until something other than a slice's end stops it."""
    while True:
        result = machine.run(max_instructions=SLICE)
        over = machine.retired >= BUDGET or time.perf_counter() > deadline
        if result.stop is not kvrm.Stop.BUDGET or over:
            return result
