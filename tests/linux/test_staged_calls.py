"""Staged system calls as Python beside the same text in native code: random calls with random arguments.

Both have a lane of the same program, each in memory of its own.
"""

from __future__ import annotations

import ctypes
import random
import struct
from ctypes import memmove
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import kvrm
from cuda_tools import (
    KEEP,
    Op,
    alike,
    begun,
    calls_in_python,
    mapping,
    opening,
    result,
    run,
    scratch,
    script,
)
from kvrm.backend.cpu import space
from kvrm.backend.cpu.compiled_loop import address_of
from kvrm.backend.cpu.host_process import HostProcess
from kvrm.backend.cpu.lane_space import LaneSpace
from kvrm.backend.cpu.linux import OPERATIONS
from kvrm.backend.cpu.loop import begin_process
from kvrm.backend.cpu.table import Field, Table
from kvrm.backend.cpu.worker import Worker
from kvrm.lane.state import State
from kvrm.linux.calls.advice import HARMLESS
from kvrm.linux.resident import of_words
from kvrm.linux.resident.dispatch import resident
from kvrm.linux.resident.lane_view import Lane
from kvrm.linux.resident.layout import (
    ACTIONS_BYTES,
    AREA_BYTES,
    ASKED,
    DONE,
    LANE_WORDS,
    LEAVE,
    LINK,
    Fixed,
    Word,
)
from kvrm.linux.syscall_table import TABLE
from kvrm.memory import PAGE
from kvrm.memory.pages import HOST
from kvrm.staging import native
from kvrm.staging.kernel import module_text
from space_methods import as_space

SCRATCH = 0x5000_0000
"""Four pages that the guest can write, and one that it can only read."""
CALLS = [row for row in TABLE.values() if row.resident and not row.name.startswith("exit")]
METHODS = [name for name, method in vars(Lane).items() if callable(method) and method in OPERATIONS]
INPUT = bytes(range(256)) * 20
SpaceTable = as_space(Table, OPERATIONS)


class PythonLane:
    """A lane of a table by what stands for its methods, as Python."""

    def __init__(self, table: Table) -> None:
        for name in METHODS:
            operation = OPERATIONS[vars(Lane)[name]]
            # what is the same on every target is made of the other operations
            shared = operation in of_words.OPERATIONS.values()
            setattr(self, name, partial(operation, self if shared else table))


class Side:
    """A lane of a program before its first instruction."""

    def __init__(self, program: Path, scratch: bytes) -> None:
        self.machine = machine = kvrm.Machine(program, stdin=INPUT)
        self.memory = memory = machine.lane.memory
        memory.map(SCRATCH, 5 * PAGE, 3)
        memory.poke(SCRATCH, scratch)
        memory.protect(SCRATCH + 4 * PAGE, PAGE, 1)
        snapshot = machine.snapshot()
        self.table, self.state = SpaceTable(), State()
        self.table[Field.STATE], self.table[Field.MOVE] = self.state.address, address_of(memmove)
        self.space = LaneSpace(self.table, memory)
        assert self.space.begin(snapshot.memory)
        self.process = HostProcess(self.table, machine.lane.process, memory, snapshot.process)
        space.reset(self.table)
        begin_process(self.table, 0)

    def words(self, address: int, count: int) -> Any:
        return (ctypes.c_uint64 * count).from_address(address)

    def facts(self) -> list[Any]:
        """All that a call can change, without addresses of the host."""
        table, block = self.table, self.words(self.table[Field.PROCESS], len(Fixed))
        words = list(self.words(table[Field.WORDS], LANE_WORDS))
        for word in (Word.INPUT, Word.INPUT_END):
            words[word] -= self.words(table[Field.FIRST_WORDS], LANE_WORDS)[Word.INPUT]
        sizes = {
            Fixed.AREAS: AREA_BYTES * words[Word.AREAS],
            Fixed.OWN_ACTIONS: ACTIONS_BYTES,
            Fixed.OUTPUTS: words[Word.STDOUT],
            Fixed.OUTPUTS + 1: words[Word.STDERR],
        }
        parts = [HOST[block[where] : block[where] + size].tobytes() for where, size in sizes.items()]
        changed = self.words(table[Field.CHANGED], 2 * table[Field.CHANGED_COUNT])
        bits = [(index, int(self.space._words[index]) % PAGE) for index in changed[::2]]
        return [words, parts, self.state.words[0], self.space.owned(), table[Field.PAGES_LEFT], bits]


@pytest.fixture(scope="module")
def compiled() -> Any:
    loader = native.loaded(module_text("calls", {"resident": resident}, OPERATIONS))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loader.address("resident"))
    yield lambda table: call(table.address)
    del loader


def in_python(table: Table) -> int:
    return resident(PythonLane(table))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory, with a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(bytes(range(200)) * 60)


def texts(rng: random.Random) -> bytes:
    """What is in the scratch memory: at each multiple of 64 a path, an iovec array, a time or a mask."""
    paths = [b"file", b"file", b"missing", b"/dev/urandom", LINK, b"", b"x" * 300, b"."]
    found = bytearray()
    for _ in range(PAGE * 2 // 64):
        pair = struct.pack("<4Q", SCRATCH + rng.randrange(5 * PAGE), rng.choice([0, 8, 5000]), SCRATCH, 3)
        time = struct.pack("<2Q", rng.randrange(9), rng.randrange(1 << 31))
        text = [rng.choice(paths) + b"\0", pair, time, struct.pack("<Q", rng.getrandbits(64)) * 4]
        found += rng.choice(text).ljust(64, b"\0")[:64]
    return bytes(found)


def arguments(rng: random.Random, side: Side, results: list[int]) -> list[int]:
    """For the registers x0 to x5."""
    start = rng.choice([region.start for region in side.memory.regions()] + results)
    pool = [
        *range(-2, 10),
        *(1 << k for k in range(0, 64, 3)),
        SCRATCH + 64 * rng.randrange(128),
        SCRATCH + rng.randrange(5 * PAGE),
        start,
        start + PAGE * rng.randrange(-2, 6),
        PAGE * rng.randrange(20),
        rng.getrandbits(64),
        0x22,
        -100,
        rng.choice(results),
    ]
    return [rng.choice(pool) % (1 << 64) for _ in range(6)]


def usual(rng: random.Random, name: str, given: list[int]) -> list[int]:
    """The same, more often such that a call does something."""
    scratch = SCRATCH + 64 * rng.randrange(128)
    usual = {
        "mmap": [
            0,
            rng.randrange(1, 5 * PAGE),
            rng.randrange(8),
            rng.choice([0x22, 0x21, 1, 2]),
            rng.randrange(8),
            0,
        ],
        "openat": [-100 % (1 << 64), scratch, rng.choice([0, 0o2000000]), 0],
        "newfstatat": [-100 % (1 << 64), scratch, scratch, rng.choice([0, 0x1000])],
        "mprotect": [given[0] & -PAGE, given[1] % (1 << 14), rng.randrange(8)],
        "munmap": [given[0] & -PAGE, given[1] % (1 << 14)],
        "madvise": [given[0] & -PAGE, given[1] % (1 << 14), rng.randrange(20)],
        "futex": [scratch, rng.choice([1, 129])],
        "getcwd": [scratch, PAGE],
        "gettimeofday": [scratch, rng.choice([0, scratch])],
        "prctl": [16, scratch],
        "prlimit64": [0, rng.randrange(20), 0, scratch],
        "rt_sigaction": [rng.randrange(66), scratch, scratch + PAGE, 8],
        "rt_sigprocmask": [rng.randrange(3), scratch, scratch + PAGE, 8],
        **{n: [rng.randrange(6), scratch, rng.randrange(6000), 5] for n in ("read", "write", "pread64")},
        **{n: [rng.randrange(6), scratch, rng.randrange(4)] for n in ("readv", "writev")},
    }
    chosen = usual.get(name, []) if rng.random() < 0.8 else []
    return [*chosen, *given[len(chosen) :]]


@pytest.mark.parametrize("seed", range(12))
def test_staged_calls_as_python_and_native(calls: Path, compiled: Any, seed: int) -> None:
    rng = random.Random(seed)
    memory = texts(rng)
    native_side, python_side = Side(calls, memory), Side(calls, memory)
    heap = int(native_side.process._block[Fixed.HEAP_START])
    results, done, left = [heap], set(), set()
    for _ in range(600):
        row = rng.choice(CALLS)
        registers = usual(rng, row.name, arguments(rng, native_side, results))
        if row.name == "brk" and rng.random() < 0.8:
            registers[0] = heap + rng.randrange(10 * PAGE)
        found = []
        for side, do in ((native_side, compiled), (python_side, in_python)):
            side.state.words[8] = row.number
            for i, value in enumerate(registers):
                side.state.words[i] = value
            code = do(side.table)
            if code == ASKED:
                side.process.files.answer()
                code = do(side.table)
            found.append((code, side.facts()))
        assert found[0] == found[1], (row.name, registers)
        code = found[0][0]
        assert code in (DONE, LEAVE)
        (done if code == DONE else left).add(row.name)
        if code == DONE and row.name in ("mmap", "brk") and native_side.state.words[0] < 1 << 63:
            results.append(native_side.state.words[0])
    assert len(done) > 30
    assert len(left) > 10


def random_mappings(rng: random.Random, data: int) -> list[Op | bytes]:
    """Calls that change mappings; the program's heap begins at what operation 0 returns."""
    ops: list[Op | bytes] = [("brk", 0), mapping(8 * PAGE), *opening("file")]
    made = [1]
    for _ in range(rng.randrange(25)):
        some, length = result(rng.choice(made), PAGE * rng.randrange(4)), rng.randrange(1, 4 * PAGE)
        prot = rng.choice([0, 1, 1, 3, 3, 3])
        choices: list[Op] = [
            ("mmap", 0, length, prot, rng.choice([0x21, 0x22, 0x22]), -1, 0),
            ("mmap", 0, length, 1, rng.choice([1, 2]), 3, PAGE * rng.randrange(3)),
            ("munmap", some, length),
            ("mprotect", some, length, prot),
            ("madvise", some, length, rng.choice(sorted(HARMLESS))),
            ("madvise", data + PAGE * rng.randrange(3), PAGE, rng.choice(sorted(HARMLESS))),
            ("mprotect", data + PAGE, length, 7),
            ("brk", result(0, rng.randrange(9 * PAGE))),
        ]
        op = rng.choice(choices)
        if op[0] == "mmap":
            made.append(sum(not isinstance(op, bytes) for op in ops))
        ops.append(op)
    shown: list[Op] = [("read", 4, scratch(), 50_000), ("write", 1, scratch(), 50_000)]
    return [*ops, ("umask", 0), *opening("/proc/self/smaps"), *shown]


@pytest.mark.parametrize("seed", range(4))
def test_mappings_of_lanes_that_leave(calls: Path, seed: int) -> None:
    """What Python goes on with has the regions, names, marks and pages that it would have had in Python."""
    rng = random.Random(seed)
    regions = kvrm.Machine(calls).lane.memory.regions()
    data = next(r.start for r in regions if r.prot == 3 and r.end - r.start >= 5 * PAGE)
    texts = [script(random_mappings(rng, data)) for _ in range(40)]
    with calls_in_python():
        want = run("cpu", calls, stdin=texts)
    found = alike(want, run("cpu", calls, stdin=texts)).stdout
    assert sum(text.count(b"VmFlags") for text in found) > 250


ACTION = struct.pack("<4Q", 0x1000, 0x8000_0000, 0, (1 << 64) - 1)
BEYOND = "a buffer that ends beyond all addresses"
EXACT: dict[str, tuple[list[Op | bytes], list[Op | bytes]]] = {
    "signals that an action cannot block": (
        [],
        [
            ("read", 0, scratch(), 32),
            ACTION,
            ("rt_sigaction", 2, scratch(), 0, 8),
            ("rt_sigaction", 2, 0, scratch(64), 8),
            ("write", 1, scratch(64), 32),
        ],
    ),
    BEYOND: ([], [("read", 0, scratch(), 1 << 39), mapping(PAGE)]),
    "a page that the heap must not touch": (
        [("brk", 0), ("mmap", result(0, 2 * PAGE), PAGE, 3, 0x32, -1, 0)],
        [("brk", 0), ("brk", result(0, 2 * PAGE)), ("brk", result(0, PAGE)), ("brk", 0)],
    ),
    "what lies across pages": (
        [mapping(2 * PAGE)],
        [mapping(3 * PAGE), ("uname", result(0, PAGE - 10)), ("write", 1, result(0, PAGE - 100), 500)],
    ),
}
"""What a process has done, and calls of lanes that begin with it."""


@pytest.mark.parametrize("name", EXACT)
def test_staged_calls_do_what_those_in_python_do(calls: Path, name: str) -> None:
    """In native code, but for the one that only Python has an error for."""
    before, after = EXACT[name]

    def gone_on() -> Any:
        lanes = begun(calls, before, "cpu").fork(2, 1)
        lanes.stdin, lanes.keep = [script(after)] * 2, KEEP
        return lanes.run()

    with calls_in_python():
        want = gone_on()
    with mock.patch.object(Worker, "_finish", autospec=True, side_effect=Worker._finish) as to_python:
        alike(want, gone_on())
    assert to_python.called == (name == BEYOND)
