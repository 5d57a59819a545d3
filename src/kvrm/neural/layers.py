"""What the layers of several networks have in common."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kvrm.neural.weights import Floats

F = TypeVar("F", bound=np.floating)
Parts = dict[str, Floats]
"""Arrays by name."""


def sigmoid(x: Floats) -> Floats:
    """Logistic function."""
    out: Floats = 0.5 * (np.tanh(0.5 * x) + 1)
    return out


def softmax(outputs: npt.NDArray[F]) -> npt.NDArray[F]:
    """Rows that sum to one."""
    raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    share: npt.NDArray[F] = raised / raised.sum(axis=1, keepdims=True)
    return share


def linear(p: Parts, name: str, x: Floats) -> Floats:
    """The layer of this name, of the last axis of `x`."""
    out: Floats = x @ p[f"{name}.weight"].T + p[f"{name}.bias"]
    return out


def linear_back(p: Parts, name: str, x: Floats, slope: Floats, into: Parts) -> Floats:
    """Back through `linear`: add its slopes to `into`; the slope of `x`."""
    slopes, inputs = slope.reshape(-1, slope.shape[-1]), x.reshape(-1, x.shape[-1])
    into[f"{name}.weight"] += slopes.T @ inputs
    into[f"{name}.bias"] += slopes.sum(axis=0)
    back: Floats = slope @ p[f"{name}.weight"]
    return back


def add_rows(table: Floats, rows: npt.NDArray[np.integer], values: Floats) -> None:
    """`np.add.at` for rows of an embedding, many times as fast."""
    order = np.argsort(rows, kind="stable")
    present, first = np.unique(rows[order], return_index=True)
    table[present] += np.add.reduceat(values[order], first, axis=0)
