"""Training of the dispatch networks, by Adam on their complete domain.

The same seed gives the same weights on the same machine; another one's linear algebra may round otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kvrm.isa.execution import CELLS, classes, words_of
from kvrm.neural import dispatch_baseline as baseline
from kvrm.neural import dispatch_network as network
from kvrm.neural.adam import Adam, rate_at
from kvrm.neural.dispatch_host import HostNetwork
from kvrm.neural.dispatch_network import WIDTH
from kvrm.neural.layers import add_rows, softmax
from kvrm.neural.weights import Floats

BATCH = 2048
POOL = 1 << 14
"""Three quarters of a batch come from the cells with the least lead, at least this many."""
EASY = 3.0
"""A lead with which a cell leaves the pool."""
LEAD = 2.0
"""Training ends when no cell leads by less."""
LOOK = 500
"""Steps between two evaluations of all cells."""
WARM_UP = 500
RATE, LAST_RATE = 6e-3, 1e-5
BASELINE_STEPS, BASELINE_RATE = 20_000, 1e-2

Report = Callable[[int, int, float], None]
"""Told at each evaluation: steps, cells that are wrong, least lead."""


def train(seed: int, steps: int, report: Report) -> Floats:
    """Parameters of Dispatch-10,279 after at most `steps` steps, or once all cells are right with a lead."""
    rng = np.random.default_rng(seed)
    flat = network.random_weights(seed)
    network.layers_of(flat)[0][0][:, :WIDTH] = np.eye(WIDTH)
    adam, wanted = Adam(flat), classes()
    words = words_of(np.arange(CELLS, dtype=np.uint32))
    for step in range(steps + 1):
        if step % LOOK == 0:
            lead = leads(flat)
            report(step, int((lead <= 0).sum()), float(lead.min()))
            if lead.min() > LEAD or step == steps:
                break
            pool = np.flatnonzero(lead < EASY)
            if len(pool) < POOL:
                pool = np.argpartition(lead, POOL)[:POOL]
        hard = pool[rng.integers(0, len(pool), 3 * BATCH // 4)]
        cells = np.concatenate([rng.integers(0, CELLS, BATCH // 4), hard])
        adam.step(
            gradient_of(flat, words[cells], wanted[cells]), rate_at(step, steps, RATE, LAST_RATE, WARM_UP)
        )
    return flat


def leads(flat: Floats) -> Floats:
    """For each cell by how much the right output leads (float32); not above zero where it is wrong."""
    chosen, margins = HostNetwork(flat).decide(words_of(np.arange(CELLS, dtype=np.uint32)))
    return np.where(chosen == classes(), margins, -margins)


def gradient_of(flat: Floats, words: npt.NDArray[np.uint32], wanted: npt.NDArray[np.uint8]) -> Floats:
    """Of the mean cross-entropy of the batch, in the layout of the parameters."""
    gradient = np.zeros_like(flat)
    layers, slopes = network.layers_of(flat), network.layers_of(gradient)
    values = [network.inputs_of(words, flat)]
    for number, (weights, biases) in enumerate(layers):
        sums = values[-1] @ weights.T + biases
        values.append(sums if number == len(layers) - 1 else np.maximum(sums, 0))
    error = softmax(values.pop())
    error[np.arange(len(words)), wanted] -= 1
    error /= len(words)
    for number in reversed(range(len(layers))):
        slopes[number][0][:], slopes[number][1][:] = error.T @ values[number], error.sum(axis=0)
        error = error @ layers[number][0]
        if number:
            error *= values[number] > 0
    add_rows(network.embedding_of(gradient), words >> np.uint32(24), error[:, :WIDTH])
    return gradient


def train_baseline(seed: int) -> Floats:
    """Parameters of Dispatch-135, which sees 256 different inputs: all of them in every step."""
    flat = np.random.default_rng(seed).normal(0, 0.5, baseline.COUNT)
    counts = [np.bincount(row, minlength=baseline.OUTPUTS) for row in classes().reshape(256, -1)]
    shares = np.stack(counts) / CELLS
    adam, gradient = Adam(flat), np.zeros_like(flat)
    parts, slopes = baseline.parts_of(flat), baseline.parts_of(gradient)
    for step in range(BASELINE_STEPS):
        hidden, outputs = baseline.outputs_of(parts)
        error = softmax(outputs) / len(outputs) - shares
        slopes[2][:], slopes[3][:] = error.T @ hidden, error.sum(axis=0)
        error = (error @ parts[2]) * (1 - hidden * hidden)
        slopes[0][:], slopes[1][:] = error.T @ baseline.BYTES, error.sum(axis=0)
        adam.step(gradient, BASELINE_RATE * (1 - step / BASELINE_STEPS))
    return flat.astype(np.float32)
