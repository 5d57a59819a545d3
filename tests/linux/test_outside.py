"""Nothing outside a writable directory changes, however a path leads there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from linux_tools import AT_FDCWD, CREAT, RDWR, REMOVEDIR, TMPFILE, TRUNC, Guest, state_of

NOFOLLOW, FOLLOW = 0x100, 0x400
WAYS_OUT = (
    "up/secret up/full up/full/ up/empty up/empty/ up/empty/. up/new up/new/ ../secret ../empty ../empty/ "
    "../new ../out/../secret to-secret to-secret/ to-full to-full/ to-full/x to-full/../secret "
    "to-empty to-empty/ to-empty/. to-empty/.. to-nothing to-nothing/ absolute absolute/ absolute/x "
    "absolute/../secret chain chain/ sub/up/secret sub/up/empty/ sub/../../secret mine/../../../secret"
).split()

Call = Callable[[Guest, str], object]
CALLS: dict[str, Call] = {
    "write": lambda g, p: g.put(p, b"harm", CREAT | RDWR),
    "empty": lambda g, p: g.open(p, TRUNC),
    "create": lambda g, p: g.open(p, CREAT | RDWR | 0o200),
    "unnamed": lambda g, p: g.open(p, TMPFILE | RDWR),
    "truncate": lambda g, p: g.call("truncate", p, 1),
    "mkdir": lambda g, p: g.call("mkdirat", AT_FDCWD, p, 0o777),
    "mknod": lambda g, p: g.call("mknodat", AT_FDCWD, p, 0o100644, 0),
    "fifo": lambda g, p: g.call("mknodat", AT_FDCWD, p, 0o010644, 0),
    "symlink": lambda g, p: g.call("symlinkat", "x", AT_FDCWD, p),
    "link to": lambda g, p: g.call("linkat", AT_FDCWD, "mine/file", AT_FDCWD, p, 0),
    "link from": lambda g, p: g.call("linkat", AT_FDCWD, p, AT_FDCWD, "mine/hard", 0),
    "link followed": lambda g, p: g.call("linkat", AT_FDCWD, p, AT_FDCWD, "mine/hard", FOLLOW),
    "unlink": lambda g, p: g.call("unlinkat", AT_FDCWD, p, 0),
    "rmdir": lambda g, p: g.call("unlinkat", AT_FDCWD, p, REMOVEDIR),
    "rename to": lambda g, p: g.call("renameat", AT_FDCWD, "mine/file", AT_FDCWD, p),
    "rename directory to": lambda g, p: g.call("renameat", AT_FDCWD, "mine", AT_FDCWD, p),
    "rename from": lambda g, p: g.call("renameat", AT_FDCWD, p, AT_FDCWD, "mine/moved"),
    "exchange": lambda g, p: g.call("renameat2", AT_FDCWD, "mine/file", AT_FDCWD, p, 2),
    "chmod": lambda g, p: g.call("fchmodat", AT_FDCWD, p, 0o700),
    "chown": lambda g, p: g.call("fchownat", AT_FDCWD, p, os.getuid(), os.getgid(), 0),
    "lchown": lambda g, p: g.call("fchownat", AT_FDCWD, p, os.getuid(), os.getgid(), NOFOLLOW),
    "utimes": lambda g, p: g.call("utimensat", AT_FDCWD, p, 0, 0),
    "chdir and write": lambda g, p: (
        g.call("chdir", p),
        g.put("harm", b""),
        g.call("unlinkat", AT_FDCWD, "x", 0),
    ),
    "by descriptor": lambda g, p: _by_descriptor(g, g.open(p, 0o10000000)),
}


def _by_descriptor(guest: Guest, fd: int) -> None:
    for name in ("secret", "full/x", "empty", "x", "harm", ".."):
        guest.call("unlinkat", fd, name, 0)
        guest.call("unlinkat", fd, name, REMOVEDIR)
        guest.call("openat", fd, name, CREAT | RDWR | TRUNC, 0o666)
    guest.put(f"/proc/self/fd/{fd}", b"harm", TRUNC | RDWR)
    guest.call("fchmod", fd, 0)
    guest.call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "mine/hard", FOLLOW)


def furnished(tmp_path: Path) -> Path:
    """The directory that the guest may write, beside what it may not."""
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("x")
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "mine").mkdir()
    (out / "mine/file").write_text("mine")
    links = {
        "up": "..",
        "sub/up": "../..",
        "to-secret": "../secret",
        "to-full": "../full",
        "to-empty": "../empty/",
        "to-nothing": "../nothing",
        "absolute": str(tmp_path / "full"),
        "chain": "absolute",
    }
    for name, target in links.items():
        (out / name).symlink_to(target)
    return out


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return furnished(tmp_path)


def outside(out: Path) -> list[tuple[object, ...]]:
    """All that can be seen of what is beside the directory, and what the files hold."""
    seen = [
        entry
        for entry in state_of(out.parent)
        if not str(entry[0]).startswith(str(out)) and entry[1] != "out"
    ]
    return [*seen, ((out.parent / "secret").read_text(), (out.parent / "full/x").read_text())]


@pytest.mark.parametrize("shown", ["alone", "with its surroundings"])
@pytest.mark.parametrize("call", CALLS)
def test_no_call_reaches_outside(call: str, shown: str, tmp_path: Path) -> None:
    for number, path in enumerate(WAYS_OUT):
        out = furnished(tmp_path / str(number))
        before = outside(out)
        cwd = out if shown == "alone" else out.parent
        guest = Guest(cwd, rw=out)
        assert guest.call("chdir", str(out)) == 0
        CALLS[call](guest, path)
        assert outside(out) == before, path


def test_a_link_that_becomes_a_directory_of_the_host(out: Path) -> None:
    """A process of the host replaces a directory, in use by the guest, by a link that leads out."""
    guest = Guest(out, rw=out)
    fd = guest.open("sub", 0o40000)
    assert guest.call("chdir", "sub") == 0
    (out / "sub/up").unlink()
    (out / "sub").rmdir()
    (out / "sub").symlink_to("../full")
    before = outside(out)
    assert guest.put("x", b"harm", RDWR) < 0
    assert guest.call("unlinkat", fd, "x", 0) < 0
    assert guest.call("openat", fd, "new", CREAT | RDWR, 0o666) < 0
    assert guest.call("renameat", fd, "x", AT_FDCWD, "y") < 0
    assert outside(out) == before


def test_a_directory_in_use_is_renamed(out: Path) -> None:
    """What is open, or is the current directory, keeps its place in the tree under another name."""
    guest = Guest(out, rw=out)
    assert guest.call("mkdirat", AT_FDCWD, "mine/deep", 0o755) == 0
    fd = guest.open("mine", 0o40000)
    assert guest.call("chdir", "mine/deep") == 0
    assert guest.call("renameat", fd, "../mine", fd, "../yours") == 0
    assert guest.call("mkdirat", fd, "../mine", 0o755) == 0
    assert guest.put("new", b"1") == 1
    assert (out / "yours/deep/new").read_text() == "1"
    assert guest.call("unlinkat", fd, "file", 0) == 0
    assert not (out / "yours/file").exists()
    snapshot = guest.process.snapshot()
    guest.process.restore(snapshot)
    assert guest.call("renameat", AT_FDCWD, "../../yours", AT_FDCWD, "../../third") == 0
    assert guest.put("new", b"22") == 2
    assert (out / "third/deep/new").read_text() == "22"


def test_a_removed_directory_takes_nothing(out: Path) -> None:
    guest = Guest(out, rw=out)
    assert guest.call("unlinkat", AT_FDCWD, "mine/file", 0) == 0
    fd = guest.open("mine", 0o40000)
    assert guest.call("unlinkat", AT_FDCWD, "mine", REMOVEDIR) == 0
    assert guest.call("mkdirat", AT_FDCWD, "mine", 0o755) == 0
    assert guest.call("openat", fd, "new", CREAT | RDWR, 0o666) == -2
    assert guest.stat(f"/proc/self/fd/{fd}")[3] == 0  # type: ignore[index]
    assert os.listdir(out / "mine") == []
