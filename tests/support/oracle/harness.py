"""The program that QEMU runs to execute cases, built once."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

import platformdirs

import cross

from .case import CODE_BASE, CODE_SIZE, DATA_BASE, DATA_SIZE, ENTRY

SOURCE: Final = Path(__file__).with_name("harness.c")
LINK_ADDRESS: Final = 0x35_2695_0000
"""Far from addresses that chosen operand values (powers of two, area edges) are likely to name."""


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
            fresh = cross.build(SOURCE, Path(scratch) / "harness", *flags, libraries=["-lgcc"])
            os.replace(fresh, program)
    return program
