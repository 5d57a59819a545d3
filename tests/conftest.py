"""What several test files need: outside programs, and the guests that the project carries."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import definition_coverage
import device_on_host
from guests import fetch


def pytest_addoption(parser: pytest.Parser) -> None:
    """Reports that are not made by default."""
    parser.addoption("--definition-coverage", action="store_true", help="list what no test runs")


def pytest_configure(config: pytest.Config) -> None:
    """Set up the reports that were asked for."""
    definition_coverage.configure(config)
    if os.environ.get("KVRM_TEST_DEVICE") == "host":
        device_on_host.install(pytest.MonkeyPatch())


REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def examples() -> Path:
    """The directory of the carried guest programs."""
    return REPOSITORY / "examples/guests/bin"


@pytest.fixture(scope="session")
def qemu() -> str:
    """QEMU's user-mode emulator, the outside oracle for whole programs."""
    path = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if path is None:
        pytest.skip("qemu-aarch64 is missing (Debian package qemu-user)")
    return path


@pytest.fixture(scope="session")
def guest_root() -> Path:
    """A root directory with busybox-static, bash-static and klibc's programs for arm64."""
    try:
        return fetch.guests()
    except fetch.Unavailable as reason:
        pytest.skip(f"guest programs are unavailable: {reason}")
