"""Files that lanes read on the device, against the same lanes on the CPU (see `test_linux`)."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest

import kvrm
from cuda_tools import (
    HERE,
    KEEP,
    PAGE,
    PATH,
    Away,
    Op,
    alike,
    lanes,
    mapping,
    opening,
    path,
    result,
    same,
    scratch,
    script,
)
from device_files import (
    AFTER,
    BEFORE,
    CLOEXEC,
    CREATE,
    CURRENT,
    DATA,
    DIRECTORY,
    END,
    EXCLUSIVE,
    LARGE,
    NOCTTY,
    NOFOLLOW,
    NONBLOCK,
    SET,
    SHOW,
    TEXT,
    status,
)
from kvrm import Stop
from kvrm.linux.resident import known, layout

pytestmark = pytest.mark.usefixtures("place")


USE: list[Op | bytes] = [
    *opening("text"),
    *opening("sub/short", CLOEXEC | LARGE),
    *opening("empty", NOCTTY),
    *(op for fd in range(3, 7) for op in (("fcntl", fd, 1), ("fcntl", fd, 3), ("ioctl", fd, 0x5401))),
    *(op for fd in range(3, 7) for op in (("fstat", fd, scratch(DATA)), SHOW)),
    ("read", 3, scratch(DATA), 100),
    ("read", 4, scratch(DATA + 100), 100),
    ("read", 4, scratch(DATA + 200), 100),
    ("read", 5, scratch(DATA + 200), 100),
    ("read", 3, scratch(DATA + 200), 0),
    ("read", 3, scratch(DATA + 300), 1000),
    SHOW,
    ("pread64", 3, scratch(DATA), 500, 5000),
    ("pread64", 3, scratch(DATA + 600), 500, len(TEXT) - 7),
    ("pread64", 3, scratch(DATA), 500, len(TEXT)),
    ("pread64", 3, scratch(DATA), 500, 1 << 61),
    ("pread64", 3, scratch(DATA), 500, -1),
    SHOW,
    ("lseek", 3, 0, CURRENT),
    ("lseek", 3, 9, SET),
    ("lseek", 3, -3, CURRENT),
    ("read", 3, scratch(DATA), 20),
    ("lseek", 3, -7, CURRENT),
    ("lseek", 3, -7, SET),
    ("lseek", 3, -30, CURRENT),
    ("lseek", 3, -5, END),
    ("read", 3, scratch(DATA + 20), 20),
    ("lseek", 3, 100, END),
    ("read", 3, scratch(DATA + 40), 20),
    ("lseek", 3, (1 << 63) - 1, SET),
    ("lseek", 3, 1, CURRENT),
    ("lseek", 3, (1 << 63) - 1, END),
    ("lseek", 3, 1 << 61, SET),
    ("read", 3, scratch(DATA + 40), 20),
    SHOW,
    ("lseek", 3, 0, SET),
    ("read", 3, scratch(DATA), 12_000),
    ("write", 1, scratch(DATA), 12_000),
    ("lseek", 3, -300, END),
    ("sendfile", 1, 3, 0, 100),
    ("sendfile", 2, 3, 0, 1 << 40),
    ("sendfile", 2, 3, 0, 10),
    ("sendfile", 3, 3, 0, 10),
    ("sendfile", 3, 4, 0, 10),
    ("sendfile", 1, 9, 0, 10),
    ("write", 3, scratch(DATA), 5),
    ("writev", 4, scratch(DATA), 1),
    ("close", 4),
    ("close", 4),
    ("read", 4, scratch(DATA), 5),
    ("pread64", 4, scratch(DATA), 5, 0),
    ("lseek", 4, 0, SET),
    ("fstat", 4, scratch(DATA)),
    *opening("link"),
    ("read", 4, scratch(DATA), 100),
    *((name, fd, scratch(DATA), 1) for fd in (-1, 16, 100) for name in ("read", "close", "fstat")),
    ("close", 0),
    ("write", 1, scratch(DATA), 100),
]


def test_use(calls: Path, work: Path, away: Away) -> None:
    lanes(calls, USE, [], USE[:-40])
    lanes(calls, USE, USE[20:], budgets=(2000, 1, 3000, None))
    assert not away


def test_by_other_paths(calls: Path, work: Path, away: Away) -> None:
    """Absolute ones, whatever the directory; those that have dots, links and slashes in them."""
    whole = str(work)
    names = ["./text", "sub/../text", "up/work/text", "sub//short", f"{whole}/text", f"/..{whole}/sub/short"]
    ops = [op for name in names for op in (*opening(name), ("close", 3), *opening(name, at=7), ("close", 3))]
    relative = [op for op in ops if op[:2] != ("openat", 7)]
    lanes(calls, relative)
    lanes(calls, [*opening(f"{whole}/text", at=7), ("read", 3, scratch(DATA), 10)])
    assert not away


FAILS = ["none", "sub/none", "none/none", "text/more", "text/", "loop", "lost", ""]


def test_failures(calls: Path, work: Path, away: Away) -> None:
    ops: list[Op | bytes] = []
    for name in FAILS:
        ops += [*opening(name), *status(name), *status(name, 0x100), ("read", 3, scratch(), 1)]
    results = lanes(calls, ops, ops)
    assert not away and results.stdout[0].count(struct.pack("<q", -2)) >= len(FAILS)


def test_status(calls: Path, work: Path, away: Away) -> None:
    ops: list[Op | bytes] = []
    for name in "text empty link loop lost sub sub/ . up / /dev/null /proc".split():
        for flags in (0, 0x100, 0x800):
            ops += status(name, flags)
    lanes(calls, ops)
    assert not away


def test_flags(calls: Path, work: Path, away: Away) -> None:
    """What they keep from being opened, and what is left of them if they do not."""
    ops: list[Op | bytes] = []
    for name, flags in (
        ("text", EXCLUSIVE | NONBLOCK | NOFOLLOW | NOCTTY),
        ("text", LARGE | CLOEXEC | NOFOLLOW),
        ("text", DIRECTORY),
        ("link", NOFOLLOW),
        ("link", NONBLOCK),
        ("none", 1),
        ("none", 2 | CLOEXEC),
        ("sub", 2),
        ("/dev/tty", 2 | NONBLOCK),
    ):
        ops += [*opening(name, flags), *((call, 3, n) for call in ("fcntl", "close") for n in (1, 3))]
    lanes(calls, ops)
    lanes(calls, [*BEFORE, *opening("text", NONBLOCK | NOFOLLOW | CLOEXEC), ("umask", 0), *AFTER])
    assert away == [(0, "umask")]


ELSEWHERE: dict[str, list[Op | bytes]] = {
    "to write": opening("text", 1),
    "to read and write": opening("text", 2),
    "to create": opening("new", CREATE | 2),
    "to create what is there": opening("text", CREATE),
    "to cut": opening("text", 0o1000),
    "as a directory": opening("sub", DIRECTORY),
    "a directory": opening("sub"),
    "a device": opening("/dev/null"),
    "a file of the kernel's": opening("/proc/self/stat"),
    "a descriptor": opening("/proc/self/fd/3"),
    "a descriptor that there is not": opening("/proc/self/fd/9"),
    "standard input": opening("/dev/stdin"),
    "from a directory": opening("text", at=3),
    "from no directory": opening("text", at=9),
    "with both access modes": opening("text", 3),
    "a long path": opening("./" * 130 + "text"),
    "a path too long": opening("./" * 2100 + "text"),
    "a wild path": [("openat", HERE, 8, 0)],
    "a path without end": [mapping(PAGE), ("openat", HERE, result(0), 0)],
    "an iovec": [("readv", 3, 8, 1)],
    "a wild buffer": [("read", 3, 8, 8)],
    "a wild buffer for status": [*path("text"), ("newfstatat", HERE, scratch(PATH), 8, 0)],
    "status by a descriptor": status("text", at=3),
    "status of a descriptor": status("/proc/self/fd/3"),
    "status with unknown flags": status("text", 2),
    "data": [("lseek", 3, 5000, 3)],
    "a hole": [("lseek", 3, 5000, 4)],
    "far away": [("pread64", 3, scratch(DATA), 20, -1 & (1 << 63) - 1)],
    "from nowhere": [("lseek", 3, 0, 9)],
    "a copy beyond": [("dup3", 3, 16, 0)],
    "another copy beyond": [("fcntl", 5, 0, 16)],
    "a status flag": [("fcntl", 3, 4, NONBLOCK)],
    "a mapping at an address": [("mmap", 1 << 30, PAGE, 1, 2, 3, 0), ("load", 1 << 30)],
    "from an offset": [("store", scratch(DATA), 9), ("sendfile", 1, 3, scratch(DATA), 5)],
    "status of the directory": [*path(""), ("newfstatat", HERE, scratch(PATH), scratch(DATA), 0x1000)],
    "no offsets": [("pread64", 0, scratch(DATA), 1, 0)],
    "another directory": [*path("sub"), ("chdir", scratch(PATH)), *opening("short")],
    "a new file": [*path("text"), ("unlinkat", HERE, scratch(PATH), 0), *opening("text")],
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_on_the_cpu(calls: Path, work: Path, name: str, away: Away) -> None:
    """What is not done on the device, with files open; the CPU goes on with them."""
    lanes(calls, [*BEFORE, *ELSEWHERE[name], *AFTER], [*BEFORE, *AFTER])
    assert [lane for lane, _ in away] == [0]


def test_many_paths(calls: Path, work: Path, away: Away) -> None:
    """More than there can be answers, all asked at the same time."""
    count = layout.ANSWERS + 10
    for i in range(count):
        (work / f"file{i}").write_bytes(b"%d" % i * 10)
    ops = [[*opening(f"file{i}"), ("read", 3, scratch(DATA), 100), SHOW] for i in range(count)]
    lanes(calls, *ops, *ops)
    assert len(away) == 2 * (count - layout.ANSWERS + 1)


def test_large_files(calls: Path, work: Path, away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST", len(TEXT) + 50)
    ops = [[*opening(name), ("read", 3, scratch(DATA), 20), SHOW] for name in ("text", "other", "sub/short")]
    lanes(calls, *ops)
    assert away == [(1, "openat")]


def test_no_room_for_output(calls: Path, work: Path, away: Away) -> None:
    again: list[Op | bytes] = [("lseek", 3, 0, SET), ("sendfile", 2, 3, 0, 1 << 20)]
    lanes(calls, [*opening("text"), *again * 110], [*opening("text"), *again])
    assert away == [(0, "sendfile")]


def test_files_that_change_between_runs(calls: Path, work: Path, away: Away) -> None:
    """Contents, of the same size and time; what a path leads to; whether it does."""
    ops = [*opening("text"), *opening("link"), *opening("new"), *status("link")]
    text = script([*ops, ("read", 3, scratch(DATA), 100), ("read", 4, scratch(DATA + 200), 100), SHOW])
    machines = {target: kvrm.Machine(calls, target=target).fork(2) for target in ("cpu", "cuda")}
    found = []
    for change in range(4):
        if change == 1:
            before = (work / "text").stat()
            (work / "text").write_bytes(TEXT[::-1])
            os.utime(work / "text", ns=(before.st_atime_ns, before.st_mtime_ns))
        elif change == 2:
            (work / "link").unlink()
            (work / "link").symlink_to("other")
            (work / "new").write_bytes(b"new")
        results = {}
        for target, machine in machines.items():
            machine.reset()
            machine.stdin, machine.keep = [text, text], KEEP
            results[target] = machine.run()
        found.append(alike(results["cpu"], results["cuda"]).stdout[1])
    assert len(set(found)) == 3 and found[2] == found[3] and not away


def random_ops(rng: random.Random) -> list[Op | bytes]:
    """Calls on files, and sometimes one that the device does not do."""
    names = ["text", "sub/short", "empty", "other", "link", "none", "text/", "./other"]
    ops: list[Op | bytes] = [*opening(rng.choice(names))]
    for _ in range(rng.randrange(60)):
        fd, at, size = rng.randrange(2, 8), scratch(DATA + rng.randrange(3 * PAGE)), rng.randrange(3000)
        choices: list[list[Op | bytes]] = [
            opening(rng.choice(names), rng.choice([0, CLOEXEC])),
            opening(rng.choice(names)),
            [("close", fd)],
            [("read", fd, at, size)],
            [("read", fd, at, size)],
            [("pread64", fd, at, size, rng.randrange(12_000))],
            [("lseek", fd, rng.randrange(-200, 12_000), rng.randrange(3))],
            [("fstat", fd, at)],
            [("fcntl", fd, rng.choice([1, 3]))],
            [("fcntl", fd, rng.choice([0, 2, 1030]), rng.randrange(4))],
            [("dup3", fd, rng.randrange(2, 8), rng.choice([0, CLOEXEC]))],
            [("sendfile", 1, fd, 0, size)],
            status(rng.choice(names), rng.choice([0, 0x100])),
            [("write", 2, at, size)],
        ]
        ops += rng.choice(choices)
    return [*ops, *(rng.choice(list(ELSEWHERE.values())) if rng.random() < 0.2 else []), *AFTER]


@pytest.mark.parametrize("seed", range(2))
def test_random_calls(calls: Path, work: Path, seed: int, away: Away) -> None:
    rng = random.Random(seed)
    lanes(calls, *(random_ops(rng) for _ in range(100)), budgets=(3000, None))
    assert 5 < len({lane for lane, _ in away}) < 60


BUSYBOX = "cat text sub/short,wc text other,sha256sum text,tail -c 3 text,cat none link,xxd text".split(",")


@pytest.mark.parametrize("command", BUSYBOX)
def test_busybox(guest_root: Path, work: Path, command: str, away: Away) -> None:
    from guests.fetch import program

    options: dict[str, Any] = {"args": command.split(), "lanes": 3, "engine": "interpreter"}
    results = same(program(guest_root, "busybox"), **options)
    assert results.stops == {Stop.EXIT: 3} and not away
    assert results.stdout[0]
