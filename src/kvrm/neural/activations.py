"""Functions of a layer's outputs that several networks end in."""

from __future__ import annotations

import numpy as np

from kvrm.neural.weights import Floats


def sigmoid(x: Floats) -> Floats:
    """Logistic function."""
    out: Floats = 0.5 * (np.tanh(0.5 * x) + 1)
    return out


def softmax(outputs: Floats) -> Floats:
    """Rows that sum to one."""
    raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    share: Floats = raised / raised.sum(axis=1, keepdims=True)
    return share
