"""Standard streams that the caller closed: the guest's business, and their numbers are not used again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kvrm

KVRM = f"'{sys.executable}' -m kvrm"


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", line], cwd=cwd, capture_output=True, check=False)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_guest_runs_with_streams_that_are_closed(examples: Path, tmp_path: Path, closed: str) -> None:
    done = shell(f"{KVRM} run '{examples / 'hello'}' {closed}", tmp_path)
    assert done.returncode == 0
    assert done.stdout == (b"" if ">&-" in closed.split() else b"Hello from AArch64.\n")


def test_output_to_a_closed_stream_reaches_no_file(guest_root: Path, tmp_path: Path) -> None:
    """The next file that is opened would have the number of the stream."""
    command = f"{KVRM} run --root '{guest_root}' --rw '{tmp_path}' '{guest_root / 'bin/busybox'}' sh -c"
    done = shell(f"{command} 'echo lost; echo kept >file' >&-", tmp_path)
    assert (tmp_path / "file").read_bytes() == b"kept\n"
    assert b"Bad file descriptor" in done.stderr


@pytest.mark.parametrize("command", ["demo", "version", "doctor", "where 91001420", "--help"])
def test_a_command_whose_output_would_be_lost_says_so(tmp_path: Path, command: str) -> None:
    done = shell(f"{KVRM} {command} >&-", tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == b"kvrm: standard output is closed, and this command prints to it"


@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
def test_other_closed_streams_do_not_disturb_a_command(tmp_path: Path, closed: str) -> None:
    done = shell(f"{KVRM} version {closed}", tmp_path)
    assert (done.returncode, done.stdout) == (0, f"kvrm {kvrm.__version__}\n".encode())


def test_a_machine_with_closed_streams(examples: Path) -> None:
    m = kvrm.Machine(examples / "sha256", stdin=kvrm.CLOSED, stdout=kvrm.CLOSED, stderr=kvrm.CLOSED)
    lanes = m.fork(3)
    result = m.run()
    assert (result.stop, result.stdout, result.stderr) == (kvrm.Stop.EXIT, b"", b"")
    assert (lanes.run().retired == result.retired).all()
