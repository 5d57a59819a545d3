"""The decoder's verdict, allocated or not, on 17 or 50 million words; `full_decoder.py` does all 2^32."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from full_decoder import CHUNK, build, reasons

SEED = random.SystemRandom().randrange(1 << 32)
CHUNKS, QUICK = 12, 4


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is missing")
    return build(tmp_path_factory.mktemp("decoder"))


@pytest.mark.parametrize(
    "number", [*range(QUICK), *(pytest.param(n, marks=pytest.mark.slow) for n in range(QUICK, CHUNKS))]
)
def test_verdict(number: int, library: Path) -> None:
    """A stretch of 2^22 words after a random one."""
    first = random.Random(f"{SEED} {number}").randrange((1 << 32) - CHUNK)
    wrong = [reason for reason in reasons(first, library) if reason.startswith("!")]
    assert not wrong, f"seed {SEED}: {len(wrong)} differ: {wrong[:10]}"
