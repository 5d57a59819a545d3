"""The memory network: its shape, its flat layout, what it reads of a site, and its arithmetic in NumPy.

Ten numbers for each of a site's last WINDOW accesses go through an encoder, 10-64-64 with ReLU, and two
layers of LSTM, 64-128 and 128-128. What the second one says at the end, with sixteen bits about the
instruction, goes through 192 hidden numbers to 28: one for each of CONFIGS, one for each of PAGES. It never
sees where the instruction or its data are, only steps between addresses.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvrm.caches.cache import LINE, LINE_SHIFT
from kvrm.caches.rewards import PAGES
from kvrm.caches.sites import CONFIGS, Policy, Questions, window_stride
from kvrm.neural import weights
from kvrm.neural.layers import Parts, linear, sigmoid
from kvrm.neural.weights import Floats

INPUTS, ENCODED, STATE, FIELDS, HIDDEN = 10, 64, 128, 16, 192
OUTPUTS = len(CONFIGS) + len(PAGES)
SHAPES: dict[str, tuple[int, ...]] = {
    "encoder1.weight": (ENCODED, INPUTS),
    "encoder1.bias": (ENCODED,),
    "encoder2.weight": (ENCODED, ENCODED),
    "encoder2.bias": (ENCODED,),
    "lstm1.weight": (4 * STATE, ENCODED + STATE),
    "lstm1.bias": (4 * STATE,),
    "lstm2.weight": (4 * STATE, STATE + STATE),
    "lstm2.bias": (4 * STATE,),
    "hidden.weight": (HIDDEN, STATE + FIELDS),
    "hidden.bias": (HIDDEN,),
    "outputs.weight": (OUTPUTS, HIDDEN),
    "outputs.bias": (OUTPUTS,),
}
"""In the order of the flat array. An LSTM's rows are its gates, STATE each: input, forget, output, candidate;
its columns are what comes in, then its own last output."""
COUNT = sum(int(np.prod(shape)) for shape in SHAPES.values())
NAME = f"memory-{COUNT}"


def parts_of(flat: Floats) -> Parts:
    """Views of COUNT parameters by name."""
    return weights.parts_of(flat, SHAPES)


def random_weights(seed: int) -> Floats:
    """COUNT parameters drawn as training begins, reproducible by `seed`."""
    rng = np.random.default_rng(seed)
    flat = np.zeros(COUNT, np.float32)
    for name, part in parts_of(flat).items():
        if part.ndim == 2:
            gain = 1.0 if name.startswith("lstm") else 2.0
            part[:] = rng.normal(0, np.sqrt(gain / part.shape[1]), part.shape)
    for name in ("lstm1.bias", "lstm2.bias"):
        parts_of(flat)[name][STATE : 2 * STATE] = 1  # remember, at first
    return flat


# -- what it reads -----------------------------------------------------------------------------------------


def accesses_of(q: Questions) -> Floats:
    """Ten numbers for each access (n, WINDOW, 10); those about steps are 0 for the first."""
    steps = np.diff(q.address, axis=1, prepend=q.address[:, :1])
    before = np.concatenate([np.zeros_like(steps[:, :1]), steps[:, :-1]], axis=1)
    gaps = np.diff(q.retired, axis=1, prepend=q.retired[:, :1])
    lines = q.address >> LINE_SHIFT
    again = np.tril(lines[:, :, None] == lines[:, None, :], -1).any(axis=2)
    usual, _ = window_stride(q)
    columns = [
        np.sign(steps) * np.log2(1 + abs(steps)) / 16,
        steps == before,
        abs(steps) < LINE,
        steps == 0,
        np.log2(1 + gaps) / 16,
        q.missed != 0,
        steps == usual[:, None],
        steps % LINE == 0,
        again,
        (steps > 0).astype(np.float32) - (steps < 0),
    ]
    return np.stack([np.asarray(c, np.float32) for c in columns], axis=2)


def fields_of(words: npt.NDArray[np.uint32]) -> Floats:
    """Sixteen bits about a load or store instruction (n, 16), of its encoding (Arm ARM C4.1.66)."""
    rt, rn, rm = words & 31, words >> 5 & 31, words >> 16 & 31
    pair = (words >> 27 & 7 == 0b101) & (words >> 25 & 1 == 0)
    single = words >> 27 & 7 == 0b111
    unsigned = single & (words >> 24 & 3 == 1)
    register = single & (words >> 24 & 3 == 0) & (words >> 21 & 1 == 1) & (words >> 10 & 3 == 2)
    indexed = single & (words >> 24 & 3 == 0) & (words >> 21 & 1 == 0) & (words >> 10 & 1 == 1)
    moving = indexed | pair & (words >> 23 & 1 == 1)
    load = words >> 22 & 1 == 1
    columns = [
        load,
        pair,
        single,
        unsigned,
        register,
        moving,
        words >> 26 & 1 == 1,
        words >> 30 & 1 == 1,
        words >> 31 & 1 == 1,
        load & (rt == rn),
        rn == 31,
        rn == 29,
        unsigned & (words >> 10 & 0xFFF == 0),
        register & (words >> 12 & 1 == 1),
        register & (rm == rt),
        words >> 23 & 1 == 1,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


# -- arithmetic --------------------------------------------------------------------------------------------


def lstm(p: Parts, name: str, inputs: Floats) -> list[tuple[Floats, ...]]:
    """For each step of inputs (n, steps, width): what came in, gates after their functions, cell, output."""
    output = cell = np.zeros((len(inputs), STATE), np.float32)
    steps: list[tuple[Floats, ...]] = []
    for t in range(inputs.shape[1]):
        came = np.concatenate([inputs[:, t], output], axis=1)
        sums = linear(p, name, came)
        gates, candidate = sigmoid(sums[:, : 3 * STATE]), np.tanh(sums[:, 3 * STATE :])
        old = cell
        cell = gates[:, STATE : 2 * STATE] * old + gates[:, :STATE] * candidate
        output = gates[:, 2 * STATE :] * np.tanh(cell)
        steps.append((came, gates, candidate, old, cell, output))
    return steps


def outputs_of(flat: Floats, accesses: Floats, fields: Floats) -> Floats:
    """The last numbers (n, OUTPUTS) for what `accesses_of` and `fields_of` give."""
    p = parts_of(flat)
    encoded = np.maximum(linear(p, "encoder1", accesses), 0)
    encoded = np.maximum(linear(p, "encoder2", encoded), 0)
    first = np.stack([step[-1] for step in lstm(p, "lstm1", encoded)], axis=1)
    last = lstm(p, "lstm2", first)[-1][-1]
    together = np.concatenate([last, fields], axis=1)
    hidden = np.maximum(linear(p, "hidden", together), 0)
    return linear(p, "outputs", hidden)


def answers_of(flat: Floats, q: Questions) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Of each site: its config, and the page that it goes to next (an index of PAGES)."""
    outputs = outputs_of(flat, accesses_of(q), fields_of(q.words))
    return outputs[:, : len(CONFIGS)].argmax(axis=1), outputs[:, len(CONFIGS) :].argmax(axis=1)


def policy_of(flat: Floats) -> Policy:
    """The policy that these parameters are."""
    return lambda q: answers_of(flat, q)[0]


def shipped(directory: Path = weights.SHIPPED) -> Policy:
    """The policy of the weights that ship, or of those in a directory."""
    return named(NAME, directory)


def named(name: str, directory: Path) -> Policy:
    return policy_of(weights.load(name, COUNT, directory))


def random_policy(seed: int = 0) -> Policy:
    return policy_of(random_weights(seed))
