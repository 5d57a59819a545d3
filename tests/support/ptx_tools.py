"""NVIDIA's assembler as a judge of PTX."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest


def find_ptxas() -> str:
    """The machine's assembler, or that of the package nvidia-cuda-nvcc; a test that has neither skips."""
    found = shutil.which("ptxas")
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        found = found or next((str(p) for p in Path(place).rglob("bin/ptxas")), None)
    if found is None:
        pytest.skip("ptxas is missing (CUDA toolkit, or `pip install nvidia-cuda-nvcc`)")
    return found


def assemble(ptxas: str, ptx: str, arch: str, directory: Path) -> None:
    source = directory / f"{arch}.ptx"
    source.write_text(ptx)
    command = [ptxas, f"-arch={arch}", "-o", str(directory / "out.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
