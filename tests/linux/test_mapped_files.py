"""Files that are mapped: their ends, files that shrink and grow, permissions, snapshots."""

from __future__ import annotations

import errno as E
from pathlib import Path

import pytest

import kvrm
from cuda_tools import PAGE, Op, opening, result, scratch, script
from kvrm.machine.stops import SIGBUS, SIGSEGV
from kvrm.memory import BeyondFile, GuestFault
from linux_tools import BUFFER, CREAT, RDWR, TRUNC, Guest

R, RW = 1, 3
SHARED, PRIVATE, FIXED, ANONYMOUS = 1, 2, 0x10, 0x20
MAYMOVE, MOVE_FIXED, DONTUNMAP = 1, 2, 4
DONTNEED = 4
TEXT = b"one".ljust(PAGE, b".") + b"two".ljust(PAGE, b".") + b"three"
KINDS = pytest.mark.parametrize("kind", [SHARED, PRIVATE])


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    (tmp_path / "file").write_bytes(TEXT)
    return Guest(tmp_path)


def show(guest: Guest, fd: int, pages: int, kind: int = PRIVATE, offset: int = 0) -> int:
    address = guest.call("mmap", 0, pages * PAGE, RW, kind, fd, offset)
    assert address > 0
    return address


def readable(guest: Guest, address: int, pages: int) -> str:
    """For each page a letter: r if it can be read, b if that is SIGBUS, s if it is SIGSEGV."""
    letters = ""
    for page in range(pages):
        try:
            guest.bytes(1, address + page * PAGE)
            letters += "r"
        except GuestFault as fault:
            letters += "b" if isinstance(fault, BeyondFile) else "s"
    return letters


@KINDS
def test_the_last_page_is_filled_and_what_follows_it_is_not_there(guest: Guest, kind: int) -> None:
    start = show(guest, guest.open("file", RDWR), 5, kind)
    assert guest.bytes(PAGE, start + 2 * PAGE) == b"three".ljust(PAGE, b"\0")
    assert readable(guest, start, 5) == "rrrbb"
    for address in (start + 3 * PAGE, start + 5 * PAGE - 1):
        with pytest.raises(BeyondFile) as caught:
            guest.memory.write(address, b"x")
        assert caught.value.address == address and caught.value.mapped
    with pytest.raises(BeyondFile) as caught:
        guest.memory.read(start + 3 * PAGE - 4, 8)
    assert caught.value.address == start + 3 * PAGE
    assert guest.call("mprotect", start + 4 * PAGE, PAGE, 0) == 0
    assert readable(guest, start, 5) == "rrrbs", "permissions are looked at first"


def test_system_calls_fail_there(guest: Guest) -> None:
    fd = guest.open("file")
    start = show(guest, fd, 5)
    assert guest.call("read", fd, start + 3 * PAGE, 1) == -E.EFAULT
    assert guest.call("write", 1, start + 3 * PAGE, 1) == -E.EFAULT
    assert guest.call("clock_gettime", 1, start + 4 * PAGE) == -E.EFAULT
    assert guest.call("openat", -100, start + 4 * PAGE, 0, 0) == -E.EFAULT


@pytest.mark.parametrize(
    "offset, pages", [(0, "rrrb"), (PAGE, "rrbb"), (2 * PAGE, "rbbb"), (3 * PAGE, "bbbb")]
)
def test_a_part_of_a_file(guest: Guest, offset: int, pages: str) -> None:
    assert readable(guest, show(guest, guest.open("file"), 4, offset=offset), 4) == pages


def test_an_empty_file(guest: Guest) -> None:
    assert readable(guest, show(guest, guest.open("new", RDWR | CREAT), 2), 2) == "bb"


SHRINK = {
    "ftruncate": lambda guest, fd: guest.call("ftruncate", fd, PAGE + 1),
    "truncate": lambda guest, fd: guest.call("truncate", "file", PAGE + 1),
    "open": lambda guest, fd: guest.call("close", guest.open("file", RDWR | TRUNC)),
}


@KINDS
@pytest.mark.parametrize("how", SHRINK)
def test_a_file_that_shrinks(guest: Guest, kind: int, how: str) -> None:
    """Pages past the new end go, also those that the guest has changed; what is before it stays."""
    fd = guest.open("file", RDWR)
    start = show(guest, fd, 4, kind)
    again = show(guest, fd, 2, kind, PAGE)
    guest.memory.write(start + 2 * PAGE, b"own")
    assert SHRINK[how](guest, fd) == 0
    left = 0 if how == "open" else 2
    assert readable(guest, start, 4) == "r" * left + "b" * (4 - left)
    assert readable(guest, again, 2) == ("bb" if how == "open" else "rb")
    if left:
        assert guest.bytes(3, start + PAGE) == b"t\0\0"
    assert guest.call("ftruncate", fd, 3 * PAGE) == 0
    assert readable(guest, start, 4) == "rrrb"
    assert guest.bytes(3, start + 2 * PAGE) == bytes(3), "what was past the end is lost"


def test_a_file_that_grows(guest: Guest) -> None:
    fd = guest.open("new", RDWR | CREAT)
    start = show(guest, fd, 3)
    guest.memory.write(BUFFER, b"contents")
    assert guest.call("write", fd, BUFFER, 8) == 8
    assert guest.bytes(9, start) == b"contents\0" and readable(guest, start, 3) == "rbb"
    guest.memory.write(start, b"own")
    assert guest.call("pwrite64", fd, BUFFER, 8, 2 * PAGE) == 8
    assert guest.bytes(8, start) == b"owntents" and guest.bytes(8, start + 2 * PAGE) == b"contents"


def test_a_file_that_has_no_descriptor_or_name_any_more(guest: Guest) -> None:
    fd = guest.open("file", RDWR)
    start = show(guest, fd, 4)
    assert guest.call("truncate", "file", PAGE) == 0 == guest.call("close", fd)
    assert readable(guest, start, 4) == "rbbb"
    assert guest.call("truncate", "file", 2 * PAGE) == 0 == guest.call("unlinkat", -100, "file", 0)
    assert readable(guest, start, 4) == "rrbb"


def test_a_file_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(TEXT)
    guest = Guest(tmp_path, rw=tmp_path)
    fd = guest.open("file", RDWR)
    start = show(guest, fd, 4, SHARED)
    assert readable(guest, start, 4) == "rrrb"
    assert guest.call("ftruncate", fd, 1) == 0
    assert readable(guest, start, 4) == "rbbb" and (tmp_path / "file").read_bytes() == b"o"


def test_a_mapping_that_grows_shows_more_of_the_file(guest: Guest) -> None:
    start = show(guest, guest.open("file"), 1)
    guest.memory.write(start, b"O")
    moved = guest.call("mremap", start, PAGE, 4 * PAGE, MAYMOVE, 0)
    assert guest.bytes(3, moved) == b"One" and guest.bytes(3, moved + PAGE) == b"two"
    assert readable(guest, moved, 4) == "rrrb"
    assert guest.call("mremap", moved + PAGE, 3 * PAGE, PAGE, 0, 0) == moved + PAGE
    assert readable(guest, moved, 4) == "rrss"


def test_a_mapping_that_is_moved_and_kept(guest: Guest) -> None:
    start = show(guest, guest.open("file"), 4)
    guest.memory.write(start, b"O")
    moved = guest.call("mremap", start, 4 * PAGE, 4 * PAGE, MAYMOVE | DONTUNMAP, 0)
    assert guest.bytes(3, moved) == b"One" and guest.bytes(3, start) == b"one"
    assert readable(guest, moved, 4) == readable(guest, start, 4) == "rrrb"


def test_shared_memory_is_not_dropped(guest: Guest) -> None:
    kinds = (PRIVATE, SHARED)
    memory = [guest.call("mmap", 0, PAGE, RW, kind | ANONYMOUS, -1, 0) for kind in kinds]
    files = [show(guest, guest.open("file", RDWR), 1, kind) for kind in kinds]
    for address in (*memory, *files):
        guest.memory.write(address, b"x")
        assert guest.call("madvise", address, PAGE, DONTNEED) == 0
    assert [guest.bytes(1, a) for a in (*memory, *files)] == [b"\0", b"x", b"o", b"x"]


def test_a_shared_file_that_is_only_read_stays_so(guest: Guest) -> None:
    fd = guest.open("file")
    start = guest.call("mmap", 0, PAGE, R, SHARED, fd, 0)
    assert guest.call("mprotect", start, PAGE, RW) == -E.EACCES
    assert guest.call("mmap", start, PAGE, R, PRIVATE | FIXED, fd, 0) == start
    assert guest.call("mprotect", start, PAGE, RW) == 0


def test_snapshots_have_their_own_ends(guest: Guest) -> None:
    fd = guest.open("file", RDWR)
    start = show(guest, fd, 4)
    assert guest.call("mlockall", 2) == 0
    before = guest.process.snapshot(), guest.memory.snapshot()
    assert guest.call("ftruncate", fd, 1) == 0 == guest.call("munlockall")
    after = guest.process.snapshot(), guest.memory.snapshot()
    for (process, memory), pages in ((before, "rrrb"), (after, "rbbb"), (before, "rrrb")):
        guest.process.restore(process)
        guest.memory.restore(memory)
        assert readable(guest, start, 4) == pages
        locked = guest.call("mmap", 0, 16 << 20, RW, PRIVATE | ANONYMOUS, -1, 0) == -E.EAGAIN
        assert locked == (pages == "rrrb")
        assert guest.call("ftruncate", fd, 4 * PAGE) == 0
        assert readable(guest, start, 4) == "rrrr"


ENGINES = ("reference", "interpreter", "translator", "tiered")
FILE, MAPPED = result(1), result(2)


def _script(*ops: Op | bytes) -> bytes:
    return script([*opening("file", RDWR), ("mmap", 0, 4 * PAGE, RW, SHARED, FILE, 0), *ops])


BUS = {
    "a read": (_script(("load", result(2, 3 * PAGE))), 3 * PAGE),
    "a write": (_script(("store", result(2, 3 * PAGE + 5), 1)), 3 * PAGE + 5),
    "after it shrank": (_script(("store", MAPPED, 1), ("ftruncate", FILE, 0), ("load", MAPPED)), 0),
}
FINE = _script(("load", result(2, 2 * PAGE)), ("ftruncate", FILE, 4 * PAGE), ("load", result(2, 3 * PAGE)))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(TEXT)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", BUS)
def test_a_program_gets_sigbus(calls: Path, here: None, name: str, engine: str) -> None:
    text, offset = BUS[name]
    done = kvrm.Machine(calls, stdin=text, engine=engine).run()
    assert (done.stop, done.signal) == (kvrm.Stop.FAULT, SIGBUS) != (kvrm.Stop.FAULT, SIGSEGV)
    start = int.from_bytes(done.stdout[16:24], "little")
    assert done.fault is not None and (done.fault.address, done.fault.mapped) == (start + offset, True)
    assert "past the end of the mapped file" in done.message


def test_lanes_get_sigbus(calls: Path, here: None) -> None:
    inputs = [text for text, _ in BUS.values()]
    results = kvrm.Machine(calls, stdin=[*inputs, FINE, *inputs], lanes=7).run()
    assert [results.lane(n).signal for n in range(7)] == [SIGBUS] * 3 + [None] + [SIGBUS] * 3
    assert results.lane(3).stop is kvrm.Stop.EXIT


def test_forks_have_their_own_ends(calls: Path, here: None) -> None:
    machine = kvrm.Machine(calls, stdin=_script() + bytes(56))
    while len(machine.run(max_instructions=50).stdout) < 24:
        pass
    forks = machine.fork(3)
    load = ("load", result(2, PAGE))
    forks.stdin = [
        script(ops) for ops in ([("ftruncate", FILE, 1), load], [load], [("write", 1, scratch(), 0)])
    ]
    results = forks.run()
    assert [results.lane(n).signal for n in range(3)] == [SIGBUS, None, None]
