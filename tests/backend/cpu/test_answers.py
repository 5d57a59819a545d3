"""Calls of a machine of one lane that native code answers, beside one with all calls in Python."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

import cross
import kvrm
from cuda_tools import NUMBERS, scratch
from kvrm.linux import lent
from kvrm.linux.process import Process

SUPPORT = Path(__file__).parents[2] / "support"
Call = tuple[str, *tuple[int | bytes, ...]]
FAULT, SIZE = -14, 1 << 16


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("answers") / "row"
    return cross.build(SUPPORT / "row_of_calls.c", program, "-O1", "-mgeneral-regs-only", *cross.BARE)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory with files, one larger than what is lent of it; native code is ready at once."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(5)
    (tmp_path / "small").write_bytes(rng.randbytes(300))
    (tmp_path / "large").write_bytes(rng.randbytes(2 * lent.SIZE + 77))
    monkeypatch.setattr(lent, "ENOUGH", 0)


def machine(guest: Path, calls: list[Call], natively: bool = True) -> kvrm.Machine:
    """A machine that makes these calls; bytes are in its memory. `natively`: as machines are made."""
    at, data, words = 8 + 56 * len(calls), b"", [len(calls)]
    for name, *given in calls:
        row = [NUMBERS[name]]
        for argument in given:
            if isinstance(argument, bytes):
                row.append(3 << 56 | at + len(data))
                data += argument.ljust(-len(argument) % 8 + len(argument), b"\0")
            else:
                row.append(argument % (1 << 64))
        words += row + [0] * (7 - len(row))
    m = kvrm.Machine(guest, stdin=struct.pack(f"<{len(words)}Q", *words) + data)
    if not natively:
        m.lane.process.lent = lent.Lent(m.state.words)
    return m


def facts(m: kvrm.Machine, result: Any) -> list[Any]:
    return [result.stop, result.exit_code, result.stdout, [*m.x], m.retired, m.pc]


def alike(guest: Path, calls: list[Call]) -> list[int]:
    """The results of calls, that native code and Python agree on."""
    m, python = machine(guest, calls), machine(guest, calls, natively=False)
    found = facts(m, m.run())
    assert found == facts(python, python.run())
    counts = [{n: calls.count for n, calls in x.lane.engine.account.calls.items()} for x in (m, python)]
    assert counts[0] == counts[1]
    return list(struct.unpack_from(f"<{len(calls)}q", found[2]))


class Served:
    """The names of calls that Python does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        names, do = {number: name for name, number in NUMBERS.items()}, Process.syscall

        def syscall(process: Process, retired: int) -> Any:
            self.names.append(names[process.task.state.words[8]])
            return do(process, retired)

        monkeypatch.setattr(Process, "syscall", syscall)


def opening(name: bytes) -> Call:
    return "openat", -100, name + b"\0", 0, 0


def polled(fd: int, events: int = 5) -> bytes:
    return struct.pack("<ihh", fd, events, 0)


def random_calls(rng: random.Random) -> list[Call]:
    """Calls that native code answers, with all kinds of arguments, and others between them."""
    calls: list[Call] = [opening(b"large"), opening(b"small")]
    for _ in range(rng.randrange(40, 120)):
        at = scratch(rng.randrange(SIZE))
        at = rng.choice([at, at, at, at, 0, 1 << 45, 1 << 56, -8])
        fd = rng.choice([3, 3, 3, 4, 5, 17, 99, -1])
        choices: list[Call] = [
            ("clock_gettime", rng.randrange(-20, 14), at),
            ("clock_getres", rng.randrange(-20, 14), at),
            ("gettimeofday", at, rng.choice([0, at])),
            ("rt_sigprocmask", rng.randrange(-1, 4), at, rng.choice([0, at]), rng.choice([8, 8, 8, 4])),
            (rng.choice("getpid gettid getppid getuid geteuid getgid getegid sched_yield".split()),),
            ("lseek", fd, rng.randrange(300), rng.randrange(2)),
            ("dup3", 3, rng.randrange(5, 20), 0),
            ("close", rng.randrange(5, 20)),
            ("nanosleep", struct.pack("<2Q", rng.randrange(3), 5), 0),
        ]
        calls.append(rng.choice(choices))
        size = rng.choice([0, 1, 1, 1, 7, 100, 4096, 4097, 1 << 15])
        calls += [("read", fd, at, size)] * rng.randrange(6)
        calls.append(("ppoll", polled(fd, rng.choice([1, 4])), 1, 0 if fd == 3 else bytes(16), 0))
    return calls


@pytest.mark.parametrize("seed", range(8))
def test_random_calls(guest: Path, seed: int) -> None:
    results = alike(guest, random_calls(random.Random(seed)))
    assert any(r == FAULT for r in results) and max(results) > 99


def test_what_native_code_answers(guest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python does what is in between, the first reads, and those past what is lent."""
    served = Served(monkeypatch)
    calls: list[Call] = [opening(b"large"), *[("read", 3, scratch(), 1000)] * 100]
    calls += [("clock_gettime", 1, scratch(8)), ("ppoll", polled(3), 1, 0), ("getpid",), ("umask", 0)]
    calls += [("rt_sigprocmask", 0, scratch(8), scratch(16), 8)]
    m = machine(guest, calls)
    m.run()
    past = lent.SIZE // 1000
    assert served.names[:4] == ["read", "openat", "read", "read"]
    assert served.names[4:] == ["read", "umask", "write", "write", "exit_group"]
    assert m.lane.engine.account.calls[NUMBERS["read"]].count == 101 and past < 100


def test_offsets_are_those_of_all_reads(guest: Path) -> None:
    calls: list[Call] = [opening(b"large"), *[("read", 3, scratch(64 * i), 33) for i in range(50)]]
    calls += [("lseek", 3, 0, 1), ("dup", 3), ("read", 4, scratch(), 1), ("lseek", 3, 0, 1)]
    assert alike(guest, calls)[-4:] == [50 * 33, 4, 1, 50 * 33 + 1]


def test_small_files_end(guest: Path) -> None:
    calls: list[Call] = [opening(b"small"), *[("read", 3, scratch(64 * i), 64) for i in range(8)]]
    assert alike(guest, calls)[1:] == [64, 64, 64, 64, 44, 0, 0, 0]


def test_blocked_signals(guest: Path) -> None:
    """What native code has blocked waits, and acts once Python unblocks it."""
    usr1 = struct.pack("<Q", 1 << 9)
    blocked: list[Call] = [("getpid",), ("rt_sigprocmask", 0, usr1, scratch(), 8)]
    blocked += [("kill", 0, 10), ("rt_sigpending", scratch(8), 8), ("rt_sigprocmask", 1, usr1, scratch(), 8)]
    for natively in (True, False):
        result = machine(guest, blocked, natively).run()
        assert result.stop is kvrm.Stop.SIGNAL and result.signal == 10


def test_timers(guest: Path) -> None:
    """One expires while native code answers calls."""
    soon = struct.pack("<4Q", 0, 0, 0, 20)
    mask = struct.pack("<Q", 1 << 13)
    calls: list[Call] = [("rt_sigprocmask", 0, mask, 0, 8), ("setitimer", 0, soon, 0), ("getpid",)]
    calls += [("clock_gettime", 1, scratch(16 * i)) for i in range(600)]
    calls += [("rt_sigpending", scratch(8), 8), ("rt_sigprocmask", 1, mask, 0, 8)]
    found = []
    for natively in (True, False):
        m = machine(guest, calls, natively)
        found.append(facts(m, m.run()))
    assert found[0] == found[1] and found[0][0] is kvrm.Stop.SIGNAL


def test_timers_at_the_moment_of_a_call(guest: Path) -> None:
    """One that is due when a call begins ends the program, though the call would block its signal."""
    alarm = struct.pack("<Q", 1 << 13)
    calls: list[Call] = [("timer_create", 1, 0, scratch()), ("timer_settime", 0, 0, bytes(32), 0)]
    calls += [("rt_sigprocmask", how, alarm, 0, 8) for how in (0, 1)] * 9
    found = []
    for natively in (True, False):
        m = machine(guest, calls, natively)
        while m.x[8] != NUMBERS["read"] or m.disassemble() != ["svc #0"]:
            m.step()
        timer = m.x[1] + 8 + 56 * len(calls)
        m.step()
        begun, ends = m.snapshot(), set()
        for ns in range(300, 400):
            m.restore(begun)
            m.write_memory(timer, struct.pack("<4Q", 0, 0, 0, ns))
            ends.add((ns, m.run().stop, m.retired))
        found.append(ends)
    assert found[0] == found[1] and {stop for _, stop, _ in found[0]} == {kvrm.Stop.SIGNAL}


def test_memory_that_is_not_there_yet(guest: Path) -> None:
    """A page that the guest has not touched, one that it cannot write, and what lies across both."""
    there = 0x3000_0000
    calls: list[Call] = [("mmap", there, 8192, 3, 0x32, -1, 0), ("mprotect", there + 4096, 4096, 1)]
    calls += [opening(b"large"), *[("read", 3, scratch(), 5)] * 3]
    calls += [("read", 3, there + 4090, 5), ("clock_gettime", 0, there + 4096 - 16)]
    calls += [
        ("clock_gettime", 0, there + 4096 - 8),
        ("read", 3, there + 4090, 50),
        ("read", 3, scratch(), 5),
    ]
    assert alike(guest, calls)[-5:] == [5, 0, FAULT, 6, 5]


def test_runs_in_pieces(guest: Path) -> None:
    """Each ends wherever its budget does, and nothing is lent between them."""
    calls = random_calls(random.Random(20))[:60]
    whole = machine(guest, calls)
    want = facts(whole, whole.run())
    m, rng = machine(guest, calls), random.Random(3)
    while (result := m.run(max_instructions=rng.randrange(1, 40))).stop is kvrm.Stop.BUDGET:
        assert not m.lane.process.lent._file
    assert facts(m, result) == want


def test_a_run_that_ends_with_a_call(guest: Path) -> None:
    """It stops there, not at the breakpoint after the call, nor at what cannot run."""
    m = machine(guest, [("getpid",)] * 3)
    while m.x[8] != NUMBERS["getpid"] or m.disassemble() != ["svc #0"]:
        m.step()
    again = machine(guest, [("getpid",)] * 3)
    again.run(max_instructions=m.retired)
    again.write_memory(m.pc + 4, bytes(4))
    again.breakpoints = {m.pc + 4}
    assert again.step().stop is kvrm.Stop.BUDGET and again.pc == m.pc + 4
    again.breakpoints.clear()
    assert again.step().stop is kvrm.Stop.UNDEFINED


def test_snapshots(guest: Path) -> None:
    calls = [opening(b"large"), *[("read", 3, scratch(7 * i), 7) for i in range(300)], ("lseek", 3, 0, 1)]
    m = machine(guest, calls)
    m.run(max_instructions=17_000)
    kept = m.snapshot()
    want = facts(m, m.run())
    m.restore(kept)
    assert facts(m, m.run()) == want
    m.restore(kept)
    lanes = m.fork(2)
    assert [text == want[2] for text in lanes.run().stdout] == [True, True]


def test_a_filter_sees_each_call(guest: Path) -> None:
    """It refuses getpid, which native code would answer."""
    deny = struct.pack("<HBBI", 0x20, 0, 0, 0) + struct.pack("<HBBI", 0x15, 0, 1, NUMBERS["getpid"])
    deny += struct.pack("<HBBI", 6, 0, 0, 0x50000 | 7) + struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000)
    there = 0x3000_0000
    calls: list[Call] = [("getpid",), ("mmap", there, 4096, 3, 0x32, -1, 0)]
    calls += [("prctl", 38, 1), ("getpid",)]
    m = machine(guest, [*calls, ("seccomp", 1, 0, there), ("getpid",), ("getuid",), ("getpid",)])
    pid = alike(guest, calls)[-1]
    m.run(max_instructions=200)
    while (m.run(max_instructions=1)).stop is kvrm.Stop.BUDGET and m.x[8] != NUMBERS["seccomp"]:
        pass
    m.write_memory(there, struct.pack("<HxxxxxxQ", 4, there + 16) + deny, prot="rw")
    results = struct.unpack_from("<8q", m.run().stdout)
    assert results[4] == 0 and results[5:] == (-7, results[6], -7) and pid == 1000


def test_each_call_is_traced(guest: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("KVRM_TRACE", "sys")
    machine(guest, [("getpid",)] * 100).run()
    assert capsys.readouterr().err.count("getpid()") == 100


def test_what_watches_a_file_is_told_of_each_read(guest: Path) -> None:
    watched: list[Call] = [("inotify_init1", 0o4000), ("inotify_add_watch", 3, b"large\0", 1)]
    calls = [*watched, opening(b"large"), *[("read", 4, scratch(), 5), ("read", 3, scratch(64), 64)] * 5]
    results = alike(guest, calls)
    assert results[3:] == [5, 16] * 5
