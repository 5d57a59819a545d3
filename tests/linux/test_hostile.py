"""Hostile guests: any registers on any system call; no exception, no harm outside, no long wait."""

from __future__ import annotations

import gc
import os
import random
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvrm.lane.state import State
from kvrm.linux.boot import boot
from kvrm.linux.names import name_of
from kvrm.linux.syscall_table import TABLE
from kvrm.memory import Memory, OutOfMemory
from linux_tools import BUFFER, NOWHERE, SCRATCH, SCRATCH_SIZE, U64, Guest, state_of

CALLS = 12_000
TEXTS = [
    b"file", b"sub", b"new", b"link", b"up", b"/", b".", b"..", b"", b"/dev/null", b"/dev/zero", b"sub/x",
    b"/dev/random", b"/proc/self/maps", b"/proc/self/fd/3", b"/proc/self/exe", b"../outside/secret",
    b"/tmp/t", b"\xff\xfe", b"a" * 300, b"b/" * 2000, b"fifo", b"/proc/self/mem", b"new/", b"sub/../file",
]  # fmt: skip
SLOWEST = 10.0
"""Seconds of processor time that no call may take; copying 2 GiB of a hole takes one or two."""
LIMIT = 64 << 20


class Fuzzer:
    """Draws calls for a guest; about half of the arguments make sense."""

    def __init__(self, seed: int, guest: Guest, more_texts: Sequence[bytes] = ()) -> None:
        self.draw = random.Random(seed)
        self.guest = guest
        self.strings: list[int] = []
        at = SCRATCH
        for text in (*TEXTS, *more_texts):
            guest.memory.write(at, text + b"\0")
            self.strings += [at] * (4 if text in more_texts else 1)
            at += len(text) + 1
        for path, flags in (("sub", 0o40000), ("file", 0), ("file", 2), ("new", 0o102), ("/dev/zero", 2)):
            guest.open(path, flags)
        guest.call("pipe2", BUFFER, 0o4000)
        self.process, self.memory = guest.process.snapshot(), guest.memory.snapshot()

    def argument(self, kind: str) -> int:
        """A value for an argument of that kind (`kvrm.linux.syscall_table`)."""
        draw = self.draw
        if draw.random() < 0.12:
            return draw.choice([0, 1, U64, 1 << 63, 1 << 31, (1 << 32) - 1, 1 << 60, draw.getrandbits(64)])
        match kind:
            case "s":
                return draw.choice([*self.strings, NOWHERE, BUFFER])
            case "p":
                place = draw.choice(
                    [BUFFER, BUFFER, SCRATCH + SCRATCH_SIZE - 9, NOWHERE, 0, self.guest.state.sp]
                )
                return place + draw.choice([0, 0, 0, 1, 4096])
            case "i":
                return draw.choice([-100, *range(12), 1000])
            case "n" | "l":
                return draw.choice(
                    [0, 0, 1, 8, 24, 100, 4096, 70_000, 1 << 20, 1 << 33, -1, draw.getrandbits(16)]
                )
            case _:
                small = [0, 0, 1, 2, 3, 4, 0x22, 4096, 0o100, 0o1102, 0o40000, 0x541B]
                return draw.choice([*small, 1 << draw.randrange(32), draw.getrandbits(12)])

    def call(self) -> tuple[int, list[int]]:
        """A system call number, nearly always one that exists, and six arguments."""
        number = self.draw.choice(list(TABLE)) if self.draw.random() < 0.97 else self.draw.getrandbits(64)
        row = TABLE.get(number)
        kinds = (row.kinds if row else "").ljust(6, "x")
        if self.draw.random() < 0.2:
            words = [self.argument(self.draw.choice("pn")) for _ in range(8)]
            self.guest.memory.write(BUFFER, struct.pack("<8Q", *(word & U64 for word in words)))
        return number, [self.argument(kind) for kind in kinds]

    def run(self, calls: int) -> set[str]:
        """Make that many calls; the names of those that succeeded."""
        guest, succeeded = self.guest, set()
        for _ in range(calls):
            number, arguments = self.call()
            ended, result = _timed(guest, number, arguments)
            if not ended and not result >> 63:
                succeeded.add(name_of(number))
            if not guest.buffer_is_there():
                guest.memory.restore(self.memory)
            # one that has confined itself makes hardly any call that succeeds
            if not 6 <= len(guest.process.descriptors) < 100 or guest.process.task.seccomp:
                guest.process.restore(self.process)
        return succeeded


def _timed(guest: Guest, number: int, arguments: Sequence[int]) -> tuple[bool, int]:
    """Make a call that must not take long: whether it ended the run, and x0."""
    began = time.process_time()
    try:
        ended = guest.attempt(number, *arguments) is not None
    except OutOfMemory:
        ended = True
    assert time.process_time() - began < SLOWEST, (name_of(number), arguments)
    assert 0 <= guest.state.x[0] <= U64
    return ended, guest.state.x[0]


def _guest(tmp_path: Path, **options: object) -> Guest:
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    (here / "file").write_bytes(b"contents" * 1000)
    (here / "link").symlink_to("file")
    (here / "up").symlink_to("../outside")
    os.mkfifo(here / "fifo")
    guest = Guest(here, stdin=b"input" * 1000, overlay_limit=1 << 20, **options)
    guest.memory._physical.limit = LIMIT // 4096  # as a machine with little memory
    return guest


@pytest.mark.parametrize("seed", range(3))
def test_no_arguments_do_harm(tmp_path: Path, seed: int) -> None:
    guest = _guest(tmp_path)
    before = state_of(tmp_path)
    succeeded = Fuzzer(seed, guest).run(CALLS)
    assert state_of(tmp_path) == before
    assert len(succeeded) > 100, f"seed {seed}: only {sorted(succeeded)} succeeded"
    assert guest.process.kernel.files.budget.used <= 1 << 20
    assert guest.memory.private_bytes <= LIMIT
    assert len(os.listdir("/proc/self/fd")) < 300


def test_a_writable_directory_keeps_the_harm_inside(tmp_path: Path) -> None:
    (tmp_path / "out/dir").mkdir(parents=True)
    (tmp_path / "out/dir/file").write_bytes(b"x")
    (tmp_path / "work").mkdir()
    guest = _guest(tmp_path / "work", rw=tmp_path / "out/dir")
    before = state_of(tmp_path / "work")
    inside = os.fsencode(tmp_path / "out/dir")
    texts = [inside + suffix for suffix in (b"/file", b"/new", b"/d", b"/d/../../x", b"/link", b"", b"/../y")]
    Fuzzer(99, guest, texts).run(CALLS)
    assert state_of(tmp_path / "work") == before
    assert sorted(os.listdir(tmp_path)) == ["out", "work"]
    assert os.listdir(tmp_path / "out") == ["dir"]
    for top, directories, files in os.walk(tmp_path / "out"):
        for name in directories + files:
            assert not os.lstat(os.path.join(top, name)).st_mode & 0o6000


@pytest.mark.parametrize("number", sorted(TABLE), ids=name_of)
def test_every_call_survives_every_extreme(tmp_path: Path, number: int) -> None:
    """Each argument in turn takes each extreme value, the others are plausible."""
    fuzzer = Fuzzer(5, _guest(tmp_path))
    guest = fuzzer.guest
    extremes = [
        0,
        1,
        -1,
        1 << 31,
        1 << 39,
        1 << 47,
        1 << 55,
        1 << 62,
        1 << 63,
        NOWHERE,
        BUFFER,
        0x7FFF_FFFF,
        4095,
    ]
    kinds = TABLE[number].kinds
    for position in range(len(kinds)):
        for extreme in extremes:
            arguments = [fuzzer.argument(kind) for kind in kinds]
            arguments[position] = extreme
            _timed(guest, number, arguments)
            guest.memory.restore(fuzzer.memory)
            guest.process.restore(fuzzer.process)


def test_processes_share_the_descriptors_of_directories(tmp_path: Path, examples: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    before = count()
    processes = []
    for _ in range(30):
        process = boot(Memory(), State(), program=examples / "hello", cwd=tmp_path)
        process.start()
        processes.append(process)
    assert count() <= before + 4
    del process, processes
    gc.collect()
    assert count() == before
