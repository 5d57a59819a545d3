"""The proof that Dispatch-10,279 gives each of the 2^32 words its class.

It has three parts. Which class a word has depends on twenty bits of it, exactly: `class_table` would raise
otherwise. The network reads these twenty bits and no others. And for all their values it is right, by a lead
that no rounding can undo: an a-priori bound of the error of sums in float32, in any order, fused or not
(Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1), is smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvrm.engine.interpreter.dispatch import misplaced
from kvrm.isa.definition import Execution
from kvrm.isa.execution import (
    CELLS,
    CLASS_BITS,
    WORDS_PER_CELL,
    Classes,
    Words,
    class_table,
    classes,
    execution_of,
    words_of,
)
from kvrm.neural.dispatch_host import HostNetwork
from kvrm.neural.dispatch_network import COUNT, NAME, inputs_of, layers_of
from kvrm.neural.weights import Floats, hash_of

CHUNK = 1 << 14
"""Cells whose rounding errors are bounded at a time."""
LEAST = 2.0**-149
"""The least float32 above zero: what a product may lose that is too small for one."""
OTHER_BITS = (1 << 32) - 1 - sum(1 << b for b in CLASS_BITS)

Doubles = npt.NDArray[np.float64]


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


def prove(flat: Floats) -> Certificate:
    """Look at all words, with the arithmetic that ships. DefinitionError if other bits decide a class."""
    class_table()
    wanted, words = classes(), words_of(np.arange(CELLS, dtype=np.uint32))
    others = np.random.default_rng(0).integers(0, 1 << 32, CELLS, np.uint32) & np.uint32(OTHER_BITS)
    if misplaced(execution_of, words | others).any():
        raise AssertionError("the decoder has another class for a word")
    decide = HostNetwork(flat).decide
    chosen, leads = decide(words)
    for more in (others, np.full(CELLS, OTHER_BITS, np.uint32)):
        require_same((chosen, leads), decide(words | more))
    slack, error = _bounds(flat, words, wanted)
    counts = np.bincount(chosen, minlength=len(Execution)) * WORDS_PER_CELL
    return Certificate(
        network=NAME,
        parameters=COUNT,
        weights_sha256=hash_of(flat),
        classes_sha256=hash_of(wanted),
        words=CELLS * WORDS_PER_CELL,
        cells=CELLS,
        wrong=int((chosen != wanted).sum()) * WORDS_PER_CELL,
        least_lead=float(np.where(chosen == wanted, leads, -leads).min()),
        largest_error=error,
        undecided=int((slack <= 0).sum()) * WORDS_PER_CELL,
        histogram={work.label: int(n) for work, n in zip(Execution, counts, strict=True)},
    )


def require_same(one: tuple[Classes, Floats], other: tuple[Classes, Floats]) -> None:
    """AssertionError if answers to words with the same deciding bits differ in any bit."""
    if not (np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])):
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
    sums = values
    for weights, biases in layers_of(flat):
        w, b = weights.astype(np.float64), biases.astype(np.float64)
        # a product is rounded once and added to at most as many others and the bias; one more is for float64
        roundings = (w.shape[1] + 2) * 2.0**-24
        magnitude = (np.abs(values) + errors) @ np.abs(w).T + np.abs(b)
        errors = errors @ np.abs(w).T + magnitude * roundings / (1 - roundings) + w.shape[1] * LEAST
        sums = values @ w.T + b
        values = np.maximum(sums, 0)
    return sums, errors
