"""Calls that are answered on the host: results, output and faults are what they are without a policy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cross
import kvrm
from kvrm.binary.alone import are_alone
from kvrm.binary.labels import LABELS, NUMBER, OUTPUTS
from kvrm.binary.proposals import Code, Scores
from kvrm.binary.replacement import NATIVE
from patience import SECONDS
from places import GUESTS, SUPPORT

PROGRAMS = {"hello": [], "primes": ["1000"], "sha256": [], "expression": [], "mandelbrot": ["20", "50"]}
WHATS = {
    "x": kvrm.Stop.EXIT,
    "null": kvrm.Stop.FAULT,
    "code": kvrm.Stop.FAULT,
    "end": kvrm.Stop.FAULT,
}


def guest(
    program: Path, what: str, policy: object | None, **more: object
) -> tuple[kvrm.Machine, kvrm.Result]:
    policies = {} if policy is None else {"patterns": policy}
    machine = kvrm.Machine(program, args=[what], engine="interpreter", policies=policies, **more)
    return machine, machine.run(max_instructions=20_000_000)


def everything(code: Code) -> Scores:
    """Proposes each function as each that it could be replaced by."""
    scores = np.zeros((len(code.names), OUTPUTS), np.float32)
    scores[:, [NUMBER[name] for name in NATIVE]] = np.linspace(0.5, 0.6, len(NATIVE), dtype=np.float32)
    return scores


def same(one: kvrm.Result, other: kvrm.Result) -> bool:
    fields = ("stop", "exit_code", "signal", "fault", "stdout", "stderr", "pc", "message")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("policy", ["oracle", "network", "table", "rule", "random", everything])
def test_results_and_faults_are_kept(pattern_guest: Path, what: str, policy: object) -> None:
    plain, result = guest(pattern_guest, what, None)
    machine, replaced = guest(pattern_guest, what, policy)
    assert result.stop is WHATS[what] and same(result, replaced)
    counts = machine.replacements
    assert counts is not None
    if policy == "oracle":
        names = {f.name for f in counts.functions.values()}
        assert names == {"strlen", "memcpy", "memset", "strchr"}
        assert counts.answered >= 104 and machine.retired < plain.retired // 2
        ran = {f.name: f.ran for f in counts.functions.values()}
        # what overlaps runs, and so does what faults
        assert ran["memcpy"] == 1 + (what == "code")
        assert (ran["strlen"], ran["memset"]) == (what == "null", what == "end")
    # callee-saved registers and sp are what they are without a policy, wherever the guest stopped
    for i in range(19, 30):
        assert plain.x[i] == machine.x[i]
    assert plain.sp == machine.sp


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("policy", ["rule", "table", "network", "random", "oracle"])
def test_programs_give_the_same(program: str, policy: str) -> None:
    results = []
    for policies in ({}, {"patterns": policy}):
        machine = kvrm.Machine(
            GUESTS / program,
            args=PROGRAMS[program],
            stdin=b"(1 + 2) * 3\n",
            engine="interpreter",
            policies=policies,
        )
        results.append(machine.run(max_instructions=50_000_000))
    assert results[0].stop is kvrm.Stop.EXIT and same(*results)


def test_breakpoints_are_still_there(pattern_guest: Path) -> None:
    machine = kvrm.Machine(pattern_guest, args=["x"], policies={"patterns": "oracle"})
    assert machine.replacements is not None
    address = next(a for a, f in machine.replacements.functions.items() if f.name == "memset")
    machine.breakpoints = {address}
    assert machine.run().stop is kvrm.Stop.BREAKPOINT and machine.pc == address
    link = machine.x[30]
    machine.breakpoints = {link}
    assert machine.run().stop is kvrm.Stop.BREAKPOINT and machine.pc == link
    machine.breakpoints = set()
    assert machine.run().stop is kvrm.Stop.EXIT


def test_code_that_changed_is_not_what_was_tested(pattern_guest: Path) -> None:
    machine = kvrm.Machine(pattern_guest, args=["x"], policies={"patterns": "oracle"})
    assert machine.replacements is not None
    address, function = next((a, f) for a, f in machine.replacements.functions.items() if f.name == "strlen")
    machine.memory[address : address + 8] = bytes.fromhex("00008052c0035fd6")  # mov w0, #0; ret
    result = machine.run(max_instructions=20_000_000)
    assert result.stdout == b"" and function.answered == 0 and function.ran == 3


def test_a_budget_is_exact(pattern_guest: Path) -> None:
    machine = kvrm.Machine(pattern_guest, args=["x"], policies={"patterns": "oracle"})
    done = 0
    while (result := machine.run(max_instructions=37)).stop is kvrm.Stop.BUDGET:
        assert result.retired == 37
        done += 37
    assert result.stop is kvrm.Stop.EXIT and result.stdout == guest(pattern_guest, "x", None)[1].stdout


def test_lanes_run_every_call(pattern_guest: Path) -> None:
    machine = kvrm.Machine(pattern_guest, args=["x"], policies={"patterns": "oracle"}, lanes=2)
    results = machine.run()
    plain, result = guest(pattern_guest, "x", None)
    assert results.stdout == [result.stdout] * 2 and (results.retired == plain.retired).all()


def test_what_cannot_be_asked_for(pattern_guest: Path) -> None:
    for options, message in (
        ({"policies": {"patterns": "rule"}}, "is for programs on target cpu"),
        ({"program": pattern_guest, "policies": {"patterns": "best"}}, "no policy patterns=best"),
        (
            {"policies": {"patterns": "rule"}, "engine": "tiered"},
            "a patterns policy is for engine interpreter",
        ),
    ):
        with pytest.raises(kvrm.UsageError, match=message):
            kvrm.Machine(**options)


def test_functions_that_are_alone() -> None:
    words = [0xAA0003E1, 0x38401422, 0x35FFFFE2, 0xCB000020, 0xD1000400, 0xD65F03C0]
    others = (0x94000010, 0x14000100, 0x90000001, 0xD4000001, 0xD61F0020, 0x58000040, 0xD53BD040, 0)
    harmless = [0xD503201F, 0xD53B00E1]  # nop; mrs x1, dczid_el0
    alone = [words, [*harmless, *words]]
    not_alone = [words[:-1], [], *([other, *words] for other in others)]
    found = are_alone([np.array(function, np.uint32) for function in (*alone, *not_alone)])
    assert found.tolist() == [True] * len(alone) + [False] * len(not_alone)


def test_a_program_is_tested_once(pattern_guest: Path) -> None:
    """A second machine of it has the verdicts of the first; another policy tests what it proposes besides."""
    data = pattern_guest.read_bytes() + b"another file"
    machines = [
        kvrm.Machine(data, policies={"patterns": p}).replacements for p in ("oracle", "oracle", "random")
    ]
    first, again, random = machines
    assert first is not None and again is not None and random is not None
    assert first.checks == first.proposed == 4 and again.checks == 0
    assert {a: f.name for a, f in first.functions.items()} == {a: f.name for a, f in again.functions.items()}
    assert random.checks > 4 and random.alone == first.alone < first.functions_found


# -- the command line --------------------------------------------------------------------------------------


def cli(*arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvrm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=SECONDS, **more)


def test_symbols(pattern_guest: Path, tmp_path: Path) -> None:
    path = tmp_path / "symbols.json"
    done = cli("symbols", "--check", "--policy", "patterns=oracle", "--json", path, pattern_guest)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6 and all("tested equivalent" in line for line in lines)
    assert lines[-1] == (
        f"9 functions, 5 with a name, 5 tested equivalent; 5 checks of {9 * len(LABELS)} that there are"
    )
    rows = json.loads(path.read_text())
    assert {row["name"] for row in rows} == {"strlen", "memcpy", "memset", "memcmp", "strchr"}
    assert all(row["equivalent"] and row["confidence"] == 1 and row["size"] % 4 == 0 for row in rows)
    done = cli("symbols", "--all", pattern_guest)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 10


def test_run_with_a_policy(pattern_guest: Path) -> None:
    plain = cli("run", pattern_guest, "x")
    done = cli("run", "--stats", "--policy", "patterns=oracle", pattern_guest, "x")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["replaced"]["accepted"] == 4 and told["policies"]["patterns"]["words"] > 50
    assert sum(calls["answered"] for calls in told["replaced"]["calls"].values()) >= 104


def test_data_train_evaluate(pattern_guest: Path, tmp_path: Path) -> None:
    """The commands, on a data set of two programs' objects."""
    made = []
    for option in ("-O1", "-Os", "-O2"):
        options = [option, "-c", "-ffreestanding", "-fno-builtin"]
        made.append(cross.build(SUPPORT / "pattern_guest.c", tmp_path / f"{option}.o", *options))
    data = tmp_path / "data"
    libcs = ["--libc", f"one={made[0]}", "--libc", f"two={made[1]}"]
    done = cli("data", "patterns", *libcs, "--variant", f"one:gcc:O2={made[2]}", "--out", data)
    assert done.returncode == 0, done.stderr
    assert (
        "test without two" in done.stdout and "test without gcc" in done.stdout and "SHA-256" in done.stdout
    )
    for options in (["--seeds", 2], ["--leave-out", "two"]):
        done = cli("train", "patterns", "--data", data, "--out", tmp_path / "w", "--steps", 2, *options)
        assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "w" / "patterns-508k.json").read_text())
    assert set(told["validation"]) == {"0", "1"} and str(told["seed"]) in told["validation"]
    assert {path.name for path in (tmp_path / "w").iterdir()} == {
        "patterns-508k.npy",
        "patterns-508k.json",
        "patterns-508k-without-two-0.npy",
        "patterns-508k-without-two-0.json",
        "patterns-known.npz",
    }
    done = cli("evaluate", "patterns", "--data", data, "--weights", tmp_path / "w", "--json", tmp_path / "t")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "t").read_text())
    assert [row["policy"] for row in rows[:5]] == ["rule", "table", "network 0", "random", "oracle"]
    assert {row["left_out"] for row in rows} == {"two", "two, new"}
    options = ["--data", data, "--weights", tmp_path / "w"]
    done = cli("evaluate", "patterns", *options, "--leave-out", "one")
    assert done.returncode == 0 and "two" not in done.stdout, done.stderr
    done = cli("evaluate", "patterns", *options, "--plots", tmp_path / "p")
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in (tmp_path / "p").iterdir()}
    assert drawn == {
        f"patterns-{name}.svg" for name in ("recall", "found-10", "found-100", "found-1000", "cost")
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data", "dispatch"), "No such command 'dispatch'"),
        (("data", "patterns", "--libc", "x"), "x: it is NAME=FILE"),
        (("data", "patterns", "--variant", "x=y"), "x=y: it is NAME:COMPILER:FLAGS=FILE"),
        (("train", "patterns", "--data", "{empty}"), "`kvrm data patterns` makes it"),
        (("evaluate", "patterns", "--data", "{empty}"), "`kvrm data patterns` makes it"),
        (("symbols", "--policy", "dispatch=rule", "{hello}"), "it is patterns= and one of rule, table"),
        (("symbols", "{empty}"), "Is a directory"),
    ],
)
def test_complaints(arguments: tuple[str, ...], message: str, tmp_path: Path, examples: Path) -> None:
    done = cli(*(a.format(empty=tmp_path, hello=examples / "hello") for a in arguments))
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1 and message in lines[0], done.stderr
