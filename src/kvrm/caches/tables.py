"""Table prefetchers, each from its paper, in the form of `kvrm.caches.cache`.

Their tables are arrays of int64 here; `bytes` of a `Table` says what the fields take in hardware.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvrm.caches.berti import BERTI_BITS, BERTI_SITES, E_WIDTH, berti
from kvrm.caches.cache import LINE, LINE_SHIFT, Propose
from kvrm.staging.kernel import Array

OFFSETS = tuple(n for n in range(1, 257) if 60**8 % n == 0)
"""Best-Offset's 52: no prime factor above 5."""


def mixed(a: int, b: int) -> int:
    """A hash of two numbers, 31 bits."""
    x = (a ^ (a >> 17) ^ (b << 7) ^ (b >> 11)) & 0x7FFFFFFF
    return ((x * 0x1E3779B1) >> 20) & 0x7FFFFFFF


def next_line(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """The two lines after one that missed (Smith, "Cache Memories", 1982: tagged prefetch)."""
    out[0] = (address >> LINE_SHIFT) + 1
    out[1] = (address >> LINE_SHIFT) + 2
    return 2 if miss > 0 else 0


RPT_ENTRIES, RPT_AHEAD = 256, 4
R_TAG, R_LAST, R_STRIDE, R_STATE, R_WIDTH = range(5)


def stride(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """The reference prediction table (Chen and Baer, IEEE TC 44(5), 1995): a site's last stride, if steady.

    States: 0 initial, 1 transient, 2 steady, 3 no prediction. RPT_AHEAD strides ahead, at least that many
    lines.
    """
    at = (site & (RPT_ENTRIES - 1)) * R_WIDTH
    if table[at + R_TAG] != site + 1:
        table[at + R_TAG] = site + 1
        table[at + R_LAST] = address
        table[at + R_STRIDE] = 0
        table[at + R_STATE] = 0
        return 0
    delta = address - table[at + R_LAST]
    same = delta == table[at + R_STRIDE]
    state = table[at + R_STATE]
    table[at + R_LAST] = address
    if same == 0 and state != 2:
        table[at + R_STRIDE] = delta
    if same:
        table[at + R_STATE] = 1 if state == 3 else 2
    else:
        table[at + R_STATE] = 0 if state == 2 else (1 if state == 0 else 3)
    if table[at + R_STATE] != 2 or delta == 0:
        return 0
    step = delta if abs(delta) >= LINE else (LINE if delta > 0 else -LINE)
    out[0] = (address + RPT_AHEAD * step) >> LINE_SHIFT
    out[1] = (address + (RPT_AHEAD + 1) * step) >> LINE_SHIFT
    return 2


BO_RECENT, BO_PENDING, BO_MOST_SCORE, BO_ROUNDS, BO_DELAY = 256, 64, 31, 100, 60
BO_COUNT = 52
B_BEST, B_TESTED, B_ROUND, B_HEAD, B_TAIL, B_OFFSETS = range(6)
B_SCORES = B_OFFSETS + BO_COUNT
B_RECENT = B_SCORES + BO_COUNT
B_PENDING = B_RECENT + BO_RECENT


def best_offset(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """Best-Offset (Michaud, HPCA 2016): the offset whose base lines were fetched recently, but in time.

    A line counts as recent BO_DELAY cycles after it was asked for.
    """
    if miss == 0:
        return 0
    line = address >> LINE_SHIFT
    while table[B_HEAD] != table[B_TAIL] and table[B_PENDING + 2 * table[B_HEAD] + 1] <= now:
        old = table[B_PENDING + 2 * table[B_HEAD]]
        table[B_RECENT + (mixed(old, 0) & (BO_RECENT - 1))] = old
        table[B_HEAD] = (table[B_HEAD] + 1) & (BO_PENDING - 1)
    tested = table[B_TESTED]
    base = line - table[B_OFFSETS + tested]
    if table[B_RECENT + (mixed(base, 0) & (BO_RECENT - 1))] == base:
        table[B_SCORES + tested] += 1
    table[B_TESTED] = tested + 1
    if tested + 1 == BO_COUNT:
        table[B_TESTED] = 0
        table[B_ROUND] += 1
    if table[B_SCORES + tested] >= BO_MOST_SCORE or table[B_ROUND] >= BO_ROUNDS:
        choose_offset(table)
    following = (table[B_TAIL] + 1) & (BO_PENDING - 1)
    if following != table[B_HEAD]:
        table[B_PENDING + 2 * table[B_TAIL]] = line
        table[B_PENDING + 2 * table[B_TAIL] + 1] = now + BO_DELAY
        table[B_TAIL] = following
    out[0] = line + table[B_BEST]
    return 1 if table[B_BEST] > 0 else 0


def choose_offset(table: Array) -> int:
    """End a learning phase: the offset with the most points, none if no one has more than 1."""
    best = 0
    score = 1
    for k in range(BO_COUNT):
        if table[B_SCORES + k] > score:
            score = table[B_SCORES + k]
            best = table[B_OFFSETS + k]
        table[B_SCORES + k] = 0
    table[B_BEST] = best
    table[B_ROUND] = 0
    table[B_TESTED] = 0
    return 0


MARKOV_ENTRIES = 4096
M_LAST, M_ROWS = 0, 1
"""Rows of line, successor, the one before."""


def markov(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """Markov (Joseph and Grunwald, ISCA 1997): the two lines that missed after this one lately."""
    if miss == 0:
        return 0
    line = address >> LINE_SHIFT
    last = table[M_LAST]
    at = M_ROWS + (last & (MARKOV_ENTRIES - 1)) * 3
    if table[at] != last:
        table[at] = last
        table[at + 1] = 0
        table[at + 2] = 0
    if table[at + 1] != line:
        table[at + 2] = table[at + 1]
        table[at + 1] = line
    table[M_LAST] = line
    at = M_ROWS + (line & (MARKOV_ENTRIES - 1)) * 3
    out[0] = table[at + 1]
    out[1] = table[at + 2]
    return 2 if table[at] == line else 0


ISB_ENTRIES, ISB_SITES, ISB_STREAM = 4096, 256, 256
I_NEXT, I_SITES = 0, 1
I_MAP = I_SITES + 2 * ISB_SITES
I_BACK = I_MAP + 3 * ISB_ENTRIES
"""By line: line, structural address, confidence. By structural address: structural address, line."""


def isb(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """Irregular stream buffer (Jain and Lin, MICRO 2013), without its metadata in memory.

    Lines that a site misses one after the other get consecutive structural addresses; the next two of these
    are prefetched.
    """
    if miss == 0:
        return 0
    line = address >> LINE_SHIFT
    own = I_SITES + 2 * (site & (ISB_SITES - 1))
    last = table[own + 1] if table[own] == site + 1 else 0
    table[own] = site + 1
    table[own + 1] = line
    if last > 0 and last != line:
        isb_learn(table, last, line)
    at = I_MAP + 3 * (line & (ISB_ENTRIES - 1))
    if table[at] != line:
        return 0
    found = 0
    for k in range(1, 3):
        structural = table[at + 1] + k
        back = I_BACK + 2 * (structural & (ISB_ENTRIES - 1))
        if table[back] == structural:
            out[found] = table[back + 1]
            found += 1
    return found


def isb_learn(table: Array, last: int, line: int) -> int:
    """`line` came after `last` at one site."""
    a = I_MAP + 3 * (last & (ISB_ENTRIES - 1))
    if table[a] != last:
        table[I_NEXT] += ISB_STREAM
        isb_assign(table, a, last, table[I_NEXT])
    wanted = table[a + 1] + 1
    b = I_MAP + 3 * (line & (ISB_ENTRIES - 1))
    if wanted & (ISB_STREAM - 1) == 0:
        if table[b] == line:
            return 0
        table[I_NEXT] += ISB_STREAM
        wanted = table[I_NEXT]
    if table[b] == line and table[b + 1] == wanted:
        table[b + 2] = min(table[b + 2] + 1, 3)
    elif table[b] == line and table[b + 2] > 1:
        table[b + 2] -= 1
    elif a != b:
        isb_assign(table, b, line, wanted)
    return 0


def isb_assign(table: Array, at: int, line: int, structural: int) -> int:
    """Give a line a structural address."""
    table[at] = line
    table[at + 1] = structural
    table[at + 2] = 1
    back = I_BACK + 2 * (structural & (ISB_ENTRIES - 1))
    table[back] = structural
    table[back + 1] = line
    return 0


DELTA_ENTRIES, DELTA_SITES = 4096, 256
D_SITES, D_ROWS = 0, 4 * DELTA_SITES
"""By site: site plus 1, line, last two deltas. Rows: key, delta, confidence."""


def delta_markov(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """The delta that followed a site's last two, and the one after that.

    A Markov table over distances (Kandiraju and Sivasubramaniam, ISCA 2002) with the site in its key.
    """
    line = address >> LINE_SHIFT
    own = D_SITES + 4 * (site & (DELTA_SITES - 1))
    if table[own] != site + 1:
        table[own] = site + 1
        table[own + 1] = line
        table[own + 2] = 0
        table[own + 3] = 0
        return 0
    delta = line - table[own + 1]
    if delta == 0:
        return 0
    delta_learn(table, mixed(site, mixed(table[own + 3], table[own + 2])), delta)
    older = table[own + 2]
    table[own + 1] = line
    table[own + 2] = delta
    table[own + 3] = older
    found = 0
    for k in range(2):
        key = mixed(site, mixed(older, delta))
        at = D_ROWS + 3 * (key & (DELTA_ENTRIES - 1))
        if table[at] != key or table[at + 2] < 2:
            return found
        older = delta
        delta = table[at + 1]
        line += delta
        out[k] = line
        found += 1
    return found


def delta_learn(table: Array, key: int, delta: int) -> int:
    """`delta` came after what `key` is a hash of."""
    at = D_ROWS + 3 * (key & (DELTA_ENTRIES - 1))
    if table[at] == key and table[at + 1] == delta:
        table[at + 2] = min(table[at + 2] + 1, 3)
    elif table[at] == key and table[at + 2] > 0:
        table[at + 2] -= 1
    else:
        table[at] = key
        table[at + 1] = delta
        table[at + 2] = 1
    return 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table prefetcher: its kernel, numbers in its array, bits that its fields take in hardware."""

    propose: Propose
    size: int
    bits: int

    @property
    def bytes(self) -> int:
        """What it takes in hardware."""
        return (self.bits + 7) // 8

    def fresh(self) -> Array:
        """Its array at the start."""
        table = np.zeros(max(self.size, 1), np.int64)
        if self.propose is best_offset:
            table[B_OFFSETS:B_SCORES] = OFFSETS
            table[B_BEST] = 1
        return table


TABLES = {
    "next line": Table(next_line, 0, 0),
    "stride": Table(stride, RPT_ENTRIES * R_WIDTH, RPT_ENTRIES * (10 + 48 + 16 + 2)),
    "best-offset": Table(
        best_offset, B_PENDING + 2 * BO_PENDING, BO_RECENT * 12 + BO_COUNT * 5 + BO_PENDING * 28 + 24
    ),
    "markov": Table(markov, M_ROWS + 3 * MARKOV_ENTRIES, MARKOV_ENTRIES * (20 + 2 * 32) + 32),
    "isb": Table(
        isb,
        I_BACK + 2 * ISB_ENTRIES,
        ISB_SITES * (10 + 32) + ISB_ENTRIES * (20 + 24 + 2) + ISB_ENTRIES * (12 + 32) + 24,
    ),
    "berti": Table(
        berti,
        BERTI_SITES * E_WIDTH,
        BERTI_SITES * BERTI_BITS,
    ),
    "delta-markov-2+pc": Table(
        delta_markov,
        D_ROWS + 3 * DELTA_ENTRIES,
        DELTA_SITES * (10 + 32 + 2 * 16) + DELTA_ENTRIES * (16 + 16 + 2),
    ),
}
"""Best-Offset's list and Berti's thresholds are those of the papers but for what is said beside them."""
