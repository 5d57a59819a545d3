"""Loops that the device's interpreter skips: found where lanes are when a launch ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kvrm.backend.gpu.code import Code
from kvrm.backend.gpu.skipping import Site
from kvrm.isa.features import CORTEX_A76
from kvrm.loops import plan
from kvrm.loops.device import emit
from kvrm.loops.plan import WORD
from kvrm.loops.sites import Body, Known, Proposer
from kvrm.memory import Memory

REST = 64
"""Launches after which a loop that did not pay may try again."""


class Source(Protocol):
    """What runs the code."""

    @property
    def code(self) -> Code:
        """The present code; another one where it has changed."""


class DeviceSites:
    """The loops that are skipped in the code of `source`.

    `least` is the fewest iterations that are skipped at once; by default, those that are worth it.
    """

    def __init__(
        self,
        proposer: Proposer,
        source: Source,
        memory: Memory,
        features: frozenset[str] = CORTEX_A76,
        least: int | None = None,
    ) -> None:
        self.known = Known(proposer, memory, features)
        self._proposer = proposer
        self._source, self._least = source, least
        self._code: Code | None = None
        self._loops: dict[int, Body] = {}
        self._before = 0
        proposer.sites.append(self._total)

    emit = staticmethod(emit)

    def _total(self) -> int:
        """Instructions that were skipped so far."""
        if self._code is None or self._code.skipped is None:
            return self._before
        self._code.use_device()
        rows = self._code.skipped.words()
        return self._before + int((rows[:, plan.ITERATIONS // WORD] * rows[:, plan.COST // WORD]).sum())

    def end(self) -> None:
        """Keep nothing on the device; what was skipped still counts."""
        self._proposer.before += self._total()
        self._proposer.sites.remove(self._total)
        self._code = None

    def look(self, where: Iterable[tuple[int, int]]) -> None:
        """Addresses where lanes were when a launch ended, and how many were there."""
        self._follow()
        for pc, lanes in where:
            found = self.known.sampled(pc, lanes)
            if found is not None:
                self.install(*found)
        self._settle()

    def _follow(self) -> None:
        """If the code is another one now, skip in it what is still there."""
        code = self._source.code
        if code is self._code:
            return
        self._before = self._total()
        self._code = code
        loops, self._loops = self._loops, {}
        self.known.forget()
        for pc, body in loops.items():
            if self.known.loop_at(pc) == (pc, body):
                self.install(pc, body)

    def install(self, pc: int, body: Body) -> bool:
        """Have the loop at `pc` skipped from now on, if it is accepted; whether it is."""
        self._follow()
        code = self._code
        assert code is not None and code.skipped is not None
        runs = code.slot(pc) and all(code.runs(at) for at in range(pc, pc + 4 * len(body), 4))
        if pc in self._loops or not runs:
            return False
        loop = self.known.decide(pc, body)
        if loop is None:
            return False
        words = plan.plan_of(loop, code.copy(pc, len(body)), self._least)
        if not code.skipped.add(Site(pc, pc + 4 * len(body)), words):
            return False
        self._loops[pc] = body
        return True

    def _settle(self) -> None:
        """Let loops rest that cost more than they spare."""
        assert self._code is not None and self._code.skipped is not None
        skipped = self._code.skipped
        for site, row in zip(skipped.sites, skipped.words().tolist(), strict=True):
            entries, iterations = row[plan.ENTRIES // WORD], row[plan.ITERATIONS // WORD]
            spared = (iterations - site.iterations) * row[plan.COST // WORD]
            pays = spared >= (entries - site.entries) * plan.LOOK
            site.entries, site.iterations = entries, iterations
            site.rest = max(site.rest - 1, 0) if pays else REST
        skipped.place()
