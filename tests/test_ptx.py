"""Every handler compiles to PTX that assembles; nothing here needs a GPU."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from kvrm.isa.a64 import definitions
from kvrm.target.cuda.kernel import stage
from kvrm.target.cuda.ptx import compile_ptx

BATCHES = 32
EVERYTHING = [(d.key, statics) for d in definitions for statics in d.variants()]


@pytest.fixture(scope="session")
def ptxas() -> str:
    """The PTX assembler: the machine's, or that of the PyPI package nvidia-cuda-nvcc."""
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


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "batch",
    [pytest.param(i, marks=() if i % 8 == 0 else pytest.mark.slow) for i in range(BATCHES)],
)
def test_handlers_assemble(batch: int, arch: str, ptxas: str, tmp_path: Path) -> None:
    variants = EVERYTHING[batch::BATCHES]
    staged = stage(variants)
    assert staged.handlers >= len(variants)
    assemble(ptxas, compile_ptx(staged.device, arch), arch, tmp_path)
