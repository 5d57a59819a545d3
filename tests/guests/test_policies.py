"""With random weights a program does what it does by the rule, only slower, or stops and says why."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import kvrm
from guests import inputs
from guests.commands import COMMANDS, Command
from guests.fetch import program
from guests.test_guests import ENVIRONMENT, _lines
from kvrm.machine.policies import POLICIES

BUDGET = 50_000_000
QUICK = {
    ("sha256sum", "dispatch"),
    ("sha256sum", "loops"),
    ("sh-arithmetic", "dispatch"),
    ("sh-arithmetic", "loops"),
    ("sh-arithmetic", "memory"),
}
FIELDS = ("stop", "exit_code", "stderr", "signal", "fault")


def run(command: Command, root: Path, work: Path, policies: dict[str, str]) -> kvrm.Result:
    machine = kvrm.Machine(
        program(root, command.argv[0]),
        args=command.argv[1:],
        env=ENVIRONMENT,
        stdin=(work / command.stdin).read_bytes() if command.stdin else b"",
        root=root,
        engine="interpreter",
        policies=policies,
    )
    return machine.run(max_instructions=BUDGET)


def chosen() -> list[object]:
    """All programs with all questions; by default a few of them run.

    The first machine of a program with random weights for patterns tests what could be replaced,
    which takes half a minute for busybox; the next ones have the verdicts.
    """
    out = []
    for command, question in itertools.product(COMMANDS, POLICIES):
        quick = (command.name, question) in QUICK
        out.append(pytest.param(command, question, marks=() if quick else pytest.mark.slow))
    return out


@pytest.mark.parametrize(("command", "question"), chosen(), ids=lambda p: getattr(p, "name", p))
def test_random_is_like_the_rule(
    command: Command, question: str, tmp_path: Path, guest_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    inputs.create(work)
    monkeypatch.chdir(work)
    rule, random = (run(command, guest_root, work, {question: name}) for name in ("rule", "random"))
    plain = run(command, guest_root, work, {})
    for result in (rule, random):
        if question == "dispatch" and result.stop is kvrm.Stop.MISPLACED:
            assert plain.stdout.startswith(result.stdout) and result.retired < plain.retired
            continue
        assert [getattr(result, name) for name in FIELDS] == [getattr(plain, name) for name in FIELDS]
        assert _lines(command, result.stdout) == _lines(command, plain.stdout)
        if question != "patterns":  # what calls would have retired that were answered is counted apart
            assert (result.retired, result.pc) == (plain.retired, plain.pc)
