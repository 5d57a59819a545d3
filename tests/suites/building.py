"""Compiles the programs to static AArch64 files, once each."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from suites.catalogue import Program
from suites.sources import home

COMPILER: Final = "aarch64-linux-gnu-gcc"
SECONDS: Final = 120


class CannotCompile(Exception):
    """The compiler rejects the program; the message is its first complaint."""


def missing() -> str | None:
    """Why nothing can be compiled here, or None."""
    return None if shutil.which(COMPILER) else f"{COMPILER} not found (Debian: gcc-aarch64-linux-gnu)"


def build(program: Program) -> Path:
    """Path of the compiled program. Raises CannotCompile."""
    folder = home() / "programs" / program.suite
    executable = folder / f"{program.name}-{_key(program)}"
    if not executable.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _compile(program, executable)
    return executable


def _key(program: Program) -> str:
    """A hash of everything that the result depends on but the sources, which never change."""
    words = [_version(), *program.flags, *program.libraries, *(path.name for path in program.sources)]
    relative = " ".join(words).replace(str(home()), "")
    return hashlib.blake2b(relative.encode(), digest_size=6).hexdigest()


@functools.cache
def _version() -> str:
    return subprocess.run([COMPILER, "--version"], capture_output=True, text=True).stdout.split("\n")[0]


def _compile(program: Program, executable: Path) -> None:
    with tempfile.TemporaryDirectory(dir=executable.parent) as scratch:
        # Dumps and intermediate files that some flags ask for land here too.
        fresh = Path(scratch) / program.name
        command = [COMPILER, *program.flags, *map(str, program.sources), *program.libraries, "-o", str(fresh)]
        try:
            done = subprocess.run(
                command,
                cwd=scratch,
                env=os.environ | {"LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise CannotCompile(f"no end after {SECONDS} s") from None
        if done.returncode:
            raise CannotCompile(_complaint(done.stderr) or f"exit code {done.returncode}")
        os.replace(fresh, executable)


def _complaint(text: str) -> str:
    """The first line of what the compiler says that tells what is wrong."""
    lines = text.strip().splitlines()
    telling = (line for line in lines if re.search(r"error|unrecognized|undefined|cannot find", line))
    return next(telling, lines[-1] if lines else "")
