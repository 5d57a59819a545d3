"""Lanes that do the system calls that their input asks for (`cuda_calls.c`), on the device and on the CPU."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kvrm
from kvrm.linux.syscall_table import TABLE

NUMBERS = {row.name: number for number, row in TABLE.items()} | {"load": 1000, "store": 1001, "spin": 1002}
KEEP = (*(f"x{i}" for i in range(31)), "sp", "nzcv", "v0", "stdout", "stderr")
READ, WRITE, EXECUTE = 1, 2, 4
ANONYMOUS = 0x22
PAGE = 4096

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


def run(target: str, program: Path, budgets: tuple[int | None, ...] = (None,), **options: Any) -> Any:
    """The results of lanes, one for each input."""
    lanes = options.pop("lanes", None) or len(options["stdin"])
    m = kvrm.Machine(program, target=target, lanes=lanes, **options)
    m.lanes.keep = KEEP
    for budget in budgets:
        results = m.run(max_instructions=budget)
    return results


def same(program: Path, **options: Any) -> Any:
    """The results of lanes on the device, which are those of the CPU."""
    return alike(run("cpu", program, **options), run("cuda", program, **options))


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
