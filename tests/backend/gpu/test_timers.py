"""Lanes whose timers send signals: the CPU goes on with them, which stops where a timer expires."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuda_tools import Away, alarm, forks, lanes
from kvrm import Stop

pytestmark = pytest.mark.usefixtures("place")
REAL, VIRTUAL, PROF = range(3)
ALRM, VTALRM = 14, 26


def test_a_lane_that_sets_one_leaves(calls: Path, away: Away) -> None:
    ops = [[*alarm(REAL, 20), ("spin", 1 << 40)], [("spin", 5000)], [*alarm(PROF, 30), ("spin", 1 << 40)]]
    results = lanes(calls, *ops)
    assert results.stops == {Stop.SIGNAL: 2, Stop.EXIT: 1}
    assert away == [(0, "setitimer"), (2, "setitimer")]


def test_lanes_that_begin_with_one_are_for_the_cpu(calls: Path, away: Away) -> None:
    results = forks(calls, alarm(VIRTUAL, 50_000), [("spin", 1 << 40)], [("spin", 100)])
    assert results.signal.tolist() == [VTALRM, 0] and not away
