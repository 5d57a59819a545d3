"""Snapshots and traces of a process, and the table of its system calls."""

from __future__ import annotations

import errno as E
import re
import struct
from pathlib import Path

import pytest

import kvrm
from kvrm.lane.state import State
from kvrm.linux.boot import boot
from kvrm.linux.names import name_of
from kvrm.linux.syscall_table import TABLE, markdown
from kvrm.memory import Memory
from linux_tools import AT_FDCWD, BUFFER, NOWHERE, Elf, Guest


class TestSnapshots:
    def test_everything_returns(self, guest: Guest) -> None:
        """Files, offsets, pipes, clock, random numbers, output, current directory; any number of times."""
        fd = guest.open("file", 2)
        guest.put("kept", b"kept")
        guest.call("pipe2", BUFFER, 0)
        read, write = guest.unpack("<ii")
        guest.call("write", write, "piped", 5)
        guest.call("read", 0, BUFFER, 9)
        guest.call("write", 1, "before", 6)
        memory, state = guest.memory.snapshot(), guest.state.save()
        snapshot = guest.process.snapshot()
        observed = []
        for _ in range(3):
            observed.append(self._disturb(guest, fd, read))
            guest.process.restore(snapshot)
            guest.memory.restore(memory)
            guest.state.load(state)
        assert observed[0] == observed[1] == observed[2]
        assert guest.process.kernel.stdout == b"before"
        assert guest.contents("file") == b"contents"
        assert guest.open("later") == -E.ENOENT

    def _disturb(self, guest: Guest, fd: int, read: int) -> tuple[object, ...]:
        seen: list[object] = [guest.call("read", 0, BUFFER, 100), guest.bytes(5)]
        guest.call("write", fd, "changed", 7)
        seen.append(guest.contents("file"))
        guest.put("kept", b"gone")
        seen.append(guest.call("unlinkat", AT_FDCWD, "kept", 0))
        seen += [
            guest.put("later", b"x"),
            guest.call("mkdirat", AT_FDCWD, "d", 0o755),
            guest.call("chdir", "d"),
        ]
        seen += [guest.call("read", read, BUFFER, 100), guest.bytes(5)]
        guest.call("write", 1, "after", 5)
        guest.call("nanosleep", struct.pack("<qq", 5, 0), 0)
        guest.call("getrandom", BUFFER, 8, 0)
        seen += [
            guest.bytes(8),
            guest.process.kernel.uptime,
            guest.call("dup", fd),
            bytes(guest.process.kernel.stdout),
        ]
        guest.call("umask", 0)
        guest.call("rt_sigprocmask", 2, struct.pack("<Q", 1), 0, 8)
        seen += [guest.call("close", fd), guest.process.kernel.files.budget.used]
        return tuple(seen)

    def test_a_snapshot_keeps_closed_files_open(self, guest: Guest, tmp_path: Path) -> None:
        fd = guest.open("file")
        snapshot = guest.process.snapshot()
        guest.call("close", fd)
        (tmp_path / "file").unlink()
        guest.process.restore(snapshot)
        assert guest.call("read", fd, BUFFER, 100) == 8


class TestTrace:
    def test_one_line_for_each_call(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("KVRM_TRACE", "insn,sys")
        guest = Guest(tmp_path)
        guest.open("no\nsuch", 0o101000000)
        guest.call("write", 1, "x", 1)
        guest.call(293, 1)
        guest.call(4000)
        guest.call("openat", AT_FDCWD, NOWHERE, 0, 0)
        guest.attempt("exit_group", 3)
        assert capsys.readouterr().err.splitlines() == [
            'openat(-100, "no\\nsuch", 0x1040000, 0o666) = -1 ENOENT',
            "write(1, 0x10000000, 1) = 1",
            "rseq(0x1, 0x10000000, 0x1, 0x1b6, 0x0, 0x0) = -1 ENOSYS",
            "syscall_4000(0xffffffffffffffda, 0x10000000, 0x1, 0x1b6, 0x0, 0x0) = -1 ENOSYS",
            "openat(-100, 0x20000000, 0x0, 0o0) = -1 EFAULT",
            "exit_group(3) = ?",
        ]

    def test_silent_by_default(self, guest: Guest, capsys: pytest.CaptureFixture[str]) -> None:
        guest.open("file")
        assert capsys.readouterr().err == ""


def test_the_table_is_consistent() -> None:
    for number, row in TABLE.items():
        assert row.number == number
        assert row.summary.endswith("."), row.name
        assert len(row.kinds) == len(row.names) <= 6
        assert f"| {number} | `{row.name}(" in markdown()
    names = [row.name for row in TABLE.values()]
    assert len(set(names)) == len(names)


def test_numbers_are_those_of_the_kernel_headers() -> None:
    header = Path("/usr/aarch64-linux-gnu/include/asm-generic/unistd.h")
    if not header.exists():
        pytest.skip("no arm64 kernel headers (Debian package linux-libc-dev-arm64-cross)")
    defined = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    known = {int(number): name for name, number in reversed(defined) if name != "syscalls"} | {
        79: "newfstatat",
        84: "sync_file_range",
    }
    for number, row in TABLE.items():
        assert row.name == name_of(number)
        if number <= max(known):  # the headers may be older than the call
            assert known[number] == row.name


def test_a_process_that_was_not_started_can_be_asked(tmp_path: Path) -> None:
    process = boot(Memory(), State(), program=Elf().data(), cwd=tmp_path)
    process.restore(process.snapshot())
    assert process.captured(1) == b""


def test_files_given_as_streams_stay_open_when_nobody_else_keeps_them(tmp_path: Path, examples: Path) -> None:
    (tmp_path / "in").write_bytes(b"2 * 3\n")
    machine = kvrm.Machine(
        examples / "expression", stdin=(tmp_path / "in").open("rb"), stdout=(tmp_path / "out").open("wb")
    )
    assert machine.run().exit_code == 0
    assert (tmp_path / "out").read_bytes() == b"6\n"
