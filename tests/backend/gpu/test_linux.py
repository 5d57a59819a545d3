"""System calls that the device does itself, against the same lanes on the CPU (see `test_lanes`)."""

from __future__ import annotations

import inspect
import random
import struct
from pathlib import Path

import pytest

import kvrm
from cuda_tools import ANONYMOUS, PAGE, READ, WRITE, Away, Op, mapping, result, run, same, scratch, script
from kvrm import Stop
from kvrm.backend.gpu import device_process, kernel
from kvrm.linux.resident import start
from kvrm.linux.resident.staged import text_of
from kvrm.linux.syscall_table import TABLE
from kvrm.staging.ptx import compile_ptx
from ptx_tools import assemble

pytestmark = pytest.mark.usefixtures("place")


# -- whole programs --------------------------------------------------------------------------------------
def test_examples(examples: Path, away: Away) -> None:
    lines = [b"1 + 2\n", b"3 * 4\n", b"1 / 0\n", b"", b"(\n"]
    assert same(examples / "expression", stdin=lines).stdout[:2] == [b"3\n", b"12\n"]
    same(examples / "sha256", stdin=[b"abc", b"", b"x" * 10_000])
    same(examples / "sha256", stdin=b"abc", lanes=3)
    same(examples / "primes", args=["50"], lanes=2)
    same(examples / "expression", stdin=lines, budgets=(50, 1, 1, 100, None))
    assert not away


def test_arguments(examples: Path, away: Away) -> None:
    """Those of each lane; where some are too many for its memory, as on the CPU."""
    args = [["50"], [], ["7", "x" * 5000], ["20", b"\xff"], ["30"]]
    results = same(examples / "primes", args=args, lanes=5)
    assert len(set(results.stdout)) == 5 and not away
    same(examples / "primes", args=args, lanes=5, budgets=(1, 300, None))
    same(examples / "primes", args=[["5"], ["x" * 60_000]], lanes=2, memory_limit=8 * PAGE)


def test_arguments_of_lanes_that_go_to_the_cpu(guest_root: Path, away: Away) -> None:
    from guests.fetch import program

    args = [["cat", "/proc/self/cmdline"], ["echo", "x"], ["cat", "/proc/self/cmdline", "/proc/self/comm"]]
    same(program(guest_root, "busybox"), args=args, lanes=3, engine="interpreter")
    assert {lane for lane, _ in away} == {0, 2}


BUSYBOX = [["sha256sum"], ["wc"], ["sort", "-r"], ["awk", "{n += NF; print $1} END {print n}"], ["cat"]]


@pytest.mark.parametrize("args", BUSYBOX)
@pytest.mark.parametrize("engine", ["interpreter", pytest.param("tiered", marks=pytest.mark.slow)])
def test_busybox(engine: str, guest_root: Path, args: list[str], away: Away) -> None:
    """Without regions one kernel does for all of them, which takes a while to compile."""
    from guests.fetch import program

    inputs = [b"one two\nthree 4\n" * 5, b"b\na\nc\n" * 20, b"", b"x" * 5000]
    results = same(program(guest_root, "busybox"), args=args, stdin=inputs, engine=engine)
    assert results.stops == {Stop.EXIT: 4} and not away


def test_a_fork(examples: Path, away: Away) -> None:
    found = []
    for target in ("cpu", "cuda"):
        m = kvrm.Machine(examples / "expression", stdin=b"1 + 2\n", target=target)
        m.run(max_instructions=20)
        whole = m.fork(2).run().stdout
        lanes = m.fork(2)
        lanes.stdin = [b" * 5\n", b"0 + 6\n"]
        found.append((whole, lanes.run().stdout))
    assert found[0] == found[1] and not away


def test_output_before_the_fork(examples: Path, away: Away) -> None:
    m = kvrm.Machine(examples / "primes", args=["50"], target="cuda")
    while not m.run(max_instructions=50).stdout:
        pass
    assert set(m.fork(3).run().stdout) == {m.run().stdout} and not away


# -- calls by name ---------------------------------------------------------------------------------------
SIMPLE: dict[str, list[Op]] = {
    "identity": [(n,) for n in "getpid gettid getppid getuid geteuid getgid getegid sched_yield".split()],
    "start": [
        ("set_tid_address", scratch()),
        ("set_robust_list", scratch(), 24),
        ("set_robust_list", scratch(), 23),
        ("rseq", scratch(), 32),
        ("prctl", 16, scratch()),
        ("getcwd", scratch(64), 4096),
        ("uname", scratch(5000)),
        ("write", 1, scratch(), 6000),
        ("futex", scratch(), 1, 1),
        ("futex", scratch(), 129, 1),
    ],
    "limits": [
        ("prlimit64", 0, 3, 0, scratch()),
        ("prlimit64", 0, 7, 0, scratch(16)),
        ("prlimit64", 0, 16, 0, scratch()),
        ("getrlimit", 4, scratch(32)),
        ("write", 1, scratch(), 48),
    ],
    "clocks": [
        *(("clock_gettime", clock, scratch(16 * clock)) for clock in range(13)),
        ("clock_getres", 1, scratch(300)),
        ("clock_getres", 10, scratch(300)),
        *(("clock_gettime", number, scratch(480)) for number in (-1, -2, -5, -6, -8, -9, ~1000 << 3 | 2)),
        ("gettimeofday", scratch(320), scratch(340)),
        ("store", scratch(400), 2),
        ("store", scratch(409), 77),
        ("nanosleep", scratch(400), 0),
        ("spin", 1234),
        ("clock_gettime", 0, scratch(420)),
        ("clock_gettime", 2, scratch(440)),
        ("write", 1, scratch(), 500),
    ],
    "random": [
        ("getrandom", scratch(), 8, 1),
        ("getrandom", scratch(9), 5, 0),
        ("getrandom", scratch(20), 0, 0),
        ("getrandom", scratch(21), 3, 2),
        ("getrandom", scratch(4000), 300, 0),
        ("getrandom", scratch(), 1, 6),
        ("getrandom", scratch(), 1, 8),
        ("write", 1, scratch(), 4400),
    ],
    "signals": [
        ("store", scratch(), 0x10),
        ("store", scratch(32), 0x20),
        ("rt_sigprocmask", 0, scratch(), scratch(64), 8),
        ("rt_sigprocmask", 1, scratch(), scratch(72), 8),
        ("rt_sigprocmask", 2, scratch(32), scratch(80), 8),
        ("rt_sigprocmask", 9, 0, scratch(88), 8),
        ("rt_sigaction", 2, scratch(), scratch(96), 8),
        ("rt_sigaction", 2, scratch(32), scratch(128), 8),
        ("rt_sigaction", 3, scratch(32), 0, 8),
        ("rt_sigaction", 2, 0, scratch(160), 8),
        ("write", 1, scratch(), 200),
    ],
    "streams": [
        *(("fstat", fd, scratch(128 * fd)) for fd in range(4)),
        ("newfstatat", 1, scratch(1000), scratch(512), 0x1000),
        ("write", 1, scratch(), 700),
        ("ioctl", 1, 0x5401, scratch()),
        ("ioctl", 9, 0x5401, scratch()),
        *(("fcntl", fd, command) for fd in range(4) for command in (1, 3)),
        ("lseek", 0, 0, 1),
        ("lseek", 5, 0, 1),
        ("sendfile", 1, 0, 0, 100),
        ("sendfile", 0, 0, 0, 100),
        ("write", 0, scratch(), 3),
        ("read", 1, scratch(), 3),
        ("read", 7, scratch(), 3),
        ("write", 2, scratch(), 3),
        ("write", 2, scratch(4090), 5000),
        ("write", 1, scratch(), 0),
        ("close", 2),
        ("write", 2, scratch(), 3),
        ("close", 2),
    ],
    "heap": [
        ("brk", 0),
        ("brk", result(0, 100)),
        ("brk", result(0, 10 * PAGE)),
        ("store", result(0, 9 * PAGE), 5),
        ("load", result(0, 9 * PAGE)),
        ("brk", result(0, 5 * PAGE)),
        ("brk", result(0, 12 * PAGE)),
        ("load", result(0, 9 * PAGE)),
        ("brk", 5),
        ("brk", -1),
        ("mprotect", result(0, PAGE), PAGE, READ),
        ("load", result(0, PAGE)),
        ("store", result(0, PAGE), 1),
    ],
    "mappings": [
        mapping(3 * PAGE),
        mapping(1),
        mapping(PAGE, READ),
        ("store", result(0, 5000), 3),
        ("store", result(1), 4),
        ("munmap", result(2), 1),
        ("munmap", result(1), PAGE),
        mapping(2 * PAGE),
        ("load", result(7)),
        ("munmap", result(0), PAGE),
        mapping(2 * PAGE),
        ("load", result(0, 5000)),
        ("mprotect", result(0, PAGE), PAGE, 0),
        ("madvise", result(0, PAGE), PAGE, 3),
        ("madvise", result(0, PAGE), PAGE, 14),
        ("load", result(0, 5000)),
    ],
    "fault": [mapping(PAGE, READ), ("load", result(0)), ("store", result(0), 1)],
    "lost": [mapping(PAGE), ("munmap", result(0), PAGE), ("load", result(0))],
}


@pytest.mark.parametrize("name", SIMPLE)
def test_resident(calls: Path, name: str, away: Away) -> None:
    same(calls, stdin=[script(SIMPLE[name]), script(SIMPLE[name][::2])])
    assert not away


def test_vectors(calls: Path, away: Away) -> None:
    """An iovec array of two, made of what the input brings."""
    ops: list[Op] = [mapping(PAGE), ("read", 0, scratch(), 32), ("read", 0, scratch(100), 10)]
    ops += [("writev", 1, scratch(), 2), ("readv", 0, scratch(), 2), ("readv", 1, scratch(), 2)]
    ops += [("writev", 2, scratch(), 0), ("writev", 5, scratch(), 1)]
    # the address of `scratch` is not known here: take that of the mapping, which is the same in every run
    address = int.from_bytes(run("cpu", calls, stdin=[script([mapping(PAGE)])]).stdout[0][:8], "little")
    data = struct.pack("<4Q", address, 5, address + 100, 7) + b"0123456789"
    text = script(ops[:2]) + data[:32] + script(ops[2:3]) + data[32:]
    text += script(ops[3:5]) + b"abcdefghijkl" + script(ops[3:4]) + script(ops[5:6])
    same(calls, stdin=[text])
    assert not away
    same(calls, stdin=[text + script(ops[6:])])


def test_vectors_with_a_negative_length(calls: Path, away: Away) -> None:
    """None of the buffers is touched."""
    address = int.from_bytes(run("cpu", calls, stdin=[script([mapping(PAGE)])]).stdout[0][:8], "little")
    vector = struct.pack("<4Q", address + 100, 5, address + 200, 1 << 63)
    ops: list[Op | bytes] = [mapping(PAGE), ("read", 0, result(0), 32), vector]
    shown: Op = ("write", 1, result(0), 300)
    texts = [script([*ops, (name, fd, result(0), 2), shown]) for name, fd in (("readv", 0), ("writev", 2))]
    same(calls, stdin=texts)
    assert away == [(0, "readv"), (1, "writev")]


NOT_RESIDENT: list[Op] = [
    ("openat", -100, scratch(60_000), 0o100, 0),
    ("mmap", result(8), PAGE, READ, ANONYMOUS | 0x10, -1, 0),
    ("mremap", result(8), PAGE, 3 * PAGE, 1),
    ("munmap", result(8, 1), PAGE),
    ("munmap", scratch(), PAGE),
    ("mprotect", scratch(), 1 << 40, READ),
    ("madvise", result(8), PAGE, 4),
    ("madvise", result(8), PAGE, 8),
    ("write", 1, 8, 8),
    ("write", 1, scratch(65_000), 10_000_000),
    ("read", 0, 8, 8),
    ("read", 0, result(8, PAGE - 8), 30),
    ("dup3", 1, 16, 0),
    ("getrandom", scratch(), 5000, 0),
    ("rt_sigaction", 10, scratch(), 8, 8),
    ("umask", 0o77),
    ("clock_gettime", 1, 0),
    ("prctl", 15, scratch()),
    ("kill", 0, 15),
    ("sysinfo", scratch()),
    mapping(1 << 30),
]


@pytest.mark.parametrize("op", NOT_RESIDENT, ids=lambda op: op[0])
def test_on_the_cpu(calls: Path, op: Op, away: Away) -> None:
    """What the device has done before is there when the CPU goes on."""
    before: list[Op] = [*SIMPLE["heap"][:8], mapping(PAGE), *SIMPLE["signals"], ("write", 2, scratch(), 5)]
    before += [("getrandom", scratch(), 13), ("store", result(8, 8), 9), ("close", 2)]
    before += [("set_tid_address", 77)]
    after: list[Op] = [("rt_sigaction", 2, 0, scratch(), 8), ("rt_sigprocmask", 0, 0, scratch(40), 8)]
    after += [
        ("prctl", 40, scratch(80)),
        ("getrandom", scratch(50), 9),
        ("brk", 0),
        mapping(PAGE),
        ("load", result(8, 8)),
    ]
    after += [("write", 2, scratch(), 5), ("write", 1, scratch(), 200)]
    same(calls, stdin=[script([*before, op, *after]), script(before)])
    assert away == [(0, op[0])]


def test_no_room_for_output(calls: Path, away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_process, "OUTPUT_MOST", 256)
    monkeypatch.setattr(device_process, "OUTPUT_LEAST", 256)
    pieces = [script([("write", 2, scratch(), n)] * 4) for n in (10, 64, 65, 300)]
    pieces.append(script([*[("write", 2, scratch(), 64)] * 4, ("write", 2, scratch(), 1)]))
    same(calls, stdin=pieces)
    assert away == [(2, "write"), (3, "write"), (4, "write")]


def test_no_room_for_areas(calls: Path, away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours that are alike are one."""
    monkeypatch.setattr(start, "MOST_AREAS", 6)
    same(calls, stdin=[script([mapping(PAGE)] * 20)])
    assert not away
    unlike = [mapping(PAGE, READ), mapping(PAGE), mapping(PAGE, READ), mapping(PAGE), mapping(PAGE, READ)]
    same(calls, stdin=[script(unlike[:n]) for n in range(6)])
    assert away == [(4, "mmap"), (5, "mmap")]


def random_ops(rng: random.Random) -> list[Op]:
    """Calls that change memory, and accesses to what they changed."""
    ops: list[Op] = [("brk", 0), mapping(4 * PAGE)]
    for _ in range(rng.randrange(40)):
        some = result(rng.randrange(1, len(ops)), rng.randrange(6) * PAGE)
        length = rng.randrange(1, 5 * PAGE)
        choices: list[Op] = [
            ("brk", result(0, rng.randrange(20 * PAGE))),
            mapping(length, rng.choice([0, READ, READ | WRITE, READ | WRITE, READ | WRITE])),
            ("munmap", some, length),
            ("mprotect", some, length, rng.choice([0, READ, READ | WRITE])),
            ("read", 0, result(0, rng.randrange(8 * PAGE)), 0),
            ("write", 2, some, rng.randrange(100)),
            ("getrandom", some, rng.randrange(40)),
            ("clock_gettime", 1, some),
        ]
        ops.append(rng.choice(choices))
        if rng.random() < 0.3:
            at = result(rng.choice([0, 1]), rng.randrange(4 * PAGE))
            ops.append(rng.choice([("load", at), ("store", at, rng.randrange(256))]))
    if rng.random() < 0.3:
        ops += [("mremap", result(1), PAGE, 3 * PAGE, 1), mapping(PAGE)]
    return ops


@pytest.mark.parametrize("seed", range(3))
def test_random_calls(calls: Path, seed: int, away: Away) -> None:
    rng = random.Random(seed)
    texts = [script(random_ops(rng)) for _ in range(100)]
    same(calls, stdin=texts, budgets=(2000, None))
    assert {name for _, name in away} and len({lane for lane, _ in away}) < 90


def test_reset_with_other_input(calls: Path, away: Away) -> None:
    """Nothing of a lane is left: not its mappings, output, input or random numbers."""
    texts = [script(ops) for ops in (SIMPLE["mappings"], SIMPLE["heap"], SIMPLE["random"], SIMPLE["signals"])]
    lanes = kvrm.Machine(calls, target="cuda").fork(4)
    for order in (texts, texts[::-1]):
        lanes.reset()
        lanes.stdin = order
        expected = run("cpu", calls, stdin=order)
        results = lanes.run()
        assert (results.stdout, results.stops) == (expected.stdout, expected.stops)
    assert not away


def test_staged_calls_take_what_those_in_python_do() -> None:
    resident = [row for row in TABLE.values() if row.resident]
    assert len(resident) == 47
    for row in resident:
        assert len(inspect.signature(text_of(row.name)).parameters) == 1 + len(row.kinds), row.name


def test_assembles(ptxas: str, tmp_path: Path) -> None:
    """The PTX of a program with all the calls is accepted by NVIDIA's assembler."""
    assemble(ptxas, compile_ptx(kernel.stage([("svc", ())]).device, "sm_90"), "sm_90", tmp_path)


def test_memory_limit(calls: Path, away: Away) -> None:
    """Pages that a lane has unmapped do not count."""
    touches: list[Op] = [("store", result(0, page * PAGE), 1) for page in range(12)]
    again: list[Op] = [mapping(12 * PAGE), *touches[:6], ("munmap", result(0), 12 * PAGE)]
    texts = [script([mapping(12 * PAGE), *touches[:n]]) for n in range(0, 12, 2)]
    texts += [script([*again, mapping(12 * PAGE), *touches[:n]]) for n in range(2, 8)]
    results = same(calls, stdin=texts, memory_limit=12 * PAGE)
    assert results.stops[Stop.OUT_OF_MEMORY] and results.stops[Stop.EXIT]
    assert all(name in ("read", "write") for _, name in away)
