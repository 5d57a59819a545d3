"""A prefetcher like Berti, in the form of `kvrm.caches.cache`: deltas that would have been in time."""

from __future__ import annotations

from kvrm.caches.cache import LINE_SHIFT
from kvrm.staging.kernel import Array

BERTI_SITES, BERTI_HISTORY, BERTI_DELTAS, BERTI_ROUND, BERTI_DELAY = 32, 8, 12, 16, 112
E_TAG, E_HEAD, E_SEARCHES, E_FIRST, E_SECOND, E_HISTORY = range(6)
E_DELTAS = E_HISTORY + 2 * BERTI_HISTORY
E_WIDTH = E_DELTAS + 2 * BERTI_DELTAS
BERTI_BITS = 10 + 3 + 5 + 26 + BERTI_HISTORY * (24 + 16) + BERTI_DELTAS * (13 + 5)


def berti(table: Array, site: int, address: int, miss: int, now: int, index: int, out: Array) -> int:
    """Like Berti (Navarro-Torres et al., MICRO 2022): a site's deltas that would have been in time.

    After BERTI_ROUND misses, the two that cover most of them are used, if they cover a third.
    """
    line = address >> LINE_SHIFT
    at = (site & (BERTI_SITES - 1)) * E_WIDTH
    if table[at + E_TAG] != site + 1:
        if miss == 0:
            return 0
        for k in range(E_WIDTH):
            table[at + k] = 0
        table[at + E_TAG] = site + 1
    if miss > 0:
        berti_learn(table, at, line, now)
    return berti_lines(table, at, line, 2, out)


def berti_lines(table: Array, at: int, line: int, degree: int, out: Array) -> int:
    """The lines that the chosen deltas lead to; a second delta is there only if a first one is."""
    out[0] = line + table[at + E_FIRST]
    out[1] = line + table[at + E_SECOND]
    found = 0
    if table[at + E_FIRST] != 0:
        found = 2 if table[at + E_SECOND] != 0 else 1
    return min(found, degree)


def berti_learn(table: Array, at: int, line: int, now: int) -> int:
    """Count the deltas from lines that the site missed long enough ago; note this one."""
    for k in range(BERTI_HISTORY):
        old = at + E_HISTORY + 2 * k
        delta = line - table[old]
        if table[old] > 0 and delta != 0 and table[old + 1] + BERTI_DELAY <= now and abs(delta) < 4096:
            berti_count(table, at + E_DELTAS, delta)
    head = at + E_HISTORY + 2 * table[at + E_HEAD]
    table[head] = line
    table[head + 1] = now
    table[at + E_HEAD] = (table[at + E_HEAD] + 1) & (BERTI_HISTORY - 1)
    table[at + E_SEARCHES] += 1
    if table[at + E_SEARCHES] >= BERTI_ROUND:
        berti_choose(table, at)
    return 0


def berti_count(table: Array, deltas: int, delta: int) -> int:
    """One more for a delta; a new one replaces the one with the fewest."""
    least = deltas
    for k in range(BERTI_DELTAS):
        place = deltas + 2 * k
        if table[place] == delta and table[place + 1] > 0:
            table[place + 1] += 1
            return 0
        if table[place + 1] < table[least + 1]:
            least = place
    table[least] = delta
    table[least + 1] = 1
    return 0


def berti_choose(table: Array, at: int) -> int:
    """End a round."""
    first = 0
    second = 0
    most = (BERTI_ROUND >> 2) + 1
    more = most
    for k in range(BERTI_DELTAS):
        place = at + E_DELTAS + 2 * k
        count = table[place + 1]
        if count > most:
            second = first
            more = most
            first = table[place]
            most = count
        elif count > more:
            second = table[place]
            more = count
        table[place + 1] = 0
    table[at + E_FIRST] = first
    table[at + E_SECOND] = second
    table[at + E_SEARCHES] = 0
    return 0
