"""Policies for patterns: they say how sure they are that a function is each of the known ones, or another.

A policy takes `Code` and gives numbers from 0 to 1 of shape (functions, OUTPUTS), NONE last. What it says is
a proposal; the execution check decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvrm.errors import UsageError
from kvrm.neural.patterns import known, network
from kvrm.neural.patterns.encoding import Encoded
from kvrm.neural.patterns.labels import LABELS, NONE, labels_of
from kvrm.neural.weights import SHIPPED, Floats
from kvrm.neural.weights import load as load_weights


@dataclass(frozen=True, slots=True)
class Code:
    """Functions, and the names that symbols give each, if there are any. Only the oracle reads names."""

    encoded: Encoded
    names: Sequence[Sequence[str]]

    def __len__(self) -> int:
        return len(self.encoded.masked)


Policy = Callable[[Code], Floats]
PROPOSED = 0.02
"""A label of which a policy is at least this sure is a proposal."""


def rule(directory: Path = SHIPPED) -> Policy:
    """Exact signatures."""
    found = known.load(directory)
    return lambda code: found.rule(code.encoded)


def table(directory: Path = SHIPPED) -> Policy:
    """The likest known function."""
    found = known.load(directory)
    return lambda code: found.table(code.encoded)


def trained(directory: Path = SHIPPED, name: str = network.NAME) -> Policy:
    """Patterns-508k with the weights of a directory."""
    return of_weights(load_weights(name, network.COUNT, directory), vocabulary_of(directory, name))


def random(directory: Path = SHIPPED, seed: int = 0) -> Policy:
    """Patterns-508k with random weights."""
    return of_weights(network.random_weights(seed), vocabulary_of(directory))


def of_weights(flat: Floats, vocabulary: Sequence[str]) -> Policy:
    """Patterns-508k with these parameters."""
    return lambda code: network.probabilities(flat, network.sequences_of(code.encoded, vocabulary))


def oracle(code: Code) -> Floats:
    """What the symbols say."""
    found = np.zeros((len(code.names), network.OUTPUTS), np.float32)
    for i, names in enumerate(code.names):
        found[i, list(labels_of(names) or [NONE])] = 1
    return found


def vocabulary_of(directory: Path, name: str = network.NAME) -> list[str]:
    """The definitions that have a row of their own, from the manifest of the weights. Raises UsageError."""
    path = directory / f"{name}.json"
    try:
        keys = json.loads(path.read_text())["vocabulary"]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: it has no vocabulary") from None
    if not isinstance(keys, list) or len(keys) >= network.DEFINITIONS:
        raise UsageError(f"{path}: a vocabulary has at most {network.DEFINITIONS - 1} definitions")
    return keys


def proposals(scores: Floats, least: float = PROPOSED) -> list[list[tuple[str, float]]]:
    """For each function the labels that a policy proposes, likeliest first, with how sure it is."""
    found = []
    for row in scores[:, :NONE]:
        order = np.argsort(-row, kind="stable")
        found.append([(LABELS[i], float(row[i])) for i in order if row[i] >= least])
    return found


POLICIES: dict[str, Callable[[], Policy]] = {
    "rule": rule,
    "table": table,
    "network": trained,
    "random": random,
    "oracle": lambda: oracle,
}
