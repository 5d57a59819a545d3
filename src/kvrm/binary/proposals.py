"""What policies for patterns take and give: how sure they are that a function is each of the known ones.

What a policy says is a proposal; the execution check decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvrm.binary.encoding import Encoded
from kvrm.binary.labels import LABELS, NONE, OUTPUTS, labels_of


@dataclass(frozen=True, slots=True)
class Code:
    """Functions, and the names that symbols give each, if there are any. Only the oracle reads names."""

    encoded: Encoded
    names: Sequence[Sequence[str]]

    def __len__(self) -> int:
        return len(self.encoded.masked)


Scores = npt.NDArray[np.float32]


class Policy(Protocol):
    """Says how sure it is that a function is each of the known ones, or another."""

    def __call__(self, code: Code, /) -> Scores:
        """Numbers from 0 to 1 of shape (functions, OUTPUTS), NONE last."""


PROPOSED = 0.02
"""A label of which a policy is at least this sure is a proposal."""


def oracle(code: Code) -> Scores:
    """What the symbols say."""
    found = np.zeros((len(code.names), OUTPUTS), np.float32)
    for i, names in enumerate(code.names):
        found[i, list(labels_of(names) or [NONE])] = 1
    return found


def proposals(scores: Scores, least: float = PROPOSED) -> list[list[tuple[str, float]]]:
    """For each function the labels that a policy proposes, likeliest first, with how sure it is."""
    found = []
    for row in scores[:, :NONE]:
        order = np.argsort(-row, kind="stable")
        found.append([(LABELS[i], float(row[i])) for i in order if row[i] >= least])
    return found
