"""Learning while a guest runs: first predict, then learn, with a frozen network and a table as controls.

The guest's accesses are cut into segments. For the sites of each one every learner says first which config it
would take; then the caches say what all configs were worth, and the learners learn from that. Weights are a
function of where they began and of the log, which can be replayed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvrm.array_files import read_arrays
from kvrm.caches.rewards import examples_of
from kvrm.caches.sites import CONFIGS, Questions, window_stride
from kvrm.caches.traces import Peek, Recording, Trace
from kvrm.errors import UsageError
from kvrm.neural.adam import Adam
from kvrm.neural.memory_network import COUNT, accesses_of, answers_of, fields_of
from kvrm.neural.memory_training import BATCH, clipped, gradient_of, targets_of
from kvrm.neural.weights import Floats, hash_of
from kvrm.observe.observer import Accesses

SEGMENT = 1 << 20
"""Accesses of a segment."""
STEPS, RATE, KEPT = 8, 5e-4, 8
"""Steps of training after each segment, their rate, and how many segments they draw from: the last ones."""
LEARNERS = ("network that learns", "network, frozen", "table that learns")

Batch = tuple[Floats, Floats, Floats, Floats]
"""Accesses, fields, what is wanted, weights (`kvrm.neural.memory_training`)."""
COLUMNS = ("accesses", "fields", "wanted", "weights")
"""Their names in a log."""


class Student:
    """A network that learns from batches: the same ones in the same order give the same weights."""

    def __init__(self, flat: Floats, seed: int) -> None:
        self.flat = flat.copy()
        self._adam, self._rng = Adam(self.flat), np.random.default_rng(seed)
        self._batches: list[Batch] = []

    def learn(self, batch: Batch) -> None:
        """Some steps on the last batches, this one among them."""
        self._batches = [*self._batches[1 - KEPT :], batch]
        columns = [np.concatenate(column) for column in zip(*self._batches, strict=True)]
        for _ in range(STEPS):
            rows = self._rng.integers(0, len(columns[0]), min(BATCH, len(columns[0])))
            gradient, _ = gradient_of(self.flat, *(column[rows] for column in columns))
            self._adam.step(clipped(gradient), RATE)


class LearningTable:
    """Mean worth of each config by what a site looks like: instruction fields, its stride."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, ...], npt.NDArray[np.float64]] = {}
        self._all = np.zeros(len(CONFIGS))

    def answers(self, q: Questions) -> npt.NDArray[np.integer]:
        """The best config so far of sites that look like these, or of all sites."""
        return np.array([self._sums.get(key, self._all).argmax() for key in self._keys(q)], np.int64)

    def learn(self, q: Questions, wanted: Floats) -> None:
        """Learn what the configs were worth."""
        for key, worth in zip(self._keys(q), wanted[:, : len(CONFIGS)], strict=True):
            self._sums[key] = self._sums.get(key, 0) + worth
            self._all += worth

    @staticmethod
    def _keys(q: Questions) -> list[tuple[int, ...]]:
        steps, often = window_stride(q)
        look = np.stack([np.sign(steps), np.abs(steps) >= 64, often // 5], axis=1)
        parts = np.concatenate([fields_of(q.words), look], axis=1).astype(np.int64)
        return [tuple(row) for row in parts.tolist()]


@dataclass(frozen=True, slots=True)
class Score:
    """One segment: sites asked about, and what the answers of LEARNERS and the best are worth."""

    sites: int
    worth: tuple[float, ...]
    best: float


@dataclass(slots=True)
class Lesson:
    """What learning has come to: scores, seconds of simulating and of training, and the log's batches."""

    scores: list[Score] = field(default_factory=list)
    simulating: float = 0.0
    training: float = 0.0
    batches: list[Batch] = field(default_factory=list)

    def shares(self, first: int = 0, last: int | None = None) -> dict[str, float]:
        """For each learner, what its answers were worth in these segments, of what the best ones are."""
        some = self.scores[first:last]
        best = max(sum(score.best for score in some), 1e-9)
        return {name: sum(s.worth[i] for s in some) / best for i, name in enumerate(LEARNERS)}


class Learner:
    """Learners side by side on segments; `flat` is where the network begins."""

    def __init__(self, flat: Floats, seed: int = 0) -> None:
        self.began, self.seed = flat.copy(), seed
        self._student, self._table = Student(flat, seed), LearningTable()
        self.lesson = Lesson()

    @property
    def flat(self) -> Floats:
        """The weights so far."""
        return self._student.flat

    def segment(self, trace: Trace) -> None:
        """Predict for the sites of a segment, then learn."""
        began = time.perf_counter()
        examples, sites = examples_of(trace)
        self.lesson.simulating += time.perf_counter() - began
        if not len(sites):
            return
        q, rows = examples.questions, np.arange(len(sites))
        answers = (answers_of(self.flat, q)[0], answers_of(self.began, q)[0], self._table.answers(q))
        worth = tuple(float(examples.rewards[rows, chosen].sum()) for chosen in answers)
        best = float(examples.rewards.max(axis=1).sum())
        self.lesson.scores.append(Score(len(sites), worth, best))
        began = time.perf_counter()
        wanted, weights = targets_of(examples)
        self._table.learn(q, wanted)
        batch = (accesses_of(q), fields_of(q.words), wanted, weights)
        self._student.learn(batch)
        self.lesson.training += time.perf_counter() - began
        self.lesson.batches.append(batch)

    def save_log(self, path: Path) -> None:
        """Write all that the weights depend on, and their hash."""
        sizes = np.array([len(batch[0]) for batch in self.lesson.batches], np.int64)
        columns = zip(*self.lesson.batches, strict=True)
        log: dict[str, Any] = {n: np.concatenate(column) for n, column in zip(COLUMNS, columns, strict=False)}
        log |= {"began": self.began, "seed": self.seed, "sizes": sizes, "sha256": hash_of(self.flat)}
        np.savez_compressed(path, **log)


def replay(path: Path) -> tuple[Floats, str]:
    """The weights that a log leads to, and the hash of those that were there when it was written."""
    names = (*COLUMNS, "began", "seed", "sizes", "sha256")
    *columns, began, seed, sizes, told = read_arrays(path, names, "no log of learning").values()
    try:
        student, at = Student(began, int(seed)), 0
        for size in sizes.tolist():
            accesses, seen, wanted, weights = (column[at : at + size] for column in columns)
            student.learn((accesses, seen, wanted, weights))
            at += size
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: no log of learning ({error})") from None
    if student.flat.shape != (COUNT,):
        raise UsageError(f"{path}: not a log of this network")
    return student.flat, str(told)


class Learning:
    """A memory policy of a machine that learns from what the guest does."""

    def __init__(self, flat: Floats, seed: int = 0, segment: int = SEGMENT) -> None:
        self.learner, self._segment = Learner(flat, seed), segment
        self._recording = Recording()

    def attach(self, peek: Peek) -> None:
        self._peek = peek
        self._recording.attach(peek)

    def feed(self, a: Accesses) -> None:
        self._recording.feed(a)
        if self._recording.accesses >= self._segment:
            self.learner.segment(self._recording.trace())
            self._recording = Recording()
            self._recording.attach(self._peek)

    @property
    def report(self) -> dict[str, Any]:
        """What was learned, for `kvrm run --stats`."""
        lesson = self.learner.lesson
        return {
            "segments": len(lesson.scores),
            "sites": sum(score.sites for score in lesson.scores),
            "share_of_best": {name: round(share, 4) for name, share in lesson.shares().items()},
            "simulating_seconds": round(lesson.simulating, 3),
            "training_seconds": round(lesson.training, 3),
            "weights_sha256": hash_of(self.learner.flat),
        }


def forgetting(a: Trace, b: Trace, flat: Floats, segments: int) -> list[tuple[str, dict[str, float]]]:
    """Shares of the best while learning on `a`, on `b`, and on `a` again, each in that many segments."""
    learner, told = Learner(flat), []
    for name, trace in (("A", a), ("B", b), ("A again", a)):
        first = len(learner.lesson.scores)
        for k in range(segments):
            learner.segment(trace.part(k / segments, (k + 1) / segments))
        told.append((name, learner.lesson.shares(first)))
    return told
