"""Lanes that are Linux programs: arguments, input, output and files of their own."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import kvrm
from cuda_tools import PAGE, PATH, opening, path, scratch, script
from kvrm import Stop
from kvrm.linux import abi

ENGINES = pytest.mark.parametrize("engine", ["tiered", "interpreter"])
LINES = [b"1 + 1\n", b"2 * (3 + 4)\n1 / 0\n", b"", b"9 - 10 * 2\n(\n", b"7 * 6\n" * 40]


def outcome(r: kvrm.Result) -> tuple[object, ...]:
    return r.stop, r.exit_code, r.signal, r.retired, r.pc, r.fault, r.stdout, r.stderr


@ENGINES
@pytest.mark.parametrize("threads", [1, 2])
def test_input_of_each(examples: Path, engine: str, threads: int) -> None:
    program = examples / "expression"
    m = kvrm.Machine(program, lanes=len(LINES), stdin=LINES, engine=engine)
    m.lanes.threads = threads
    results = m.run()
    for lane, line in enumerate(LINES):
        assert outcome(results.lane(lane)) == outcome(kvrm.Machine(program, stdin=line).run())
    assert results.stdout[1] == b"14\nerror: division by zero\n" and results.exit_code[1] == 1


@ENGINES
def test_arguments_of_each(examples: Path, engine: str) -> None:
    kinds: list[str | bytes] = ["null", "write", "no such thing", "stack"]
    args = [[], ["x" * 5000, b"\xff"], *([kind] for kind in kinds)]
    m = kvrm.Machine(examples / "faults", lanes=len(args), args=args, engine=engine)
    results = m.run(max_instructions=3_000_000)
    assert results.stops[Stop.FAULT]
    for lane, own in enumerate(args):
        alone = kvrm.Machine(examples / "faults", args=own).run(max_instructions=3_000_000)
        assert outcome(results.lane(lane)) == outcome(alone), own


@ENGINES
def test_the_same_for_all(examples: Path, engine: str) -> None:
    m = kvrm.Machine(examples / "sha256", stdin=b"abc", lanes=3, engine=engine)
    results = m.run()
    assert results.stdout == [kvrm.Machine(examples / "sha256", stdin=b"abc").run().stdout] * 3
    assert hashlib.sha256(b"abc").hexdigest().encode() in results.stdout[0]


@ENGINES
def test_in_pieces(examples: Path, engine: str) -> None:
    program = examples / "expression"
    whole = kvrm.Machine(program, lanes=len(LINES), stdin=LINES, engine=engine).run()
    for options in ({"instructions_per_batch": 97}, {"instructions_per_batch": 1000}):
        m = kvrm.Machine(program, lanes=len(LINES), stdin=LINES, engine=engine)
        results = m.run(**options)
        assert [outcome(results.lane(i)) for i in range(5)] == [outcome(whole.lane(i)) for i in range(5)]
    m.lanes.reset()
    while (results := m.run(max_instructions=250)).stops.get(Stop.BUDGET):
        pass
    assert [outcome(results.lane(i)) for i in range(5)] == [outcome(whole.lane(i)) for i in range(5)]


def test_a_fork_in_the_middle_of_the_input(examples: Path) -> None:
    m = kvrm.Machine(examples / "expression", stdin=b"1 + 2\n")
    m.run(max_instructions=20)  # it reads byte by byte, and has the 1
    lanes = m.fork(2, 1)
    lanes.stdin = [b"3 + 4\n", b"5 + 6\n"]
    assert lanes.run().stdout == [b"17\n", b"21\n"]
    assert m.run().stdout == b"3\n"


def test_what_happened_before_the_fork_is_in_every_lane(examples: Path) -> None:
    m = kvrm.Machine(examples / "primes", args=["50"])
    while not m.run(max_instructions=50).stdout:
        pass
    rest = m.fork(3).run()
    assert set(rest.stdout) == {m.run().stdout}


def test_some_lanes_make_no_system_call(examples: Path) -> None:
    m = kvrm.Machine(examples / "hello")
    m.run(max_instructions=5)
    lanes = m.fork(4, 1)
    lanes.registers["pc"] = [m.pc, 0x10, m.pc, 0x10]
    results = lanes.run()
    assert results.stops == {Stop.EXIT: 2, Stop.FAULT: 2}
    assert results.stdout == [b"Hello from AArch64.\n"] * 4


def test_some_lanes_stop_before_a_system_call(examples: Path) -> None:
    m = kvrm.Machine(examples / "hello")
    m.run(max_instructions=5)
    lanes = m.fork(4)
    lanes.breakpoints.add(m.pc + 4)
    results = lanes.run()
    assert results.stops == {Stop.BREAKPOINT: 4}
    assert results.stdout == [b"Hello from AArch64.\n"] * 4


def test_nothing_is_kept_unless_asked(examples: Path) -> None:
    m = kvrm.Machine(examples / "hello", lanes=2)
    m.lanes.keep = ()
    results = m.run()
    assert results.stdout == [] and results.registers == {} and results.lane(0).stdout == b""


SCRIPT = "echo $1 > /tmp/own; cat /tmp/own /tmp/shared; echo $1 >> /tmp/shared; cat /tmp/shared; ls /tmp"


def test_files_of_each(guest_root: Path) -> None:
    from guests.fetch import program

    shell = program(guest_root, "busybox")
    args = [["sh", "-c", SCRIPT, "sh", str(number)] for number in range(4)]
    m = kvrm.Machine(shell, lanes=4, args=args, engine="interpreter")
    m.lanes.threads = 2
    results = m.run()
    for lane, own in enumerate(args):
        alone = kvrm.Machine(shell, args=own, engine="interpreter")
        assert outcome(results.lane(lane)) == outcome(alone.run())


@pytest.mark.parametrize("threads", [1, 2])
def test_files_of_lanes_that_are_put_aside(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Each goes on with files, offsets and a directory of its own, however often it is put aside."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shared").write_bytes(bytes(range(200)))
    texts = []
    for lane in range(7):
        ops = [*path("made"), ("mkdirat", -100, scratch(PATH), 0o700 + lane), ("chdir", scratch(PATH))]
        ops += [*opening("own", abi.O_CREAT | abi.O_RDWR), ("write", 3, scratch(PATH), lane + 1), ("dup", 3)]
        ops += [*opening("../shared"), ("lseek", 5, 20 * lane, 0), ("read", 5, scratch(), 9 + lane)]
        ops += [("lseek", 5, 0, 1), ("lseek", 4, 0, 1), ("write", 1, scratch(), 9 + lane), ("umask", lane)]
        texts.append(script(ops[: len(ops) - lane % 3]))
    alone = [kvrm.Machine(calls, stdin=text).run() for text in texts]
    m = kvrm.Machine(calls, lanes=7, stdin=texts)
    m.lanes.threads = threads
    results = m.run(instructions_per_batch=150)
    assert [outcome(results.lane(lane)) for lane in range(7)] == [outcome(one) for one in alone]
    assert len({one.stdout for one in alone}) == 7


def test_memory_of_a_program_is_kept(guest_root: Path) -> None:
    from guests.fetch import program

    args = [["true"], ["echo", "x"]]
    m = kvrm.Machine(program(guest_root, "busybox"), lanes=2, args=args, engine="interpreter")
    start = m.lane.memory.regions()[0].start
    m.lanes.keep = (slice(start, start + 8192),)
    assert m.run().memory[start : start + 4].tobytes() == b"\x7fELF" * 2


def test_lanes_that_were_put_aside_have_no_pages_of_others(calls: Path) -> None:
    """A worker reuses pages that earlier lanes wrote; they do not count against the limit of later ones."""

    def touching(pages: Iterable[int]) -> bytes:
        return script([("store", scratch(page * PAGE), 1) for page in pages])

    texts = [touching(range(3)), *(touching(range(3, 3 + n)) for n in (7, 4, 8, 6, 5))]
    alone = [kvrm.Machine(calls, stdin=text, memory_limit=10 * PAGE).run() for text in texts]
    assert {r.stop for r in alone} == {Stop.EXIT, Stop.OUT_OF_MEMORY}
    ends = alone[0].retired
    assert all(r.retired > ends for r in alone[1:] if r.stop is Stop.OUT_OF_MEMORY)
    for budgets in ((ends, None), (ends, 5, 5, 20, None), (None,)):
        m = kvrm.Machine(calls, lanes=len(texts), stdin=texts, memory_limit=10 * PAGE)
        m.lanes.threads = 1
        m.lanes.keep = ("x0",)
        for budget in budgets:
            results = m.run(max_instructions=budget)
        assert [outcome(results.lane(i))[:4] for i in range(len(texts))] == [outcome(r)[:4] for r in alone]


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_streams_cannot_be_shared(examples: Path, name: str) -> None:
    with pytest.raises(kvrm.UsageError, match=name):
        kvrm.Machine(examples / "hello", lanes=2, **{name: io.BytesIO()})
    with pytest.raises(kvrm.UsageError, match=name):
        kvrm.Machine(examples / "hello", **{name: io.BytesIO()}).fork(2)


def test_mistakes(examples: Path, tmp_path: Path) -> None:
    hello = examples / "hello"
    begun = kvrm.Machine(hello)
    begun.run(max_instructions=2)
    late = begun.fork(2)
    late.args = [["1"], ["2"]]
    for wrong in (
        lambda: kvrm.Machine(hello, stdin=[b"1", b"2"]),
        lambda: kvrm.Machine(hello, args=[["1"], ["2"]]),
        lambda: kvrm.Machine(hello, lanes=3, stdin=[b"1", b"2"]),
        lambda: kvrm.Machine(hello, lanes=2, stdin=[b"1", "2"]),
        lambda: kvrm.Machine(hello, lanes=2, stdin=[b"1", None]),
        lambda: kvrm.Machine(hello, lanes=2, args=[["1"], "2"]),
        lambda: kvrm.Machine(hello, lanes=2, args=[["1"], ["\0"]]),
        lambda: kvrm.Machine(hello, lanes=1, args=[["1"], ["2"]]),
        lambda: kvrm.Machine(hello, lanes=2, rw=tmp_path),
        late.run,
    ):
        with pytest.raises(kvrm.UsageError) as caught:
            wrong()
        assert "\n" not in str(caught.value)
    with pytest.raises(kvrm.ProgramError, match="too long"):
        kvrm.Machine(hello, lanes=1, args=[["x" * 3_000_000]])


def test_many(examples: Path) -> None:
    numbers = np.arange(300)
    m = kvrm.Machine(examples / "expression", lanes=300, stdin=[b"%d * 3\n" % n for n in numbers])
    assert m.run().stdout == [b"%d\n" % (3 * n) for n in numbers]
