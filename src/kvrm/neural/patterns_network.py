"""Patterns-508k: an encoder over the instructions of a function, and what it makes of them.

Each of the first 160 instructions becomes 148 numbers: rows of seven embeddings, for its definition, its
target, base and second register, its other fields, the kind of branch, and the definitions of it and its
successor as a pair. Two convolutions over three instructions each follow, the second one over every other
instruction. The greatest and the mean values of the second over the function, the mean of the 148 numbers and
the logarithm of the length go through a hidden layer to one output for each known function and one for none.
ReLU is between layers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvrm.binary.encoding import KINDS, Encoded
from kvrm.binary.labels import OUTPUTS
from kvrm.binary.proposals import Policy
from kvrm.errors import UsageError
from kvrm.isa.a64 import definitions
from kvrm.neural.layers import softmax
from kvrm.neural.weights import SHIPPED, Floats, load, path_of, views_of

NAME = "patterns-508k"
LONGEST = 160
"""Instructions that the network reads of a function."""
TABLES = (384, 48), (33, 12), (33, 12), (33, 12), (512, 16), (KINDS, 8), (4096, 40)
"""Rows and numbers of each embedding, in the order of the columns of tokens; the last is for pairs."""
WIDTH = sum(width for _, width in TABLES)
FIRST, SECOND, HIDDEN = 128, 192, 328
POOLED = 2 * SECOND + WIDTH + 1
SHAPES = (
    *TABLES,
    (3 * WIDTH, FIRST),
    (FIRST,),
    (3 * FIRST, SECOND),
    (SECOND,),
    (POOLED, HIDDEN),
    (HIDDEN,),
    (HIDDEN, OUTPUTS),
    (OUTPUTS,),
)
COUNT = sum(int(np.prod(shape)) for shape in SHAPES)
DEFINITIONS, REST, PAIRS = TABLES[0][0], TABLES[4][0], TABLES[6][0]
GAP = 2
"""Rows of zeros between two functions, so that no convolution sees two of them."""
AT_ONCE = 1 << 15
"""Instructions that are looked at together."""

Tokens = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Sequences:
    """What the network reads: tokens (instructions, 6), function after function, and where each starts."""

    tokens: Tokens
    starts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, chosen: npt.NDArray[np.int64]) -> Sequences:
        """Some of the functions."""
        lengths = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self.starts[chosen] - starts[:-1], lengths) + np.arange(starts[-1])
        return Sequences(self.tokens[rows], starts)


def sequences_of(encoded: Encoded, vocabulary: Sequence[str]) -> Sequences:
    """Tokens of functions; definitions that the vocabulary of keys does not have share row 0."""
    rows = {key: row for row, key in enumerate(vocabulary, 1)}
    by_definition = np.array([rows.get(d.key, 0) for d in definitions] + [0], np.int16)
    rest = np.where(
        encoded.rest == 0, 0, 1 + (encoded.rest * np.uint32(2654435761) >> np.uint32(8)) % (REST - 1)
    )
    columns = (
        by_definition[encoded.definition],
        encoded.target,
        encoded.base,
        encoded.second,
        rest,
        encoded.kind,
    )
    lengths = np.diff(encoded.starts)
    place = np.arange(len(encoded.masked)) - np.repeat(encoded.starts[:-1], lengths)
    tokens = np.stack([c.astype(np.int16) for c in columns], axis=1)[place < LONGEST]
    return Sequences(tokens, np.concatenate([[0], np.cumsum(np.minimum(lengths, LONGEST))]))


def parts_of(flat: Floats) -> list[Floats]:
    """Embeddings, then weights and biases in the order of the layers: views of COUNT parameters."""
    return views_of(flat, SHAPES)


def random_weights(seed: int) -> Floats:
    """COUNT parameters drawn as training begins, reproducible by `seed`."""
    rng = np.random.default_rng(seed)
    flat = np.zeros(COUNT, np.float32)
    for number, part in enumerate(parts_of(flat)):
        if part.ndim == 2:
            scale = 0.3 if number < len(TABLES) else np.sqrt(2 / part.shape[0])
            part[:] = rng.normal(0, scale, part.shape)
    return flat


@dataclass(slots=True)
class Trace:
    """What is computed on the way, for the gradient; rows are instructions and, between functions, gaps."""

    rows: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    values: list[Floats]


def outputs_of(flat: Floats, sequences: Sequences) -> tuple[Floats, Trace]:
    """Outputs (functions, OUTPUTS), before any normalisation, and how they came about."""
    parts = parts_of(flat)
    tables, (w1, b1, w2, b2, w3, b3, w4, b4) = parts[: len(TABLES)], parts[len(TABLES) :]
    lengths = np.diff(sequences.starts)
    firsts = sequences.starts[:-1] + GAP * np.arange(1, len(lengths) + 1)
    rows = np.repeat(firsts - sequences.starts[:-1], lengths) + np.arange(len(sequences.tokens))
    total = len(sequences.tokens) + GAP * (len(lengths) + 1)
    tokens = _with_pairs(sequences)
    embedded = np.zeros((total, WIDTH), np.float32)
    embedded[rows] = np.concatenate([t[tokens[:, i]] for i, t in enumerate(tables)], axis=1)
    one = _convolved(embedded, w1, b1, 1, rows)
    two = _convolved(one, w2, b2, 2, rows)
    spans = lengths[:, None].astype(np.float32)
    pooled = np.concatenate(
        [
            np.maximum.reduceat(two, firsts, axis=0),
            np.add.reduceat(two, firsts, axis=0) / spans,
            np.add.reduceat(embedded, firsts, axis=0) / spans,
            np.log(spans) / 5,
        ],
        axis=1,
    )
    hidden = np.maximum(pooled @ w3 + b3, 0)
    return hidden @ w4 + b4, Trace(rows, firsts, lengths, tokens, [embedded, one, two, pooled, hidden])


def _with_pairs(sequences: Sequences) -> npt.NDArray[np.int64]:
    """Tokens with a seventh column: the row of the pair that an instruction and the next one make."""
    tokens = sequences.tokens.astype(np.int64)
    after = np.zeros(len(tokens), np.int64)
    after[:-1] = tokens[1:, 0]
    after[sequences.starts[1:] - 1] = 0
    pairs = (tokens[:, 0] * DEFINITIONS + after) * 40503 % 65521 % PAIRS
    return np.concatenate([tokens, pairs[:, None]], axis=1)


def neighbours(values: Floats, apart: int) -> Floats:
    """Each row with those `apart` before and after it: (n, 3 c) of (n, c)."""
    around = np.zeros((len(values), 3, values.shape[1]), np.float32)
    around[apart:, 0] = values[:-apart]
    around[:, 1] = values
    around[:-apart, 2] = values[apart:]
    return around.reshape(len(values), -1)


def _convolved(
    values: Floats, weights: Floats, biases: Floats, apart: int, rows: npt.NDArray[np.int64]
) -> Floats:
    out = np.zeros((len(values), weights.shape[1]), np.float32)
    out[rows] = np.maximum(neighbours(values, apart)[rows] @ weights + biases, 0)
    return out


def probabilities(flat: Floats, sequences: Sequences) -> Floats:
    """For each function the probability of each label, NONE last: (functions, OUTPUTS) of float32."""
    found = [np.zeros((0, OUTPUTS), np.float32)]
    for chosen in _portions(np.diff(sequences.starts)):
        outputs, _ = outputs_of(flat, sequences.take(chosen))
        found.append(softmax(outputs))
    return np.concatenate(found)


def _portions(lengths: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Numbers of functions that are looked at together."""
    if len(lengths):
        group = np.cumsum(lengths) // AT_ONCE
        yield from np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(group)) + 1)


def policy_of(flat: Floats, vocabulary: Sequence[str]) -> Policy:
    """The policy that these parameters are."""
    return lambda code: probabilities(flat, sequences_of(code.encoded, vocabulary))


def shipped() -> Policy:
    return policy_of(load(NAME, COUNT), vocabulary_of(SHIPPED))


def random_policy(seed: int = 0) -> Policy:
    return policy_of(random_weights(seed), vocabulary_of(SHIPPED))


def vocabulary_of(directory: Path, name: str = NAME) -> list[str]:
    """The definitions that have a row of their own, from the manifest of the weights. Raises UsageError."""
    path = path_of(f"{name}.json", directory)
    try:
        keys = json.loads(path.read_text())["vocabulary"]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: it has no vocabulary") from None
    if not isinstance(keys, list) or len(keys) >= DEFINITIONS:
        raise UsageError(f"{path}: a vocabulary has at most {DEFINITIONS - 1} definitions")
    return keys
