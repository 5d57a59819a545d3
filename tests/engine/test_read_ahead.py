"""Reads that native code answers: as those that the host answers, whatever else happens in between."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvrm
from kvrm.linux.lent import ENOUGH
from linux_tools import AT_FDCWD, Elf, R, Segment, W, X
from translating import assemble, needs_assembler

pytestmark = needs_assembler

BASE, SIZE = 0x400000, 0x80000
PATHS, BUFFERS, SCRIPT = BASE + 0x1000, BASE + 0x2000, BASE + 0x40000
READ_ONLY, UNMAPPED = 0x500000, 0x10
OPENAT, CLOSE, LSEEK, READ, WRITE, PPOLL, DUP = 56, 57, 62, 63, 64, 73, 23
LOOP = f"""
    ldr x20, ={SCRIPT}
1:  ldp x8, x0, [x20], #16
    cbz x8, 2f
    ldp x1, x2, [x20], #16
    ldp x3, x4, [x20], #16
    svc #0
    str x0, [x20], #8
    b 1b
2:  mov x8, #93
    mov x0, #0
    svc #0
"""
Call = tuple[int, ...]


def calls(rng: random.Random, count: int) -> Iterator[Call]:
    """A file opened twice and duplicated, then mostly small reads and polls of it."""
    yield from [(OPENAT, AT_FDCWD, PATHS, 0), (OPENAT, AT_FDCWD, PATHS, 2), (DUP, 3)]
    fd = 3
    for _ in range(count):
        if rng.random() < 0.1:
            fd = rng.choice([0, 3, 4, 5, 9])
        buffer = BUFFERS + rng.randrange(0x8000)
        if rng.random() < 0.05:
            buffer = rng.choice([READ_ONLY, UNMAPPED, 1 << 56 | buffer])
        match rng.randrange(24):
            case 0:
                yield LSEEK, fd, rng.randrange(-100, 3000), rng.randrange(4)
            case 1:
                yield WRITE, 4, buffer, rng.randrange(9)
            case 2:
                yield CLOSE, rng.choice([3, 4, 5])
            case 3:
                yield OPENAT, AT_FDCWD, PATHS, rng.choice([0, 2])
            case 4:
                yield DUP, 3
            case 5 | 6 | 7:
                row = rng.choice([0, 0, 1, 2, 3, 4, 5])
                always = row not in (2, 4)
                timeout = rng.choice([0, PATHS + 128]) if always else PATHS + 128
                yield PPOLL, PATHS + 64 + 8 * row, rng.choice([1, 1, 2]), timeout
            case _:
                yield READ, fd, buffer, rng.choice([0, 1, 1, 1, 1, rng.randrange(100), 4096, 5000])


def program(seed: int) -> bytes:
    """An ELF file that makes random calls and keeps their results beside them."""
    rng = random.Random(seed)
    rows = b"".join(
        struct.pack("<7Q", *(value & (1 << 64) - 1 for value in (*call, *[0] * (6 - len(call)))), 0)
        for call in calls(rng, 400)
    )
    polls = b"".join(
        struct.pack("<ihh", fd, events, 0) for fd, events in ((3, 1), (3, 4), (3, 0), (4, 5), (-1, 1), (9, 1))
    )
    patches = {
        0x800: assemble(LOOP),
        PATHS - BASE: b"/file\0",
        PATHS - BASE + 64: polls,
        PATHS - BASE + 128: struct.pack("<qq", 0, 1000),
        SCRIPT - BASE: rows + bytes(16),
    }
    whole = Segment(flags=R | W | X, filesz=SIZE)
    return Elf([whole, Segment(flags=R, vaddr=READ_ONLY, filesz=0x1000)], size=SIZE, patches=patches).data()


@pytest.fixture
def root(tmp_path: Path, seed: int) -> Path:
    """A directory with the file, small or not."""
    rng = random.Random(seed)
    (tmp_path / "file").write_bytes(rng.randbytes(rng.choice([300, 70_000])))
    return tmp_path


def machine(engine: str, seed: int, root: Path) -> kvrm.Machine:
    """About to make the calls."""
    return kvrm.Machine(program(seed), engine=engine, root=root, stdin=b"some input")


def end(m: kvrm.Machine) -> tuple[Any, ...]:
    """What is left of the run: memory, registers and counts of calls."""
    result = m.run()
    counts = {call.name: call.count for call in m.profile.calls}
    return result.stop, m.retired, tuple(m.x), m.read_memory(BASE, SIZE), counts


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("engine", ["interpreter", "stress"])
def test_as_the_host_answers(engine: str, seed: int, root: Path) -> None:
    wanted = end(machine("reference", seed, root))
    assert wanted[0] is kvrm.Stop.EXIT
    assert end(machine(engine, seed, root)) == wanted


@pytest.mark.parametrize("seed", range(6))
def test_a_snapshot_between_two_reads(seed: int, root: Path) -> None:
    wanted = end(machine("reference", seed, root))
    m, rng = machine("interpreter", seed, root), random.Random(seed)
    while m.run(max_instructions=rng.randrange(1, 400)).stop is kvrm.Stop.BUDGET:
        snapshot = m.snapshot()
        m.run(max_instructions=rng.randrange(1, 400))
        m.restore(snapshot)
    assert end(m)[:4] == wanted[:4]


def test_the_host_is_not_asked(tmp_path: Path) -> None:
    """Native code answers nearly all of many small reads, and they count."""
    (tmp_path / "file").write_bytes(bytes(1000))
    text = (
        LOOP.split("1:")[0]
        + f"""
    mov x8, #{OPENAT}
    mov x0, #{AT_FDCWD}
    ldr x1, ={PATHS}
    mov x2, #0
    svc #0
    mov x19, x0
1:  mov x8, #{READ}
    mov x0, x19
    ldr x1, ={BUFFERS}
    mov x2, #1
    svc #0
    cbnz x0, 1b
    mov x8, #93
    svc #0
"""
    )
    elf = Elf(
        [Segment(flags=R | W | X, filesz=SIZE)],
        size=SIZE,
        patches={0x800: assemble(text), 0x1000: b"/file\0"},
    )
    m = kvrm.Machine(elf.data(), engine="interpreter", root=tmp_path)
    asked = 0
    syscall = m.lane.process.syscall

    def counted(retired: int) -> Any:
        nonlocal asked
        asked += 1
        return syscall(retired)

    m.lane.process.syscall = counted
    assert m.run().stop is kvrm.Stop.EXIT
    assert {call.name: call.count for call in m.profile.calls}["read"] == 1001
    assert asked < ENOUGH + 10
