"""What a policy's answers come to where a prefetch is an instruction: bytes from each site's own address.

An exact engine follows a site; an instruction on a GPU cannot, so its steps are those that the engine had at
the end of a recording. What followed a line last time is no step, and is left out.
"""

from __future__ import annotations

import numpy as np

from kvrm.caches.berti import berti_lines
from kvrm.caches.cache import LINE, MISSES
from kvrm.caches.session import PolicySession, Session
from kvrm.caches.sites import ASK_MISSES, F_BERTI, F_SITES, F_WIDTH, Kind
from kvrm.caches.tables import B_BEST, best_offset


def steps_of(session: Session) -> dict[int, list[int]]:
    """By site, how far ahead of each access to prefetch, in bytes; sites that have none are left out."""
    if isinstance(session, PolicySession):
        found = {site: _steps(session, site) for site in session.asked}
    elif session.propose is best_offset:
        missing = np.flatnonzero(session.counts[:, MISSES] >= ASK_MISSES)
        found = {site: [LINE * int(session.table[B_BEST])] for site in missing.tolist()}
    else:
        raise ValueError(f"no steps of {session.propose.__name__}")
    return {site: steps for site, steps in found.items() if any(steps)}


def _steps(session: PolicySession, site: int) -> list[int]:
    """As `kvrm.caches.sites.engine` would go on."""
    at = F_SITES + site * F_WIDTH
    kind, step, distance, degree, _, last, _ = session.table[at : at + F_BERTI].tolist()
    if kind == Kind.DELTAS:
        out = np.zeros(2, np.int64)
        count = berti_lines(session.table, at + F_BERTI, 0, degree, out)
        return [LINE * int(line) for line in out[:count]]
    if kind not in (Kind.FIXED, Kind.RUNNING):
        return []
    each = step if kind == Kind.FIXED else last
    return [each * (distance + k) for k in range(degree)]
