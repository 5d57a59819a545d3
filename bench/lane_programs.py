"""The programs of programs/lanes: static, with the C library, and with Debian's libraries for arm64."""

from __future__ import annotations

import hashlib
import runpy
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
from measure import REPOSITORY, note

SOURCES = REPOSITORY / "bench/programs/lanes"
FLAGS = ("-O2", "-static", "-Wall", "-Wextra")
COMPILERS = {
    ".c": ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ".cpp": ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
}
"""The ending of a source to its compiler, and Debian's package of that."""


class Missing(Exception):
    """A program can be neither found nor built here; the message says what to install."""


@dataclass(frozen=True)
class Program:
    """A source and the library that it is linked with, if any, as `-l` names it."""

    source: str
    library: str | None = None


PROGRAMS = {
    "words": Program("words.cpp"),
    "lua": Program("lua.c", "lua5.4"),
    "sqlite": Program("sqlite.c", "sqlite3"),
    "zlib": Program("zlib.c", "z"),
    "json": Program("json.c"),
}


def built(name: str, folder: Path | None = None) -> Path:
    """The executable of a program in `folder`, or in the user's cache; built if it is not there.

    The file's name has a hash of the source and of the options, so what is found is never of another source.
    Raises `Missing`.
    """
    program = PROGRAMS[name]
    source = SOURCES / program.source
    options = repr((FLAGS, program))
    digest = hashlib.sha256(source.read_bytes() + options.encode()).hexdigest()[:12]
    folder = folder or platformdirs.user_cache_path("kvrm") / "bench-lanes"
    made = folder / f"{name}-{digest}"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _build(program, source, made)
    return made


def _build(program: Program, source: Path, made: Path) -> None:
    compiler, package = COMPILERS[source.suffix]
    if not shutil.which(compiler):
        raise Missing(f"{compiler} is missing: apt-get install {package}, or bring --built DIR")
    libraries = [] if program.library is None else _library(program.library)
    note(f"building {made}")
    unfinished = made.with_suffix(".new")
    command = [compiler, *FLAGS, "-o", str(unfinished), str(source), *libraries]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    unfinished.rename(made)


def _library(name: str) -> list[str]:
    """Options that find a library's headers and link it."""
    fetch: dict[str, Any] = runpy.run_path(str(REPOSITORY / "tests/guests/fetch.py"))
    try:
        usr = fetch["libraries"]() / "usr"
    except fetch["Unavailable"] as reason:
        raise Missing(f"the library {name} is missing: {reason}; bring --built DIR") from None
    places = ("include", "include/lua5.4", "include/aarch64-linux-gnu")
    headers = (f"-I{usr / place}" for place in places)
    return [*headers, f"-L{usr / 'lib/aarch64-linux-gnu'}", f"-l{name}", "-lm"]
