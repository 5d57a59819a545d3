"""Dispatch-135, 8-8-7 with tanh: the first dispatch network of KVRM's predecessor, kept for comparison.

It reads the top byte of a word and no more, so it cannot be right. Its arithmetic is NumPy's float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvrm.isa.definition import Execution
from kvrm.isa.execution import Classes, Words
from kvrm.neural.weights import Floats, views_of

NAME = "dispatch-135"
INPUTS, HIDDEN, OUTPUTS = 8, 8, len(Execution)
COUNT = INPUTS * HIDDEN + HIDDEN + HIDDEN * OUTPUTS + OUTPUTS
BYTES = np.arange(256)[:, None] >> np.arange(7, -1, -1) & 1
"""The inputs (256, 8) for each top byte, highest bit first."""

Parts = tuple[npt.NDArray[np.float64], ...]


def parts_of(flat: npt.NDArray[np.float64]) -> Parts:
    """Weights (8, 8) and biases (8) of the hidden layer, (7, 8) and (7) of the outputs: views."""
    return tuple(views_of(flat, ((HIDDEN, INPUTS), (HIDDEN,), (OUTPUTS, HIDDEN), (OUTPUTS,))))


def outputs_of(parts: Parts) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Hidden values (256, 8) and outputs (256, 7) for each top byte."""
    weights, biases, last, last_biases = parts
    hidden = np.tanh(BYTES @ weights.T + biases)
    return hidden, hidden @ last.T + last_biases


def classes_of(flat: Floats, words: Words) -> Classes:
    """The class of each word by COUNT parameters of float32."""
    _, outputs = outputs_of(parts_of(flat.astype(np.float64)))
    chosen: Classes = outputs.argmax(axis=1).astype(np.uint8)[words >> np.uint32(24)]
    return chosen
