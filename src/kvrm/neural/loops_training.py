"""Training of Loops-1.08M, by Adam on loops that the analyser has labelled.

The same seed gives the same weights on the same machine; another one's linear algebra may round otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kvrm.isa.a64 import decode
from kvrm.neural.adam import Adam, rate_at
from kvrm.neural.layers import Parts, linear_back, softmax
from kvrm.neural.loops_network import (
    BOTH,
    COUNT,
    FIELDS,
    HEADS,
    HIDDEN,
    POINTERS,
    REGISTERS,
    Batch,
    forward,
    parts_of,
    pointed,
    random_weights,
    split,
)
from kvrm.neural.weights import Floats

BATCH = 64
RATE, LAST_RATE, WARM_UP = 1e-3, 2e-5, 100
LARGEST_GRADIENT = 1.0
LOOK = 100
"""Steps between two reports."""

Report = Callable[[int, float], None]
"""Told now and then: steps, and the mean loss since the last time."""


PLACES = (0, 5, 10, 16)
"""Where five bits may be a register."""


def train(words: Any, mask: Any, labels: Any, seed: int, steps: int, report: Report) -> Floats:
    """Parameters after `steps` steps on bodies, words and mask (n, t), with labels (n, 8).

    A batch is of bodies of similar length, so that little of it is padding, with registers renamed at random.
    """
    rng, flat = np.random.default_rng(seed), random_weights(seed)
    adam, gradient, losses = Adam(flat), np.zeros(COUNT, np.float32), []
    lengths, named = mask.sum(axis=1).astype(int), names_registers(words)
    order = np.argsort(lengths + rng.random(len(lengths)), kind="stable")
    for step in range(1, steps + 1):
        first = int(rng.integers(0, max(1, len(order) - BATCH)))
        rows = order[first : first + BATCH]
        longest = int(lengths[rows].max())
        renamed, wanted = rename(words[rows, :longest], named[rows, :longest], labels[rows], rng)
        batch = Batch(renamed, mask[rows, :longest])
        gradient[:] = 0
        losses.append(gradient_of(parts_of(flat), batch, wanted, parts_of(gradient)))
        size = float(np.sqrt((gradient * gradient).sum()))
        gradient *= min(1.0, LARGEST_GRADIENT / (size + 1e-9))
        adam.step(gradient, rate_at(step, steps, RATE, LAST_RATE, WARM_UP))
        if step % LOOK == 0 or step == steps:
            report(step, float(np.mean(losses)))
            losses.clear()
    return flat


def names_registers(words: Any) -> Any:
    """Which of the PLACES of each word (n, t) are registers: (n, t, 4)."""
    different, back = np.unique(words, return_inverse=True)
    rows = np.zeros((len(different), len(PLACES)), bool)
    for row, word in zip(rows, different.tolist(), strict=True):
        d = decode(word)
        fields = () if d is None else d.definition.diagram.fields
        low = {f.low for f in fields if f.name.startswith("R") and f.width == 5}
        row[:] = [place in low for place in PLACES]
    return rows[back.reshape(words.shape)]


def rename(words: Any, named: Any, labels: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Bodies with other registers, a permutation for each, and the labels that are right then."""
    others = np.stack([rng.permutation(31) for _ in range(len(words))])
    table = np.concatenate([others, np.full((len(words), 1), 31)], axis=1).astype(np.uint32)
    renamed = words.copy()
    for k, low in enumerate(PLACES):
        register = words >> np.uint32(low) & np.uint32(31)
        new = np.take_along_axis(table, register.astype(np.int64), axis=1)
        changed = words & ~np.uint32(31 << low) | new << np.uint32(low)
        renamed = np.where(
            named[:, :, k], renamed & ~np.uint32(31 << low) | changed & np.uint32(31 << low), renamed
        )
    wanted = labels.copy()
    pointers = wanted[:, len(HEADS) :]
    known = (pointers >= 0) & (pointers < 31)
    new = np.take_along_axis(table.astype(int), np.where(known, pointers, 0), axis=1)
    wanted[:, len(HEADS) :] = np.where(known, new, pointers)
    return renamed, wanted


def gradient_of(p: Parts, batch: Batch, labels: Any, into: Parts) -> float:
    """Add the gradient of the batch's mean loss to `into`; that loss, the sum of cross-entropies."""
    outputs, scores, kept = forward(p, batch)
    heads = split(outputs)
    loss, slopes = 0.0, np.zeros_like(outputs)
    slices = split(slopes)
    for column, name in enumerate(HEADS):
        loss += _entropy(heads[name], labels[:, column], slices[name])
    pointers = pointed(scores, heads["none"])
    pointer_slopes = np.zeros_like(pointers)
    for k in range(len(POINTERS)):
        loss += _entropy(pointers[:, k], labels[:, len(HEADS) + k], pointer_slopes[:, k])
    slices["none"] += pointer_slopes[:, :, REGISTERS]
    _back(p, batch, kept, slopes, pointer_slopes[:, :, :REGISTERS].transpose(0, 2, 1), into)
    return loss


def _entropy(values: Floats, wanted: Any, slope: Floats) -> float:
    """Cross-entropy over the batch; its slope is added. Labels of -1 do not count."""
    known = wanted >= 0
    share = softmax(values)
    rows, n = np.flatnonzero(known), len(values)
    loss = -np.log(share[rows, wanted[rows]] + 1e-12).sum() / n
    share[rows, wanted[rows]] -= 1
    slope += share * known[:, None] / n
    return float(loss)


def _back(p: Parts, batch: Batch, kept: dict[str, Any], slopes: Floats, scores: Floats, into: Parts) -> None:
    pooled = linear_back(p, "heads", kept["pooled"], slopes, into) * (kept["pooled"] > 0)
    ends = linear_back(p, "pooled", kept["ends"], pooled, into)
    context = linear_back(p, "pointers", kept["context"], scores, into) * (kept["context"] > 0)
    named = linear_back(p, "context", kept["named"], context, into)
    read = np.zeros_like(kept["read"])
    chosen = (kept["registers"][..., None] == np.arange(REGISTERS)) * batch.mask[None, :, :, None]
    for k in range(len(FIELDS)):
        mine = named[:, :, k * BOTH : (k + 1) * BOTH]
        read += np.einsum("ntr,nrh->nth", chosen[k].astype(np.float32), mine, optimize=True)
    read[np.arange(len(read)), kept["last"], :HIDDEN] += ends[:, :HIDDEN]
    read[:, 0, HIDDEN:] += ends[:, HIDDEN:]
    for layer in (1, 0):
        ways = ("forward", read[:, :, :HIDDEN]), ("backward", read[:, :, HIDDEN:])
        read = sum(_lstm_back(p, f"lstm{layer}.{way}", kept, slope, into) for way, slope in ways)
    read = read * batch.mask[:, :, None]
    for k in range(len(FIELDS)):
        np.add.at(into["fields"][k], kept["registers"][k].ravel(), read.reshape(-1, read.shape[-1]))
    middle = linear_back(p, "word", kept["middle"], read, into) * (kept["middle"] > 0)
    wide = linear_back(p, "middle", kept["wide"], middle, into) * (kept["wide"] > 0)
    linear_back(p, "bits", kept["bits"], wide, into)


def _lstm_back(p: Parts, name: str, kept: dict[str, Any], slope: Floats, into: Parts) -> Any:
    x, steps = kept[name]
    n = len(x)
    dh, dc = np.zeros((n, HIDDEN), x.dtype), np.zeros((n, HIDDEN), x.dtype)
    gates = np.zeros((n, x.shape[1], 4 * HIDDEN), x.dtype)
    for t, h, c, i, f, g, o, squashed, m in reversed(steps):
        dh = dh + slope[:, t]
        here, past = dh * m, dh * (1 - m)
        new = here * o * (1 - squashed * squashed) + dc * m
        gate = gates[:, t]
        gate[:, :HIDDEN] = new * g * i * (1 - i)
        gate[:, HIDDEN : 2 * HIDDEN] = new * c * f * (1 - f)
        gate[:, 2 * HIDDEN : 3 * HIDDEN] = new * i * (1 - g * g)
        gate[:, 3 * HIDDEN :] = here * squashed * o * (1 - o)
        into[f"{name}.states"] += gate.T @ h
        dc = new * f + dc * (1 - m)
        dh = gate @ p[f"{name}.states"] + past
    flat = gates.reshape(-1, 4 * HIDDEN)
    into[f"{name}.inputs"] += flat.T @ x.reshape(-1, x.shape[-1])
    total = flat.sum(axis=0)
    into[f"{name}.input_bias"] += total
    into[f"{name}.state_bias"] += total
    return gates @ p[f"{name}.inputs"]
