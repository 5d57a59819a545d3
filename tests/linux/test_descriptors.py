"""Descriptors, standard streams and pipes of a process."""

from __future__ import annotations

import errno as E
import io
import os
import struct
import threading
from pathlib import Path

import pytest

from kvrm.linux import Killed, Stopped
from linux_tools import BUFFER, NOWHERE, U64, Guest

CLOEXEC, NONBLOCK = 0o2000000, 0o4000
SECOND = 1_000_000_000


class TestStreams:
    def test_given_bytes_and_captured_output(self, guest: Guest) -> None:
        assert guest.call("read", 0, BUFFER, 8) == 8
        assert guest.call("read", 0, BUFFER, 100) == 6
        assert guest.call("read", 0, BUFFER, 100) == 0
        assert guest.call("write", 1, "out", 3) == 3
        assert guest.call("write", 2, "error", 5) == 5
        assert (guest.process.captured(1), guest.process.captured(2)) == (b"out", b"error")
        assert guest.call("lseek", 0, 0, 1) == -E.ESPIPE
        assert guest.call("write", 0, "x", 1) == -E.EBADF
        assert guest.call("read", 1, BUFFER, 1) == -E.EBADF

    def test_captured_output_is_limited(self, guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kvrm.linux.files.streams.OUTPUT_LIMIT", 5)
        assert guest.call("write", 1, "12345", 5) == 5
        stop = guest.attempt("write", 1, "6", 1)
        assert isinstance(stop, Stopped)
        assert stop.reason.startswith("more than 5 bytes of output")

    def test_no_input_is_empty(self, tmp_path: Path) -> None:
        assert Guest(tmp_path).call("read", 0, BUFFER, 1) == 0

    def test_host_files_are_used_as_they_are(self, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(b"0123456789")
        with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as sink:
            sink.write(b"before ")
            guest = Guest(tmp_path, stdin=source, stdout=sink)
            assert guest.call("lseek", 0, 4, 0) == 4
            assert guest.call("read", 0, BUFFER, 3) == 3
            assert guest.call("pread64", 0, BUFFER, 2, 8) == 2
            assert guest.call("write", 1, BUFFER, 3) == 3
            assert os.lseek(source.fileno(), 0, os.SEEK_CUR) == 7
            assert guest.call("newfstatat", 0, "", BUFFER, 0x1000) == 0
            assert guest.unpack("<QQ")[1] == os.fstat(source.fileno()).st_ino
        assert (tmp_path / "out").read_bytes() == b"before 896"

    def test_file_objects_without_a_descriptor(self, tmp_path: Path) -> None:
        sink = io.BytesIO()
        guest = Guest(tmp_path, stdin=io.BytesIO(b"abc"), stdout=sink)
        assert guest.call("read", 0, BUFFER, 10) == 3
        assert guest.call("write", 1, BUFFER, 3) == 3
        assert sink.getvalue() == b"abc"

    def test_a_pipe_of_the_host_gives_what_is_there(self, tmp_path: Path) -> None:
        read, write = os.pipe()
        os.write(write, b"x")
        with open(read, "rb") as source:
            guest = Guest(tmp_path, stdin=source)
            guest.memory.write(BUFFER, struct.pack("<4Q", BUFFER + 64, 1, BUFFER + 80, 100))
            assert guest.call("readv", 0, BUFFER, 2) == 1  # does not wait for the second buffer
            os.set_blocking(read, False)
            threading.Timer(0.1, os.write, (write, b"late")).start()
            assert guest.call("read", 0, BUFFER, 10) == 4
        os.close(write)

    def test_a_closed_pipe_of_the_host_kills(self, tmp_path: Path) -> None:
        read, write = os.pipe()
        os.close(read)
        with open(write, "wb") as sink:
            guest = Guest(tmp_path, stdout=sink)
            assert guest.attempt("write", 1, "x", 1) == Killed(13)
            ignore = struct.pack("<4Q", 1, 0, 0, 0)
            assert guest.call("rt_sigaction", 13, ignore, 0, 8) == 0
            assert guest.call("write", 1, "x", 1) == -E.EPIPE

    def test_vectors(self, guest: Guest) -> None:
        guest.memory.write(BUFFER, struct.pack("<6Q", BUFFER + 64, 3, NOWHERE, 0, BUFFER + 80, 100))
        assert guest.call("readv", 0, BUFFER, 3) == 14
        assert guest.bytes(3, BUFFER + 64) == b"sta"
        assert guest.bytes(11, BUFFER + 80) == b"ndard input"
        assert guest.call("writev", 1, BUFFER, 1) == 3
        assert guest.process.kernel.stdout == b"sta"
        assert guest.call("writev", 1, BUFFER, 2000) == -E.EINVAL
        assert guest.call("writev", 1, NOWHERE, 1) == -E.EFAULT
        guest.memory.write(BUFFER, struct.pack("<2Q", BUFFER, 1 << 63))
        assert guest.call("writev", 1, BUFFER, 1) == -E.EINVAL

    def test_bad_pointers(self, guest: Guest) -> None:
        assert guest.call("write", 1, NOWHERE, 4) == -E.EFAULT
        fd = guest.open("file")
        for source in (fd, 0):
            assert guest.call("read", source, NOWHERE, 4) == -E.EFAULT
            assert guest.call("read", source, BUFFER, 4) == 4
            assert guest.bytes(4) in (b"cont", b"stan")
        assert guest.call("write", 1, U64 - 2, 8) == -E.EFAULT
        assert guest.call("write", 1, (0x80 << 56) | BUFFER, 2) == 2  # the top byte is ignored

    def test_sendfile(self, guest: Guest) -> None:
        fd = guest.open("file")
        assert guest.call("sendfile", 1, fd, 0, 3) == 3
        assert guest.call("sendfile", 1, fd, 0, 1 << 60) == 5
        guest.memory.write(BUFFER, (2).to_bytes(8, "little"))
        assert guest.call("sendfile", 1, fd, BUFFER, 4) == 4
        assert guest.unpack("<Q") == (6,)
        assert guest.process.kernel.stdout == b"contentsnten"
        assert guest.call("sendfile", 1, 0, 0, 4) == -E.EINVAL
        out = guest.open("copy", 0o102)
        guest.call("lseek", fd, 0, 0)
        assert guest.call("copy_file_range", fd, 0, out, 0, 100, 0) == 8
        assert guest.contents("copy") == b"contents"


class TestDescriptors:
    def test_lowest_free(self, guest: Guest) -> None:
        assert [guest.open("file") for _ in range(3)] == [3, 4, 5]
        assert guest.call("close", 4) == 0
        assert guest.call("close", 4) == -E.EBADF
        assert guest.call("dup", 3) == 4
        assert guest.call("fcntl", 3, 0, 10) == 10
        assert guest.call("dup3", 3, 20, CLOEXEC) == 20
        assert guest.call("dup3", 3, 3, 0) == -E.EINVAL
        assert guest.call("dup3", 3, 5000, 0) == -E.EBADF
        assert guest.call("fcntl", 20, 1, 0) == 1
        assert guest.call("fcntl", 20, 2, 0) == 0
        assert guest.call("fcntl", 20, 1, 0) == 0
        assert guest.call("close_range", 4, 100, 0) == 0
        assert sorted(guest.process.descriptors) == [0, 1, 2, 3]

    def test_there_is_a_limit(self, guest: Guest) -> None:
        while (fd := guest.open("file")) >= 0:
            last = fd
        assert (last, fd) == (1023, -E.EMFILE)
        assert guest.call("dup", 0) == -E.EMFILE
        assert guest.call("pipe2", BUFFER, 0) == -E.EMFILE

    def test_shared_offsets(self, guest: Guest) -> None:
        fd = guest.open("file")
        other = guest.call("dup", fd)
        assert guest.call("read", fd, BUFFER, 3) == 3
        assert guest.call("lseek", other, 0, 1) == 3

    def test_flags(self, guest: Guest) -> None:
        fd = guest.open("file", 2)
        assert guest.call("fcntl", fd, 3, 0) & 0o3 == 2
        assert guest.call("fcntl", fd, 4, NONBLOCK | 0o2000 | 1) == 0
        assert guest.call("fcntl", fd, 3, 0) & ~0o400000 == 2 | NONBLOCK | 0o2000
        assert guest.call("fcntl", fd, 99, 0) == -E.EINVAL
        lock = struct.pack("<hhxxxxqqixxxx", 1, 0, 0, 0, 0)
        guest.memory.write(BUFFER, lock)
        assert guest.call("fcntl", fd, 6, BUFFER) == 0
        assert guest.call("fcntl", fd, 5, BUFFER) == 0
        assert guest.unpack("<h") == (2,)

    def test_no_descriptor_is_a_terminal(self, guest: Guest) -> None:
        for request in (0x5401, 0x5413, 0x540F, 0x1234):
            assert guest.call("ioctl", 1, request, BUFFER) == -E.ENOTTY
        assert guest.call("ioctl", 9, 0x5401, BUFFER) == -E.EBADF
        assert guest.call("ioctl", guest.open("file"), 0x541B, BUFFER) == 0
        assert guest.unpack("<I") == (8,)

    def test_polling(self, guest: Guest) -> None:
        guest.memory.write(BUFFER, struct.pack("<ihhihhihh", 0, 1, 0, 1, 4, 0, 77, 1, 0))
        assert guest.call("ppoll", BUFFER, 3, 0, 0, 8) == 3
        assert guest.unpack("<ihhihhihh")[2::3] == (0x11, 4, 0x20)
        guest.memory.write(BUFFER, struct.pack("<QQ", 0b1, 0b110))
        assert guest.call("pselect6", 3, BUFFER, BUFFER + 8, 0, 0, 0) == 3
        assert guest.unpack("<QQ") == (1, 6)


class TestPipes:
    @pytest.fixture
    def ends(self, guest: Guest) -> tuple[int, int]:
        assert guest.call("pipe2", BUFFER, 0) == 0
        read, write = guest.unpack("<ii")
        return read, write

    def test_bytes_go_through(self, guest: Guest, ends: tuple[int, int]) -> None:
        read, write = ends
        assert guest.call("write", write, "hello", 5) == 5
        assert guest.call("read", read, BUFFER, 2) == 2
        assert guest.call("read", read, BUFFER, 100) == 3
        assert guest.call("close", write) == 0
        assert guest.call("read", read, BUFFER, 100) == 0
        assert guest.call("lseek", read, 0, 0) == -E.ESPIPE

    def test_nobody_reads(self, guest: Guest, ends: tuple[int, int]) -> None:
        read, write = ends
        guest.call("close", read)
        assert guest.attempt("write", write, "x", 1) == Killed(13)

    def test_waiting_for_ever_is_said(self, guest: Guest, ends: tuple[int, int]) -> None:
        read, write = ends
        stop = guest.attempt("read", read, BUFFER, 1)
        assert isinstance(stop, Stopped)
        assert stop.reason.startswith("deadlock: ")
        assert isinstance(guest.attempt("write", write, BUFFER, 70_000), Stopped)
        guest.memory.write(BUFFER, struct.pack("<ihh", read, 1, 0))
        assert isinstance(guest.attempt("ppoll", BUFFER, 1, 0, 0, 8), Stopped)
        assert guest.call("ppoll", BUFFER, 1, struct.pack("<qq", 2, 5), 0, 8) == 0
        assert guest.process.kernel.uptime == 2 * SECOND + 5

    def test_without_waiting(self, guest: Guest) -> None:
        assert guest.call("pipe2", BUFFER, NONBLOCK | CLOEXEC) == 0
        read, write = guest.unpack("<ii")
        assert guest.call("read", read, BUFFER, 1) == -E.EAGAIN
        assert guest.call("write", write, BUFFER, 100_000) == 65536
        assert guest.call("write", write, BUFFER, 1) == -E.EAGAIN
        assert guest.call("fcntl", read, 1, 0) == 1

    def test_a_bad_pointer_leaves_no_descriptors(self, guest: Guest) -> None:
        assert guest.call("pipe2", NOWHERE, 0) == -E.EFAULT
        assert sorted(guest.process.descriptors) == [0, 1, 2]
