"""Training of Memory-270k by Adam, from examples (`kvrm.neural.memory.rewards`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kvrm.neural.memory.network import (
    COUNT,
    STATE,
    Parts,
    accesses_of,
    fields_of,
    lstm,
    parts_of,
    random_weights,
)
from kvrm.neural.memory.rewards import Examples
from kvrm.neural.memory.sites import CONFIGS
from kvrm.neural.network import Floats
from kvrm.neural.training import Adam

BATCH = 256
RATE, LAST_RATE, WARM_UP = 2e-3, 2e-5, 50
SHARPNESS = 12.0
"""How much more a config counts whose reward is the greatest one above."""
PAGE_SHARE = 0.2
"""Weight of the pages' part of the loss."""
CLIP = 1.0
"""Longest gradient."""

Report = Callable[[int, float], None]
"""Told now and then: steps, loss."""


def targets_of(e: Examples) -> tuple[Floats, Floats]:
    """What the outputs should share out (n, OUTPUTS; configs and pages each add up to 1), and weights (n).

    A site weighs by the logarithm of the cycles that there are to gain or to lose.
    """
    most = np.abs(e.rewards).max(axis=1, keepdims=True)
    raised = np.exp(SHARPNESS * (e.rewards - e.rewards.max(axis=1, keepdims=True)) / np.maximum(most, 1))
    pages = np.eye(4)[e.pages]
    weights = np.log2(1 + most[:, 0] / 100)
    shares = np.concatenate([raised / raised.sum(axis=1, keepdims=True), pages], axis=1)
    return shares.astype(np.float32), (weights / max(weights.mean(), 1e-9)).astype(np.float32)


def train(seed: int, steps: int, examples: Examples, report: Report) -> Floats:
    """Parameters of Memory-270k after so many steps."""
    rng, flat = np.random.default_rng(seed), random_weights(seed)
    adam = Adam(flat)
    accesses, fields = accesses_of(examples.questions), fields_of(examples.questions.words)
    shares, weights = targets_of(examples)
    for step in range(steps):
        rows = rng.integers(0, len(examples), BATCH)
        gradient, loss = gradient_of(flat, accesses[rows], fields[rows], shares[rows], weights[rows])
        adam.step(clipped(gradient), _rate(step, steps))
        if step % 100 == 0 or step == steps - 1:
            report(step + 1, loss)
    return flat


def clipped(gradient: Floats) -> Floats:
    """The gradient, no longer than CLIP."""
    length = float(np.sqrt((gradient.astype(np.float64) ** 2).sum()))
    return gradient * np.float32(min(1.0, CLIP / max(length, 1e-12)))


def _rate(step: int, steps: int) -> float:
    return RATE * min(1, step / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2 + LAST_RATE


def gradient_of(
    flat: Floats, accesses: Floats, fields: Floats, shares: Floats, weights: Floats
) -> tuple[Floats, float]:
    """Of the mean weighted cross-entropy, in the layout of the parameters; and that loss."""
    p, gradient = parts_of(flat), np.zeros(COUNT, np.float32)
    g = parts_of(gradient)
    one = np.maximum(accesses @ p["encoder1"].T + p["encoder1_bias"], 0)
    two = np.maximum(one @ p["encoder2"].T + p["encoder2_bias"], 0)
    steps1 = lstm(p["lstm1"], p["lstm1_bias"], two)
    steps2 = lstm(p["lstm2"], p["lstm2_bias"], np.stack([s[-1] for s in steps1], axis=1))
    joint = np.concatenate([steps2[-1][-1], fields], axis=1)
    hidden = np.maximum(joint @ p["hidden"].T + p["hidden_bias"], 0)
    error, loss = _error(hidden @ p["outputs"].T + p["outputs_bias"], shares, weights)
    error = _layer(g, p, "outputs", hidden, error) * (hidden > 0)
    error = _layer(g, p, "hidden", joint, error)[:, :STATE]
    later = np.zeros((len(fields), accesses.shape[1], STATE), np.float32)
    later[:, -1] = error
    later = _through_time(g, p, "lstm2", steps2, later)
    later = _through_time(g, p, "lstm1", steps1, later) * (two > 0)
    later = _layer(g, p, "encoder2", one, later) * (one > 0)
    _layer(g, p, "encoder1", accesses, later)
    return gradient, loss


def _error(outputs: Floats, shares: Floats, weights: Floats) -> tuple[Floats, float]:
    """The slope of the loss at the outputs, and the loss."""
    error, loss = np.zeros_like(outputs), 0.0
    for part, share in ((slice(len(CONFIGS)), 1.0), (slice(len(CONFIGS), None), PAGE_SHARE)):
        raised = outputs[:, part] - outputs[:, part].max(axis=1, keepdims=True)
        logs = raised - np.log(np.exp(raised).sum(axis=1, keepdims=True))
        scale = (share / len(outputs) * weights)[:, None]
        error[:, part] = scale * (np.exp(logs) - shares[:, part])
        loss -= float((scale * shares[:, part] * logs).sum())
    return error, loss


def _layer(g: Parts, p: Parts, name: str, came: Floats, error: Floats) -> Floats:
    """Add the slopes of a layer; the error of what came into it."""
    rows, errors = came.reshape(-1, came.shape[-1]), error.reshape(-1, error.shape[-1])
    g[name] += errors.T @ rows
    g[f"{name}_bias"] += errors.sum(axis=0)
    back: Floats = error @ p[name]
    return back


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
        came_error = _layer(g, p, name, came, sums)
        back[:, t], output = came_error[:, :width], came_error[:, width:]
    return back
