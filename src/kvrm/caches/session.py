"""A prefetcher at work on a stream of accesses, in pieces of any length."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvrm.caches import cache
from kvrm.caches.cache import COUNTS, DEFAULT, WIDTH, Propose, Shape, simulator
from kvrm.caches.sites import (
    CONFIGS,
    F_SITES,
    F_WIDTH,
    H_WIDTH,
    Policy,
    Questions,
    configure,
    engine,
    observe_natively,
    questions_of,
)
from kvrm.errors import UsageError
from kvrm.staging.kernel import Array, Kernel

PIECE = 1 << 12
"""Accesses after which sites that are due are asked about."""
_KERNELS: dict[str, Kernel] = {}


def _kernel(propose: Propose) -> Kernel:
    return _KERNELS.setdefault(propose.__name__, simulator(propose))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a stream of accesses came to. Times are cycles of the model (`kvrm.caches.cache`)."""

    accesses: int
    misses: int
    memory: int
    issued: int
    useful: int
    late: int
    retired: int
    stalled: int

    @property
    def cycles(self) -> int:
        """Instructions, and what loads waited."""
        return self.retired + self.stalled

    @property
    def accuracy(self) -> float:
        """Prefetched lines that were used, of those issued."""
        return self.useful / self.issued if self.issued else 0.0

    @property
    def coverage(self) -> float:
        """First uses of prefetched lines, of these and the misses that are left."""
        return self.useful / (self.useful + self.misses) if self.useful else 0.0

    @property
    def timeliness(self) -> float:
        """Used lines that were there in time."""
        return 1 - self.late / self.useful if self.useful else 0.0


class Session:
    """Caches, a prefetcher, and counters for each site; sites are numbered from 0 as their owner likes."""

    def __init__(self, propose: Propose, table: Array, shape: Shape = DEFAULT) -> None:
        self._simulate, self.propose, self.table = _kernel(propose), propose, table
        self._model = shape.model()
        self._l1 = np.zeros(shape.l1_bytes // cache.LINE * WIDTH, np.int64)
        self._l2 = np.zeros(shape.l2_bytes // cache.LINE, np.int64)
        self._counts = np.zeros(0, np.int64)
        self._out = np.zeros(cache.MOST_PREFETCHES, np.int64)
        self._done, self._begin, self._retired = 0, -1, 0

    def feed(self, site: Array, address: Array, retired: Array, write: Array, sites: int) -> Array:
        """Run these accesses, all int64 and contiguous; `sites` bounds their numbers. What missed."""
        self._grow(sites)
        missed = np.zeros(len(site), np.int64)
        if len(site):
            stream = (site, address, retired, write, missed, len(site), self._done)
            caches = (self._l1, self._l2, self._model, self._counts, self.table, self._out)
            self._simulate(*stream, *caches)
            self._done += len(site)
            self._begin = int(retired[0]) if self._begin < 0 else self._begin
            self._retired = int(retired[-1]) + 1
        return missed

    def _grow(self, sites: int) -> None:
        """Make room for that many sites."""
        self._counts = _longer(self._counts, _room(sites) * COUNTS)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Counters by site (n, COUNTS), a view."""
        return self._counts.reshape(-1, COUNTS)

    @property
    def outcome(self) -> Outcome:
        total: list[int] = self.counts.sum(axis=0).tolist()
        retired = self._retired - max(self._begin, 0)
        accesses, misses, memory, issued, useful, late, _ = total
        stalled = int(self._model[cache.STALL])
        return Outcome(accesses, misses, memory, issued, useful, late, retired, stalled)


def _room(sites: int) -> int:
    """Sites that there is room for, so that it need not grow often."""
    return 1 << sites.bit_length()


def _longer(array: Array, size: int) -> Array:
    """The array, or one of this size with zeros after it."""
    return array if len(array) >= size else np.concatenate([array, np.zeros(size - len(array), np.int64)])


class PolicySession(Session):
    """A session whose sites a policy decides on, once each; `words` has the instruction word of each site.

    `asked`, `answers`: the sites so far and their configs; `seconds`: what answering took.
    """

    def __init__(self, policy: Policy, shape: Shape = DEFAULT) -> None:
        super().__init__(engine, np.zeros(F_SITES, np.int64), shape)
        self.policy = policy
        self.words = np.zeros(0, np.uint32)
        self._history, self._due = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.asked: list[int] = []
        self.answers: list[int] = []
        self.seconds = 0.0

    def feed(self, site: Array, address: Array, retired: Array, write: Array, sites: int) -> Array:
        """As `Session.feed`; after each PIECE accesses the policy is asked."""
        missed = np.zeros(len(site), np.int64)
        for first in range(0, len(site), PIECE):
            part = slice(first, first + PIECE)
            missed[part] = super().feed(site[part], address[part], retired[part], write[part], sites)
            stream = (site[part], address[part], retired[part], missed[part])
            found = observe_natively(*stream, len(missed[part]), self._history, self._due)
            if found:
                self._ask(self._due[:found].copy())
        return missed

    def _grow(self, sites: int) -> None:
        super()._grow(sites)
        self.table = _longer(self.table, F_SITES + _room(sites) * F_WIDTH)
        self._history = _longer(self._history, _room(sites) * H_WIDTH)
        self._due = _longer(self._due, _room(sites))

    def _ask(self, sites: Array) -> None:
        questions = questions_of(self._history, sites, self.words)
        began = time.perf_counter()
        chosen = np.asarray(self.choose(sites, questions))
        self.seconds += time.perf_counter() - began
        if chosen.shape != sites.shape or chosen.min() < 0 or chosen.max() >= len(CONFIGS):
            raise UsageError(f"a memory policy gives each site a config below {len(CONFIGS)}")
        configure(self.table, sites, questions, chosen)
        self.asked += sites.tolist()
        self.answers += chosen.tolist()

    def choose(self, sites: Array, questions: Questions) -> npt.NDArray[np.integer]:
        return self.policy(questions)
