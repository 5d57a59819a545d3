"""What several test files need: outside programs, and the guests that the project carries."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

import cross
import definition_coverage
import device_on_host
from cuda_tools import Away
from guests import fetch
from kvrm.backend.gpu import runner
from kvrm.backend.gpu.leaving import Leaver
from kvrm.linux.syscall_table import TABLE
from kvrm.machine.lanes_job import Job
from places import GUESTS, SUPPORT
from ptx_tools import find_ptxas


def pytest_addoption(parser: pytest.Parser) -> None:
    """Reports that are not made by default."""
    parser.addoption("--definition-coverage", action="store_true", help="list what no test runs")


def pytest_configure(config: pytest.Config) -> None:
    """Set up the reports that were asked for."""
    definition_coverage.configure(config)
    if os.environ.get("KVRM_TEST_DEVICE") == "host":
        device_on_host.install(pytest.MonkeyPatch())


@pytest.fixture(scope="session")
def examples() -> Path:
    """The directory of the carried guest programs."""
    return GUESTS


@pytest.fixture(scope="session")
def qemu() -> str:
    """QEMU's user-mode emulator, the outside oracle for whole programs."""
    path = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if path is None:
        pytest.skip("qemu-aarch64 is missing (Debian package qemu-user)")
    return path


@pytest.fixture(scope="session")
def ptxas() -> str:
    """NVIDIA's assembler."""
    return find_ptxas()


@pytest.fixture(scope="session")
def guest_root() -> Path:
    """A root directory with busybox-static, bash-static and klibc's programs for arm64."""
    try:
        return fetch.guests()
    except fetch.Unavailable as reason:
        pytest.skip(f"guest programs are unavailable: {reason}")


@pytest.fixture(params=device_on_host.PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the device's code runs."""
    device_on_host.use(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Away:
    """Filled while lanes run on the device."""
    found: Away = []
    take = runner.GpuBackend._take_away

    def spy(self: Any, job: Job, left: Leaver, spent: int) -> None:
        take(self, job, left, spent)
        number = struct.unpack_from("<Q", job.kept[left.lane].state[0], 64)[0]
        found.append((left.lane, TABLE[number].name if number in TABLE else str(number)))

    monkeypatch.setattr(runner.GpuBackend, "_take_away", spy)
    return found


@pytest.fixture(scope="session")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that does the calls that its input asks for."""
    program = tmp_path_factory.mktemp("cuda") / "calls"
    return cross.build(SUPPORT / "cuda_calls.c", program, "-O1", "-mgeneral-regs-only", *cross.BARE)


@pytest.fixture(scope="session")
def pattern_guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with library functions of its own, and their symbols."""
    program = tmp_path_factory.mktemp("patterns") / "guest"
    return cross.build(SUPPORT / "pattern_guest.c", program, "-O1", *cross.BARE)
