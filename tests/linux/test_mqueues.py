"""POSIX message queues in virtual time, in snapshots, and with signals that act."""

from __future__ import annotations

import errno as E
import struct
from pathlib import Path

import pytest

from kvrm.linux import Killed, Stopped
from kvrm.linux.clock import EPOCH
from linux_tools import BUFFER, Guest

CREATE, NONBLOCK = 0o102, 0o4000
USR1 = 10


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def attributes(most: int, size: int) -> bytes:
    return struct.pack("<8q", 0, most, size, *[0] * 5)


def test_waiting(guest: Guest) -> None:
    fd = guest.call("mq_open", "q", CREATE, 0o600, attributes(1, 8))
    limit = struct.pack("<qq", EPOCH + 3, 7)
    assert guest.call("mq_timedreceive", fd, BUFFER, 8, 0, limit) == -E.ETIMEDOUT
    assert guest.process.kernel.uptime == 3 * 10**9 + 7
    assert isinstance(guest.attempt("mq_timedreceive", fd, BUFFER, 8, 0, 0), Stopped)
    assert guest.call("mq_timedsend", fd, b"x", 1, 0, 0) == 0
    assert guest.call("mq_timedsend", fd, b"x", 1, 0, limit) == -E.ETIMEDOUT
    assert isinstance(guest.attempt("mq_timedsend", fd, b"x", 1, 0, 0), Stopped)


def test_snapshots_hold_queues_that_are_not_open(guest: Guest) -> None:
    fd = guest.call("mq_open", "q", CREATE | NONBLOCK, 0o600, attributes(4, 8))
    guest.call("mq_timedsend", fd, b"first", 5, 0, 0)
    guest.call("close", fd)
    snapshot = guest.process.snapshot()
    for _ in range(2):
        fd = guest.call("mq_open", "q", 2 | NONBLOCK, 0, 0)
        assert guest.call("fstat", fd, BUFFER) == 0 and guest.unpack("<QQI")[2] == 0o100600
        assert guest.call("fchmod", fd, 0o644) == 0
        assert guest.call("mq_timedreceive", fd, BUFFER, 8, 0, 0) == 5
        assert guest.call("mq_timedreceive", fd, BUFFER, 8, 0, 0) == -E.EAGAIN
        assert guest.call("mq_unlink", "q") == 0
        guest.process.restore(snapshot)


def test_a_signal_that_is_asked_for_acts(guest: Guest) -> None:
    fd = guest.call("mq_open", "q", CREATE, 0o600, 0)
    event = struct.pack("<Qii", 0, USR1, 0).ljust(64, b"\0")
    assert guest.call("mq_notify", fd, event) == 0
    assert guest.attempt("mq_timedsend", fd, b"x", 1, 0, 0) == Killed(USR1)


def test_the_limit_counts_what_queues_may_hold(guest: Guest) -> None:
    assert guest.call("prlimit64", 0, 12, struct.pack("<QQ", 100_000, 100_000), 0) == 0
    assert guest.call("mq_open", "one", CREATE, 0o600, 0) > 0
    assert guest.call("mq_open", "two", CREATE, 0o600, 0) == -E.EMFILE
    assert guest.call("mq_unlink", "one") == 0
    assert guest.call("mq_open", "two", CREATE, 0o600, 0) > 0
