"""The proof that Dispatch-10,279 gives each of the 2^32 words its class.

It has three parts. Which class a word has depends on twenty bits of it, exactly: `class_table` would raise
otherwise. The network reads these twenty bits and no others. And for all their values it is right, by a lead
that no rounding can undo: an a-priori bound of the error of sums in float32, in any order, fused or not
(Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1), is smaller.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from kvrm.isa.definition import Execution
from kvrm.isa.execution import (
    CELLS,
    CLASS_BITS,
    WORDS_PER_CELL,
    Classes,
    Words,
    class_table,
    classes,
    words_of,
)
from kvrm.neural.host import HostNetwork
from kvrm.neural.network import COUNT, NAME, Floats, hash_of, inputs_of, layers_of

CHUNK = 1 << 14
"""Cells whose rounding errors are bounded at a time."""
OTHER_BITS = (1 << 32) - 1 - sum(1 << b for b in CLASS_BITS)

Doubles = npt.NDArray[np.float64]
Decide = Callable[[Words], tuple[Classes, Floats]]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was proved of which weights; `least_lead` and `largest_error` are in units of the outputs."""

    network: str
    parameters: int
    weights_sha256: str
    classes_sha256: str
    words: int
    cells: int
    wrong: int
    least_lead: float
    largest_error: float
    undecided: int
    histogram: dict[str, int]

    @property
    def holds(self) -> bool:
        """Whether every word has its class, whatever the rounding."""
        return not self.wrong and not self.undecided

    def as_json(self) -> dict[str, object]:
        """For a file."""
        return asdict(self)


def prove(flat: Floats) -> Certificate:
    """Look at all words, with the arithmetic that ships. DefinitionError if other bits decide a class."""
    class_table()
    wanted, words = classes(), words_of(np.arange(CELLS, dtype=np.uint32))
    decide = HostNetwork(flat).decide
    chosen, leads = decide(words)
    require_independence(decide, words, chosen, leads)
    slack, error = _bounds(flat, words, wanted)
    counts = np.bincount(chosen, minlength=len(Execution)) * WORDS_PER_CELL
    return Certificate(
        network=NAME,
        parameters=COUNT,
        weights_sha256=hash_of(flat),
        classes_sha256=hashlib.sha256(wanted.tobytes()).hexdigest(),
        words=CELLS * WORDS_PER_CELL,
        cells=CELLS,
        wrong=int((chosen != wanted).sum()) * WORDS_PER_CELL,
        least_lead=float(np.where(chosen == wanted, leads, -leads).min()),
        largest_error=error,
        undecided=int((slack <= 0).sum()) * WORDS_PER_CELL,
        histogram={work.label: int(n) for work, n in zip(Execution, counts, strict=True)},
    )


def require_independence(decide: Decide, words: Words, chosen: Classes, leads: Floats) -> None:
    """AssertionError if bits that do not decide change an answer in any bit, all set or at random."""
    noise = np.random.default_rng(0).integers(0, 1 << 32, len(words), np.uint32)
    for others in (np.full(len(words), (1 << 32) - 1, np.uint32), noise):
        again, same = decide(words | others & np.uint32(OTHER_BITS))
        if (again != chosen).any() or (same != leads).any():
            raise AssertionError("the network reads bits that do not decide")


def _bounds(flat: Floats, words: Words, wanted: Classes) -> tuple[Doubles, float]:
    """For each word the lead of the right class less what rounding can take from it; the largest error."""
    slack, largest = np.empty(len(words)), 0.0
    for start in range(0, len(words), CHUNK):
        part = slice(start, start + CHUNK)
        outputs, errors = exact_outputs(flat, words[part])
        rows, right = np.arange(len(outputs)), wanted[part]
        lead = (outputs[rows, right] - errors[rows, right])[:, None] - (outputs + errors)
        lead[rows, right] = np.inf
        slack[part] = lead.min(axis=1)
        largest = max(largest, float(errors.max()))
    return slack, largest


def exact_outputs(flat: Floats, words: Words) -> tuple[Doubles, Doubles]:
    """Outputs (n, 7) in float64, and how far from them any evaluation in float32 can be."""
    values = inputs_of(words, flat).astype(np.float64)
    errors = np.zeros_like(values)
    for number, (weights, biases) in enumerate(layers_of(flat)):
        w, b = weights.astype(np.float64), biases.astype(np.float64)
        roundings = (w.shape[1] + 2) * 2.0**-24
        gamma = roundings / (1 - roundings)
        size = np.abs(w).T
        magnitude = (np.abs(values) + errors) @ size + np.abs(b)
        errors = errors @ size + gamma * magnitude
        values = values @ w.T + b
        if number < 2:
            values = np.maximum(values, 0)
    return values, errors
