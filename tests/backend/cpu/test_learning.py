"""One worker's engine finds out what is hot, and all of them use the regions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kvrm
from patience import SECONDS


def test_regions_of_the_first_worker_are_everyone_s(examples: Path) -> None:
    m = kvrm.Machine(examples / "mandelbrot", lanes=8, engine="translator")
    want = kvrm.Machine(examples / "mandelbrot", engine="interpreter").run()
    m.lanes.threads, deadline = 4, time.monotonic() + SECONDS
    while True:
        m.lanes.reset()
        results = m.run()
        assert set(results.stdout) == {want.stdout} and set(results.retired.tolist()) == {want.retired}
        leader, *others = (worker._engine for worker in m.lanes.backend.workers)
        if leader._active and all(engine._active for engine in others):
            break
        assert time.monotonic() < deadline
    assert all(engine._cold == 0 and not engine._trace for engine in others)


def test_one_answer_ends_all_that_was_asked(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that a newer one replaces before it began has no end of its own."""
    engine = kvrm.Machine(examples / "mandelbrot", engine="tiered").lane.engine
    asked: list[Callable[[None], None]] = []
    monkeypatch.setattr(engine._store.background, "submit", lambda job, deliver: asked.append(deliver))
    for _ in range(3):
        engine._ask()
    assert engine._asked and len(asked) == 3
    asked[-1](None)
    engine.poll()
    assert not engine._asked
