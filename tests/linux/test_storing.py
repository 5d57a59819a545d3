"""A process that is written down and made again: open files of every kind, names, nets without end."""

from __future__ import annotations

import errno as E
import os
import stat
from pathlib import Path

import pytest

import kvrm
from kvrm.linux.storing import stored
from linux_tools import AT_FDCWD, BUFFER, CREAT, DIRECTORY, NOFOLLOW, PATH, RDONLY, RDWR, TMPFILE, Guest

MADE_ON_DEMAND = (
    "/proc/version /proc/self/status /proc/self/comm /proc/self/auxv /proc/self/limits "
    "/proc/self/personality /proc/self/coredump_filter /proc/self/ns/uts /proc/self/fdinfo/0 "
    "/proc/self/pagemap /proc/self/mem /sys/devices/system/cpu/online /dev/zero /etc/passwd"
).split()


def again(guest: Guest) -> None:
    """Put back what the process is now, made again from what a pickle holds of it."""
    guest.process.restore(stored(stored(guest.process.snapshot())))


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    (tmp_path / "file").write_bytes(b"of the host")
    (tmp_path / "directory").mkdir()
    return Guest(tmp_path)


@pytest.mark.parametrize("path", MADE_ON_DEMAND)
def test_files_made_on_demand(guest: Guest, path: str) -> None:
    fd = guest.open(path)
    assert fd >= 0
    link = guest.open(path, PATH | NOFOLLOW)
    guest.call("lseek", fd, 8, 0)
    before = guest.call("read", fd, BUFFER, 64), guest.bytes(64), guest.process.any_file(fd).stat()
    again(guest)
    guest.call("lseek", fd, 8, 0)
    assert (guest.call("read", fd, BUFFER, 64), guest.bytes(64), guest.process.any_file(fd).stat()) == before
    assert guest.process.any_file(link).stat().ino


@pytest.mark.parametrize(
    "path", ["/proc", "/proc/self", "/proc/self/fd", "/proc/self/task/1000", "/sys", "/dev"]
)
def test_directories_made_on_demand(guest: Guest, path: str) -> None:
    fd = guest.open(path, DIRECTORY)
    assert guest.call("fchdir", fd) == 0
    names = guest.names(path)
    again(guest)
    assert guest.names(path) == guest.names(".") == names
    assert guest.call("getcwd", BUFFER, 100) > 0
    assert guest.bytes(5) == path[:5].encode().ljust(5, b"\0")


def test_a_net_of_any_depth(guest: Guest, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    for _ in range(3000):
        assert guest.call("mkdirat", AT_FDCWD, "d", 0o755) == 0
        assert guest.call("chdir", "d") == 0
    fds = [guest.call("epoll_create1", 0)]
    for _ in range(4):
        fds.append(guest.call("epoll_create1", 0))
        guest.memory.write(BUFFER, bytes(16))
        assert guest.call("epoll_ctl", fds[-1], 1, fds[-2], BUFFER) == 0
    again(guest)
    assert guest.call("mkdirat", AT_FDCWD, "e", 0o755) == 0
    assert guest.names(".") == [b".", b"..", b"e"]


def test_a_file_of_the_overlay_that_has_no_name(guest: Guest) -> None:
    fd = guest.open("/tmp", TMPFILE | RDWR)
    guest.memory.write(BUFFER, b"x" * 9000)
    assert guest.call("write", fd, BUFFER, 9000) == 9000
    assert guest.call("dup", fd) == fd + 1
    again(guest)
    assert guest.call("lseek", fd + 1, 0, 1) == 9000, "the descriptors still share their file"
    guest.call("lseek", fd, 4000, 0)
    assert guest.call("read", fd + 1, BUFFER, 5000) == 5000
    assert guest.bytes(5000) == b"x" * 5000


def test_a_file_of_the_host_that_the_guest_changed(guest: Guest, tmp_path: Path) -> None:
    fd = guest.open("file", RDWR)
    guest.memory.write(BUFFER, b"IN")
    guest.call("write", fd, BUFFER, 2)
    again(guest)
    assert guest.contents("file") == b"IN the host"
    assert (tmp_path / "file").read_bytes() == b"of the host"
    assert guest.call("unlinkat", AT_FDCWD, "file", 0) == 0
    again(guest)
    assert guest.open("file") == -E.ENOENT
    guest.call("lseek", fd, 0, 0)
    assert guest.call("read", fd, BUFFER, 20) == 11


def test_what_the_host_has_removed_is_refused(guest: Guest, tmp_path: Path) -> None:
    assert guest.open("file", RDONLY) >= 0
    (tmp_path / "file").rename(tmp_path / "moved")
    (tmp_path / "file").write_bytes(b"another")
    with pytest.raises(kvrm.UsageError, match=r"has .*/file open, and the host has no such file"):
        stored(guest.process.snapshot())


def test_what_the_host_has_no_more_is_refused_and_nothing_changes(guest: Guest, tmp_path: Path) -> None:
    fd = guest.open("file", RDONLY)
    kept = stored(guest.process.snapshot())
    guest.call("close", fd)
    (tmp_path / "file").unlink()
    guest.process.umask = 0o77
    with pytest.raises(kvrm.UsageError, match="is not here"):
        guest.process.restore(kept)
    assert guest.process.umask == 0o77
    assert fd not in guest.process.descriptors


def test_a_pickle_shows_the_directories_that_its_machine_was_given(guest: Guest, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_bytes(b"of the other")
    (tmp_path / "secret").write_bytes(b"not given")
    there = Guest(other)
    there.process.restore(stored(guest.process.snapshot()))
    assert there.contents("file") == b"of the other"
    assert there.open("secret") == -E.ENOENT
    assert there.process.cwd.path() == os.fsencode(tmp_path)


def test_fifos_locks_and_seals(guest: Guest) -> None:
    assert guest.call("mknodat", AT_FDCWD, "fifo", stat.S_IFIFO | 0o600, 0) == 0
    fifo = guest.open("fifo", RDWR)
    guest.memory.write(BUFFER, b"in the fifo")
    guest.call("write", fifo, BUFFER, 11)
    memfd = guest.call("memfd_create", "name", 2)
    assert guest.call("fcntl", memfd, 1033, 4) == 0
    made = guest.open("made", RDWR | CREAT)
    assert guest.call("flock", made, 2) == 0
    again(guest)
    assert guest.call("read", fifo, BUFFER, 20) == 11
    assert guest.bytes(11) == b"in the fifo"
    assert guest.call("fcntl", memfd, 1034) == 4
    assert guest.call("flock", guest.open("made", RDWR), 2 | 4) == -E.EAGAIN
