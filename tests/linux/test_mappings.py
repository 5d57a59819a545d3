"""brk, mmap and their neighbours."""

from __future__ import annotations

import errno as E
from pathlib import Path

import pytest

from kvrm.linux.loader import MMAP_TOP, STACK_BASE
from kvrm.memory import PAGE, GuestFault, OutOfMemory
from linux_tools import BUFFER, NOWHERE, SCRATCH, SCRATCH_SIZE, U64, Guest

R, W, RW, RX, NONE = 1, 2, 3, 5, 0
SHARED, PRIVATE, FIXED, ANONYMOUS, NOREPLACE = 1, 2, 0x10, 0x20, 0x100000
ANON = PRIVATE | ANONYMOUS
MAYMOVE, MOVE_FIXED = 1, 2
DONTNEED, FREE = 4, 8


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    (tmp_path / "file").write_bytes(b"first page".ljust(PAGE, b".") + b"second")
    return Guest(tmp_path)


def _map(guest: Guest, length: int, prot: int = RW, address: int = 0, flags: int = ANON) -> int:
    return guest.call("mmap", address, length, prot, flags, -1, 0)


class TestHeap:
    def test_grows_and_shrinks(self, guest: Guest) -> None:
        start = guest.call("brk", 0)
        assert start % PAGE == 0
        assert guest.call("brk", start + 10) == start + 10
        guest.memory.write(start, b"0123456789")
        assert guest.call("brk", start + 5 * PAGE) == start + 5 * PAGE
        guest.memory.write(start + 5 * PAGE - 1, b"x")
        assert guest.call("brk", start) == start
        with pytest.raises(GuestFault):
            guest.memory.read(start, 1)
        assert guest.call("brk", start + 1) == start + 1
        assert guest.bytes(10, start) == bytes(10)

    def test_impossible_ends_change_nothing(self, guest: Guest) -> None:
        start = guest.call("brk", 0)
        for address in (1, start - 1, STACK_BASE + 1, 1 << 39, 1 << 62, U64):
            assert guest.call("brk", address) == start
        assert guest.call("brk", SCRATCH + 1) == start  # something is mapped in between
        assert guest.call("brk", SCRATCH) == start  # a page stays free before it
        assert guest.call("brk", SCRATCH - PAGE) == SCRATCH - PAGE

    def test_costs_what_is_touched(self, tmp_path: Path) -> None:
        guest = Guest(tmp_path)
        guest.memory.unmap(SCRATCH, SCRATCH_SIZE)
        before = guest.memory.private_pages
        end = guest.call("brk", 0) + (300 << 30)
        assert guest.call("brk", end) == end
        assert guest.memory.private_pages == before


class TestMap:
    def test_anonymous_memory(self, guest: Guest) -> None:
        first = _map(guest, 10 * PAGE)
        second = _map(guest, 1)
        assert first + 10 * PAGE == MMAP_TOP
        assert second == first - PAGE
        guest.memory.write(first, b"x")
        assert guest.bytes(PAGE, second) == bytes(PAGE)
        assert guest.call("munmap", first, PAGE) == 0
        assert _map(guest, PAGE) == first

    def test_hints_and_fixed_places(self, guest: Guest) -> None:
        assert _map(guest, PAGE, address=0x1234_5678) == 0x1234_5000
        assert _map(guest, PAGE, address=0x1234_5678) != 0x1234_5000
        assert _map(guest, PAGE, R, 0x1234_5000, ANON | FIXED) == 0x1234_5000
        assert _map(guest, PAGE, R, 0x1234_5000, ANON | NOREPLACE) == -E.EEXIST
        assert _map(guest, PAGE, R, 0x1234_5001, ANON | FIXED) == -E.EINVAL
        assert _map(guest, PAGE, R, 0, ANON | FIXED) == -E.EPERM
        assert _map(guest, PAGE, R, (1 << 39) - PAGE, ANON | FIXED) == (1 << 39) - PAGE
        assert _map(guest, 2 * PAGE, R, (1 << 39) - PAGE, ANON | FIXED) == -E.ENOMEM
        assert _map(guest, PAGE, R, 1 << 50, ANON) > 0

    def test_bad_arguments(self, guest: Guest) -> None:
        assert _map(guest, 0) == -E.EINVAL
        assert _map(guest, PAGE, flags=ANONYMOUS) == -E.EINVAL
        assert _map(guest, U64) == -E.ENOMEM
        assert _map(guest, 1 << 39) == -E.ENOMEM
        assert guest.call("mmap", 0, PAGE, R, PRIVATE, -1, 0) == -E.EBADF
        fd = guest.open("file")
        assert guest.call("mmap", 0, PAGE, R, PRIVATE, fd, 1) == -E.EINVAL
        assert guest.call("mmap", 0, PAGE, RW, SHARED, fd, 0) == -E.EACCES
        assert guest.call("mmap", 0, PAGE, R, PRIVATE, guest.open(".", 0o40000), 0) == -E.ENODEV
        assert guest.call("mmap", 0, PAGE, R, PRIVATE, guest.open("file", 1), 0) == -E.EACCES
        assert guest.call("mmap", 0, PAGE, R, PRIVATE, 0, 0) == -E.ENODEV

    def test_files(self, guest: Guest, tmp_path: Path) -> None:
        fd = guest.open("file")
        start = guest.call("mmap", 0, 3 * PAGE, RW, PRIVATE, fd, 0)
        assert guest.call("close", fd) == 0
        assert guest.bytes(10, start) == b"first page"
        assert guest.bytes(PAGE, start + PAGE) == b"second".ljust(PAGE, b"\0")
        guest.memory.write(start, b"F")
        assert guest.contents("file")[:5] == b"first"  # type: ignore[index]
        tail = guest.call("mmap", 0, PAGE, R, PRIVATE, guest.open("file"), PAGE)
        assert guest.bytes(6, tail) == b"second"
        guest.put("new", b"overlay")
        assert guest.bytes(7, guest.call("mmap", 0, PAGE, R, SHARED, guest.open("new"), 0)) == b"overlay"
        assert guest.bytes(
            9, guest.call("mmap", 0, PAGE, RW, PRIVATE, guest.open("/dev/zero", 2), 0)
        ) == bytes(9)

    def test_giant_files_are_refused(self, guest: Guest) -> None:
        fd = guest.open("sparse", 0o102)
        assert guest.call("ftruncate", fd, 1 << 40) == 0
        assert guest.call("mmap", 0, 1 << 36, R, PRIVATE, fd, 0) == -E.ENOMEM
        assert guest.call("mmap", 0, 1 << 36, R, PRIVATE, fd, (1 << 40) - PAGE) > 0

    def test_unmapping(self, guest: Guest) -> None:
        start = _map(guest, 3 * PAGE)
        assert guest.call("munmap", start + 1, PAGE) == -E.EINVAL
        assert guest.call("munmap", start, 0) == -E.EINVAL
        assert guest.call("munmap", start, U64) == -E.EINVAL
        assert guest.call("munmap", start + PAGE, 1) == 0
        assert guest.call("munmap", NOWHERE, PAGE) == 0
        assert guest.bytes(PAGE, start) == bytes(PAGE)
        with pytest.raises(GuestFault):
            guest.memory.read(start + PAGE, 1)

    def test_protection(self, guest: Guest) -> None:
        start = _map(guest, 3 * PAGE)
        guest.memory.write(start, b"kept")
        assert guest.call("mprotect", start, PAGE, R) == 0
        with pytest.raises(GuestFault):
            guest.memory.write(start, b"x")
        assert guest.bytes(4, start) == b"kept"
        assert guest.call("mprotect", start, PAGE, NONE) == 0
        with pytest.raises(GuestFault):
            guest.memory.read(start, 1)
        assert guest.call("mprotect", start, 3 * PAGE, RW) == 0
        assert guest.bytes(4, start) == b"kept"
        assert guest.call("mprotect", start, 0, R) == 0
        assert guest.call("mprotect", start + 1, PAGE, R) == -E.EINVAL
        assert guest.call("mprotect", NOWHERE, PAGE, R) == -E.ENOMEM
        assert guest.call("mprotect", start, U64, R) == -E.ENOMEM


class TestRemap:
    def test_in_place(self, guest: Guest) -> None:
        start = _map(guest, 4 * PAGE, address=0x3000_0000)
        guest.memory.write(start, b"data")
        assert guest.call("mremap", start, 4 * PAGE, 2 * PAGE, 0, 0) == start
        assert guest.call("mremap", start, 2 * PAGE, 6 * PAGE, 0, 0) == start
        assert guest.bytes(4, start) == b"data"
        guest.memory.write(start + 6 * PAGE - 1, b"x")

    def test_moving(self, guest: Guest) -> None:
        start = _map(guest, 2 * PAGE, address=0x3000_0000)
        _map(guest, PAGE, address=start + 2 * PAGE, prot=R)
        guest.memory.write(start + PAGE - 1, b"AB")
        assert guest.call("mremap", start, 2 * PAGE, 4 * PAGE, 0, 0) == -E.ENOMEM
        moved = guest.call("mremap", start, 2 * PAGE, 4 * PAGE, MAYMOVE, 0)
        assert moved > start
        assert guest.bytes(2, moved + PAGE - 1) == b"AB"
        assert guest.bytes(PAGE, moved + 3 * PAGE) == bytes(PAGE)
        with pytest.raises(GuestFault):
            guest.memory.read(start, 1)

    def test_moving_a_file_mapping(self, guest: Guest) -> None:
        start = guest.call("mmap", 0, 2 * PAGE, RW, PRIVATE, guest.open("file"), 0)
        guest.memory.write(start, b"F")
        place = 0x3000_0000
        assert guest.call("mremap", start, 2 * PAGE, PAGE, MAYMOVE | MOVE_FIXED, place) == place
        assert guest.bytes(10, place) == b"First page"
        for address in (start, start + PAGE, place + PAGE):
            with pytest.raises(GuestFault):
                guest.memory.read(address, 1)

    def test_untouched_memory_stays_untouched(self, guest: Guest) -> None:
        start = _map(guest, 64 << 20)
        guest.memory.write(start + (32 << 20), b"x")
        before = guest.memory.private_pages
        moved = guest.call("mremap", start, 64 << 20, 128 << 20, MAYMOVE, 0)
        assert guest.bytes(1, moved + (32 << 20)) == b"x"
        assert guest.memory.private_pages == before

    def test_bad_arguments(self, guest: Guest) -> None:
        start = _map(guest, 2 * PAGE)
        assert guest.call("mremap", start + 1, PAGE, PAGE, 0, 0) == -E.EINVAL
        assert guest.call("mremap", start, PAGE, 0, 0, 0) == -E.EINVAL
        assert guest.call("mremap", start, PAGE, PAGE, 8, 0) == -E.EINVAL
        assert guest.call("mremap", start, PAGE, U64, MAYMOVE, 0) == -E.EINVAL
        assert guest.call("mremap", NOWHERE, PAGE, 2 * PAGE, MAYMOVE, 0) == -E.EFAULT
        assert guest.call("mremap", start, 2 * PAGE, PAGE, MAYMOVE | MOVE_FIXED, start) == -E.EINVAL


def test_dontneed_gives_the_first_contents_back(guest: Guest) -> None:
    anonymous = _map(guest, 2 * PAGE)
    mapped = guest.call("mmap", 0, PAGE, RW, PRIVATE, guest.open("file"), 0)
    guest.memory.write(anonymous, b"x")
    guest.memory.write(mapped, b"F")
    assert guest.call("madvise", anonymous, 2 * PAGE, DONTNEED) == 0
    assert guest.call("madvise", mapped, PAGE, DONTNEED) == 0
    assert guest.bytes(1, anonymous) == b"\0"
    assert guest.bytes(5, mapped) == b"first"
    assert guest.call("madvise", anonymous, PAGE, FREE) == 0
    assert guest.call("madvise", mapped, PAGE, FREE) == -E.EINVAL
    assert guest.call("madvise", mapped, PAGE, 99) == -E.EINVAL
    assert guest.call("madvise", NOWHERE, PAGE, DONTNEED) == -E.ENOMEM


def test_what_is_in_memory(guest: Guest) -> None:
    start = _map(guest, 3 * PAGE)
    guest.memory.write(start + PAGE, b"x")
    assert guest.call("mincore", start, 3 * PAGE, BUFFER) == 0
    assert guest.bytes(3) == b"\0\1\0"
    assert guest.call("mincore", start - PAGE, 3 * PAGE, BUFFER) == -E.ENOMEM
    assert guest.call("mincore", start, 3 * PAGE, NOWHERE) == -E.EFAULT
    assert guest.call("msync", start, 3 * PAGE, 4) == 0
    assert guest.call("msync", NOWHERE, PAGE, 4) == -E.ENOMEM


def test_counts_that_no_host_could_hold(guest: Guest) -> None:
    guest.memory.map(NOWHERE, 1 << 30, 3)
    fd = guest.open("/dev/zero")
    assert guest.call("read", fd, BUFFER, 1 << 38) <= SCRATCH_SIZE
    assert guest.call("read", fd, BUFFER, 1 << 60) == -E.EFAULT
    assert guest.call("read", guest.open("file"), BUFFER, 1 << 38) == PAGE + 6
    assert guest.call("write", 1, BUFFER, 1 << 38) <= SCRATCH_SIZE
    assert guest.call("getrandom", NOWHERE, 0, 0) == 0
    assert guest.call("readv", fd, BUFFER, 1 << 40) == -E.EINVAL
    assert guest.call("ppoll", BUFFER, 1 << 31, 0, 0, 8) == -E.EINVAL
    guest.memory.write(BUFFER, b"\xff" * 8)  # select looks no further than the table of descriptors goes
    assert guest.call("pselect6", 1 << 30, BUFFER, 0, 0, 0, 0) == -E.EBADF
    assert guest.call("pselect6", -1, BUFFER, 0, 0, 0, 0) == -E.EINVAL
    assert guest.call("getdents64", guest.open(".", 0o40000), BUFFER, (1 << 32) - 1) > 0


def test_running_out_of_memory_ends_the_call_by_an_exception(tmp_path: Path) -> None:
    """The machine turns it into a stop reason."""
    guest = Guest(tmp_path)
    start = _map(guest, 1 << 30)
    guest.memory._physical.limit = guest.memory.private_pages + 4  # as a smaller machine
    with pytest.raises(OutOfMemory):
        guest.attempt("read", guest.open("/dev/zero"), start, 1 << 20)
