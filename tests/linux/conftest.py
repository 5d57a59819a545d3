"""A guest for system calls; files of tests that need another one have a fixture of this name."""

from __future__ import annotations

from pathlib import Path

import pytest

from linux_tools import Guest


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    (tmp_path / "file").write_bytes(b"contents")
    return Guest(tmp_path, stdin=b"standard input")
