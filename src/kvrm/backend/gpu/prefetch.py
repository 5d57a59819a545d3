"""Prefetches: a handler of a chosen site asks for the words that the site is to access later.

It has the page from its own access (`kvrm.backend.gpu.access.ask_ahead`). A prefetch changes nothing but what
the GPU's cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvrm.engine.interpreter.slots import OPERAND_BYTES, OPERANDS
from kvrm.memory import PAGE

MOST = 2
"""Prefetches of a site."""
STEPS_BYTES = 2 * MOST
STEPS = OPERAND_BYTES - STEPS_BYTES
"""Offset of a site's steps among its operands: bytes ahead, 16 bits each, 0 for none."""
IN_SLOT = slice(OPERANDS + STEPS, OPERANDS + OPERAND_BYTES)
INSTRUCTION = "prefetch.global.L1 [$0];"


def packed(steps: Sequence[int]) -> bytes:
    """Steps as a slot has them; those that always lead to another page are left out."""
    near = [step for step in steps if 0 < abs(step) < PAGE][:MOST]
    return np.array(near + [0] * (MOST - len(near)), "<i2").tobytes()
