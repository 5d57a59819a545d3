"""Training of the memory network by Adam, from examples (`kvrm.caches.rewards`).

Its outputs for configs are what each is worth, as a share of the greatest time at stake there. That is
a regression: a site that could be one of several gets what is good on average. Those for pages are logits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kvrm.caches.rewards import PAGES, Examples
from kvrm.caches.sites import CONFIGS
from kvrm.neural.adam import Adam, rate_at
from kvrm.neural.layers import Parts, linear, linear_back
from kvrm.neural.memory_network import (
    COUNT,
    HIDDEN,
    INPUTS,
    STATE,
    accesses_of,
    answers_of,
    fields_of,
    lstm,
    parts_of,
    random_weights,
)
from kvrm.neural.weights import Floats

BATCH = 256
RATE, LAST_RATE, WARM_UP = 2e-4, 1e-5, 30
DECAY = 1e-4
"""Of the weights, in each step."""
LOOK = 25
"""Steps between two looks at the examples that are kept apart."""
DROPPED = 0.3
"""Of the hidden numbers, left out at random while training."""
MOST = 3e4
"""Millionths of the time at stake at a site, above which it weighs no more."""
PAGE_SHARE = 0.2
"""Weight of the pages' part of the loss."""
CLIP = 1.0
"""Longest gradient."""

ALL = np.float32(1)
Report = Callable[[int, float], None]
"""Told now and then: steps, and what the answers about the later examples are worth."""


def targets_of(e: Examples) -> tuple[Floats, Floats]:
    """What the outputs should be (n, OUTPUTS): worth of configs, -1 to 1, and the page; and weights (n).

    A site weighs by the time that there is to gain or to lose.
    """
    most = np.abs(e.rewards).max(axis=1, keepdims=True)
    weights = np.minimum(most[:, 0], MOST)
    wanted = np.concatenate([e.rewards / np.maximum(most, 1e-9), np.eye(len(PAGES))[e.pages]], axis=1)
    return wanted.astype(np.float32), (weights / max(weights.mean(), 1e-9)).astype(np.float32)


def train(seed: int, steps: int, examples: Examples, later: Examples, report: Report) -> Floats:
    """The parameters of the steps that did best on `later` examples, which are tried now and then.

    It begins with the same answer for all sites, that which is best on average.
    """
    rng, flat = np.random.default_rng(seed), random_weights(seed)
    adam = Adam(flat)
    columns = (accesses_of(examples.questions), fields_of(examples.questions.words), *targets_of(examples))
    parts_of(flat)["outputs.weight"][:] = 0
    parts_of(flat)["outputs.bias"][: len(CONFIGS)] = np.average(
        columns[2][:, : len(CONFIGS)], axis=0, weights=columns[3]
    )
    often, same = columns[3] / columns[3].sum(dtype=np.float64), np.ones(BATCH, np.float32)
    best, found = -np.inf, flat
    for step in range(steps + 1):
        if step % LOOK == 0 or step == steps:
            share = share_of_best(flat, later)
            report(step, share)
            if share > best:
                best, found = share, flat.copy()
        rows = rng.choice(len(examples), BATCH, p=often)
        accesses, fields, wanted = (column[rows] for column in columns[:3])
        accesses *= kept(rng, (BATCH, 1, INPUTS), 0.1)
        mask = kept(rng, (BATCH, HIDDEN), DROPPED) / np.float32(1 - DROPPED)
        gradient, _ = gradient_of(flat, accesses, fields, wanted, same, mask)
        rate = rate_at(step, steps, RATE, LAST_RATE, WARM_UP)
        flat *= np.float32(1 - rate / RATE * DECAY)
        adam.step(clipped(gradient), rate)
    return found


def share_of_best(flat: Floats, examples: Examples) -> float:
    """What the network's answers are worth, of what the best ones are; no site counts for more than MOST."""
    chosen, _ = answers_of(flat, examples.questions)
    rewards = np.clip(examples.rewards, -MOST, MOST)
    return float(rewards[np.arange(len(examples)), chosen].sum() / rewards.max(axis=1).sum())


def kept(rng: np.random.Generator, shape: tuple[int, ...], dropped: float) -> Floats:
    """Ones, and zeros for the share that is dropped."""
    return (rng.random(shape) >= dropped).astype(np.float32)


def clipped(gradient: Floats) -> Floats:
    """The gradient, no longer than CLIP."""
    length = float(np.sqrt((gradient.astype(np.float64) ** 2).sum()))
    return gradient * np.float32(min(1.0, CLIP / max(length, 1e-12)))


def gradient_of(
    flat: Floats,
    accesses: Floats,
    fields: Floats,
    wanted: Floats,
    weights: Floats,
    mask: Floats | np.float32 = ALL,
) -> tuple[Floats, float]:
    """Of the mean weighted loss, in the layout of the parameters; and that loss.

    The hidden numbers are multiplied by `mask` (n, HIDDEN).
    """
    p, gradient = parts_of(flat), np.zeros(COUNT, np.float32)
    g = parts_of(gradient)
    one = np.maximum(linear(p, "encoder1", accesses), 0)
    two = np.maximum(linear(p, "encoder2", one), 0)
    steps1 = lstm(p, "lstm1", two)
    steps2 = lstm(p, "lstm2", np.stack([s[-1] for s in steps1], axis=1))
    joint = np.concatenate([steps2[-1][-1], fields], axis=1)
    hidden = np.maximum(linear(p, "hidden", joint), 0) * mask
    error, loss = _error(linear(p, "outputs", hidden), wanted, weights)
    error = linear_back(p, "outputs", hidden, error, g) * (hidden > 0) * mask
    error = linear_back(p, "hidden", joint, error, g)[:, :STATE]
    later = np.zeros((len(fields), accesses.shape[1], STATE), np.float32)
    later[:, -1] = error
    later = _through_time(g, p, "lstm2", steps2, later)
    later = _through_time(g, p, "lstm1", steps1, later) * (two > 0)
    later = linear_back(p, "encoder2", one, later, g) * (one > 0)
    linear_back(p, "encoder1", accesses, later, g)
    return gradient, loss


def _error(outputs: Floats, wanted: Floats, weights: Floats) -> tuple[Floats, float]:
    """The slope of the loss at the outputs, and the loss: squares for configs, cross-entropy for pages."""
    error, count = np.zeros_like(outputs), len(CONFIGS)
    scale = (weights / np.float32(len(outputs)))[:, None]
    off = outputs[:, :count] - wanted[:, :count]
    error[:, :count] = 2 * scale * off
    raised = outputs[:, count:] - outputs[:, count:].max(axis=1, keepdims=True)
    logs = raised - np.log(np.exp(raised).sum(axis=1, keepdims=True))
    error[:, count:] = PAGE_SHARE * scale * (np.exp(logs) - wanted[:, count:])
    loss = (scale * off * off).sum() - PAGE_SHARE * (scale * wanted[:, count:] * logs).sum()
    return error, float(loss)


def _through_time(
    g: Parts, p: Parts, name: str, steps: list[tuple[Floats, ...]], errors: npt.NDArray[np.float32]
) -> Floats:
    """Back through an LSTM: from the errors of its outputs (n, steps, STATE) to those of its inputs."""
    width = steps[0][0].shape[1] - STATE
    back = np.zeros((errors.shape[0], len(steps), width), np.float32)
    output = cell = np.zeros((errors.shape[0], STATE), np.float32)
    for t in reversed(range(len(steps))):
        came, gates, candidate, old, new, _ = steps[t]
        i, f, o = gates[:, :STATE], gates[:, STATE : 2 * STATE], gates[:, 2 * STATE :]
        shown = np.tanh(new)
        error = errors[:, t] + output
        cell = cell + error * o * (1 - shown * shown)
        sums = np.concatenate(
            [
                cell * candidate * i * (1 - i),
                cell * old * f * (1 - f),
                error * shown * o * (1 - o),
                cell * i * (1 - candidate * candidate),
            ],
            axis=1,
        )
        cell = cell * f
        came_error = linear_back(p, name, came, sums, g)
        back[:, t], output = came_error[:, :width], came_error[:, width:]
    return back
