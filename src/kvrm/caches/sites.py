"""One decision for each static load or store: which of CONFIGS an exact engine carries out for it.

A site is asked about once, when it has been accessed WINDOW times and missed ASK_MISSES times: its last
WINDOW accesses and its instruction word are what a policy sees. Until then, and with config 0, nothing is
prefetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvrm.caches.berti import E_WIDTH, berti_learn, berti_lines
from kvrm.caches.cache import LINE, LINE_SHIFT
from kvrm.caches.tables import mixed
from kvrm.staging.kernel import Array, Kernel

WINDOW, ASK_MISSES = 16, 4


class Kind(IntEnum):
    """What the engine does for a site."""

    NONE = 0
    FIXED = 1
    """A known step ahead of each new line."""
    RUNNING = 2
    """The last step, if it came twice."""
    TEMPORAL = 3
    """What the site touched last time after this line."""
    DELTAS = 4
    """The steps that would have been in time, as Berti finds them, for this site alone."""


@dataclass(frozen=True, slots=True)
class Config:
    """Kind, which stride (0: that of the window, else bytes), distance in steps, degree."""

    kind: Kind = Kind.NONE
    stride: int = 0
    distance: int = 1
    degree: int = 1

    def __str__(self) -> str:
        if self.kind is Kind.NONE:
            return "none"
        if self.kind is Kind.DELTAS:
            return f"deltas +{self.degree}"
        if self.kind is Kind.FIXED and self.stride:
            name = "next" if self.stride > 0 else "previous"
        else:
            name = "stride" if self.kind is Kind.FIXED else self.kind.name.lower()
        return f"{name} x{self.distance}" + "+1" * (self.degree - 1)


def _some(kind: Kind, stride: int, *shapes: tuple[int, int]) -> list[Config]:
    return [Config(kind, stride, distance, degree) for distance, degree in shapes]


CONFIGS = [
    Config(),
    *_some(Kind.FIXED, LINE, (1, 1), (1, 2), (2, 1), (4, 2)),
    *_some(Kind.FIXED, -LINE, (1, 1), (1, 2)),
    *_some(Kind.FIXED, 0, (1, 1), (1, 2), (2, 1), (4, 1), (4, 2), (8, 1), (16, 1), (16, 2)),
    *_some(Kind.RUNNING, 0, (1, 1), (4, 1), (8, 1)),
    *_some(Kind.TEMPORAL, 0, (1, 1), (1, 2), (2, 1), (4, 1)),
    *_some(Kind.DELTAS, 0, (1, 1), (1, 2)),
]

TEMPORAL_ENTRIES = 8192
F_KIND, F_STEP, F_DISTANCE, F_DEGREE, F_LAST, F_DELTA, F_LINE, F_BERTI = range(8)
F_WIDTH = F_BERTI + E_WIDTH
F_SITES = 2 * TEMPORAL_ENTRIES
"""The engine's array: rows of key and next line, then for each site its config and what it last did."""


def engine(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """Carry out the config of each site."""
    at = F_SITES + site * F_WIDTH
    kind = table[at + F_KIND]
    if kind == 0:
        return 0
    line = address >> LINE_SHIFT
    if kind == 4:
        if miss > 0:
            berti_learn(table, at + F_BERTI, line, now)
        return berti_lines(table, at + F_BERTI, line, table[at + F_DEGREE], out)
    before = table[at + F_LINE]
    table[at + F_LINE] = line
    step = table[at + F_STEP]
    if kind == 2:
        step = address - table[at + F_LAST]
        steady = step == table[at + F_DELTA]
        table[at + F_LAST] = address
        table[at + F_DELTA] = step
        if steady == 0 or step == 0:
            return 0
    if line == before:
        return 0
    if kind == 3:
        return temporal(table, site, before, line, table[at + F_DISTANCE], table[at + F_DEGREE], out)
    if abs(step) < LINE:
        step = LINE if step > 0 else -LINE
    ahead = address + step * table[at + F_DISTANCE]
    out[0] = ahead >> LINE_SHIFT
    out[1] = (ahead + step) >> LINE_SHIFT
    degree: int = table[at + F_DEGREE]
    return degree


def temporal(table: Array, site: int, before: int, line: int, distance: int, degree: int, out: Array) -> int:
    """Remember that `line` came after `before`; the lines that came `distance` later last time."""
    key = mixed(before, site)
    at = 2 * (key & (TEMPORAL_ENTRIES - 1))
    table[at] = key
    table[at + 1] = line
    current = line
    found = 0
    for k in range(distance + degree - 1):
        key = mixed(current, site)
        at = 2 * (key & (TEMPORAL_ENTRIES - 1))
        if table[at] != key:
            return found
        current = table[at + 1]
        if k >= distance - 1:
            out[found] = current
            found += 1
    return found


H_COUNT, H_MISSES, H_ASKED, H_ROWS = range(4)
H_WIDTH = H_ROWS + 3 * WINDOW
"""Of a site: accesses, misses, whether it was asked about; then a ring of address, retired, miss."""


def observe(
    site: Array, address: Array, retired: Array, missed: Array, n: int, history: Array, due: Array
) -> int:
    """Note n accesses; the sites to be asked about now go to `due`, their number is returned."""
    found = 0
    for i in range(n):
        at = site[i] * H_WIDTH
        if history[at + H_ASKED] == 0:
            row = at + H_ROWS + 3 * (history[at + H_COUNT] & (WINDOW - 1))
            history[row] = address[i]
            history[row + 1] = retired[i]
            history[row + 2] = missed[i]
            history[at + H_COUNT] += 1
            history[at + H_MISSES] += missed[i] != 0
            if history[at + H_MISSES] >= ASK_MISSES and history[at + H_COUNT] >= WINDOW:
                history[at + H_ASKED] = 1
                due[found] = site[i]
                found += 1
    return found


observe_natively = Kernel(observe)


@dataclass(frozen=True, slots=True)
class Questions:
    """n sites: instruction `words` (uint32, n), and their last accesses, oldest first (int64, n by WINDOW).

    `missed` is 0 for a hit, else what `kvrm.caches.cache` says.
    """

    words: npt.NDArray[np.uint32]
    address: Array
    retired: Array
    missed: Array

    def __len__(self) -> int:
        return len(self.words)


class Policy(Protocol):
    """Says what an engine should do for each of n sites."""

    def __call__(self, questions: Questions, /) -> npt.NDArray[np.integer]:
        """The index in CONFIGS of each site."""


def questions_of(history: Array, sites: Array, words: npt.NDArray[np.uint32]) -> Questions:
    """What is asked about these sites, from the array that `observe` fills."""
    rows = history.reshape(-1, H_WIDTH)[sites]
    order = (rows[:, H_COUNT, None] + np.arange(WINDOW)) % WINDOW
    ring = rows[:, H_ROWS:].reshape(-1, WINDOW, 3)
    ring = np.take_along_axis(ring, order[:, :, None], axis=1)
    address, retired, missed = (np.ascontiguousarray(ring[:, :, k]) for k in range(3))
    return Questions(words[sites], address, retired, missed)


def window_stride(q: Questions) -> tuple[Array, Array]:
    """The step that each window has most often, 0 not counted, and how often it does (of WINDOW - 1)."""
    steps = np.diff(q.address, axis=1)
    same = (steps[:, :, None] == steps[:, None, :]).sum(axis=2) * (steps != 0)
    best = same.argmax(axis=1)
    return np.take_along_axis(steps, best[:, None], 1)[:, 0], same.max(axis=1)


def configure(table: Array, sites: Array, q: Questions, chosen: npt.NDArray[np.integer]) -> None:
    """Give the sites their configs. One with the window's stride prefetches nothing if there is no stride."""
    rows = table[F_SITES:].reshape(-1, F_WIDTH)
    steps, _ = window_stride(q)
    for site, config, step, last in zip(
        sites, (CONFIGS[c] for c in chosen), steps, q.address[:, -1], strict=True
    ):
        kind = config.kind
        step = config.stride or int(step)
        if kind is Kind.FIXED and step == 0:
            kind = Kind.NONE
        line = int(last) >> LINE_SHIFT
        rows[site, :F_BERTI] = (kind, step, config.distance, config.degree, last, 0, line)


def rule(q: Questions) -> npt.NDArray[np.integer]:
    """What one would write by hand: the window's stride if half of its steps have it, else the next line."""
    steps, often = window_stride(q)
    near = abs(steps) <= 4096
    stride = CONFIGS.index(Config(Kind.FIXED, 0, 4, 1))
    following = CONFIGS.index(Config(Kind.FIXED, LINE, 1, 1))
    return np.where((often >= (WINDOW - 1) / 2) & near, stride, following)
