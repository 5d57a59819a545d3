"""The optimiser that all networks are trained with, and its rate."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


class Adam:
    """Kingma and Ba, "Adam", 2015, with the paper's constants."""

    def __init__(self, parameters: npt.NDArray[np.floating]) -> None:
        self._parameters, self._step = parameters, 0
        self._mean, self._square = np.zeros_like(parameters), np.zeros_like(parameters)

    def step(self, gradient: npt.NDArray[np.floating], rate: float) -> None:
        self._step += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient * gradient - self._square)
        mean = self._mean / (1 - 0.9**self._step)
        square = self._square / (1 - 0.999**self._step)
        self._parameters -= (rate * mean / (np.sqrt(square) + 1e-8)).astype(self._parameters.dtype)


def rate_at(step: int, steps: int, rate: float, last: float, warm_up: int) -> float:
    """The rate of a step: it rises for `warm_up` steps, and falls to `last` as a cosine does."""
    return rate * min(1, step / warm_up) * (1 + math.cos(math.pi * step / steps)) / 2 + last
