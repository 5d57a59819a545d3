"""Dispatch-10,279: its shape, its flat layout, and what it reads of a word.

The top byte chooses one of 256 rows of an embedding, 32 numbers; twelve bits follow, each 0.0 or 1.0. Three
layers, 44-32-16-7 with ReLU between them, give one number for each execution class; the greatest decides.
It never sees the address of an instruction.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kvrm.isa.definition import Execution
from kvrm.isa.execution import SIDE_BITS, Words
from kvrm.neural.weights import Floats

Layer = tuple[Floats, Floats]

NAME = "dispatch-10279"
ROWS, WIDTH = 256, 32
SIZES = (WIDTH + len(SIDE_BITS), 32, 16, len(Execution))
"""Numbers that go into each layer, and that come out of the last."""
EMBEDDING = ROWS * WIDTH
COUNT = EMBEDDING + sum(n * m + m for n, m in pairwise(SIZES))


def places() -> list[tuple[int, int]]:
    """Where weights and biases of each layer begin in the flat array."""
    found, at = [], EMBEDDING
    for n, m in pairwise(SIZES):
        found.append((at, at + n * m))
        at += n * m + m
    return found


def embedding_of(flat: Floats) -> Floats:
    """The embedding (256, 32), a view of COUNT parameters."""
    return flat[:EMBEDDING].reshape(ROWS, WIDTH)


def layers_of(flat: Floats) -> list[Layer]:
    """Weights (outputs, inputs) and biases (outputs) of each layer, views of COUNT parameters."""
    shapes = zip(pairwise(SIZES), places(), strict=True)
    return [(flat[w:b].reshape(m, n), flat[b : b + m]) for (n, m), (w, b) in shapes]


def inputs_of(words: Words, flat: Floats) -> Floats:
    """What the first layer gets (n, 44) for words (n) of uint32."""
    bits = np.array(SIDE_BITS, np.uint32)
    side = (words[:, None] >> bits & np.uint32(1)).astype(np.float32)
    return np.concatenate([embedding_of(flat)[words >> np.uint32(24)], side], axis=1)


def random_weights(seed: int) -> Floats:
    """COUNT parameters drawn as training begins, reproducible by `seed`."""
    rng = np.random.default_rng(seed)
    flat = np.zeros(COUNT, np.float32)
    embedding_of(flat)[:] = rng.normal(0, 1, (ROWS, WIDTH))
    for weights, _ in layers_of(flat):
        weights[:] = rng.normal(0, np.sqrt(2 / weights.shape[1]), weights.shape)
    return flat
