"""Descriptors, pipes, time, signals, identity: what a single process can ask for."""

from __future__ import annotations

import errno as E
import io
import os
import struct
import threading
from pathlib import Path

import pytest

from kvrm.linux import Exited, Killed, Stopped
from kvrm.linux.clock import EPOCH
from linux_tools import BUFFER, NOWHERE, U64, Guest

CLOEXEC, NONBLOCK = 0o2000000, 0o4000
SECOND = 1_000_000_000


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    (tmp_path / "file").write_bytes(b"contents")
    return Guest(tmp_path, stdin=b"standard input")


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


class TestTime:
    def test_a_nanosecond_for_each_instruction(self, guest: Guest) -> None:
        guest.retired = 3 * SECOND + 7
        for clock, seconds in ((0, EPOCH + 3), (1, 3), (2, 3), (3, 3), (4, 3), (7, 3)):
            assert guest.call("clock_gettime", clock, BUFFER) == 0
            assert guest.unpack("<qq") == (seconds, 7)
        assert guest.call("clock_gettime", 99, BUFFER) == -E.EINVAL
        assert guest.call("clock_getres", 1, BUFFER) == 0
        assert guest.unpack("<qq") == (0, 1)
        assert guest.call("gettimeofday", BUFFER, 0) == 0
        assert guest.unpack("<qq") == (EPOCH + 3, 0)
        assert guest.call("times", BUFFER) == 300
        assert guest.call("getrusage", 0, BUFFER) == 0
        assert guest.unpack("<qq") == (3, 0)

    def test_sleeping_skips_time(self, guest: Guest) -> None:
        assert guest.call("nanosleep", struct.pack("<qq", 100, 1), 0) == 0
        assert guest.call("clock_gettime", 1, BUFFER) == 0
        assert guest.unpack("<qq") == (100, 1)
        assert guest.call("clock_gettime", 2, BUFFER) == 0
        assert guest.unpack("<qq") == (0, 0)
        assert guest.call("clock_nanosleep", 1, 1, struct.pack("<qq", 150, 0), 0) == 0
        assert guest.call("clock_nanosleep", 1, 1, struct.pack("<qq", 120, 0), 0) == 0
        assert guest.process.kernel.uptime == 150 * SECOND
        assert guest.call("nanosleep", struct.pack("<qq", 0, SECOND), 0) == -E.EINVAL
        assert guest.call("nanosleep", struct.pack("<qq", -1, 0), 0) == -E.EINVAL

    def test_for_ever_is_a_long_time(self, guest: Guest) -> None:
        for _ in range(3):
            assert guest.call("nanosleep", struct.pack("<qq", (1 << 63) - 1, 0), 0) == 0
        for clock in (0, 1):
            assert guest.call("clock_gettime", clock, BUFFER) == 0
        assert guest.put("late", b"x") == 1
        assert isinstance(guest.stat("late"), tuple)


class TestSignals:
    @pytest.mark.parametrize(
        ("signal", "end"), [(9, Killed(9)), (15, Killed(15)), (6, Killed(6)), (11, Killed(11))]
    )
    def test_default_actions_end_the_run(self, guest: Guest, signal: int, end: Killed) -> None:
        pid = guest.call("getpid")
        assert guest.attempt("tgkill", pid, pid, signal) == end
        assert guest.attempt("kill", 0, signal) == end

    def test_harmless_ones_do_not(self, guest: Guest) -> None:
        for signal in (0, 17, 18, 23, 28):
            assert guest.call("kill", 0, signal) == 0
        assert guest.call("kill", 0, 65) == -E.EINVAL
        assert guest.call("kill", 4242, 9) == -E.ESRCH
        assert guest.call("kill", 1, 9) == -E.EPERM

    def test_handlers_are_not_supported_yet(self, guest: Guest) -> None:
        assert guest.call("rt_sigaction", 10, struct.pack("<4Q", 0x401000, 4, 5, 6), 0, 8) == 0
        assert guest.call("rt_sigaction", 10, 0, BUFFER, 8) == 0
        assert guest.unpack("<4Q") == (0x401000, 4, 5, 6)
        stop = guest.attempt("kill", 0, 10)
        assert stop == Stopped("signal handlers are not supported yet: SIGUSR1 is to call 0x401000")
        assert guest.call("rt_sigaction", 9, struct.pack("<4Q", 0, 0, 0, 0), 0, 8) == -E.EINVAL
        assert guest.call("rt_sigaction", 10, 0, 0, 16) == -E.EINVAL
        assert guest.attempt("kill", 0, 19) == Stopped("the program stopped itself with SIGSTOP")

    def test_blocked_ones_wait(self, guest: Guest) -> None:
        mask = struct.pack("<Q", 1 << 14 | 1 << 8)
        assert guest.call("rt_sigprocmask", 0, mask, 0, 8) == 0
        assert guest.call("rt_sigprocmask", 0, 0, BUFFER, 8) == 0
        assert guest.unpack("<Q") == (1 << 14,)  # SIGKILL cannot be blocked
        assert guest.call("kill", 0, 15) == 0
        assert guest.call("rt_sigpending", BUFFER, 8) == 0
        assert guest.unpack("<Q") == (1 << 14,)
        assert guest.attempt("rt_sigprocmask", 1, mask, 0, 8) == Killed(15)

    def test_waiting_for_signals(self, guest: Guest) -> None:
        mask = struct.pack("<Q", 1 << 14)
        guest.call("rt_sigprocmask", 0, mask, 0, 8)
        guest.call("kill", 0, 15)
        assert guest.call("rt_sigtimedwait", mask, BUFFER, 0, 8) == 15
        assert guest.unpack("<i") == (15,)
        assert guest.call("rt_sigtimedwait", mask, 0, struct.pack("<qq", 1, 0), 8) == -E.EAGAIN
        assert isinstance(guest.attempt("rt_sigtimedwait", mask, 0, 0, 8), Stopped)
        assert isinstance(guest.attempt("rt_sigsuspend", bytes(8), 8), Stopped)

    def test_alternate_stack(self, guest: Guest) -> None:
        assert guest.call("sigaltstack", 0, BUFFER) == 0
        assert guest.unpack("<QiiQ") == (0, 2, 0, 0)
        assert guest.call("sigaltstack", struct.pack("<QiiQ", BUFFER, 0, 0, 8192), 0) == 0
        assert guest.call("sigaltstack", 0, BUFFER) == 0
        assert guest.unpack("<QiiQ") == (BUFFER, 0, 0, 8192)
        assert guest.call("sigaltstack", struct.pack("<QiiQ", BUFFER, 0, 0, 100), 0) == -E.ENOMEM


class TestProcess:
    def test_exit(self, guest: Guest) -> None:
        assert guest.attempt("exit_group", 256 + 3) == Exited(3)
        assert guest.attempt("exit", -1) == Exited(255)

    def test_identity(self, guest: Guest) -> None:
        assert guest.call("getuid") == os.getuid()
        assert guest.call("getegid") == os.getgid()
        assert guest.call("gettid") == guest.call("getpid") == guest.call("getpgid", 0)
        assert guest.call("getgroups", 0, 0) == len(os.getgroups())
        assert guest.call("setuid", os.getuid()) == 0
        assert guest.call("setuid", os.getuid() + 1) == -E.EPERM
        assert guest.call("uname", BUFFER) == 0
        fields = [part.rstrip(b"\0") for part in struct.unpack("65s" * 6, guest.bytes(390))]
        assert fields == [b"Linux", b"kvrm", b"6.1.0", b"#1 SMP", b"aarch64", b"(none)"]

    def test_no_other_processes(self, guest: Guest) -> None:
        assert guest.call("clone", 17, 0, 0, 0, 0) == -E.ENOSYS
        assert guest.call("execve", "/bin/sh", 0, 0) == -E.ENOSYS
        assert guest.call("wait4", -1, 0, 0, 0) == -E.ECHILD
        assert guest.call("socket", 2, 1, 0) == -E.EAFNOSUPPORT
        assert guest.call("getpeername", 0, BUFFER, BUFFER) == -E.ENOTSOCK

    @pytest.mark.parametrize("number", [293, 500, 1 << 31, (1 << 32) - 1, 244])
    def test_unknown_calls(self, guest: Guest, number: int) -> None:
        assert guest.call(number) == -E.ENOSYS

    def test_limits(self, guest: Guest) -> None:
        assert guest.call("prlimit64", 0, 3, 0, BUFFER) == 0
        assert guest.unpack("<QQ") == (8 << 20, U64)
        assert guest.call("prlimit64", 0, 7, struct.pack("<QQ", 5, 10), BUFFER) == 0
        assert guest.unpack("<QQ") == (1024, 4096)
        assert [guest.open("file") for _ in range(3)] == [3, 4, -E.EMFILE]
        assert guest.call("prlimit64", 0, 7, struct.pack("<QQ", 5, 11), 0) == -E.EPERM
        assert guest.call("getrlimit", 16, BUFFER) == -E.EINVAL

    def test_futexes_of_a_single_thread(self, guest: Guest) -> None:
        guest.memory.write(BUFFER, struct.pack("<I", 5))
        assert guest.call("futex", BUFFER, 129, 1, 0, 0, 0) == 0
        assert guest.call("futex", BUFFER, 128, 4, 0, 0, 0) == -E.EAGAIN
        assert guest.call("futex", BUFFER, 0, 5, struct.pack("<qq", 1, 0), 0, 0) == -E.ETIMEDOUT
        assert guest.process.kernel.uptime == SECOND
        assert isinstance(guest.attempt("futex", BUFFER, 128, 5, 0, 0, 0), Stopped)
        assert guest.call("futex", BUFFER + 1, 0, 5, 0, 0, 0) == -E.EINVAL

    def test_random_bytes_come_from_the_seed(self, tmp_path: Path) -> None:
        def draw(seed: int) -> bytes:
            guest = Guest(tmp_path, seed=seed)
            assert guest.call("getrandom", BUFFER, 100, 0) == 100
            return guest.bytes(100)

        assert draw(1) == draw(1)
        assert draw(1) != draw(2)

    def test_settings(self, guest: Guest) -> None:
        assert guest.call("prctl", 15, "a name that is too long", 0, 0, 0) == 0
        assert guest.call("prctl", 16, BUFFER, 0, 0, 0) == 0
        assert guest.bytes(16) == b"a name that is \0"
        assert guest.call("prctl", 12345, 0, 0, 0, 0) == -E.EINVAL
        assert guest.call("sched_getaffinity", 0, 128, BUFFER) == 8
        assert guest.unpack("<Q") == (1,)
        assert guest.call("sysinfo", BUFFER) == 0
        assert guest.unpack("<q3QQ")[4] == 4 << 30

    def test_a_host_error_is_the_guests(self, guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> bytes:
            raise OSError(E.EIO, "broken disk")

        fd = guest.open("file")
        monkeypatch.setattr(os, "pread", fail)
        assert guest.call("read", fd, BUFFER, 1) == -E.EIO

    def test_interrupts_pass_through(self, guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object) -> bytes:
            raise KeyboardInterrupt

        fd = guest.open("file")
        monkeypatch.setattr(os, "pread", interrupt)
        with pytest.raises(KeyboardInterrupt):
            guest.call("read", fd, BUFFER, 1)
