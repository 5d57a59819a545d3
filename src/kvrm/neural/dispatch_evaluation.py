"""Rule, table, networks, random weights and the oracle for dispatch, side by side over all 2^32 words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvrm.engine.interpreter.dispatch import Policy, oracle, rule
from kvrm.isa.execution import (
    CELLS,
    WORDS_PER_CELL,
    Classes,
    allocated_words,
    cells_of,
    classes,
    execution_of,
    words_of,
)
from kvrm.neural import dispatch_baseline as baseline
from kvrm.neural import dispatch_network as network
from kvrm.neural.dispatch_host import HostNetwork
from kvrm.neural.weights import load

TIMED = 1 << 20
"""Random words that each policy is timed with."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a policy gets wrong, and what it costs.

    `wrong` of all 2^32 words; right ones as a share of all and of the allocated ones; bytes of its table or
    parameters; and nanoseconds for each of many words at once, on this machine.
    """

    name: str
    wrong: int
    right: float
    right_allocated: float
    size: int
    nanoseconds: float


def rows(directory: Path) -> Iterator[Row]:
    """A row for each policy, with the networks of `directory`."""
    small = load(baseline.NAME, baseline.COUNT, directory)
    flat = load(network.NAME, network.COUNT, directory)
    random = network.random_weights(0)
    shown: list[tuple[str, Policy, int]] = [
        ("rule", rule, 0),
        ("table", execution_of, CELLS),
        (baseline.NAME, partial(baseline.classes_of, small), small.nbytes),
        (network.NAME, HostNetwork(flat).classes, flat.nbytes),
        ("random weights", HostNetwork(random).classes, random.nbytes),
        ("oracle", oracle, 0),
    ]
    allocated = allocated_words()
    for name, policy, size in shown:
        yield _row(name, policy, size, allocated)


def _row(name: str, policy: Policy, size: int, allocated: npt.NDArray[np.int64]) -> Row:
    good = policy(words_of(np.arange(CELLS, dtype=np.uint32))) == classes()
    words = np.random.default_rng(0).integers(0, 1 << 32, TIMED, np.uint32)
    policy(words)
    began = time.perf_counter()
    answers = policy(words)
    seconds = time.perf_counter() - began
    require_same(answers, good, cells_of(words))
    return Row(
        name,
        int((~good).sum()) * WORDS_PER_CELL,
        float(good.mean()),
        float(allocated[good].sum() / allocated.sum()),
        size,
        1e9 * seconds / TIMED,
    )


def require_same(answers: Classes, good: npt.NDArray[np.bool_], cells: npt.NDArray[np.uint32]) -> None:
    """AssertionError if a policy, right or wrong for a cell, is not the same for other words of it."""
    if ((answers == classes()[cells]) != good[cells]).any():
        raise AssertionError("a policy that reads bits that do not decide")
