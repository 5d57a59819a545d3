"""Lanes that left the device for the CPU: at breakpoints, and with arrays that are still on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvrm import Stop
from kvrm.backend.gpu import driver
from kvrm.backend.gpu.arrays import DeviceArray
from lane_tools import LAST, OWN, SPANS, Do, facts, machine

pytestmark = pytest.mark.usefixtures("place")
COUNT = 40


def lanes_on(target: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every third lane writes code, which only the CPU runs; the others count."""
    monkeypatch.setenv("KVRM_TARGET", target)
    lanes = machine().fork(COUNT)
    lanes.registers["x0"] = np.where(np.arange(COUNT) % 3 == 0, Do.MODIFY, Do.COUNT)
    lanes.registers["x1"] = np.arange(COUNT) + 1
    lanes.keep = ("x0", "x1", "x9", *SPANS)
    return lanes


def test_they_go_on_once_their_breakpoint_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for target in ("cpu", "cuda"):
        lanes, found = lanes_on(target, monkeypatch), []
        for breakpoints in ({OWN, LAST}, {OWN, LAST}, {LAST}, set()):
            lanes.breakpoints = breakpoints
            results = lanes.run()
            found.append([facts(results, lane) for lane in range(COUNT)])
        seen.append(found)
    assert seen[0] == seen[1]
    stops = [[lane["result"][0] for lane in run] for run in seen[0]]
    assert stops[0] == stops[1] == stops[2] == [Stop.BREAKPOINT] * COUNT
    assert [lane["result"][2] for lane in seen[0][0]] == [LAST if i % 3 else OWN for i in range(COUNT)]
    assert Stop.BREAKPOINT not in stops[3]


def test_arrays_on_the_device_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, rows = driver.device(), np.random.default_rng(2).integers(0, 256, (COUNT, 16), np.uint8)
    start, seen = SPANS[0].start + 32, []
    for target in ("cpu", "cuda"):
        lanes, buffer = lanes_on(target, monkeypatch), gpu.upload(rows)
        there = DeviceArray(buffer.address, rows.shape, np.uint8, buffer)
        lanes.memory[start : start + 16] = rows if target == "cpu" else there
        results = lanes.run()
        assert target == "cpu" or lanes.left_device
        seen.append([facts(results, lane) for lane in range(COUNT)])
    assert seen[0] == seen[1]
