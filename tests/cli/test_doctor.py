"""`kvrm doctor` says what there is, and what is missing for what."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import kvrm
from kvrm.cli import doctor

Found = dict[str, doctor.Finding]


def found() -> Found:
    return {finding.what: finding for finding in doctor.findings()}


def test_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KVRM_CACHE", str(tmp_path))
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects/one").write_bytes(bytes(3 << 20))
    rows = found()
    assert kvrm.__version__ in str(rows["KVRM"].found)
    assert "LLVM" in str(rows["CPU"].found)
    assert str(tmp_path) in str(rows["cache"].found) and "3.0 MiB" in str(rows["cache"].found)


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    find: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "cuda" else find(name))
    rows = found()
    assert rows["GPU"].found is None and "kvrm[cuda]" in rows["GPU"].otherwise
    assert rows["QEMU"].found is None and "tests" in rows["QEMU"].otherwise
    assert doctor.examine() == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("QEMU") and "missing" in line for line in lines) and len(lines) < 25
