"""Lanes that do the system calls that their input asks for (`cuda_calls.c`), on the device and on the CPU."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import kvrm
from kvrm.backend.cpu.worker import Worker
from kvrm.linux.syscall_table import TABLE

NUMBERS = {row.name: number for number, row in TABLE.items()} | {"load": 1000, "store": 1001, "spin": 1002}
KEEP = (*(f"x{i}" for i in range(31)), "sp", "nzcv", "v0", "stdout", "stderr")
READ, WRITE, EXECUTE = 1, 2, 4
ANONYMOUS = 0x22
PAGE = 4096
HERE = -100
"""The current directory, instead of a descriptor."""
PATH = 60_000
"""Where in the program's scratch memory paths are."""

Op = tuple[str, *tuple[int, ...]]
Away = list[tuple[int, str]]
"""Lanes that went to the CPU, each with the name of the call that it went for."""


def script(ops: Sequence[Op | bytes]) -> bytes:
    """Operations as the program reads them; bytes are what the operation before them reads."""
    return b"".join(op if isinstance(op, bytes) else _packed(*op) for op in ops)


def _packed(name: str, *arguments: int) -> bytes:
    words = [a & (1 << 64) - 1 for a in arguments] + [0] * (6 - len(arguments))
    return struct.pack("<7Q", NUMBERS.get(name, 999), *words)


def result(number: int, offset: int = 0) -> int:
    """An argument: the result of operation `number`, and something added."""
    return 1 << 56 | number << 48 | offset


def scratch(offset: int = 0) -> int:
    """An argument: an address in the program's scratch memory."""
    return 2 << 56 | offset


def mapping(length: int, prot: int = READ | WRITE) -> Op:
    """New memory."""
    return "mmap", 0, length, prot, ANONYMOUS, -1, 0


def path(name: str | bytes) -> list[Op | bytes]:
    """Have the path at PATH."""
    text = os.fsencode(name) + b"\0"
    return [("read", 0, scratch(PATH), len(text)), text]


def opening(name: str | bytes, flags: int = 0, at: int = HERE) -> list[Op | bytes]:
    """Open a file."""
    return [*path(name), ("openat", at, scratch(PATH), flags, 0)]


def alarm(which: int, microseconds: int) -> list[Op | bytes]:
    """Have a signal sent after this time, as ITIMER_REAL, ITIMER_VIRTUAL or ITIMER_PROF measures it."""
    value = struct.pack("<4q", 0, 0, 0, microseconds)
    return [("read", 0, scratch(), 32), value, ("setitimer", which, scratch(), 0)]


def run(target: str, program: Path, budgets: tuple[int | None, ...] = (None,), **options: Any) -> Any:
    """The results of lanes, one for each input."""
    lanes = options.pop("lanes", None) or len(options["stdin"])
    m = kvrm.Machine(program, target=target, lanes=lanes, **options)
    m.lanes.keep = KEEP
    for budget in budgets:
        results = m.run(max_instructions=budget)
    return results


@contextmanager
def calls_in_python() -> Iterator[None]:
    """Lanes on the CPU that run meanwhile do every call in Python: staged ones are compared with that."""
    with patch.object(Worker, "_begin_native", lambda *_: False):
        yield


def same(program: Path, **options: Any) -> Any:
    """The results of lanes on the device, which are those of the CPU, with calls staged and in Python."""
    with calls_in_python():
        want = run("cpu", program, **options)
    alike(want, run("cpu", program, **options))
    return alike(want, run("cuda", program, **options))


def alike(a: Any, b: Any) -> Any:
    """The second of two results, which are equal in all that a lane has."""
    for lane in range(len(a)):
        one, other = a.lane(lane), b.lane(lane)
        facts = [
            (r.stop, r.exit_code, r.signal, r.retired, r.pc, r.fault, r.stdout, r.stderr)
            for r in (one, other)
        ]
        assert facts[0] == facts[1], lane
    for name in a.registers:
        assert a.registers[name].tolist() == b.registers[name].tolist(), name
    return b


def lanes(calls: Path, *ops: list[Op | bytes], **options: Any) -> Any:
    """Lanes with these operations, on the device as on the CPU."""
    return same(calls, stdin=[script(o) for o in ops], **options)


def begun(calls: Path, ops: list[Op | bytes], target: str) -> kvrm.Machine:
    """A machine that has done some operations, none of which writes."""
    m = kvrm.Machine(calls, stdin=script(ops) + bytes(56), target=target)
    while len(m.run(max_instructions=20).stdout) < 8 * sum(not isinstance(op, bytes) for op in ops):
        pass
    return m


def forks(calls: Path, before: list[Op | bytes], *after: list[Op | bytes]) -> Any:
    """Lanes that fork from a machine that has done some operations, on the device as on the CPU."""

    def go_on(target: str) -> Any:
        lanes = begun(calls, before, target).fork(len(after))
        lanes.stdin, lanes.keep = [script(ops) for ops in after], KEEP
        return lanes.run()

    with calls_in_python():
        want = go_on("cpu")
    alike(want, go_on("cpu"))
    return alike(want, go_on("cuda"))
