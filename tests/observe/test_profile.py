"""The profile: what ran where, what it cost, and that the commands say so."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kvrm
from kvrm.cli.profile import Report, Symbols
from kvrm.engine.translator.compile import compile_region
from kvrm.engine.translator.engine import SHORTEST_SLICE
from kvrm.engine.translator.paths import Paths
from kvrm.isa.features import CORTEX_A76
from kvrm.observe.account import PLACE, Account
from kvrm.observe.loops import find_loops
from patience import SECONDS

ADD, SUB, LOOP, SVC, RET = 0x91000400, 0xD1000421, 0xB5FFFFC1, 0xD4000001, 0xD65F03C0
"""add x0, x0, #1; sub x1, x1, #1; cbnz x1, .-8; svc #0; ret"""
FADD = 0x1E622820
"""fadd d0, d1, d2"""
START = 0x1000


def code(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def machine(engine: str, *words: int) -> kvrm.Machine:
    m = kvrm.Machine(engine=engine)
    m.write_memory(START, code(*words), prot="rx")
    m.set_pc(START)
    return m


def translated(*words: int) -> kvrm.Machine:
    """A machine in an endless loop that has been translated meanwhile."""
    m = machine("tiered", *words)
    m.x[1] = 1 << 60
    deadline = time.monotonic() + SECONDS
    while not m.profile.tiers["translated"].instructions:
        assert time.monotonic() < deadline
        m.run(max_instructions=1_000_000)
    return m


def test_what_ran_is_attributed_to_where_a_slice_ends() -> None:
    account = Account()
    account.instructions, account.seconds = 300, 3.0
    account.sample(7, START, 0)
    account.instructions, account.seconds = 500, 5.0
    account.sample(0, START + PLACE + 12, 1 << 22)
    account.instructions, account.seconds = 505, 5.5
    (region,) = account.translated[7].values()
    place = account.interpreted[START + PLACE]
    assert (region.samples, region.instructions, region.seconds) == (1, 300, 3.0)
    assert (place.instructions, place.seconds, place.last, place.fpcr) == (200, 2.0, 500, 1 << 22)
    assert account.rest == (5, 0.5)


@pytest.mark.parametrize("engine", ["interpreter", "reference"])
def test_engines_of_one_tier(engine: str) -> None:
    m = machine(engine, ADD, SUB, LOOP, SVC)
    m.x[1] = 10
    result = m.run()
    profile = m.profile
    tier = "interpreted" if engine == "interpreter" else "reference"
    assert profile.instructions == profile.tiers[tier].instructions == result.retired == 31
    assert profile.seconds == result.seconds
    assert sum(t.seconds for t in profile.tiers.values()) == pytest.approx(profile.seconds)
    assert not profile.regions


def test_a_translated_loop() -> None:
    m = translated(ADD, SUB, LOOP, SVC)
    before = m.profile
    m.run(max_instructions=3_000_000)
    profile = m.profile
    assert profile.instructions == before.instructions + 3_000_000
    assert profile.tiers["translated"].instructions > before.tiers["translated"].instructions
    hot = profile.regions[0]
    assert (hot.entry, hot.size, hot.code) == (START, 3, ((START, code(ADD, SUB, LOOP)),))
    assert hot.compile_seconds > 0
    assert sum(hot.at.values()) == hot.instructions == profile.tiers["translated"].instructions
    (loop,) = hot.loops()
    assert (loop.head, loop.instructions, loop.blocks) == (START, hot.instructions, (START,))
    assert profile.compiled + profile.cached == len(profile.regions)
    (place,) = (p for p in profile.places if p.address == START)
    assert (place.tier, place.why) == ("interpreted", "before its region was ready")


def test_a_region_that_is_there_already_is_a_cache_hit() -> None:
    translated(ADD, SUB, LOOP, SVC)
    profile = translated(ADD, SUB, LOOP, SVC).profile
    assert (profile.cached, profile.compiled, profile.compile_seconds) == (1, 0, 0)


@pytest.mark.parametrize("count", [300, 4])
def test_slices_go_on_across_system_calls(count: int) -> None:
    """That a system call is the last instruction of a slice is no exception."""
    m = machine("tiered", ADD, SUB, LOOP, SVC)
    for _ in range(3 * SHORTEST_SLICE // (3 * count + 1)):
        m.set_pc(START)
        m.x[1] = count
        assert m.run().stop is kvrm.Stop.SYSCALL
    assert sum(place.samples for place in m.profile.places) >= 2


def test_a_snapshot_takes_nothing_back() -> None:
    m = machine("interpreter", ADD, SUB, LOOP, SVC)
    m.x[1] = 10
    snapshot = m.snapshot()
    for _ in range(3):
        m.run()
        m.restore(snapshot)
    assert (m.retired, m.profile.instructions) == (0, 3 * 31)


@pytest.mark.parametrize(
    ("tracking", "why"), [(False, "FPCR is 0x400000, not 0"), (True, "floating-point exceptions are tracked")]
)
def test_floating_point_that_is_not_compiled_says_why(tracking: bool, why: str) -> None:
    m = machine("tiered", FADD, ADD, SVC)
    m.state.fp_tracking = tracking
    m.fpcr = 0 if tracking else 1 << 22
    m.run()
    (place,) = (p for p in m.profile.places if p.tier == "reference")
    assert (place.address, place.instructions, place.why) == (START, 1, why)


def test_what_only_the_interpreter_runs_is_named() -> None:
    m = machine("tiered", SVC)
    for _ in range(3):
        m.set_pc(START)
        m.run(max_instructions=1)
    m.write_memory(START, code(ADD, ADD, SVC))
    m.set_pc(START)
    m.run(max_instructions=2)
    (place,) = m.profile.places
    assert place.why == "only the interpreter runs svc #0"


def test_system_calls_are_counted(examples: Path) -> None:
    m = kvrm.Machine(examples / "hello")
    m.run()
    calls = {call.name: call for call in m.profile.calls}
    assert {name: call.count for name, call in calls.items()} == {"write": 1, "exit_group": 1}
    assert m.profile.tiers["calls"].seconds == sum(call.seconds for call in calls.values()) > 0


def test_loops_with_the_functions_that_they_call() -> None:
    blocks = {
        0x1000: code(ADD),  # the loop's head
        0x1004: code(0x94000007),  # bl 0x1020
        0x1008: code(0xB5FFFFC1),  # cbnz x1, 0x1000
        0x100C: code(ADD, 0xB5FFFFE1),  # a loop after it: cbnz x1, 0x100c
        0x1020: code(SUB, 0xB5FFFFE1),  # the function has a loop of its own
        0x1028: code(RET),
    }
    loops = find_loops(blocks.items())
    assert loops == {
        0x1000: {0x1000, 0x1004, 0x1008, 0x1020, 0x1028},
        0x100C: {0x100C},
        0x1020: {0x1020},
    }


def test_dumps_of_a_region_say_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = struct.unpack("<4I", code(ADD, SUB, LOOP, SVC))
    paths = Paths(lambda pc: text[(pc - START) // 4 :], CORTEX_A76)
    region = paths.around(START)
    assert region is not None
    monkeypatch.setenv("KVRM_DUMP", "stage,opt,asm")
    compile_region(region)
    printed = capsys.readouterr().err
    heading = "\n".join(
        [
            "; region 0x1000: 3 guest instructions, 1 blocks",
            ";     1000:  91000400  add x0, x0, #1",
            ";     1004:  d1000421  sub x1, x1, #1",
            ";     1008:  b5ffffc1  cbnz x1, #0x1000",
        ]
    )
    for stage, sign in (("stage", "define"), ("opt", "define"), ("asm", ".globl")):
        start = printed.index(f"; ---- {stage}\n{heading}\n")
        assert sign in printed[start:]


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "kvrm", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)


def test_kvrm_profile(examples: Path, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    done = command("profile", "--engine", "translator", "--json", file, examples / "hello")
    assert (done.returncode, done.stdout) == (0, "Hello from AArch64.\n")
    for words in ("hello: 8 instructions", "Time", "System calls", "write ", "regions compiled in"):
        assert words in done.stderr
    written = json.loads(file.read_text())
    assert (written["engine"], written["stop"], written["retired"]) == ("translator", "exit", 8)
    assert sum(tier["instructions"] for tier in written["tiers"].values()) == 8
    assert {call["name"] for call in written["calls"]} == {"write", "exit_group"}
    (region, *_) = written["regions"]
    assert (region["symbol"], region["code"][0]["text"]) == ("_start", "mov x0, #1")


def test_kvrm_profile_lists_what_is_hot(examples: Path) -> None:
    arguments = ["--engine", "reference", "--max-instructions", "50", "--top", "1"]
    done = command("profile", *arguments, examples / "faults", "loop")
    assert done.returncode == 124
    assert "reference engine" in done.stderr
    assert "<perform" in done.stderr or "<_start" in done.stderr or "<main" in done.stderr


def test_the_listing_of_a_region(capsys: pytest.CaptureFixture[str], examples: Path) -> None:
    profile = translated(ADD, SUB, LOOP, SVC).profile
    Report(profile, Symbols(examples / "hello"), 1).print("a loop")
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "a loop"
    assert " 100.0% in the loop at 0x1000" in lines
    assert any(line.endswith("    1000:  91000400  add x0, x0, #1") for line in lines)
