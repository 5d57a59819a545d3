"""System calls return under KVRM what they return under QEMU."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import cross
import kvrm
from patience import SECONDS
from places import SUPPORT


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    here = tmp_path / "here"
    (here / "sub/deep").mkdir(parents=True)
    (here / "text").write_text("".join(f"line {i} {i * i % 97}\n" for i in range(500)))
    (here / "sub/file").write_bytes(b"x" * 5000)
    (here / "link").symlink_to("text")
    for top, directories, files in os.walk(here):
        for name in (".", *directories, *files):
            os.utime(os.path.join(top, name), (10**9, 10**9), follow_symlinks=False)
    return here


def _lines(output: bytes) -> list[str]:
    """What is printed, but for the priority, which QEMU takes from the host."""
    return [line for line in output.decode().splitlines() if not line.startswith("getpriority(")]


@pytest.mark.parametrize("kind", ["-static", "-static-pie"])
def test_like_qemu(kind: str, tree: Path, tmp_path: Path, qemu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = cross.build(SUPPORT / "linux_calls.c", tmp_path / "calls", "-O1", "-w", kind)
    monkeypatch.chdir(tree)
    result = kvrm.Machine(program, args=["argument"], env={"A": "1"}).run(max_instructions=10**8)
    # The guest of QEMU inherits session, file mask and signals; KVRM's leads a session of its own.
    expected = subprocess.run(
        [qemu, "-E", "A=1", program, "argument"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        start_new_session=True,
        umask=0o022,
    )
    assert _lines(result.stdout) == _lines(expected.stdout)
    assert (result.stop, result.exit_code) == (kvrm.Stop.EXIT, expected.returncode)
    assert sorted(os.listdir(tree)) != [
        "link",
        "sub",
        "text",
    ]  # QEMU's guest wrote; KVRM's, before it, did not
