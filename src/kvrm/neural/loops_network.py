"""Loops-1.08M: its shape, its flat layout, and what it computes of loop bodies.

Each word's 32 bits go through three layers, and embeddings of the three register fields are added. Two
bidirectional LSTM layers of 128 read the body. A register's context is the sum of what they say where it is
named, for each field apart; it is scored as counter, step and bound. The last states give the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvrm.loops.sites import Body
from kvrm.loops.structure import CONDITIONS, Bound, Effect, Structure
from kvrm.neural import weights
from kvrm.neural.layers import Parts, linear, sigmoid
from kvrm.neural.weights import Floats

NAME = "loops-1.08m"
BITS, WIDE, MIDDLE, WIDTH, HIDDEN = 32, 768, 256, 128, 128
BOTH = 2 * HIDDEN
CONTEXT, POOLED, REGISTERS = 108, 256, 32
FIELDS = (0, 5, 16)
"""Where register fields begin: Rd or Rt, Rn, Rm."""
HEADS = {"propose": 2, "counted": 2, "bound": 3, "condition": len(CONDITIONS), "effect": len(Effect)}
POINTERS = ("counter", "step", "bound_register")
OUTPUTS = sum(HEADS.values()) + len(POINTERS)

SHAPES: dict[str, tuple[int, ...]] = {
    "bits.weight": (WIDE, BITS),
    "bits.bias": (WIDE,),
    "middle.weight": (MIDDLE, WIDE),
    "middle.bias": (MIDDLE,),
    "word.weight": (WIDTH, MIDDLE),
    "word.bias": (WIDTH,),
    "fields": (len(FIELDS), REGISTERS, WIDTH),
    **{
        f"lstm{layer}.{way}.{name}": shape
        for layer, inputs in ((0, WIDTH), (1, BOTH))
        for way in ("forward", "backward")
        for name, shape in (
            ("inputs", (4 * HIDDEN, inputs)),
            ("states", (4 * HIDDEN, HIDDEN)),
            ("input_bias", (4 * HIDDEN,)),
            ("state_bias", (4 * HIDDEN,)),
        )
    },
    "context.weight": (CONTEXT, len(FIELDS) * BOTH),
    "context.bias": (CONTEXT,),
    "pointers.weight": (len(POINTERS), CONTEXT),
    "pointers.bias": (len(POINTERS),),
    "pooled.weight": (POOLED, BOTH),
    "pooled.bias": (POOLED,),
    "heads.weight": (OUTPUTS, POOLED),
    "heads.bias": (OUTPUTS,),
}
"""Every array, in the order of the flat layout. The gates of an LSTM are input, forget, cell, output."""
COUNT = sum(int(np.prod(shape)) for shape in SHAPES.values())


def parts_of(flat: Floats) -> Parts:
    """The arrays, views of COUNT parameters."""
    return weights.parts_of(flat, SHAPES)


def random_weights(seed: int) -> Floats:
    """COUNT parameters drawn as training begins, reproducible by `seed`."""
    rng, flat = np.random.default_rng(seed), np.zeros(COUNT, np.float32)
    for name, part in parts_of(flat).items():
        if name == "fields":
            part[:] = rng.normal(0, 0.3, part.shape)
        elif part.ndim == 2:
            part[:] = rng.normal(0, np.sqrt((1 if "lstm" in name else 2) / part.shape[1]), part.shape)
        elif name.endswith("input_bias"):
            part[HIDDEN : 2 * HIDDEN] = 1
    return flat


@dataclass(slots=True)
class Batch:
    """Bodies side by side, first words first: words (n, t) of uint32, and which of them there are (n, t)."""

    words: Any
    mask: Any

    @property
    def bits(self) -> Floats:
        """The words' bits (n, t, 32), lowest first."""
        bits: Floats = (self.words[..., None] >> np.arange(BITS, dtype=np.uint32) & 1).astype(np.float32)
        return bits

    @property
    def registers(self) -> Any:
        """The numbers in the register fields (3, n, t)."""
        return np.stack([self.words >> np.uint32(low) & np.uint32(31) for low in FIELDS]).astype(np.int64)


def batch_of(bodies: Sequence[Body]) -> Batch:
    """A batch, padded to its longest body."""
    longest = max(map(len, bodies))
    words = np.zeros((len(bodies), longest), np.uint32)
    for row, body in zip(words, bodies, strict=True):
        row[: len(body)] = body
    lengths = np.array([len(body) for body in bodies])
    return Batch(words, (np.arange(longest) < lengths[:, None]).astype(np.float32))


def forward(p: Parts, batch: Batch) -> tuple[Floats, Floats, dict[str, Any]]:
    """Outputs of the heads (n, OUTPUTS), scores of registers (n, 32, 3), and what training needs again."""
    kept: dict[str, Any] = {"bits": batch.bits, "registers": batch.registers, "mask": batch.mask}
    kept["wide"] = np.maximum(linear(p, "bits", kept["bits"]), 0)
    kept["middle"] = np.maximum(linear(p, "middle", kept["wide"]), 0)
    x = linear(p, "word", kept["middle"])
    for field, numbers in zip(p["fields"], kept["registers"], strict=True):
        x = x + field[numbers]
    for layer in range(2):
        ways = [_lstm(p, f"lstm{layer}.{way}", x, batch.mask, kept) for way in ("forward", "backward")]
        x = np.concatenate(ways, axis=2)
    kept["read"] = x
    kept["named"] = _named(x, kept["registers"], batch.mask)
    kept["context"] = np.maximum(linear(p, "context", kept["named"]), 0)
    scores = linear(p, "pointers", kept["context"])
    last = batch.mask.sum(axis=1).astype(int) - 1
    kept["last"] = last
    ends = np.concatenate([x[np.arange(len(x)), last, :HIDDEN], x[:, 0, HIDDEN:]], axis=1)
    kept["ends"] = ends
    kept["pooled"] = np.maximum(linear(p, "pooled", ends), 0)
    return linear(p, "heads", kept["pooled"]), scores, kept


def _named(x: Floats, registers: Any, mask: Floats) -> Floats:
    """For each register the sums of `x` (n, t, 256) where each field names it: (n, 32, 768)."""
    chosen = (registers[..., None] == np.arange(REGISTERS)) * mask[None, :, :, None]
    return np.concatenate(
        [np.einsum("ntr,nth->nrh", c, x, optimize=True) for c in chosen.astype(np.float32)], 2
    )


def _lstm(p: Parts, name: str, x: Floats, mask: Floats, kept: dict[str, Any]) -> Floats:
    """States (n, t, 128) of one direction; padding leaves them as they are."""
    n, length, _ = x.shape
    order = range(length) if name.endswith("forward") else range(length - 1, -1, -1)
    bias = p[f"{name}.input_bias"] + p[f"{name}.state_bias"]
    inputs = x @ p[f"{name}.inputs"].T + bias
    h, c = np.zeros((n, HIDDEN), x.dtype), np.zeros((n, HIDDEN), x.dtype)
    out, steps = np.zeros((n, length, HIDDEN), x.dtype), []
    for t in order:
        gates = inputs[:, t] + h @ p[f"{name}.states"].T
        i, f, o = (sigmoid(gates[:, k * HIDDEN : (k + 1) * HIDDEN]) for k in (0, 1, 3))
        g = np.tanh(gates[:, 2 * HIDDEN : 3 * HIDDEN])
        m = mask[:, t, None]
        new = f * c + i * g
        squashed = np.tanh(new)
        steps.append((t, h, c, i, f, g, o, squashed, m))
        h, c = m * o * squashed + (1 - m) * h, m * new + (1 - m) * c
        out[:, t] = h
    kept[name] = (x, steps)
    return out


class Network:
    """The network with these parameters, COUNT of float32, as a policy."""

    def __init__(self, flat: Floats) -> None:
        if flat.dtype != np.float32 or flat.shape != (COUNT,):
            raise ValueError(f"{COUNT} parameters of float32, not {flat.shape} of {flat.dtype}")
        self._parts = parts_of(np.ascontiguousarray(flat))

    def __call__(self, bodies: Sequence[Body]) -> list[Structure | None]:
        outputs, scores, _ = forward(self._parts, batch_of(bodies))
        return structures_of(outputs, scores)


def split(outputs: Floats) -> dict[str, Floats]:
    """The outputs of each head, and of "none" for the three pointers."""
    found, at = {}, 0
    for name, size in (*HEADS.items(), ("none", len(POINTERS))):
        found[name] = outputs[:, at : at + size]
        at += size
    return found


def pointed(scores: Floats, none: Floats) -> Floats:
    """Scores of each pointer (n, 3, 33): 32 registers, and none of them."""
    return np.concatenate([scores.transpose(0, 2, 1), none[:, :, None]], axis=2)


def structures_of(outputs: Floats, scores: Floats) -> list[Structure | None]:
    """The likeliest structures; None where nothing is proposed."""
    heads = split(outputs)
    chosen = {name: heads[name].argmax(axis=1).tolist() for name in HEADS}
    registers = pointed(scores, heads["none"]).argmax(axis=2).tolist()
    names = list(HEADS)
    return [
        structure_of([*(chosen[name][row] for name in names), *registers[row]]) for row in range(len(outputs))
    ]


def structure_of(labels: Sequence[int]) -> Structure | None:
    """What choices of each head, then each pointer, say; None where nothing is proposed."""
    propose, counted, bound, condition, effect, counter, step, register = labels
    if not propose:
        return None
    return Structure(
        bool(counted),
        _register(counter),
        _register(step),
        Bound(bound),
        _register(register),
        CONDITIONS[condition],
        Effect(effect),
    )


def _register(pointer: int) -> int | None:
    """A register's number: field value 31 is SP, for the zero register counts nothing."""
    return None if pointer == REGISTERS else 32 if pointer == 31 else pointer


def labels_of(structure: Structure | None) -> list[int]:
    """What each head, then each pointer, should choose; -1 where it does not matter."""
    if structure is None:
        return [0, -1, -1, -1, -1, -1, -1, -1]
    s = structure
    pointers = [_pointer(r) for r in (s.counter, s.step, s.bound_register)]
    return [1, int(s.counted), int(s.bound), CONDITIONS.index(s.condition), int(s.effect), *pointers]


def _pointer(register: int | None) -> int:
    return REGISTERS if register is None else min(register, 31)


def shipped(directory: Path = weights.SHIPPED) -> Network:
    """The policy of the weights that ship, or of those in a directory."""
    return Network(weights.load(NAME, COUNT, directory))


def random_policy(seed: int = 0) -> Network:
    return Network(random_weights(seed))
