"""What a guest sees of files, what it can change, and that nothing leads out."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from kvrm.errors import UsageError
from linux_tools import (
    AT_FDCWD,
    BUFFER,
    CREAT,
    DIRECTORY,
    NOFOLLOW,
    NOFOLLOW_STAT,
    RDONLY,
    RDWR,
    WRONLY,
    Elf,
    Guest,
    make_tree,
)

E = errno


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path)


@pytest.fixture
def guest(tree: Path) -> Guest:
    return Guest(tree)


class TestReading:
    def test_files_of_the_current_directory(self, guest: Guest, tree: Path) -> None:
        for path in (
            "file",
            "./file",
            "sub/../file",
            str(tree / "file"),
            "link",
            "sub//../link",
            "/proc/self/cwd/file",
        ):
            assert guest.contents(path) == b"contents", path
        assert guest.contents("dirlink/inner") == b"inner"
        assert guest.contents("within") == b"inner"

    def test_status_is_the_hosts(self, guest: Guest, tree: Path) -> None:
        for path in (".", "file", "sub", "link", "fifo", "..", str(tree.parent)):
            st = os.stat(tree / path)
            expected = (st.st_dev, st.st_ino, st.st_mode, st.st_nlink, st.st_uid, st.st_gid, st.st_rdev)
            sizes = (st.st_size, st.st_blksize, st.st_blocks, st.st_mtime_ns // 10**9)
            assert guest.stat(path) == expected + sizes, path
        assert guest.stat("link", NOFOLLOW_STAT)[1] == os.lstat(tree / "link").st_ino  # type: ignore[index]

    def test_listing_is_sorted(self, guest: Guest, tree: Path) -> None:
        assert guest.names() == [b".", b"..", *sorted(os.fsencode(name) for name in os.listdir(tree))]
        assert guest.names("..") == [b".", b"..", b"here"]

    def test_a_directory_lists_in_pieces_and_rewinds(self, guest: Guest) -> None:
        fd = guest.open(".", DIRECTORY)
        assert guest.call("getdents64", fd, BUFFER, 20) == -E.EINVAL
        first = guest.call("getdents64", fd, BUFFER, 64)
        data = guest.bytes(first)
        guest.call("getdents64", fd, BUFFER, 64)
        assert guest.call("lseek", fd, 0, 0) == 0
        assert guest.call("getdents64", fd, BUFFER, 64) == first
        assert guest.bytes(first) == data
        assert guest.call("read", fd, BUFFER, 10) == -E.EISDIR

    def test_offsets(self, guest: Guest) -> None:
        fd = guest.open("file")
        assert guest.call("lseek", fd, 3, 0) == 3
        assert guest.call("read", fd, BUFFER, 3) == 3
        assert guest.bytes(3) == b"ten"
        assert guest.call("pread64", fd, BUFFER, 100, 1) == 7
        assert guest.call("lseek", fd, 0, 1) == 6
        assert guest.call("lseek", fd, -2, 2) == 6
        assert guest.call("lseek", fd, -7, 1) == -E.EINVAL
        assert guest.call("lseek", fd, 0, 9) == -E.EINVAL
        assert guest.call("lseek", fd, (1 << 44) - 4096, 0) == (1 << 44) - 4096
        assert guest.call("lseek", fd, (1 << 44) - 4095, 0) == -E.EINVAL
        assert guest.call("read", fd, BUFFER, 10) == 0
        assert guest.call("write", fd, BUFFER, 1) == -E.EBADF

    def test_errors(self, guest: Guest) -> None:
        expected = {
            "nosuch": E.ENOENT,
            "file/x": E.ENOTDIR,
            "file/": E.ENOTDIR,
            "": E.ENOENT,
            "loop": E.ELOOP,
            "sub/nosuch/x": E.ENOENT,
            "n" * 256: E.ENAMETOOLONG,
            "sub/" * 1100: E.ENAMETOOLONG,
        }
        for path, error in expected.items():
            assert guest.contents(path) == -error, path
        assert guest.open("link", NOFOLLOW) == -E.ELOOP
        assert guest.open("file", DIRECTORY) == -E.ENOTDIR
        assert guest.open("sub", WRONLY) == -E.EISDIR
        assert guest.call("openat", 77, "file", 0, 0) == -E.EBADF
        assert guest.call("openat", guest.open("file"), "file", 0, 0) == -E.ENOTDIR
        assert guest.call("openat", AT_FDCWD, 0x2000_0000, 0, 0) == -E.EFAULT

    def test_relative_to_a_descriptor(self, guest: Guest) -> None:
        sub = guest.open("sub", DIRECTORY)
        assert guest.call("openat", sub, "inner", 0, 0) >= 0
        assert guest.call("openat", sub, "../file", 0, 0) >= 0
        assert guest.call("fchdir", sub) == 0
        assert guest.contents("inner") == b"inner"
        length = guest.call("getcwd", BUFFER, 4096)
        assert guest.bytes(length).endswith(b"/here/sub\0")
        assert guest.call("getcwd", BUFFER, 3) == -E.ERANGE
        assert guest.call("chdir", "inner") == -E.ENOTDIR

    def test_the_program_sees_itself(self, tree: Path, tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        program = tmp_path / "bin/guest"
        program.write_bytes(Elf().data())
        (tmp_path / "bin/other").write_bytes(b"other")
        guest = Guest(tree, program=program)
        assert guest.contents(str(program)) == Elf().data()
        assert guest.contents("/proc/self/exe") == Elf().data()
        length = guest.call("readlinkat", AT_FDCWD, "/proc/self/exe", BUFFER, 4096)
        assert guest.bytes(length) == os.fsencode(program)
        assert guest.contents(str(tmp_path / "bin/other")) == -E.ENOENT
        assert guest.names(str(tmp_path / "bin")) == [b".", b"..", b"guest"]

    def test_a_file_stays_readable_without_its_name(self, guest: Guest, tree: Path) -> None:
        fd = guest.open("file")
        (tree / "file").unlink()
        assert guest.call("read", fd, BUFFER, 100) == 8
        assert guest.contents("file") == -E.ENOENT


class TestNothingLeadsOut:
    def test_paths_and_links(self, guest: Guest, tree: Path, tmp_path: Path) -> None:
        outside = [
            "../secret", "sub/../../secret", "/proc/self/cwd/../secret", "/proc/self/root/etc/shadow", "up",
            "absolute", str(tmp_path / "secret"), "/etc/shadow", "/etc/x", "../../../../../../../etc/shadow",
            f"/../..{tmp_path}/secret", "/proc/self/fd/../../../etc/shadow", "/root", "/usr/bin/env",
        ]  # fmt: skip
        for path in outside:
            assert guest.open(path) == -E.ENOENT, path
            assert guest.stat(path) == -E.ENOENT, path

    def test_kernel_files_are_never_the_hosts(self, guest: Guest) -> None:
        for path in (
            "/proc/kcore",
            "/sys/kernel/uevent_seqnum",
            "/dev/mem",
            "/dev/kmsg",
            "/proc/1/environ",
        ):
            assert guest.open(path) == -E.ENOENT, path

    def test_even_if_the_whole_host_is_the_current_directory(self) -> None:
        guest = Guest(Path("/"))
        assert guest.contents("/proc/self/comm") == b"program\n"
        for path in ("/proc/kcore", "/proc/sys/kernel/modprobe", "/proc/self/stack"):
            assert guest.open(path) in (-E.ENOENT, -E.EACCES), path
        if os.path.isdir("/sys/kernel"):
            assert guest.open("/sys/kernel/uevent_seqnum") < 0
        for name in ("/dev/mem", "/dev/kmsg", "/dev/loop0"):
            assert guest.open(name) < 0, name

    def test_kernel_file_systems_inside_a_tree_are_refused(self) -> None:
        guest = Guest(Path("/proc"))
        assert guest.open("version") == -E.EACCES or guest.contents("version").startswith(
            b"Linux version 6.1.0 ("
        )  # type: ignore[union-attr]
        assert b"(program)" in guest.contents("self/stat")  # type: ignore[operator]

    def test_special_files_are_seen_but_not_opened(self, guest: Guest) -> None:
        assert stat.S_ISFIFO(guest.stat("fifo")[2])  # type: ignore[index]
        for flags in (RDONLY, WRONLY, RDWR):
            assert guest.open("fifo", flags) == -E.EACCES

    def test_the_root_is_the_top(self, tree: Path, tmp_path: Path) -> None:
        root = tmp_path / "root"
        (root / "etc").mkdir(parents=True)
        (root / "etc/passwd").write_text("guest's")
        (root / "etc/alias").symlink_to("/etc/passwd")
        (root / "etc/out").symlink_to("../../../../../../etc/passwd")
        (root / "lib").symlink_to("/etc")
        (root / "host").symlink_to(tmp_path)
        guest = Guest(tree, root=root)
        for path in ("/etc/passwd", "/etc/alias", "/etc/out", "/lib/passwd", "/../etc/passwd"):
            assert guest.contents(path) == b"guest's", path
        assert guest.open("/host/secret") == -E.ENOENT
        assert guest.contents(str(tree / "file")) == b"contents"
        assert guest.contents("file") == b"contents"
        assert guest.names("/etc") == [b".", b"..", b"alias", b"out", b"passwd"]
        assert set(guest.names("/")) >= {b"dev", b"etc", b"lib", b"proc", b"tmp"}  # type: ignore[arg-type]

    def test_a_link_that_is_swapped_in_is_not_followed(
        self, guest: Guest, tree: Path, tmp_path: Path
    ) -> None:
        """A host process replaces a directory by a link to the outside, again and again."""
        (tree / "race").mkdir()
        (tree / "race/secret").write_bytes(b"harmless")
        done = threading.Event()

        def swap() -> None:
            while not done.is_set():
                os.rename(tree / "race", tree / "aside")
                os.symlink(tmp_path, tree / "race")
                os.unlink(tree / "race")
                os.rename(tree / "aside", tree / "race")

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            until = time.monotonic() + 1
            while time.monotonic() < until:
                assert guest.contents("race/secret") in (b"harmless", -E.ENOENT, -E.ENOTDIR, -E.ELOOP)
        finally:
            done.set()
            thread.join()


class TestSynthetic:
    def test_devices(self, guest: Guest) -> None:
        guest.memory.write(BUFFER, b"\xff" * 64)
        null, zero, full, random = (
            guest.open(f"/dev/{name}", RDWR) for name in ("null", "zero", "full", "urandom")
        )
        assert guest.call("read", null, BUFFER, 8) == 0
        assert guest.call("write", null, BUFFER, 8) == 8
        assert guest.call("read", zero, BUFFER, 8) == 8
        assert guest.bytes(9) == bytes(8) + b"\xff"
        assert guest.call("write", full, BUFFER, 8) == -E.ENOSPC
        assert guest.call("read", random, BUFFER, 32) == 32
        assert guest.open("/dev/tty", RDWR) == -E.ENXIO
        assert stat.S_ISCHR(guest.stat("/dev/null")[2])  # type: ignore[index]
        assert guest.stat("/dev/null")[6] == os.makedev(1, 3)  # type: ignore[index]

    def test_processes(self, guest: Guest) -> None:
        pid = guest.call("getpid")
        assert guest.contents("/proc/self/stat").startswith(b"%d (program) R 1 " % pid)  # type: ignore[union-attr]
        assert len(guest.contents("/proc/self/stat").split()) == 52  # type: ignore[union-attr]
        assert guest.contents(f"/proc/{pid}/cmdline") == b"program\0"
        assert b"[stack]" in guest.contents("/proc/self/maps")  # type: ignore[operator]
        assert b"MemTotal" in guest.contents("/proc/meminfo")  # type: ignore[operator]
        assert b"CPU part" in guest.contents("/proc/cpuinfo")  # type: ignore[operator]
        for name in (
            "uptime",
            "version",
            "mounts",
            "stat",
            "self/statm",
            "self/status",
            "self/auxv",
            "loadavg",
        ):
            assert guest.contents(f"/proc/{name}"), name
        assert guest.put("/proc/version", b"x") == -E.EACCES
        assert guest.open("/proc/new", CREAT | WRONLY) == -E.ENOENT
        assert guest.call("unlinkat", AT_FDCWD, "/proc/version", 0) < 0
        assert guest.call("mkdirat", AT_FDCWD, "/proc/x", 0o755) == -E.ENOENT

    def test_descriptors(self, guest: Guest, tree: Path) -> None:
        fd = guest.open("file")
        assert guest.names("/proc/self/fd") == [b".", b"..", b"0", b"1", b"2", b"%d" % fd, b"%d" % (fd + 1)]
        assert guest.contents(f"/dev/fd/{fd}") == b"contents"
        length = guest.call("readlinkat", AT_FDCWD, f"/proc/self/fd/{fd}", BUFFER, 4096)
        assert guest.bytes(length) == os.fsencode(tree / "file")
        assert guest.put("/dev/stdout", b"out", WRONLY) == 3
        assert guest.process.kernel.stdout == b"out"
        assert guest.open("/proc/self/fd/99") == -E.ENOENT
        assert guest.open("/proc/self/fd/x") == -E.ENOENT


def test_directories_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for options in ({"root": tmp_path / "no"}, {"rw": tmp_path / "file"}):
        with pytest.raises(UsageError, match="not a directory"):
            Guest(tmp_path, **options)
    with pytest.raises(UsageError, match="not a directory"):
        Guest(tmp_path / "no")
