"""What a guest changes stays in memory, or goes below its writable directory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from kvrm.linux.clock import EPOCH
from linux_tools import (
    APPEND,
    AT_FDCWD,
    BUFFER,
    CREAT,
    EXCL,
    NOFOLLOW_STAT,
    PATH,
    RDWR,
    REMOVEDIR,
    SCRATCH_SIZE,
    TMPFILE,
    TRUNC,
    U64,
    WRONLY,
    Guest,
    make_tree,
    state_of,
)

E = errno


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path)


@pytest.fixture
def guest(tree: Path) -> Guest:
    return Guest(tree)


class TestOverlay:
    @pytest.fixture(autouse=True)
    def unchanged(self, tree: Path) -> object:
        before = state_of(tree.parent)
        yield
        assert state_of(tree.parent) == before

    def test_new_files(self, guest: Guest) -> None:
        assert guest.put("new", b"hello") == 5
        assert guest.contents("new") == b"hello"
        fields = guest.stat("new")
        assert isinstance(fields, tuple)
        assert fields[2] == stat.S_IFREG | 0o644  # umask 022
        assert fields[3] == 1
        assert fields[7] == 5
        assert fields[10] == EPOCH
        assert b"new" in guest.names()  # type: ignore[operator]
        assert guest.open("new", CREAT | EXCL | WRONLY) == -E.EEXIST
        assert guest.put("/tmp/x", b"t") == 1
        assert b"x" in guest.names("/tmp")  # type: ignore[operator]

    def test_changed_files(self, guest: Guest) -> None:
        fd = guest.open("file", RDWR)
        guest.memory.write(BUFFER, b"XY")
        assert guest.call("pwrite64", fd, BUFFER, 2, 3) == 2
        assert guest.contents("file") == b"conXYnts"
        assert guest.call("ftruncate", fd, 4) == 0
        assert guest.call("ftruncate", fd, 6) == 0
        assert guest.contents("file") == b"conX\0\0"
        assert guest.contents("link") == b"conX\0\0"
        assert guest.put("file", b"+", WRONLY | APPEND) == 1
        assert guest.contents("file") == b"conX\0\0+"
        assert guest.put("file", b"", WRONLY | TRUNC) == 0
        assert guest.contents("file") == b""

    def test_a_writer_is_seen_by_readers_that_were_there_before(self, guest: Guest) -> None:
        reader = guest.open("file")
        assert guest.put("link", b"NEW", WRONLY) == 3
        assert guest.call("pread64", reader, BUFFER, 100, 0) == 8
        assert guest.bytes(8) == b"NEWtents"

    def test_sparse_files_cost_what_was_written(self, guest: Guest) -> None:
        fd = guest.open("sparse", RDWR | CREAT)
        assert guest.call("lseek", fd, 1 << 40, 0) == 1 << 40
        assert guest.call("write", fd, BUFFER, 1) == 1
        assert guest.call("pread64", fd, BUFFER, 100, 1 << 30) == 100
        assert guest.bytes(100) == bytes(100)
        assert guest.call("ftruncate", fd, 1 << 60) == -E.EFBIG
        assert guest.call("pwrite64", fd, BUFFER, 1, (1 << 63) - 1) == -E.EINVAL
        assert guest.call("pwrite64", fd, BUFFER, 1, (1 << 63) - 2) == -E.EFBIG
        assert guest.process.kernel.files.budget.used < 1 << 16

    def test_the_overlay_is_limited(self, tree: Path) -> None:
        guest = Guest(tree, overlay_limit=100_000)
        fd = guest.open("big", WRONLY | CREAT)
        total = 0
        while (written := guest.call("write", fd, BUFFER, 30_000)) > 0:
            total += written
        assert written == -E.ENOSPC
        assert 90_000 < total <= 100_000
        assert guest.call("ftruncate", fd, 0) == 0
        assert guest.call("pwrite64", fd, BUFFER, 30_000, 0) == 30_000
        made = 0
        while (result := guest.call("mkdirat", AT_FDCWD, f"d{made}", 0o777)) == 0:
            made += 1
        assert result == -E.ENOSPC
        assert made < 200
        assert guest.call("unlinkat", AT_FDCWD, "d0", REMOVEDIR) == 0
        assert guest.call("mkdirat", AT_FDCWD, "again", 0o777) == 0

    def test_memory_of_a_removed_file_is_given_back(self, guest: Guest) -> None:
        for _ in range(1000):
            assert guest.put("file2", bytes(400_000)) == 400_000
            assert guest.call("unlinkat", AT_FDCWD, "file2", 0) == 0
        assert guest.process.kernel.files.budget.used < 1 << 20

    def test_removing(self, guest: Guest) -> None:
        assert guest.call("unlinkat", AT_FDCWD, "file", 0) == 0
        assert guest.contents("file") == -E.ENOENT
        assert guest.contents("link") == -E.ENOENT
        assert b"file" not in guest.names()  # type: ignore[operator]
        assert guest.call("unlinkat", AT_FDCWD, "file", 0) == -E.ENOENT
        assert guest.call("unlinkat", AT_FDCWD, "sub", 0) == -E.EISDIR
        assert guest.call("unlinkat", AT_FDCWD, "sub", REMOVEDIR) == -E.ENOTEMPTY
        assert guest.call("unlinkat", AT_FDCWD, "sub/deep", REMOVEDIR) == 0
        assert guest.call("unlinkat", AT_FDCWD, "sub/inner", 0) == 0
        assert guest.call("unlinkat", AT_FDCWD, "sub", REMOVEDIR) == 0
        assert guest.stat("sub") == -E.ENOENT
        assert guest.put("file", b"again") == 5
        assert guest.contents("file") == b"again"
        assert guest.call("mkdirat", AT_FDCWD, "sub", 0o755) == 0
        assert guest.names("sub") == [b".", b".."]

    def test_directories(self, guest: Guest) -> None:
        assert guest.call("mkdirat", AT_FDCWD, "a", 0o777) == 0
        assert guest.call("mkdirat", AT_FDCWD, "a/b/", 0o777) == 0
        assert guest.call("mkdirat", AT_FDCWD, "a/b", 0o777) == -E.EEXIST
        assert guest.call("mkdirat", AT_FDCWD, "x/y", 0o777) == -E.ENOENT
        assert guest.call("mkdirat", AT_FDCWD, "/", 0o777) == -E.EEXIST
        assert guest.stat("a")[3] == 3  # type: ignore[index]
        assert guest.call("chdir", "a/b") == 0
        assert guest.call("unlinkat", AT_FDCWD, "../b", REMOVEDIR) == 0
        assert guest.call("getcwd", BUFFER, 4096) == -E.ENOENT
        assert guest.open("x", CREAT | WRONLY) == -E.ENOENT
        assert guest.call("unlinkat", AT_FDCWD, "/", REMOVEDIR) == -E.EBUSY
        assert guest.call("unlinkat", AT_FDCWD, "/tmp/.", REMOVEDIR) == -E.EINVAL

    def test_links(self, guest: Guest) -> None:
        assert guest.call("linkat", AT_FDCWD, "file", AT_FDCWD, "hard", 0) == 0
        assert guest.put("hard", b"H", WRONLY) == 1
        assert guest.contents("file") == b"Hontents"
        assert guest.stat("file")[3] == 2  # type: ignore[index]
        assert guest.call("unlinkat", AT_FDCWD, "file", 0) == 0
        assert guest.contents("hard") == b"Hontents"
        assert guest.call("symlinkat", "hard", AT_FDCWD, "soft") == 0
        assert guest.contents("soft") == b"Hontents"
        assert guest.call("readlinkat", AT_FDCWD, "soft", BUFFER, 2) == 2
        assert guest.call("symlinkat", "", AT_FDCWD, "e") == -E.ENOENT
        assert guest.call("symlinkat", "x", AT_FDCWD, "soft") == -E.EEXIST
        assert guest.call("linkat", AT_FDCWD, "sub", AT_FDCWD, "hard2", 0) == -E.EPERM
        assert guest.call("symlinkat", "made-by-link", AT_FDCWD, "dangling") == 0
        assert guest.put("dangling", b"x") == 1
        assert guest.contents("made-by-link") == b"x"

    def test_renaming(self, guest: Guest) -> None:
        def rename(old: str, new: str, flags: int = 0) -> int:
            return guest.call("renameat2", AT_FDCWD, old, AT_FDCWD, new, flags)

        assert rename("file", "sub/moved") == 0
        assert guest.contents("sub/moved") == b"contents"
        assert rename("sub/moved", "sub/inner", 1) == -E.EEXIST
        assert rename("sub/moved", "sub/inner") == 0
        assert guest.contents("sub/inner") == b"contents"
        assert rename("sub", "sub/deep/x") == -E.EINVAL
        assert rename("sub", "other") == 0
        assert guest.contents("other/inner") == b"contents"
        assert guest.contents("dirlink/inner") == -E.ENOENT
        assert guest.names("other") == [b".", b"..", b"deep", b"inner"]
        assert rename("other", "link") == -E.ENOTDIR
        assert rename("link", "other") == -E.EISDIR
        guest.call("mkdirat", AT_FDCWD, "full", 0o755)
        guest.put("full/x", b"")
        assert rename("other", "full") == -E.ENOTEMPTY
        assert rename("other", ".") == -E.EBUSY
        assert rename("nosuch", "x") == -E.ENOENT
        assert rename("link", "/dev/null") == -E.EXDEV
        assert rename("link", "link") == 0
        assert rename("link", "x", 2) == -E.ENOENT
        assert rename("link", "other", 3) == -E.EINVAL
        assert guest.call("chdir", "other/deep") == 0
        assert rename("..", "x") == -E.EBUSY
        assert guest.call("renameat", AT_FDCWD, "../../other", AT_FDCWD, "../../third") == 0
        assert guest.bytes(guest.call("getcwd", BUFFER, 4096)).endswith(b"/third/deep\0")

    def test_metadata(self, guest: Guest) -> None:
        assert guest.call("fchmodat", AT_FDCWD, "file", 0o4751) == 0
        assert guest.stat("file")[2] == stat.S_IFREG | 0o4751  # type: ignore[index]
        assert guest.contents("file") == b"contents"
        guest.memory.write(
            BUFFER, (5).to_bytes(8, "little") + bytes(8) + (6).to_bytes(8, "little") + bytes(8)
        )
        assert guest.call("utimensat", AT_FDCWD, "sub/inner", BUFFER, 0) == 0
        assert guest.stat("sub/inner")[10] == 6  # type: ignore[index]
        assert guest.call("utimensat", AT_FDCWD, "link", 0, NOFOLLOW_STAT) == 0
        assert guest.stat("link", NOFOLLOW_STAT)[10] == EPOCH  # type: ignore[index]
        assert guest.call("fchownat", AT_FDCWD, "file", U64, U64, 0) == 0
        assert guest.call("fchmodat", AT_FDCWD, "/dev/null", 0o777) == -E.EPERM
        assert guest.call("truncate", "file", 3) == 0
        assert guest.contents("file") == b"con"
        assert guest.call("umask", 0o77) == 0o22
        guest.put("private", b"")
        assert guest.stat("private")[2] == stat.S_IFREG | 0o600  # type: ignore[index]

    def test_unnamed_files(self, guest: Guest) -> None:
        fd = guest.open("sub", TMPFILE | RDWR)
        assert guest.call("write", fd, BUFFER, 100) == 100
        assert guest.call("pread64", fd, BUFFER, 200, 50) == 50
        assert guest.names("sub") == [b".", b"..", b"deep", b"inner"]
        memory = guest.call("memfd_create", "name", 0)
        assert guest.call("write", memory, BUFFER, 9) == 9
        assert guest.stat(f"/proc/self/fd/{memory}")[7] == 9  # type: ignore[index]

    def test_a_path_descriptor_only_names(self, guest: Guest) -> None:
        fd = guest.open("file", PATH)
        assert guest.call("read", fd, BUFFER, 1) == -E.EBADF
        assert guest.call("newfstatat", fd, "", BUFFER, 0x1000) == 0

    def test_deep_trees(self, guest: Guest) -> None:
        """Deeper than Python's stack: nothing here recurses."""
        for _ in range(3000):
            assert guest.call("mkdirat", AT_FDCWD, "d", 0o755) == 0
            assert guest.call("chdir", "d") == 0
        assert guest.call("getcwd", BUFFER, SCRATCH_SIZE // 2) == -E.ENAMETOOLONG
        snapshot = guest.process.snapshot()
        guest.process.restore(snapshot)
        assert guest.call("mkdirat", AT_FDCWD, "e", 0o755) == 0


class TestWritableDirectory:
    @pytest.fixture
    def out(self, tree: Path) -> Path:
        (tree / "out/dir").mkdir(parents=True)
        (tree / "out/old").write_bytes(b"old")
        return tree / "out"

    @pytest.fixture
    def writer(self, tree: Path, out: Path) -> Guest:
        return Guest(tree, rw=out)

    def test_writes_reach_the_host(self, writer: Guest, out: Path) -> None:
        assert writer.put("out/new", b"data") == 4
        assert (out / "new").read_bytes() == b"data"
        assert stat.S_IMODE((out / "new").stat().st_mode) == 0o644
        assert writer.put(str(out / "old"), b"+", WRONLY | APPEND) == 1
        assert (out / "old").read_bytes() == b"old+"
        assert writer.contents("out/old") == b"old+"
        assert writer.call("mkdirat", AT_FDCWD, "out/made", 0o711) == 0
        assert stat.S_IMODE((out / "made").stat().st_mode) == 0o711
        assert writer.call("renameat", AT_FDCWD, "out/new", AT_FDCWD, "out/made/renamed") == 0
        assert (out / "made/renamed").read_bytes() == b"data"
        assert writer.call("linkat", AT_FDCWD, "out/old", AT_FDCWD, "out/hard", 0) == 0
        assert (out / "hard").stat().st_ino == (out / "old").stat().st_ino
        assert writer.call("symlinkat", "old", AT_FDCWD, "out/soft") == 0
        assert os.readlink(out / "soft") == "old"
        assert writer.call("truncate", "out/old", 2) == 0
        assert (out / "old").read_bytes() == b"ol"
        assert writer.call("unlinkat", AT_FDCWD, "out/old", 0) == 0
        assert writer.call("unlinkat", AT_FDCWD, "out/dir", REMOVEDIR) == 0
        assert sorted(os.listdir(out)) == ["hard", "made", "soft"]
        assert writer.names("out") == [b".", b"..", b"hard", b"made", b"soft"]

    def test_metadata_reaches_the_host(self, writer: Guest, out: Path) -> None:
        assert writer.call("fchmodat", AT_FDCWD, "out/old", 0o640) == 0
        assert stat.S_IMODE((out / "old").stat().st_mode) == 0o640
        writer.memory.write(
            BUFFER, (5).to_bytes(8, "little") + bytes(8) + (6).to_bytes(8, "little") + bytes(8)
        )
        assert writer.call("utimensat", AT_FDCWD, "out/old", BUFFER, 0) == 0
        assert (out / "old").stat().st_mtime == 6
        fd = writer.open("out/old", RDWR)
        assert writer.call("fchmod", fd, 0o600) == 0
        assert stat.S_IMODE((out / "old").stat().st_mode) == 0o600

    def test_no_setuid_files_on_the_host(self, writer: Guest, out: Path) -> None:
        writer.call("umask", 0)
        assert writer.call("fchmodat", AT_FDCWD, "out/old", 0o6755) == 0
        assert writer.call("close", writer.open("out/new", CREAT | WRONLY, 0o6755)) == 0
        assert writer.call("mkdirat", AT_FDCWD, "out/made", 0o7777) == 0
        for name in ("old", "new", "made"):
            assert not (out / name).stat().st_mode & 0o6000

    def test_the_rest_stays_read_only(self, writer: Guest, tree: Path, out: Path, tmp_path: Path) -> None:
        before = [
            entry for entry in state_of(tree) if "out" not in f"{entry[0]}{entry[1]}" and entry[1] != "."
        ]
        writer.put("file", b"changed")
        assert writer.call("renameat", AT_FDCWD, "out/old", AT_FDCWD, "moved") == -E.EXDEV
        assert writer.call("renameat", AT_FDCWD, "file", AT_FDCWD, "out/moved") == -E.EXDEV
        assert writer.call("linkat", AT_FDCWD, "file", AT_FDCWD, "out/moved", 0) == -E.EXDEV
        assert writer.call("unlinkat", AT_FDCWD, "out", REMOVEDIR) == -E.EBUSY
        assert writer.call("renameat", AT_FDCWD, "out", AT_FDCWD, "elsewhere") == -E.EBUSY
        (out / "leak").symlink_to(tmp_path / "secret")
        (out / "leak2").symlink_to("../../secret")
        assert writer.open("out/leak", RDWR) == -E.ENOENT
        assert writer.open("out/leak2", RDWR | CREAT) >= 0  # in the overlay
        assert writer.call("fchmodat", AT_FDCWD, "out", 0o777) == -E.EPERM
        assert (tmp_path / "secret").read_text() == "secret"
        after = [
            entry for entry in state_of(tree) if "out" not in f"{entry[0]}{entry[1]}" and entry[1] != "."
        ]
        assert after == before

    def test_special_files_are_not_opened(self, writer: Guest, out: Path) -> None:
        os.mkfifo(out / "fifo")
        assert writer.open("out/fifo", RDWR) == -E.EACCES

    def test_below_a_root_it_has_two_names(self, tree: Path, tmp_path: Path) -> None:
        root = tmp_path / "root"
        (root / "data").mkdir(parents=True)
        guest = Guest(tree, root=root, rw=root / "data")
        assert guest.put("/data/x", b"1") == 1
        assert guest.contents(f"{root}/data/x") == b"1"
        assert (root / "data/x").read_bytes() == b"1"

    def test_the_current_directory_itself(self, tree: Path) -> None:
        guest = Guest(tree, rw=tree)
        assert guest.put("new", b"1") == 1
        assert guest.put("sub/new", b"2") == 1
        assert (tree / "sub/new").read_bytes() == b"2"
        assert guest.call("chdir", "sub") == 0
        assert guest.put("../third", b"3") == 1
        assert (tree / "third").exists()
