"""Memory policies: what a machine has watch its accesses, and what that reports.

Whatever a policy answers, the guest is not touched: its accesses run through a model of caches in which the
policy's prefetches are issued, and the report says what would have come of them. On a GPU its answers become
prefetch instructions, which change no result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kvrm.caches.ahead import steps_of
from kvrm.caches.session import PolicySession, Session
from kvrm.caches.sites import CONFIGS, Policy
from kvrm.caches.tables import TABLES
from kvrm.caches.traces import Peek, Sites
from kvrm.errors import UsageError
from kvrm.observe.observer import Accesses, AccessObserver

BEST_TABLE = "best-offset"
"""The table prefetcher that did best on the training traces (docs/networks/memory.md)."""


class Watch:
    """A memory policy of a machine; `make` makes the session that its accesses are fed to."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self._make, self.session = make, make()
        self._sites: Sites | None = None

    def attach(self, peek: Peek) -> None:
        """The machine says how its code is read. All that was seen before is forgotten."""
        self.session, self._sites = self._make(), Sites(peek)

    def feed(self, a: Accesses) -> None:
        assert self._sites is not None
        site = self._sites.numbers(a.pc)
        if isinstance(self.session, PolicySession):
            self.session.words = self._sites.words
        address, write = a.address.astype(np.int64), a.write.astype(np.int64)
        self.session.feed(site, address, a.retired, write, len(self._sites))

    def ahead(self) -> dict[int, list[int]]:
        """For each instruction that should prefetch, how many bytes ahead of its own address."""
        assert self._sites is not None
        pcs = self._sites.pcs.tolist()
        return {pcs[site]: steps for site, steps in steps_of(self.session).items()}

    @property
    def report(self) -> dict[str, Any]:
        """What would have been prefetched, for `kvrm run --stats`."""
        session, outcome = self.session, self.session.outcome
        told: dict[str, Any] = {
            "accesses": outcome.accesses,
            "sites": 0 if self._sites is None else len(self._sites),
            "misses": outcome.misses,
            "prefetches": outcome.issued,
            "used": outcome.useful,
        }
        if isinstance(session, PolicySession):
            configs = Counter(str(CONFIGS[c]) for c in session.answers)
            told |= {"asked": len(session.asked), "seconds": round(session.seconds, 6)}
            told |= {"configs": dict(configs.most_common())}
        return told


def watching(policy: Policy | AccessObserver) -> AccessObserver:
    """What watches a machine: a function that answers questions becomes the policy of a watch."""
    return policy if isinstance(policy, AccessObserver) else Watch(partial(PolicySession, policy))


def by_table() -> Watch:
    """The watch of the best table."""
    table = TABLES[BEST_TABLE]
    return Watch(lambda: Session(table.propose, table.fresh()))


def by_oracle() -> Watch:
    """UsageError: the oracle needs the future."""
    raise UsageError("memory=oracle knows the future: it needs a trace (kvrm evaluate memory)")
