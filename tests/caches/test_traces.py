"""Traces of memory accesses: what is recorded, how they join, and their files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kvrm
from access_traces import PROGRAMS, STDIN, bare, recorded
from kvrm.caches import pages
from kvrm.caches.traces import Recording, Trace
from kvrm.errors import UsageError
from kvrm.observe.observer import Accesses
from kvrm.observe.recorder import CHUNK
from patience import SECONDS
from places import GUESTS


def traced(program: str, count: int) -> list[tuple[int, int, int, int, bool]]:
    """(retired, pc, address, size, write) of each access, as the reference engine does them one by one."""
    command = [sys.executable, "-m", "kvrm", "run", "--max-instructions", str(count), GUESTS / program]
    env = os.environ | {"KVRM_TRACE": "insn,mem"}
    command += PROGRAMS[program]
    done = subprocess.run(command, capture_output=True, text=True, input=STDIN, env=env, timeout=SECONDS)
    found, retired, pc = [], 0, 0
    for line in done.stderr.splitlines():
        if access := re.match(r"    (read|write) (0x\w+) (\d+) ", line):
            address = int(access[2], 16) & (1 << 56) - 1
            found.append((retired, pc, address, int(access[3]), access[1] == "write"))
        elif instruction := re.match(r"(\d+) (0x\w+): ", line):
            retired, pc = int(instruction[1]), int(instruction[2], 16)
    return found


@pytest.mark.parametrize("program", ["primes", "sha256", "expression"])
def test_what_is_recorded_is_what_the_reference_engine_does(program: str) -> None:
    expected = traced(program, 3000)
    trace = recorded(program)
    columns = (trace.retired, trace.pc[trace.site], trace.address, trace.size, trace.write)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(expected) > 100 and rows[: len(expected)] == expected


def test_an_access_on_two_pages_is_recorded_once() -> None:
    recording = Recording()
    machine = bare("200040f9010000d4", recording)  # ldr x0, [x1]; svc #0
    machine.write_memory(0x2000, bytes(8192), prot="rw")
    machine.x[1] = 0x2FFC
    assert machine.run(max_instructions=9).stop is kvrm.Stop.SYSCALL
    trace = recording.trace()
    assert trace.address.tolist() == [0x2FFC] and trace.size.tolist() == [8] and not trace.write[0]


def test_what_faults_half_way_is_not_recorded() -> None:
    """stp whose second half is on a page that is not there: its first half is not noted."""
    recording = Recording()
    machine = bare(
        "400000f920 0400a9".replace(" ", "") + "010000d4", recording
    )  # str x0, [x2]; stp x0, x1, [x1]
    machine.write_memory(0x2000, bytes(4096), prot="rw")
    machine.x[1], machine.x[2] = 0x2FF8, 0x2010
    result = machine.run(max_instructions=9)
    assert result.stop is not kvrm.Stop.SYSCALL and result.pc == 0x1004
    assert recording.trace().address.tolist() == [0x2010]


def test_a_store_that_does_not_happen_is_not_recorded() -> None:
    """stxr without a reservation."""
    recording = Recording()
    machine = bare("207c03c8410000f9010000d4", recording)  # stxr w3, x0, [x1]; str x1, [x2]; svc #0
    machine.write_memory(0x2000, bytes(4096), prot="rw")
    machine.x[1], machine.x[2] = 0x2000, 0x2040
    assert machine.run(max_instructions=9).stop is kvrm.Stop.SYSCALL
    assert recording.trace().address.tolist() == [0x2040]


def test_chunks_join() -> None:
    """More instructions than the buffer has room for: nothing is lost between two looks."""
    parts: list[Accesses] = []

    class Kept(Recording):
        def feed(self, a: Accesses) -> None:
            parts.append(a)
            super().feed(a)

    recording = Kept()
    machine = bare("200040f9420400f1c1ffff54010000d4", recording)  # ldr; subs x2, x2, #1; b.ne; svc
    machine.write_memory(0x2000, bytes(4096), prot="rw")
    machine.x[1], machine.x[2] = 0x2000, CHUNK
    machine.run()
    assert len(parts) > 2 and (np.diff(recording.trace().retired) == 3).all()
    assert len(recording.trace()) == CHUNK


def test_files_of_traces(tmp_path: Path) -> None:
    trace = recorded("sha256")
    path = tmp_path / "sha256.npz"
    trace.save(path)
    again = Trace.load(path)
    assert again.sha256 == trace.sha256 and (again.address == trace.address).all()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(UsageError, match="no trace"):
        Trace.load(path)


def data_memory(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvrm", "data", "memory", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS)


def test_data_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "primes.npz"
    done = data_memory("--out", path, "--skip", 1000, GUESTS / "primes", "3000")
    assert done.returncode == 0, done.stderr
    trace = Trace.load(path)
    assert trace.sha256 in done.stdout and f"{len(trace):,} accesses" in done.stdout
    done = data_memory("--pages", GUESTS / "primes", "3000")
    assert done.returncode == 0 and "page misses" in done.stdout, done.stderr


def test_page_misses_are_counted() -> None:
    machine = kvrm.Machine(GUESTS / "primes", args=["3000"])
    found = pages.page_misses(machine)
    assert found.count > 3 and 0 < found.resolving < found.seconds and 0 < found.each < 1e-3
    assert "resolve" not in vars(machine.lane.memory)
