"""Lanes begin where their program first may see input; results tell of the whole run all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvrm
from cuda_tools import KEEP, PAGE, Op, alike, calls_in_python, mapping, result, scratch, script
from kvrm import Stop
from kvrm.backend.cpu.worker import Worker
from kvrm.machine.lanes import Lanes

TEXTS = [b"1 + 2\n", b"3 * 4\n", b"1 / 0\n", b"", b"(\n", b"7 - 9\n"]


def lanes_of(program: Path, texts: list[bytes], **options: object) -> Lanes:
    lanes = kvrm.Machine(program, stdin=texts, lanes=len(texts), **options).lanes  # type: ignore[arg-type]
    lanes.keep = KEEP
    return lanes


def begun_at(lanes: Lanes) -> int:
    """Instructions that lanes did not run themselves."""
    assert lanes._job is not None
    return lanes._job.base.retired - lanes._job.snapshot.retired


@pytest.mark.parametrize("engine", ["interpreter", "tiered"])
def test_results_are_those_of_whole_runs(examples: Path, engine: str) -> None:
    lanes = lanes_of(examples / "expression", TEXTS, engine=engine)
    got = lanes.run()
    assert begun_at(lanes) > 0 and lanes.poll().retired == got.retired.sum()
    with calls_in_python():
        alike(lanes_of(examples / "expression", TEXTS, engine="reference").run(), got)


def test_budgets_count_from_the_program_s_beginning(examples: Path) -> None:
    """One that ends before input is seen, and ones that end after it."""
    for budgets in ((1,), (3, 5), (20, 1, 400), (10_000,)):
        want, got = lanes_of(examples / "expression", TEXTS), lanes_of(examples / "expression", TEXTS)
        for budget in budgets:
            with calls_in_python():
                expected = want.run(budget)
            alike(expected, got.run(budget))


def test_a_breakpoint_before_input_is_seen(examples: Path) -> None:
    m = kvrm.Machine(examples / "expression", stdin=TEXTS, lanes=len(TEXTS))
    m.lanes.breakpoints = {m.pc}
    assert m.lanes.run().stops == {Stop.EXIT: len(TEXTS)} or m.lanes.run().stops
    lanes = m.lanes
    lanes.reset()
    lanes.breakpoints = {m.pc + 4}
    first = lanes.run()
    assert first.stops == {Stop.BREAKPOINT: len(TEXTS)} and set(first.retired.tolist()) == {1}
    lanes.breakpoints = set()
    with calls_in_python():
        want = lanes_of(examples / "expression", TEXTS).run()
    assert lanes.run().stdout == want.stdout


def test_breakpoints_that_come_later(examples: Path) -> None:
    """Lanes that were not begun when a run was cancelled stop at them, wherever they are."""
    lanes = lanes_of(examples / "expression", TEXTS)
    lanes.run(5)
    lanes.breakpoints = {lanes._machine.pc + 4}
    with calls_in_python():
        want = lanes_of(examples / "expression", TEXTS)
        want.run(5)
        want.breakpoints = lanes.breakpoints
        expected = want.run()
    alike(expected, lanes.run())


def test_output_and_memory_from_before_input_is_seen(calls: Path) -> None:
    """What the program wrote, mapped and changed by then is every lane's, and none sees another's changes."""
    ops: list[list[Op | bytes]] = [
        [
            mapping(3 * PAGE),
            ("store", scratch(), 7),
            ("munmap", result(0), PAGE),
            ("write", 1, scratch(), 16),
        ],
        [("brk", 0), ("write", 2, scratch(), 8), ("getrandom", scratch(), 8, 0), ("write", 1, scratch(), 8)],
    ]
    texts = [script(o) for o in ops] * 5
    with calls_in_python():
        want = lanes_of(calls, texts).run()
    assert alike(want, lanes_of(calls, texts).run()).stdout[0]


def test_lanes_that_go_on_in_python(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, between and after lanes that do not."""
    finished: list[int] = []
    finish = Worker._finish
    monkeypatch.setattr(Worker, "_finish", lambda w, lane: (finished.append(lane), finish(w, lane)))
    leave: list[Op | bytes] = [mapping(2 * PAGE), ("umask", 0), ("getpid",), ("umask", 0)]
    stay: list[Op | bytes] = [mapping(2 * PAGE), ("getpid",)]
    texts = [script(o) for o in (leave, stay, leave, leave, stay, stay)]
    with calls_in_python():
        want = lanes_of(calls, texts).run()
    alike(want, lanes_of(calls, texts, engine="interpreter").run())
    assert set(finished) == {0, 2, 3}


def test_arguments_and_inputs_of_memory_need_the_beginning(examples: Path) -> None:
    m = kvrm.Machine(examples / "primes", lanes=3, args=[["5"], ["7"], ["9"]])
    m.run()
    assert begun_at(m.lanes) == 0
