"""From traces to compiled regions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from kvrm.engine.translator.background import Job
from kvrm.engine.translator.compile import Compiled
from kvrm.engine.translator.compilers import Compilers
from kvrm.engine.translator.paths import Paths
from kvrm.engine.translator.plan import plan
from kvrm.engine.translator.store import store
from kvrm.memory import PAGE

RECENT = 8
"""Traces that regions are planned for together."""


class Planner:
    """Remembers what it learned of each engine's program, and compiles with that many processes."""

    def __init__(self, processes: int = 0) -> None:
        self._compilers = Compilers(processes)
        self._code: dict[int, dict[int, bytes]] = {}
        self._paths: dict[int, Paths] = {}
        self._recent: dict[int, deque[list[int]]] = {}

    def regions(self, job: Job, stop: Callable[[], bool] = lambda: False) -> Iterator[Compiled]:
        """New regions for what a job's trace and those before show, the most useful first, until `stop()`."""
        if not job.trace:
            for known in (self._code, self._paths, self._recent):
                known.pop(job.engine, None)
            return
        code = self._code.setdefault(job.engine, {})
        paths = self._paths.setdefault(job.engine, Paths(partial(_fetch, code), job.features))
        for page, data in job.code.items():
            if code.get(page, data) != data:
                paths.forget(page << 12, (page + 1) << 12)
            code[page] = data
        recent = self._recent.setdefault(job.engine, deque(maxlen=RECENT))
        recent.appendleft(paths.add(memoryview(job.trace).cast("Q").tolist()))
        for made in self._compilers.made(plan(paths, list(chain.from_iterable(recent)), job.known), stop):
            if job.program:
                store().remember(job.program, made)
            yield made


def _fetch(code: dict[int, bytes], pc: int) -> tuple[int, ...]:
    page = code.get(pc >> 12, b"") if not pc & 3 else b""
    return tuple(memoryview(page).cast("I")[(pc & PAGE - 1) >> 2 :])
