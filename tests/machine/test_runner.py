"""Running in the background: one machine and many lanes alike."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

import kvrm
from kvrm import Stop
from kvrm.backend.cpu.worker import Worker
from kvrm.machine.lane import Lane
from kvrm.machine.lanes import Lanes
from kvrm.machine.result import Progress
from lane_tools import DATA, Do, endless, endless_lanes, facts, machine
from patience import SECONDS
from places import SUPPORT

Runs = kvrm.Machine | Lanes
both = pytest.mark.parametrize("make", [endless, endless_lanes])


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.001)


@both
def test_runs_until_cancelled_and_then_goes_on(make: Callable[[], Runs]) -> None:
    m = make()
    assert not m.is_running() and m.poll() == Progress(False, m.poll().lanes, 0, 0, 0.0)
    m.start()
    assert m.is_running()
    until(lambda: m.poll().retired > 30_000_000)
    seen = m.poll()
    assert seen.running and seen.seconds > 0 and seen.ips > 0
    with pytest.raises(TimeoutError):
        m.wait(0.01)
    m.cancel()
    result = m.wait(SECONDS)
    assert not m.is_running()
    total = int(result.retired if isinstance(m, kvrm.Machine) else result.retired.sum())
    assert m.poll().retired == total >= seen.retired
    again = m.run(1000)
    if isinstance(m, kvrm.Machine):
        assert (result.stop, again.stop, again.retired) == (Stop.CANCELLED, Stop.BUDGET, 1000)
        assert m.poll().stops == {} and m.poll().finished == 0
    else:
        stops = again.stops
        assert stops == {Stop.BUDGET: 3, Stop.BREAKPOINT: 1, Stop.FAULT: 1}
        assert m.poll().stops == {Stop.BREAKPOINT: 1, Stop.FAULT: 1} and m.poll().finished == 2


@both
def test_counts_only_grow(make: Callable[[], Runs]) -> None:
    m = make()
    m.start(200_000_000)
    seen = [m.poll()]
    while m.is_running():
        seen.append(m.poll())
    seen.append(m.poll())
    assert [p.retired for p in seen] == sorted(p.retired for p in seen)
    assert [p.finished for p in seen] == sorted(p.finished for p in seen)
    assert len({p.retired for p in seen}) > 3, "progress shows while it runs"
    m.wait()
    assert seen[-1].retired == m.poll().retired


@both
def test_one_run_at_a_time(make: Callable[[], Runs]) -> None:
    m = make()
    with pytest.raises(kvrm.UsageError, match="nothing was started"):
        m.wait()
    m.start()
    wrong: list[Callable[[], object]] = [m.run, m.start]
    wrong += [m.snapshot, lambda: m.fork(2)] if isinstance(m, kvrm.Machine) else [m.reset]
    for call in wrong:
        with pytest.raises(kvrm.UsageError, match="going on"):
            call()
    m.cancel()
    m.wait()
    m.cancel()
    m.run(5)


def test_errors_reach_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for m in (endless(), endless_lanes()):
        monkeypatch.setattr(Lane, "run_to", lambda *_, **__: 1 // 0)
        monkeypatch.setattr(Worker, "_run_native", lambda *_: 1 // 0)
        m.start()
        with pytest.raises(ZeroDivisionError):
            m.wait(SECONDS)
        assert not m.is_running()
        with pytest.raises(ZeroDivisionError):
            m.run()
        monkeypatch.undo()
        m.run(5)


def test_batches_of_one_machine() -> None:
    m = endless()
    assert m.run(max_batches=3, instructions_per_batch=7).retired == 21
    assert m.run(25, instructions_per_batch=7).retired == 25
    assert m.run(max_batches=0).retired == 0
    assert m.run(max_batches=2).retired == 20_000_000
    m.start(max_batches=4, instructions_per_batch=10_000_000)
    assert m.wait(SECONDS).retired == 40_000_000


def test_a_breakpoint_where_a_batch_ends() -> None:
    m = endless()
    m.breakpoints.add(m.pc + 0x74)
    assert m.run(instructions_per_batch=5, max_batches=1).stop is Stop.BUDGET
    again = endless()
    again.breakpoints.add(again.pc + 0x74)
    r = again.run(instructions_per_batch=5)
    assert (r.stop, r.retired) == (Stop.BREAKPOINT, 5)


def test_an_interrupt_leaves_lanes_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = endless_lanes()
    join, interrupted = threading.Thread.join, []

    def interrupt(thread: threading.Thread, timeout: float | None = None) -> None:
        if not interrupted:
            interrupted.append(thread)
            until(lambda: lanes.poll().retired > 1_000_000)
            raise KeyboardInterrupt
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupt)
    with pytest.raises(KeyboardInterrupt):
        lanes.run()
    assert not lanes.is_running()
    assert lanes.run(1000).stops == {Stop.BUDGET: 3, Stop.BREAKPOINT: 1, Stop.FAULT: 1}


def test_cancelling_changes_no_result() -> None:
    lanes, alone = endless_lanes(), endless_lanes()
    for _ in range(4):
        lanes.start()
        before = lanes.poll().retired
        until(lambda: lanes.poll().retired > before)  # noqa: B023
        lanes.cancel()
        results = lanes.wait()
    for lane in (0, 2, 4):
        fresh = alone._machine.fork(1)
        fresh.registers["x1"] = [lane + 1]
        fresh.keep = lanes.keep
        expected = facts(fresh.run(int(results.retired[lane])), 0)
        assert expected["registers"] == facts(results, lane)["registers"]


def test_python_ends_while_lanes_run() -> None:
    code = "import lane_tools; m = lane_tools.endless(); m.start(); lane_tools.endless_lanes().start()"
    command, here = [sys.executable, "-c", f"{code}; print(1)"], SUPPORT
    done = subprocess.run(command, cwd=here, capture_output=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"1\n", b"")


def test_a_machine_that_runs_can_be_read_afterwards() -> None:
    m = machine("interpreter")
    m.x[0], m.x[1] = Do.COUNT, 1000
    m.start()
    assert m.wait().stop is Stop.BREAKPOINT
    assert m.poll().finished == 1 and m.poll().stops == {Stop.BREAKPOINT: 1}
    assert int.from_bytes(m.memory[DATA + 8 : DATA + 16], "little") == m.x[0]
