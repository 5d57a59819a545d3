"""Training of Patterns-508k by Adam on batches of known and other functions.

Known functions are few, so each is changed a little every time it is shown: registers that a function may use
as it likes change places, instructions are left out or change places with the next one, other fields are
hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kvrm.binary.labels import NONE, OUTPUTS
from kvrm.neural.adam import Adam
from kvrm.neural.layers import add_rows, softmax
from kvrm.neural.patterns_network import (
    GAP,
    TABLES,
    WIDTH,
    Sequences,
    Trace,
    neighbours,
    outputs_of,
    parts_of,
    probabilities,
    random_weights,
)
from kvrm.neural.weights import Floats

KNOWN, OTHER = 32, 48
"""Functions of a batch."""
LOOK, LOOKED_AT = 150, 3000
"""Steps between two looks for other functions that pass for known ones, and how many are looked at."""
HARDEST = 300
"""How many of them are shown more often."""
RATE, WARM_UP = 1.5e-3, 50
FREE = np.arange(3, 18)
"""Registers that change places: what a function may use and need not keep, less most arguments."""
DROPPED, SWAPPED, HIDDEN = 0.06, 0.08, 0.2
SMOOTHED = 0.05
"""How much of a label is spread over all of them, so that the network is not too sure."""

Report = Callable[[int, float], None]
"""Told after each look: steps, mean loss of the last ones."""


def train(
    sequences: Sequences, labels: npt.NDArray[np.uint8], seed: int, steps: int, report: Report
) -> Floats:
    """Parameters after `steps` steps on functions with these labels."""
    rng = np.random.default_rng(seed)
    flat = random_weights(seed)
    adam = Adam(flat)
    known, others = np.flatnonzero(labels != NONE), np.flatnonzero(labels == NONE)
    counts = np.bincount(labels[known], minlength=NONE)
    weights = 1 / counts[labels[known]]
    hard = others[:0]
    losses: list[float] = []
    for step in range(steps):
        if step % LOOK == 0 and step:
            report(step, float(np.mean(losses)))
            losses = []
            looked = rng.choice(others, min(LOOKED_AT, len(others)), replace=False)
            looked = np.union1d(looked, hard)
            sure = probabilities(flat, sequences.take(looked))[:, NONE]
            hard = looked[np.argsort(sure)[:HARDEST]]
        shown = np.concatenate(
            [
                rng.choice(known, KNOWN, p=weights / weights.sum()),
                rng.choice(others, OTHER // 2 if len(hard) else OTHER),
                rng.choice(hard, OTHER - OTHER // 2) if len(hard) else hard,
            ]
        )
        gradient, loss = gradient_of(flat, changed(sequences.take(shown), rng), labels[shown])
        losses.append(loss)
        adam.step(gradient, RATE * min(1, (step + 1) / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2)
    return flat


def changed(sequences: Sequences, rng: np.random.Generator) -> Sequences:
    """The same functions, each as another compiler might have written it."""
    tokens, lengths = sequences.tokens.copy(), np.diff(sequences.starts)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    places = np.tile(np.arange(33, dtype=np.int16), (len(lengths), 1))
    renamed = rng.random(len(lengths)) < 0.7
    places[:, FREE] = np.where(renamed[:, None], rng.permuted(places[:, FREE], axis=1), places[:, FREE])
    for column in (1, 2, 3):
        tokens[:, column] = places[owner, tokens[:, column]]
    tokens[rng.random(len(tokens)) < HIDDEN, 4] = 0
    order = np.arange(len(tokens)) + np.where(rng.random(len(tokens)) < SWAPPED, 1.5, 0)
    kept = rng.random(len(tokens)) >= DROPPED * (rng.random(len(lengths)) < 0.7)[owner]
    kept[sequences.starts[:-1]] = True
    order = np.lexsort((order, owner))
    order = order[kept[order]]
    return Sequences(tokens[order], np.concatenate([[0], np.cumsum(np.bincount(owner[kept]))]))


def gradient_of(flat: Floats, sequences: Sequences, wanted: npt.NDArray[np.uint8]) -> tuple[Floats, float]:
    """The gradient of the mean cross-entropy with smoothed labels, laid out as the parameters; that loss."""
    outputs, trace = outputs_of(flat, sequences)
    share = softmax(outputs)
    every = np.arange(len(wanted))
    logs = np.log(share + 1e-9)
    loss = float(-((1 - SMOOTHED) * logs[every, wanted] + SMOOTHED * logs.mean(axis=1)).mean())
    share -= SMOOTHED / OUTPUTS
    share[every, wanted] -= 1 - SMOOTHED
    gradient = np.zeros_like(flat)
    _backward(parts_of(flat), parts_of(gradient), trace, share / np.float32(len(wanted)))
    return gradient, loss


def _backward(parts: list[Floats], slopes: list[Floats], trace: Trace, error: Floats) -> None:
    layers, found = parts[len(TABLES) :], slopes[len(TABLES) :]
    embedded, one, two, pooled, hidden = trace.values
    found[6][:], found[7][:] = hidden.T @ error, error.sum(axis=0)
    error = (error @ layers[6].T) * (hidden > 0)
    found[4][:], found[5][:] = pooled.T @ error, error.sum(axis=0)
    error = error @ layers[4].T
    greatest, mean, bag = np.split(error[:, :-1], [two.shape[1], 2 * two.shape[1]], axis=1)
    spans = trace.lengths[:, None].astype(np.float32)
    owner = np.repeat(np.arange(len(trace.lengths)), trace.lengths)
    rows = trace.rows
    at_two = (mean / spans)[owner] + _of_greatest(two, pooled, greatest, trace, owner)
    at_one = _through(at_two * (two[rows] > 0), one, layers[2], found[2:4], 2, rows)
    at_embedded = _through(at_one * (one[rows] > 0), embedded, layers[0], found[0:2], 1, rows)
    at_embedded += (bag / spans)[owner]
    at = 0
    for number, (_, width) in enumerate(TABLES):
        add_rows(slopes[number], trace.tokens[:, number], at_embedded[:, at : at + width])
        at += width
    assert at == WIDTH


def _of_greatest(
    two: Floats, pooled: Floats, error: Floats, trace: Trace, owner: npt.NDArray[np.int64]
) -> Floats:
    """What reaches the instructions whose values are the greatest of their function; equal ones share it."""
    starts = trace.firsts - GAP * np.arange(1, len(trace.firsts) + 1)
    equal = (two[trace.rows] == pooled[owner, : two.shape[1]]).astype(np.float32)
    shared = np.divide(error, np.add.reduceat(equal, starts, axis=0), dtype=np.float32)
    reached: Floats = equal * shared[owner]
    return reached


def _through(
    error: Floats,
    values: Floats,
    weights: Floats,
    found: list[Floats],
    apart: int,
    rows: npt.NDArray[np.int64],
) -> Floats:
    """Back through a convolution: fills in `found`, and gives the error of its inputs."""
    found[0][:] = neighbours(values, apart)[rows].T @ error
    found[1][:] = error.sum(axis=0)
    around = np.zeros((len(values), 3, values.shape[1]), np.float32)
    around[rows] = (error @ weights.T).reshape(len(rows), 3, -1)
    back = around[:, 1]
    back[:-apart] += around[apart:, 0]
    back[apart:] += around[:-apart, 2]
    return back[rows]
