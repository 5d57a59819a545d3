"""Policies for loops: a wrong answer is rejected, and none changes what a program does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import kvrm
from kvrm.isa.features import CORTEX_A76
from kvrm.loops import table
from kvrm.loops.oracle import oracle
from kvrm.loops.sites import ENOUGH, Proposer, checked
from kvrm.loops.structure import Bound, Condition, Effect, Structure
from loop_cases import (
    FILL,
    SIEVE,
    TIGHT,
)
from loop_lanes import Lanes, differences, random_lanes
from loop_tools import BRK, CODE
from places import GUESTS


def test_any_wrong_field_is_rejected() -> None:
    body = tuple(SIEVE)
    right = oracle([body])[0]
    assert right is not None and checked(right, body, CODE, CORTEX_A76) is not None
    for field, value in {
        "counted": False,
        "counter": 1,
        "step": None,
        "bound": Bound.ZERO,
        "bound_register": 5,
        "condition": Condition.LT,
        "effect": Effect.PURE,
    }.items():
        assert checked(replace(right, **{field: value}), body, CODE, CORTEX_A76) is None


def test_a_policy_that_is_mostly_wrong_is_not_asked_any_more() -> None:
    wrong = Structure(True, 9, None, Bound.ZERO, None, Condition.NE, Effect.COPY)
    proposer = Proposer(lambda bodies: [wrong for _ in bodies])
    for _ in range(2 * ENOUGH):
        assert proposer.decide(tuple(FILL), CODE, CORTEX_A76) is None
    assert proposer.off and proposer.loops == ENOUGH == proposer.rejected


PROGRAMS = {"hello": [], "primes": ["3000"], "sha256": [], "expression": [], "mandelbrot": ["20", "50"]}


def run(program: str, policy: str | None) -> tuple[kvrm.Result, dict[str, object]]:
    machine = kvrm.Machine(
        GUESTS / program,
        args=PROGRAMS[program],
        stdin=b"(1 + 2) * 3\n",
        engine="interpreter",
        policies={} if policy is None else {"loops": policy},
    )
    result = machine.run()
    return result, machine.policies["loops"].report if policy else {}


@pytest.mark.parametrize("policy", ["rule", "table", "network", "random", "oracle"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_policy_changes_what_a_program_does(program: str, policy: str) -> None:
    plain, (result, report) = run(program, None)[0], run(program, policy)
    for name in ("stop", "retired", "exit_code", "stdout", "stderr", "pc"):
        assert getattr(result, name) == getattr(plain, name)
    assert 0 <= report["skipped"] <= result.retired


def test_a_program_is_skipped_and_told_so() -> None:
    machine = kvrm.Machine(policies={"loops": "oracle"})
    words = b"".join(word.to_bytes(4, "little") for word in [*TIGHT, BRK])
    machine.write_memory(0x1000, words, "rx")
    machine.set_pc(0x1000)
    machine.x[2], machine.x[3] = 50_000_000, 3
    result = machine.run()
    assert result.retired == 150_000_000
    assert machine.x[5] == 150_000_000 and machine.x[2] == 0
    report = machine.policies["loops"].report
    assert report["skipped"] > 0.9 * result.retired and report["accepted"] == 1


def test_both_policies_together() -> None:
    machine = kvrm.Machine(policies={"loops": "oracle", "dispatch": "table"})
    machine.write_memory(0x1000, b"".join(word.to_bytes(4, "little") for word in [*TIGHT, BRK]), "rx")
    machine.set_pc(0x1000)
    machine.x[2], machine.x[3] = 20_000_000, 1
    machine.run()
    assert machine.x[5] == 20_000_000 and machine.policies["loops"].report["skipped"]


def test_lanes_on_the_cpu() -> None:
    """They are what they are without a policy; each worker finds loops for itself."""
    lab, bodies, cases = random_lanes(21, 20, 20)
    plain, skipping = (Lanes(lab, bodies, cases, "cpu", policies=p) for p in ({}, {"loops": "oracle"}))
    for budget in (400, 37, 2000, 30_000):
        assert not differences(plain.lanes.run(budget), skipping.lanes.run(budget))
    assert skipping.machine.policies["loops"].skipped > 100_000


def test_where_it_cannot_be_used() -> None:
    with pytest.raises(kvrm.UsageError, match="engine interpreter"):
        kvrm.Machine(engine="reference", policies={"loops": "rule"})
    with pytest.raises(kvrm.UsageError, match="no policy loops=best"):
        kvrm.Machine(policies={"loops": "best"})
    with pytest.raises(kvrm.UsageError, match=r"loops-table\.npy"):
        table.read(Path("/nowhere"))
