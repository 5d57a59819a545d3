"""Rule, table, network, random weights and the oracle for patterns, on a C library that training left out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvrm.binary import known
from kvrm.binary.check import Checker
from kvrm.binary.encoding import Encoded
from kvrm.binary.known import Known, signatures_of
from kvrm.binary.labels import NONE, NUMBER, labels_of
from kvrm.binary.naming import name_functions
from kvrm.binary.program import Program
from kvrm.binary.proposals import Code, Policy, oracle
from kvrm.binary.starts import find_functions
from kvrm.neural import patterns_network as network
from kvrm.neural.patterns_dataset import Data
from kvrm.neural.weights import Floats

PRECISION = 0.99
WANTED = 0.95
"""The share of known functions for which checks are counted."""
FEWER = (10, 100, 1000)

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
NOTHING: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Score:
    """How a policy does on one test set of `known` known and `others` other functions.

    `recall` is that of the most certain answers that are right for PRECISION of them; `first` the share of
    known functions whose likeliest label is right. A check tests one pair of function and label, of which
    there are `pairs`: `found` is the share of known functions that checks of the likeliest pairs find, by how
    many times fewer checks than pairs (FEWER). `checks` is how many it takes to find WANTED of them; None if
    the policy has nothing to say about those pairs. `microseconds` are those of inference for a function.
    """

    policy: str
    known: int
    others: int
    recall: float
    first: float
    found: tuple[float, ...]
    checks: int | None
    pairs: int
    microseconds: float


@dataclass(frozen=True, slots=True)
class Fold:
    """A test set, and what training may see; `seen` are those that training has, but for what is masked."""

    code: Code
    labels: npt.NDArray[np.uint8]
    seen: Flags
    known: Known

    def new(self) -> Fold:
        """The fold without what training has seen."""
        chosen = np.flatnonzero(~self.seen)
        starts = self.code.encoded.starts
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in chosen.tolist()])
        lengths = np.diff(starts)[chosen]
        e = self.code.encoded
        encoded = Encoded(
            np.concatenate([[0], np.cumsum(lengths)]),
            *(
                column[rows]
                for column in (e.masked, e.definition, e.target, e.base, e.second, e.rest, e.kind)
            ),
        )
        code = Code(encoded, [self.code.names[i] for i in chosen.tolist()])
        return Fold(code, self.labels[chosen], self.seen[chosen], self.known)


def fold_of(data: Data, left_out: str) -> Fold:
    """The test set that leaves a C library, a compiler or flags out."""
    return part_of(data, np.flatnonzero(data.held_out(left_out)), np.flatnonzero(data.training(left_out)))


def part_of(data: Data, test: Numbers, training: Numbers = NOTHING) -> Fold:
    """A test set of some functions, where training sees others."""
    encoded, shown = data.encoded(test), data.encoded(training)
    told = set(signatures_of(shown))
    return Fold(
        code=Code(encoded, [data.names[i].split() for i in test]),
        labels=data.labels[test],
        seen=np.array([s in told for s in signatures_of(encoded)]),
        known=known.known_of(shown, data.labels[training]),
    )


def policies_of(fold: Fold, weights: Mapping[str, Floats], vocabulary: list[str]) -> dict[str, Policy]:
    """All policies, trained without what the fold leaves out; `weights` by what they are called."""
    return {
        "rule": lambda code: fold.known.rule(code.encoded),
        "table": lambda code: fold.known.table(code.encoded),
        **{name: network.policy_of(flat, vocabulary) for name, flat in weights.items()},
        "random": network.policy_of(network.random_weights(0), vocabulary),
        "oracle": oracle,
    }


def score(name: str, policy: Policy, fold: Fold) -> Score:
    """Ask a policy about the test set."""
    began = time.perf_counter()
    answers = policy(fold.code)
    seconds = time.perf_counter() - began
    right = _right(fold)
    is_known = fold.labels != NONE
    labels = answers[:, :NONE]
    best, sure = labels.argmax(axis=1), labels.max(axis=1)
    hit = right[np.arange(len(best)), best] & (sure > 0)
    own = np.where(right, labels, 0).max(axis=1)[is_known]
    total = max(int(is_known.sum()), 1)
    return Score(
        policy=name,
        known=int(is_known.sum()),
        others=int((~is_known).sum()),
        recall=_recall_at(hit, sure, PRECISION) / total,
        first=float(hit[is_known].sum() / total),
        found=tuple(_found(own, labels, labels.size // fewer) for fewer in FEWER),
        checks=_checks(own, labels),
        pairs=labels.size,
        microseconds=1e6 * seconds / len(answers),
    )


@dataclass(frozen=True, slots=True)
class Starts:
    """Function starts of a program against its symbols: how many it has, were found, and are right."""

    symbols: int
    found: int
    right: int
    ends: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What the execution check made of a policy's proposals for a program.

    `known` are the functions that its symbols call one of LABELS, `right` those of them that passed as what
    they are called, `other` functions that passed as something that the symbols do not call them: names.
    """

    policy: str
    functions: int
    known: int
    checks: int
    right: int
    other: tuple[str, ...]
    seconds: float


def starts_of(program: Program) -> Starts:
    """Compare the function starts that are found with those that have a symbol."""
    symbols = {a: s for a, s in program.symbols.items() if any(r.start <= a < r.end for r in program.runs)}
    found = find_functions(program)
    right = [f for f in found if f.start in symbols]
    ends = sum(f.end - f.start == symbols[f.start].size for f in right)
    return Starts(len(symbols), len(found), len(right), ends)


def checked(name: str, policy: Policy, program: Program, checker: Checker) -> Checked:
    """Name the functions of a program that has symbols, and test them."""
    began, before = time.perf_counter(), checker.checks
    found = name_functions(program, policy, checker)
    right, other, known = 0, [], 0
    for named in found:
        symbol = program.symbols.get(named.function.start)
        labels = labels_of(symbol.names) if symbol else set()
        known += bool(labels)
        if named.is_replaceable and named.name:
            if NUMBER[named.name] in labels:
                right += 1
            else:
                called = symbol.names[0] if symbol else f"{named.address:#x}"
                other.append(f"{called} as {named.name}")
    checks = checker.checks - before
    return Checked(name, len(found), known, checks, right, tuple(other), time.perf_counter() - began)


def _right(fold: Fold) -> Flags:
    """Which labels are right for each test function; a function under several names has several."""
    right = np.zeros((len(fold.labels), NONE), np.bool_)
    for i in np.flatnonzero(fold.labels != NONE).tolist():
        right[i, list(labels_of(fold.code.names[i]))] = True
    return right


def _recall_at(hit: Flags, sure: Floats, precision: float) -> int:
    """How many right answers the longest list of the surest answers has that is right for `precision`."""
    order = np.argsort(-sure, kind="stable")
    order = order[sure[order] > 0]
    right = np.cumsum(hit[order])
    ends = np.append(sure[order][1:] != sure[order][:-1], True)[: len(order)]
    good = np.flatnonzero((right >= precision * np.arange(1, len(order) + 1)) & ends)
    return int(right[good[-1]]) if len(good) else 0


def _found(own: Floats, labels: Floats, checks: int) -> float:
    """The share of known functions whose label is among the likeliest pairs, as many as there are checks."""
    if not len(own) or not checks:
        return 0.0
    least = np.partition(labels.ravel(), labels.size - checks)[labels.size - checks]
    above = int((labels > least).sum())
    same = max(int((labels == least).sum()), 1)
    share = (checks - above) / same if least > 0 else 0.0
    return float(((own > least).sum() + share * ((own == least) & (own > 0)).sum()) / len(own))


def _checks(own: Floats, labels: Floats) -> int | None:
    """How many pairs are at least as likely as that with which WANTED of the known functions are found."""
    if not len(own):
        return None
    least = np.sort(own)[::-1][int(np.ceil(WANTED * len(own))) - 1]
    return int((labels >= least).sum()) if least > 0 else None
