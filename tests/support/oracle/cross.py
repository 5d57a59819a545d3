"""The cross toolchain: builds the harness that QEMU runs, and assembles words for tests."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import platformdirs

from .case import CODE_BASE, CODE_SIZE, DATA_BASE, DATA_SIZE, ENTRY

COMPILER: Final = "aarch64-linux-gnu-gcc"
OBJCOPY: Final = "aarch64-linux-gnu-objcopy"
SOURCE: Final = Path(__file__).with_name("harness.c")
ALL_FEATURES: Final = "armv8.6-a+crypto+sha3+sm4+fp16+fp16fml+memtag"
LINK_ADDRESS: Final = 0x35_2695_0000
"""Far from addresses that chosen operand values (powers of two, area edges) are likely to name."""


def missing() -> str | None:
    """Why nothing can be built here, or None."""
    absent = [tool for tool in (COMPILER, OBJCOPY) if shutil.which(tool) is None]
    return f"{' and '.join(absent)} not found (Debian: gcc-aarch64-linux-gnu)" if absent else None


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


def build_harness(request_bytes: int, answer_bytes: int, cache: Path | None = None) -> Path:
    """Path of the harness program, built unless `cache` (default: the user's cache directory) has it.

    The two sizes are those of the records that the caller packs; the build fails if the C side differs.
    """
    flags = [
        *"-std=gnu11 -O2 -Wall -Wextra -Werror -static -nostdlib -ffreestanding -fno-pic -no-pie".split(),
        *"-fno-stack-protector -mgeneral-regs-only -fno-tree-loop-distribute-patterns".split(),
        f"-Wl,-Ttext-segment={LINK_ADDRESS:#x}",
        *(f"-DDATA_BASE={DATA_BASE:#x}", f"-DDATA_SIZE={DATA_SIZE:#x}", f"-DENTRY={ENTRY:#x}"),
        *(f"-DCODE_BASE={CODE_BASE:#x}", f"-DCODE_SIZE={CODE_SIZE:#x}"),
        *(f"-DREQUEST_BYTES={request_bytes}", f"-DANSWER_BYTES={answer_bytes}"),
    ]
    folder = cache or platformdirs.user_cache_path("kvrm") / "oracle"
    key = hashlib.sha256(SOURCE.read_bytes() + " ".join(flags).encode()).hexdigest()[:16]
    program = folder / f"harness-{key}"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            fresh = Path(scratch) / "harness"
            _run(COMPILER, *flags, str(SOURCE), "-o", str(fresh), "-lgcc")
            os.replace(fresh, program)
    return program


@functools.lru_cache(maxsize=64)
def _assemble(source: str, arch: str) -> tuple[int, ...]:
    with tempfile.TemporaryDirectory() as scratch:
        text, unlinked, raw = (Path(scratch) / name for name in ("words.s", "words.o", "words.bin"))
        text.write_text(source)
        _run(COMPILER, f"-march={arch}", "-c", str(text), "-o", str(unlinked))
        _run(OBJCOPY, "-O", "binary", "-j", ".text", str(unlinked), str(raw))
        code = raw.read_bytes()
    return struct.unpack(f"<{len(code) // 4}I", code)


def assemble(lines: Sequence[str], arch: str = ALL_FEATURES) -> tuple[int, ...]:
    """The words of assembly `lines`, one instruction each; branch targets are relative (`. + 8`) or labels.

    Raises RuntimeError with the assembler's message if a line is wrong.
    """
    return _assemble("\n".join(lines) + "\n", arch)
