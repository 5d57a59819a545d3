"""Files for lanes to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from device_files import TEXT
from mapped_lanes import with_files


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a few files."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    monkeypatch.chdir(work)
    for name, data in {"text": TEXT, "empty": b"", "sub/short": b"hello\n", "other": b"o" * 100}.items():
        (work / name).write_bytes(data)
        (work / name).read_bytes()  # what reading does to its times is done
    for name, target in {"link": "sub/short", "loop": "loop", "lost": "nowhere", "up": ".."}.items():
        (work / name).symlink_to(target)
    return work


@pytest.fixture
def files_to_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with those of `mapped_lanes`."""
    monkeypatch.chdir(tmp_path)
    return with_files(tmp_path)
