"""The model of caches and prefetchers: native code against Python, and what a miss costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from access_traces import SMALL, recorded, synthetic
from kvrm.caches import cache, sites, tables
from kvrm.caches.cache import COUNTS, MISSES, nothing, simulator
from kvrm.caches.session import Session
from kvrm.caches.sites import Config, Kind
from kvrm.staging.kernel import Array, Kernel


def sums(a: Array, n: int) -> int:
    total = 0
    for i in range(1, n):
        if a[i] < 0 or (a[i] > 5 and i != 3):
            continue
        if a[i] == 2:
            break
        total += max(a[i] << 1, 3) - (not a[i])
    while total > 100:
        total -= 7
    return total if n > 2 else -abs(total - 1)


@pytest.mark.parametrize("n", [0, 2, 3, 8, 40])
def test_kernels_do_what_python_does(n: int) -> None:
    a = np.random.default_rng(n).integers(-3, 9, 40)
    assert Kernel(sums)(a, n) == sums(a, n)


def test_kernels_want_contiguous_int64() -> None:
    with pytest.raises(ValueError, match="contiguous int64"):
        Kernel(sums)(np.zeros(4, np.int32), 4)
    with pytest.raises(ValueError, match="contiguous int64"):
        Kernel(sums)(np.zeros(8, np.int64)[::2], 4)


def mixture(n: int) -> tuple[Array, ...]:
    """Streams, a permutation that comes again and noise, by several sites."""
    rng = np.random.default_rng(1)
    site = rng.integers(0, 6, n)
    chain = rng.permutation(64) * 64
    count = np.zeros(6, np.int64)
    address = np.zeros(n, np.int64)
    for i, s in enumerate(site.tolist()):
        k = int(count[s])
        steps = (
            64 * k,
            24 * k,
            int(chain[k % 64]),
            -128 * k,
            192 * (k // 2) + 8 * (k % 2),
            int(rng.integers(1 << 14)),
        )
        address[i], count[s] = (s + 1 << 24) + steps[s], k + 1
    return site, address, np.arange(n, dtype=np.int64) * 7, rng.integers(0, 2, n)


@pytest.mark.parametrize("name", ["nothing", "engine", *tables.TABLES])
def test_native_caches_and_prefetchers_are_those_of_python(name: str) -> None:
    """The same functions, compiled and not, over the same accesses: every counter and every table entry."""
    site, address, retired, write = mixture(1500)

    def fresh() -> tuple[Callable[..., int], Array]:
        if name == "nothing":
            return nothing, np.zeros(1, np.int64)
        if name == "engine":
            table = np.zeros(sites.F_SITES + 6 * sites.F_WIDTH, np.int64)
            kinds = (Config(Kind.FIXED, 0, 4, 2), Config(Kind.RUNNING, 0, 2), Config(Kind.TEMPORAL, 0, 1, 2))
            chosen = [*kinds, Config(Kind.DELTAS, 0, 1, 2), Config(Kind.FIXED, 64, 1, 1), Config()]
            rows = table[sites.F_SITES :].reshape(6, -1)
            for row, c in zip(rows, chosen, strict=True):
                row[: sites.F_LAST] = (c.kind, c.stride or 64, c.distance, c.degree)
            return sites.engine, table
        return tables.TABLES[name].propose, tables.TABLES[name].fresh()

    ends = []
    for native in (True, False):
        propose, table = fresh()
        kernel = simulator(propose)
        model = SMALL.model()
        l1, l2 = np.zeros(16 * cache.WIDTH, np.int64), np.zeros(128, np.int64)
        counts, missed = np.zeros(6 * COUNTS, np.int64), np.zeros(len(site), np.int64)
        stream = (site, address, retired, write, missed, len(site), 0)
        call = kernel if native else kernel.function
        call(*stream, l1, l2, model, counts, table, np.zeros(2, np.int64))
        ends.append([array.tolist() for array in (missed, l1, l2, model, counts, table)])
    assert ends[0] == ends[1]
    if name not in ("nothing", "isb"):
        assert sum(ends[0][4][cache.USEFUL :: COUNTS]) > 0


def lru(lines: list[int], count: int, ways: int) -> int:
    """Misses of a cache, written once more: a list for each set."""
    kept: list[list[int]] = [[] for _ in range(count)]
    misses = 0
    for line in lines:
        own = kept[line % count]
        if line in own:
            own.remove(line)
        else:
            misses += 1
        own.insert(0, line)
        del own[ways:]
    return misses


@pytest.mark.parametrize("program", ["sha256", "mandelbrot", "primes"])
def test_misses_are_those_of_lru(program: str) -> None:
    trace = recorded(program)
    session = Session(nothing, np.zeros(1, np.int64), SMALL)
    session.feed(*trace.stream())
    assert session.outcome.misses == lru((trace.address >> 6).tolist(), 8, 2) > 0
    assert session.counts[:, MISSES].sum() == session.outcome.misses


def test_the_model_of_time() -> None:
    """A load from memory waits 12 + 100; the next one 6 more, because memory is busy; a hit in L1 nothing."""
    session = Session(nothing, np.zeros(1, np.int64))
    session.feed(*synthetic([0x10000, 0x10008, 0x20000], gap=1).stream())
    assert session.outcome.stalled == 112 + 112 and session.outcome.misses == 2
    late = synthetic([0x10000, 0x20000], gap=0)
    both = Session(nothing, np.zeros(1, np.int64))
    both.feed(*late.stream())
    assert both.outcome.stalled == 112 + 112  # it waited for the first before it asked for the second


def test_a_prefetched_line_saves_what_it_is_early() -> None:
    """Next line, then a use of it 50 cycles later: 112 + 6 to come, the rest is waited for."""
    table = tables.TABLES["next line"]
    session = Session(table.propose, table.fresh())
    session.feed(*synthetic([0x10000, 0x10040], gap=50).stream())
    o = session.outcome
    # asked for at 0 as the second after the demanded line, there at 118; the use is at 112 + 50
    assert (o.misses, o.useful, o.late, o.stalled) == (1, 1, 0, 112)
    soon = Session(table.propose, table.fresh())
    soon.feed(*synthetic([0x10000, 0x10040], gap=0).stream())
    assert (soon.outcome.late, soon.outcome.stalled) == (1, 112 + 6)
