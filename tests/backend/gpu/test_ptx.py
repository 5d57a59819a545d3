"""Every handler compiles to PTX that assembles; nothing here needs a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvrm.backend.gpu.kernel import stage
from kvrm.isa.a64 import definitions
from kvrm.staging.ptx import compile_ptx
from ptx_tools import assemble

BATCHES = 32
EVERYTHING = [(d.key, statics) for d in definitions for statics in d.variants()]


@pytest.mark.parametrize(
    ("batch", "arch"),
    [
        pytest.param(i, arch, marks=() if i % 16 == first else pytest.mark.slow)
        for first, arch in enumerate(["sm_80", "sm_90"])
        for i in range(BATCHES)
    ],
)
def test_handlers_assemble(batch: int, arch: str, ptxas: str, tmp_path: Path) -> None:
    variants = EVERYTHING[batch::BATCHES]
    staged = stage(variants)
    assert staged.handlers >= len(variants)
    assemble(ptxas, compile_ptx(staged.device, arch), arch, tmp_path)
