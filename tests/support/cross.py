"""The cross toolchain: C programs for guests, and words of assembly. Tests skip where it is missing."""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

COMPILER: Final = "aarch64-linux-gnu-gcc"
ALL_FEATURES: Final = "armv8.6-a+crypto+sha3+sm4+fp16+fp16fml+memtag"
BARE: Final = ("-static", "-nostdlib", "-ffreestanding", "-fno-builtin")
"""Options for a program that stands alone: without a C library, which not every cross compiler has."""


def missing(compiler: str = COMPILER) -> str | None:
    """Why nothing can be built here, or None."""
    if shutil.which(compiler):
        return None
    return f"{compiler} is missing (Debian: {'gcc-aarch64-linux-gnu' if compiler == COMPILER else compiler})"


def build(
    source: Path,
    made: Path,
    *options: str,
    libraries: Sequence[str] = (),
    compiler: str = COMPILER,
) -> Path:
    """Compile a C file into `made`, and return that. Raises RuntimeError with what the compiler says."""
    if reason := missing(compiler):
        pytest.skip(reason)
    run(compiler, *options, str(source), "-o", str(made), *libraries)
    return made


def run(*command: str) -> None:
    """Run one of the tools. Raises RuntimeError with what it says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


@functools.lru_cache(maxsize=64)
def _assemble(source: str, arch: str) -> tuple[int, ...]:
    with tempfile.TemporaryDirectory() as scratch:
        text, unlinked, raw = (Path(scratch) / name for name in ("words.s", "words.o", "words.bin"))
        text.write_text(source)
        build(text, unlinked, f"-march={arch}", "-c")
        run("aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", str(unlinked), str(raw))
        code = raw.read_bytes()
    return struct.unpack(f"<{len(code) // 4}I", code)


def assemble(lines: Sequence[str], arch: str = ALL_FEATURES) -> tuple[int, ...]:
    """The words of assembly `lines`, one instruction each; branch targets are relative (`. + 8`) or labels.

    Raises RuntimeError with the assembler's message if a line is wrong.
    """
    return _assemble("\n".join(lines) + "\n", arch)
