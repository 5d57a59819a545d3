"""What rule and table know: the labelled functions of the training data, by signature and by their parts.

The rule knows a function that differs from one of them in nothing but what is masked. The table knows what it
is most like: of all runs of three instructions in either, without registers and immediates, the share that is
in both (Jaccard's index).
"""

from __future__ import annotations

import functools
import zlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvrm.array_files import read_fields, save_fields
from kvrm.binary.encoding import Encoded, signature
from kvrm.binary.labels import NONE, OUTPUTS
from kvrm.binary.proposals import Policy, Scores
from kvrm.isa.a64 import definitions
from kvrm.isa.execution import Words

NAME = "patterns-known"
SHIPPED = Path(__file__).parent
GRAM = 3
"""Instructions of a run."""


@dataclass(frozen=True, slots=True)
class Known:
    """Labels of known functions, their signatures (n, 8), their runs one after the other, and starts."""

    labels: npt.NDArray[np.uint8]
    signatures: npt.NDArray[np.uint8]
    grams: Words
    starts: npt.NDArray[np.int64]

    def rule(self, encoded: Encoded) -> Scores:
        """One for what a known function is but for what is masked: (functions, OUTPUTS)."""
        found = np.zeros((len(encoded), OUTPUTS), np.float32)
        by_signature: dict[bytes, set[int]] = defaultdict(set)
        for label, name in zip(self.labels.tolist(), self.signatures, strict=True):
            by_signature[name.tobytes()].add(label)
        for i, one in enumerate(signatures_of(encoded)):
            for label in by_signature.get(one, (NONE,)):
                found[i, label] = 1
        return found

    def table(self, encoded: Encoded) -> Scores:
        """For each label the greatest likeness to a function of it: (functions, OUTPUTS)."""
        grams, starts = grams_of(encoded)
        vocabulary, columns = np.unique(self.grams, return_inverse=True)
        owners = np.repeat(np.arange(len(self.labels)), np.diff(self.starts))
        order = np.argsort(columns, kind="stable")
        edges = np.searchsorted(columns[order], np.arange(len(vocabulary) + 1))
        sizes = np.diff(self.starts)
        found = np.zeros((len(encoded), OUTPUTS), np.float32)
        for i in range(len(encoded)):
            mine = grams[starts[i] : starts[i + 1]]
            at = np.searchsorted(vocabulary, mine)
            at = at[(at < len(vocabulary)) & (vocabulary[np.minimum(at, len(vocabulary) - 1)] == mine)]
            if len(at):
                shared = np.bincount(
                    np.concatenate([owners[order[edges[a] : edges[a + 1]]] for a in at]), minlength=len(sizes)
                )
                np.maximum.at(found[i], self.labels, shared / (sizes + len(mine) - shared))
        found[:, NONE] = 1 - found.max(axis=1)
        return found


def known_of(encoded: Encoded, labels: npt.NDArray[np.uint8]) -> Known:
    """What rule and table know of functions with these labels: those that are no others' as well."""
    signatures = signatures_of(encoded)
    others = {s for s, label in zip(signatures, labels, strict=True) if label == NONE}
    grams, starts = grams_of(encoded)
    keep = [i for i, s in enumerate(signatures) if labels[i] != NONE and s not in others]
    parts = [grams[starts[i] : starts[i + 1]] for i in keep]
    return Known(
        labels=labels[keep],
        signatures=np.array([np.frombuffer(signatures[i], np.uint8) for i in keep], np.uint8).reshape(-1, 8),
        grams=np.concatenate([np.zeros(0, np.uint32), *parts]),
        starts=np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64),
    )


def signatures_of(encoded: Encoded) -> list[bytes]:
    """The signature of each function."""
    return [signature(encoded.masked[a:b]) for a, b in pairwise(encoded.starts)]


def grams_of(encoded: Encoded) -> tuple[Words, npt.NDArray[np.int64]]:
    """The distinct runs of each function in ascending order, as hashes, and where each function's start."""
    codes = _codes()[encoded.definition] * np.uint32(KIND_FACTOR) + encoded.kind
    hashes = codes.copy()
    for k in range(1, GRAM):
        hashes[:-k] = hashes[:-k] * np.uint32(16777619) ^ codes[k:]
    found = []
    for a, b in pairwise(encoded.starts):
        found.append(np.unique(hashes[a : max(b - GRAM + 1, min(a + 1, b))]))
    starts = np.concatenate([[0], np.cumsum([len(part) for part in found])]).astype(np.int64)
    return np.concatenate([np.zeros(0, np.uint32), *found]), starts


KIND_FACTOR = 2654435761


@functools.cache
def _codes() -> Words:
    """A number for each definition, whatever others there are, and last for none."""
    return np.array([*(zlib.crc32(d.key.encode()) for d in definitions), 0], np.uint32)


def save(known: Known, directory: Path) -> None:
    """Write what rule and table know."""
    save_fields(directory / f"{NAME}.npz", known)


def load(directory: Path = SHIPPED) -> Known:
    """What `save` wrote. Raises UsageError."""
    return read_fields(directory / f"{NAME}.npz", Known, "not what rule and table know")


def rule() -> Policy:
    """Exact signatures of the functions that ship."""
    found = load()
    return lambda code: found.rule(code.encoded)


def table() -> Policy:
    """The likeliest of the functions that ship."""
    found = load()
    return lambda code: found.table(code.encoded)
