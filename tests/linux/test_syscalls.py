"""Time, signals, identity: what a single process can ask for."""

from __future__ import annotations

import errno as E
import os
import struct
from pathlib import Path

import pytest

from kvrm.linux import Exited, Killed, Stopped
from kvrm.linux.clock import EPOCH
from linux_tools import BUFFER, U64, Guest

SECOND = 1_000_000_000


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
        every = (1 << 64) - 1
        assert guest.call("rt_sigaction", 12, struct.pack("<4Q", 1, every, 5, every), 0, 8) == 0
        assert guest.call("rt_sigaction", 12, 0, BUFFER, 8) == 0
        # no flags that there are not, and SIGKILL and SIGSTOP cannot be blocked
        assert guest.unpack("<4Q") == (1, 0xDC000807, 5, every & ~(1 << 8 | 1 << 18))
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
