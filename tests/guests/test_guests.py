"""Debian's programs do under KVRM what they do under QEMU, byte for byte."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import kvrm
from guests import inputs
from guests.commands import COMMANDS, Command
from guests.fetch import program
from patience import SECONDS

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/",
    "SHELL": "/bin/sh",
    "USER": "user",
    "LC_ALL": "C",
    "TZ": "UTC",
}
BUDGET = 200_000_000
AGREEMENT_BUDGET = 15_000


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The current directory of every run, with the input files in it."""
    directory = tmp_path / "work"
    inputs.create(directory)
    return directory


def _machine(command: Command, root: Path, work: Path, engine: str | None = None) -> kvrm.Machine:
    return kvrm.Machine(
        program(root, command.argv[0]),
        args=command.argv[1:],
        env=ENVIRONMENT,
        stdin=(work / command.stdin).read_bytes() if command.stdin else b"",
        root=root,
        engine=engine,
    )


def _lines(command: Command, output: bytes) -> bytes:
    return b"".join(sorted(output.splitlines(True))) if command.unordered else output


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_like_qemu(
    command: Command, work: Path, qemu: str, guest_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = subprocess.run(
        [qemu, "-L", guest_root, program(guest_root, command.argv[0]), *command.argv[1:]],
        input=(work / command.stdin).read_bytes() if command.stdin else b"",
        cwd=work,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=SECONDS,
    )
    shutil.rmtree(work)
    inputs.create(work)  # QEMU's guest may have written
    monkeypatch.chdir(work)

    result = _machine(command, guest_root, work).run(max_instructions=BUDGET)

    assert result.stop is kvrm.Stop.EXIT, result.message
    assert _lines(command, result.stdout) == _lines(command, expected.stdout)
    assert result.exit_code == expected.returncode
    assert inputs.contents(work) == inputs.files()  # KVRM's guest wrote to its overlay only


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=() if i % 2 == 0 else pytest.mark.slow)
        for i, command in enumerate(COMMANDS[::8])
    ],
    ids=lambda command: command.name,
)
def test_engines_agree(
    command: Command, work: Path, guest_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both engines stop after the same number of instructions in the same state."""
    monkeypatch.chdir(work)
    states = []
    for engine in ("reference", "interpreter"):
        machine = _machine(command, guest_root, work, engine)
        result = machine.run(max_instructions=AGREEMENT_BUDGET)
        states.append(
            {
                "stop": result.stop,
                "retired": result.retired,
                "pc": machine.pc,
                "sp": machine.sp,
                "nzcv": machine.nzcv,
                "fpcr": machine.fpcr,
                "fpsr": machine.fpsr,
                "x": [machine.x[n] for n in range(31)],
                "v": [machine.v[n] for n in range(32)],
                "stdout": result.stdout,
            }
        )
    assert states[0] == states[1]


@pytest.mark.gpu
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_on_a_gpu(command: Command, work: Path, guest_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One lane does what it does on the CPU."""
    monkeypatch.chdir(work)
    seen = []
    for target in ("cpu", "cuda"):
        monkeypatch.setenv("KVRM_TARGET", target)
        result = _machine(command, guest_root, work).run(max_instructions=BUDGET)
        seen.append((result.stop, result.exit_code, result.retired, result.stdout, result.stderr))
    assert seen[0] == seen[1]
