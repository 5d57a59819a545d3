"""Decoder over all 2^32 words: the same verdict as capstone, allocated or not, but for pinned divergences.

    python tests/support/full_decoder.py [--first WORD] [--last WORD] [--workers N]

A small C function asks capstone's shared library about a range of words; compiling it takes a C compiler.
Exit code 1 if a word differs without a reason.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import capstone
import numpy as np
from rich.progress import Progress

from divergences import CAPSTONE, divergence
from extensions import EXTENSIONS
from kvrm.isa.a64 import decode_many, definitions
from kvrm.isa.definition import Decoded

CHUNK = 1 << 22
SOURCE = """
#include <stddef.h>
#include <stdint.h>
int cs_open(int, int, size_t *);
void *cs_malloc(size_t);
_Bool cs_disasm_iter(size_t, const uint8_t **, size_t *, uint64_t *, void *);
void ask(uint32_t first, uint32_t count, uint8_t *verdict) {
    size_t handle;
    cs_open(1, 0, &handle);
    void *insn = cs_malloc(handle);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t word = first + i;
        const uint8_t *code = (const uint8_t *)&word;
        size_t size = 4;
        uint64_t address = 0;
        verdict[i] = cs_disasm_iter(handle, &code, &size, &address, insn);
    }
}
"""


def build(directory: Path) -> Path:
    """The C function as a shared library."""
    libraries = list((Path(capstone.__file__).parent / "lib").glob("libcapstone*.so*"))
    source, out = directory / "ask.c", directory / "ask.so"
    source.write_text(SOURCE)
    command = ["cc", "-O2", "-shared", "-fPIC", "-w", "-o", str(out), str(source), str(libraries[0])]
    subprocess.run([*command, f"-Wl,-rpath,{libraries[0].parent}"], check=True)
    return out


def reasons(first: int, library: Path) -> collections.Counter[str]:
    """How many words of a chunk differ from capstone, by reason; those without one begin with "!"."""
    verdict = np.zeros(CHUNK, np.uint8)
    ctypes.CDLL(str(library)).ask(first, CHUNK, ctypes.c_void_p(verdict.ctypes.data))
    words = np.arange(first, first + CHUNK, dtype=np.uint32)
    found = decode_many(words)
    differ = (found >= 0) != verdict.astype(bool)
    count: collections.Counter[str] = collections.Counter()
    for cube, reason in EXTENSIONS:
        hit = differ & (found < 0) & (words & np.uint32(cube.mask) == np.uint32(cube.value))
        if hit.any():
            count[reason] += int(hit.sum())
            differ &= ~hit
    for word, index in zip(words[differ].tolist(), found[differ].tolist(), strict=True):
        count[why(word, index)] += 1
    return count


def why(word: int, index: int) -> str:
    """The reason of one difference."""
    if index < 0:
        return f"! {word:#010x}: capstone alone knows it"
    d = definitions[index]
    decoded = Decoded(word, d, d.diagram.values(word))
    return divergence(decoded, "", None, CAPSTONE) or f"! {word:#010x}: capstone does not know {d.name}"


def main() -> int:
    """Ask about a range of words with all cores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=lambda v: int(v, 0), default=0)
    parser.add_argument("--last", type=lambda v: int(v, 0), default=(1 << 32) - 1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    starts = range(options.first // CHUNK * CHUNK, options.last + 1, CHUNK)
    total: collections.Counter[str] = collections.Counter()
    began = time.time()
    with tempfile.TemporaryDirectory() as directory, Progress() as progress:
        library = build(Path(directory))
        task = progress.add_task("words", total=len(starts) * CHUNK)
        with ProcessPoolExecutor(options.workers) as pool:
            for count in pool.map(reasons, starts, [library] * len(starts)):
                total += count
                progress.advance(task, CHUNK)
    print(f"{len(starts) * CHUNK:,} words, {len(definitions)} definitions, {time.time() - began:.0f} s")
    for reason, number in total.most_common(60):
        print(f"{number:12,}  {reason}")
    wrong = sum(n for reason, n in total.items() if reason.startswith("!"))
    print(f"{wrong:,} words differ without a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
