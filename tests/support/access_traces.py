"""Traces of memory accesses made to order."""

from __future__ import annotations

import numpy as np

from kvrm.neural.memory.kernel import Array
from kvrm.neural.memory.trace import Trace


def synthetic(addresses: list[int] | Array, site: int = 0, gap: int = 10, word: int = 0xF9400020) -> Trace:
    """One site that loads, every `gap` instructions."""
    n = len(addresses)
    return Trace(
        np.array([0x1000], np.uint64),
        np.array([word], np.uint32),
        np.full(n, site, np.int32),
        np.array(addresses, np.int64),
        np.arange(n) * gap,
        np.full(n, 8, np.uint8),
        np.zeros(n, bool),
    )
