"""Pickled snapshots: they go on elsewhere, hold distinct pages only, and are refused to strangers."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kvrm
from cuda_tools import PAGE, alarm, mapping, opening, result, scratch, script
from elsewhere import elsewhere, facts
from kvrm.machine.engines import ENGINES

CREATE = 0o102
"""O_RDWR | O_CREAT."""
SIGNALS = b"\x00\x20\x00\x00\x00\x00\x00\x00"
"""SIGALRM's bit in a mask."""
BEFORE: list[Any] = [
    *opening("there"),
    ("read", result(1), scratch(), 5),
    *opening("made", CREATE),
    ("write", result(4), scratch(), 5),
    ("pipe2", scratch(16), 0),
    ("write", 6, scratch(), 3),
    ("socketpair", 1, 1, 0, scratch(24)),
    ("write", 8, scratch(), 4),
    ("eventfd2", 7, 0),
    ("mmap", 0, 2 * PAGE, 3, 2, result(1), 0),
    ("store", result(11, 1), 0x58),
    ("read", 0, scratch(32), 8),
    SIGNALS,
    ("rt_sigprocmask", 0, scratch(32), 0, 8),
    ("signalfd4", -1, scratch(32), 8, 0),
    *alarm(0, 1),
    ("getrandom", scratch(64), 8, 0),
    mapping(4 * PAGE),
]
"""Files of the host and of the guest that are open, a pipe, sockets, a mapped file, a timer that runs."""
AFTER: list[Any] = [
    ("read", 3, scratch(100), 5),
    ("lseek", 4, 0, 0),
    ("read", 4, scratch(105), 5),
    ("read", 5, scratch(110), 3),
    ("read", 7, scratch(113), 4),
    ("read", 9, scratch(117), 8),
    ("spin", 2000),
    ("read", 10, scratch(125), 128),
    ("getrandom", scratch(253), 8, 0),
    ("write", 1, scratch(64), 200),
]
PROGRAMS: dict[str, dict[str, Any]] = {
    "sha256": {"stdin": b"half of it was read " * 10},
    "expression": {"stdin": b"1 + 2 * (3 - 4)\n" * 8},
    "faults": {},
}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a file of the host in it."""
    (tmp_path / "there").write_bytes(b"first" + b"secon" + bytes(PAGE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_goes_on_in_another_process(name: str, engine: str, examples: Path, tmp_path: Path) -> None:
    program, engines = examples / name, list(ENGINES)
    machine = kvrm.Machine(program, args=["a"], seed=5, engine=engine, **PROGRAMS[name])
    assert machine.run(200).stop is kvrm.Stop.BUDGET
    pickled = pickle.dumps(machine.snapshot())
    other = engines[engines.index(engine) - 1]
    here = kvrm.Machine(program, engine=other)
    here.restore(pickle.loads(pickled))
    assert elsewhere(pickled, tmp_path, program=program, engine=other) == facts(machine) == facts(here)


def halfway(calls: Path, **options: Any) -> kvrm.Machine:
    """A machine that has done what comes before, and has what comes after in its half-read input."""
    machine = kvrm.Machine(calls, stdin=script(BEFORE + AFTER) + bytes(56), seed=3, **options)
    while len(machine.run(max_instructions=10).stdout) < 8 * sum(not isinstance(op, bytes) for op in BEFORE):
        pass
    return machine


def test_all_that_a_process_has_goes_on_in_another_process(calls: Path, directory: Path) -> None:
    machine = halfway(calls)
    pickled = pickle.dumps(machine.snapshot())
    there = elsewhere(pickled, directory, program=calls)
    here = facts(machine)
    assert there == here
    said = here["stdout"][-8 * len(AFTER) - 200 :]
    assert b"seconfirstfirfirs\x07" in said, "the file's offset, the guest's file, the pipe, the sockets"


def test_targets_hand_snapshots_to_each_other(calls: Path, directory: Path, place: str) -> None:
    whole = facts(halfway(calls))
    machine = halfway(calls, target="cuda")
    for target in ("cpu", "cuda", "cpu"):
        pickled = pickle.dumps(machine.snapshot())
        machine = kvrm.Machine(calls, target=target)
        machine.restore(pickle.loads(pickled))
        machine.run(60)
    assert facts(machine) == whole


def test_lanes_fork_from_an_unpickled_snapshot(calls: Path, directory: Path) -> None:
    machine = halfway(calls)
    other = kvrm.Machine(calls)
    other.restore(pickle.loads(pickle.dumps(machine.snapshot())))
    lanes = other.fork(3).run()
    assert {lanes.stdout[lane] for lane in range(3)} == {machine.run().stdout}


def test_an_ended_program_stays_ended(examples: Path) -> None:
    machine = kvrm.Machine(examples / "hello")
    ended = machine.run()
    other = kvrm.Machine(examples / "hello")
    other.restore(pickle.loads(pickle.dumps(machine.snapshot())))
    assert other.run() == replace(ended, seconds=0.0)


def test_a_file_on_stdin_goes_on_at_its_offset(examples: Path, directory: Path) -> None:
    text = random.Random(1).randbytes(100_000)
    (directory / "text").write_bytes(text)
    with Path("text").open("rb", buffering=0) as stream:
        machine = kvrm.Machine(examples / "sha256", stdin=stream)
        machine.run(3_000)
        assert 0 < stream.tell() < len(text)
        pickled = pickle.dumps(machine.snapshot())
        here = facts(machine)
    program = examples / "sha256"
    assert elsewhere(pickled, directory, program=program, stdin_file="text") == here
    (directory / "other").write_bytes(text)
    assert "other streams" in elsewhere(pickled, directory, program=program, stdin_file="other")
    assert "other streams" in elsewhere(pickled, directory, program=program)
    (directory / "text").write_bytes(b"")
    assert "at byte" in elsewhere(pickled, directory, program=program, stdin_file="text")


def test_a_file_on_stdout_goes_on_at_its_offset(calls: Path, directory: Path) -> None:
    ops: list[Any] = [
        ("read", 0, scratch(), 4),
        b"text",
        ("write", 1, scratch(), 4),
        ("write", 1, scratch(), 2),
    ]
    whole = kvrm.Machine(calls, stdin=script(ops)).run().stdout
    with Path("out").open("wb") as stream:
        machine = kvrm.Machine(calls, stdin=script(ops), stdout=stream)
        while stream.tell() < 20 and machine.step(5):
            pass
        pickled = pickle.dumps(machine.snapshot())
        there = stream.tell()
        machine.run()
    assert there < len(whole)
    with Path("out").open("r+b") as stream:
        stream.truncate(there)
        other = kvrm.Machine(calls, stdout=stream)
        other.restore(pickle.loads(pickled))
        other.run()
    assert Path("out").read_bytes() == whole
    with Path("out").open("wb") as stream, pytest.raises(kvrm.UsageError, match="stdout, and the file has 0"):
        kvrm.Machine(calls, stdout=stream).restore(pickle.loads(pickled))


def test_a_stream_without_an_offset_is_refused(examples: Path) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        for stream in (pipe, io.BytesIO(b"text")):
            snapshot = kvrm.Machine(examples / "sha256", stdin=stream).snapshot()
            with pytest.raises(kvrm.UsageError, match="pass bytes, or a file"):
                pickle.dumps(snapshot)


def test_a_writable_directory_is_that_of_the_machine(calls: Path, tmp_path: Path) -> None:
    (tmp_path / "rw").mkdir()
    path = str(tmp_path / "rw/file")
    before: list[Any] = [*opening(path, CREATE), ("write", result(1), scratch(), 3)]
    after: list[Any] = [("write", 3, scratch(), 2), ("lseek", 3, 0, 1)]
    machine = kvrm.Machine(calls, stdin=script(before + after) + bytes(56), rw=tmp_path / "rw")
    while len(machine.run(max_instructions=10).stdout) < 24:
        pass
    pickled = pickle.dumps(machine.snapshot())
    there = elsewhere(pickled, tmp_path, program=calls, rw=tmp_path / "rw")
    assert (2).to_bytes(8, "little") + (5).to_bytes(8, "little") in there["stdout"]
    assert (tmp_path / "rw/file").stat().st_size == 5
    assert "other rw" in elsewhere(pickled, tmp_path, program=calls)
    (tmp_path / "rw/file").unlink()
    assert "not here" in elsewhere(pickled, tmp_path, program=calls, rw=tmp_path / "rw")
    with pytest.raises(kvrm.UsageError, match="by that name any more"):
        pickle.dumps(machine.snapshot())


# -- size ----------------------------------------------------------------------------------------------------
def bare(*pages: bytes) -> kvrm.Machine:
    machine = kvrm.Machine()
    for number, page in enumerate(pages):
        machine.write_memory(0x100000 + number * PAGE, page)
    return machine


def size(*machines: kvrm.Machine) -> int:
    return len(pickle.dumps([machine.snapshot() for machine in machines]))


def test_a_pickle_holds_each_distinct_page_once() -> None:
    one, two = random.Random(1).randbytes(PAGE), random.Random(2).randbytes(PAGE)
    empty = size(bare())
    assert PAGE < size(bare(one)) - empty < PAGE + 300
    assert size(bare(*[one] * 100)) - size(bare(one)) < 100 * 20
    assert PAGE < size(bare(*[one, two] * 50)) - size(bare(*[one] * 100)) < PAGE + 300
    assert size(bare(*[bytes(PAGE)] * 100)) - empty < 100 * 20
    assert size(bare(one, two), bare(two, one)) < 2 * PAGE + 2 * empty + 600


def test_the_same_state_gives_the_same_bytes(examples: Path) -> None:
    """Whatever engine has run, and as long as that took."""
    # the directories that the program is in belong to the host, and other tests change them meanwhile
    program = f"""
import kvrm, pickle, sys
from kvrm.linux.layout import Stat
of_host = Stat.of_host
Stat.of_host = lambda st: of_host(st)._replace(nlink=1, size=0, blocks=0, atime=0, mtime=0, ctime=0)
machine = kvrm.Machine({str(examples / "sha256")!r}, stdin=b"text" * 500)
for budget in (2000, None):
    machine.run(budget)
    pickled = pickle.dumps(machine.snapshot())
    assert pickle.dumps(pickle.loads(pickled)) == pickled
    sys.stdout.buffer.write(pickled)
"""
    made = (("1", "reference"), ("2", "tiered"))
    one, other = (
        subprocess.check_output(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed, "KVRM_ENGINE": engine},
        )
        for seed, engine in made
    )
    assert one == other


def test_what_is_read_back_holds_equal_pages_once() -> None:
    one = random.Random(1).randbytes(PAGE)
    pickled = pickle.dumps(bare(*[one] * 100, bytes(PAGE)).snapshot())
    first, second = pickle.loads(pickled), pickle.loads(pickled)
    pages = [*first.memory.pages.values(), *second.memory.pages.values()]
    assert len({page.address for page in pages}) == 2
    machines = [kvrm.Machine(), kvrm.Machine()]
    for machine, snapshot in zip(machines, (first, second), strict=True):
        machine.restore(snapshot)
    machines[0].memory[0x100000:0x100004] = b"mine"
    assert bytes(machines[1].memory[0x100000:0x100004]) == one[:4], "shared pages are copied before a write"
    assert bytes(machines[0].memory[0x101000:0x101004]) == one[:4]


def test_images_of_a_program_are_held_once(examples: Path) -> None:
    machine = kvrm.Machine(examples / "sha256")
    machine.run(1000)
    once = size(machine)
    assert len(pickle.dumps([machine.snapshot()] * 3)) < once + 200
    machine.run(1000)
    assert len(pickle.dumps([machine.snapshot(), machine.snapshot()])) < once + 4 * PAGE


# -- strangers -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"program": "hello"}, "other program"),
        ({"features": "armv8.0"}, "other features"),
        ({"fp_flags": True}, "other fp_flags"),
        ({"program": None}, "this machine is a bare machine"),
        ({"root": "."}, "other root"),
        ({"memory_limit": 40 * PAGE}, "memory limit"),
    ],
)
def test_strangers_are_refused_and_nothing_changes(
    examples: Path, options: dict[str, Any], problem: str
) -> None:
    machine = kvrm.Machine(examples / "sha256", stdin=b"text" * 5000)
    machine.write_memory(0x10000000, b"private" * 40_000)
    snapshot = pickle.loads(pickle.dumps(machine.snapshot()))
    name = options.pop("program", "sha256")
    other = kvrm.Machine(name and examples / name, **options)
    before = [*other.x], other.pc, other.retired
    with pytest.raises(kvrm.UsageError, match=problem):
        other.restore(snapshot)
    assert before == ([*other.x], other.pc, other.retired)


def test_a_program_from_bytes_is_not_one_from_a_file(examples: Path) -> None:
    pickled = pickle.dumps(kvrm.Machine(examples / "hello").snapshot())
    other = kvrm.Machine((examples / "hello").read_bytes())
    with pytest.raises(kvrm.UsageError, match="the other from bytes"):
        other.restore(pickle.loads(pickled))
    assert other.run().stdout == kvrm.Machine(examples / "hello").run().stdout


def test_damaged_and_foreign_pickles_are_refused(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = kvrm.Machine(examples / "sha256", stdin=b"text" * 50)
    machine.run(1000)
    pickled = pickle.dumps(machine.snapshot())
    chance = random.Random(1)
    parts = [part for _, part, _ in pickletools.genops(pickled) if isinstance(part, bytes) and len(part) > 15]
    assert sum(map(len, parts)) > 0.9 * len(pickled)
    for part in parts * 10:
        at = pickled.index(part) + chance.randrange(len(part))
        damaged = pickled[:at] + bytes([pickled[at] ^ 1 << chance.randrange(8)]) + pickled[at + 1 :]
        with pytest.raises(kvrm.UsageError, match="is damaged"):
            pickle.loads(damaged)
    monkeypatch.setattr(kvrm, "__version__", "9.9")
    with pytest.raises(kvrm.UsageError, match="take a new one"):
        pickle.loads(pickled)
