"""Guest memory, one promise of its interface at a time."""

from __future__ import annotations

import ctypes
import gc
import time

import pytest

from kvrm.memory import (
    PAGE,
    R_BIT,
    VA_BITS,
    W_BIT,
    X_BIT,
    AccessKind,
    GuestFault,
    Image,
    Memory,
    OutOfMemory,
    Prot,
)
from kvrm.memory.pages import ZERO_PAGE
from memory_tools import BASE, FETCH, READ, RW, RWX, RX, TEXT, VA_END, WRITE, R, entry, fault_of, host


@pytest.fixture
def memory() -> Memory:
    return Memory()


# Reading, writing, faults


def test_fresh_memory_reads_as_zero_and_keeps_what_is_written(memory: Memory) -> None:
    memory.map(BASE, 4 * PAGE, RW)
    assert memory.read(BASE, 4 * PAGE) == bytes(4 * PAGE)
    assert memory.private_pages == 0
    memory.write(BASE + PAGE - 3, b"straddle")
    assert memory.read(BASE + PAGE - 4, 10) == b"\0straddle\0"
    assert memory.private_pages == 2
    assert memory.private_bytes == 2 * PAGE


@pytest.mark.parametrize("kind", AccessKind)
def test_every_kind_needs_its_own_permission(memory: Memory, kind: AccessKind) -> None:
    for bits in range(8):
        memory.map(BASE, PAGE, bits)
        if bits & kind:
            assert memory.resolve(BASE, kind) & kind
        else:
            assert fault_of(memory.resolve, BASE + 5, kind) == (BASE + 5, kind, True)
    memory.unmap(BASE, PAGE)
    assert fault_of(memory.resolve, BASE + 5, kind) == (BASE + 5, kind, False)


@pytest.mark.parametrize("length", [2, 8, PAGE, PAGE + 1, 3 * PAGE])
@pytest.mark.parametrize(("prot", "mapped"), [(None, False), (Prot.NONE, True)])
def test_straddling_access_faults_at_the_first_bad_byte(
    memory: Memory, length: int, prot: Prot | None, mapped: bool
) -> None:
    memory.map(BASE, 8 * PAGE, RW)
    bad = BASE + 4 * PAGE
    if prot is None:
        memory.unmap(bad, PAGE)
    else:
        memory.protect(bad, PAGE, prot)
    for before in {1, length - 1, length // 2}:
        start = bad - before
        assert fault_of(memory.read, start, length) == (bad, READ, mapped)
        assert fault_of(memory.write, start, b"x" * length) == (bad, WRITE, mapped)
        assert memory.peek(start, before) == bytes(before), "the write must not have begun"
    inside = bad + PAGE - 1
    assert fault_of(memory.read, inside, length) == (inside, READ, mapped)
    assert fault_of(memory.write, inside, b"x" * length) == (inside, WRITE, mapped)
    assert memory.private_pages == 0


def test_fault_beats_the_memory_limit(memory: Memory) -> None:
    memory = Memory(limit=0)
    memory.map(BASE, PAGE, RW)
    assert fault_of(memory.write, BASE + PAGE - 1, b"ab") == (BASE + PAGE, WRITE, False)


def test_the_message_says_what_happened() -> None:
    assert str(GuestFault(0x1234, READ, False)) == "read at 0x1234: not mapped"
    assert str(GuestFault(0x1234, FETCH, True)) == "fetch at 0x1234: permission denied"


def test_length_zero_touches_nothing_and_negative_is_refused(memory: Memory) -> None:
    assert memory.read(BASE, 0) == b"" == memory.peek(BASE, 0)
    memory.write(BASE, b"")
    memory.poke(BASE, b"")
    for read in (memory.read, memory.peek):
        with pytest.raises(ValueError, match="negative"):
            read(BASE, -1)


@pytest.mark.parametrize("convert", [bytes, bytearray, memoryview])
def test_data_may_be_any_buffer(memory: Memory, convert: type) -> None:
    memory.map(BASE, 2 * PAGE, RW)
    memory.write(BASE + PAGE - 2, convert(b"wxyz"))
    memory.poke(BASE + 8, convert(b"1234"))
    assert memory.read(BASE + PAGE - 2, 4) + memory.read(BASE + 8, 4) == b"wxyz1234"


def test_host_accesses_ignore_permissions_but_not_holes(memory: Memory) -> None:
    memory.map(BASE, 2 * PAGE, Prot.NONE)
    memory.poke(BASE + PAGE - 2, b"1234")
    assert memory.peek(BASE + PAGE - 2, 4) == b"1234"
    assert fault_of(memory.read, BASE, 1) == (BASE, READ, True)
    end = BASE + 2 * PAGE
    assert fault_of(memory.peek, end - 1, 2) == (end, READ, False)
    assert fault_of(memory.poke, end - 1, b"ab") == (end, WRITE, False)
    assert memory.peek(end - 1, 1) == b"\0"


def test_cstrings(memory: Memory) -> None:
    memory.map(BASE, 2 * PAGE, RW)
    long = b"a" * (PAGE + 10)
    memory.write(BASE + 20, long)
    assert memory.read_cstring(BASE + 20) == long
    assert memory.read_cstring(BASE + 20, 7) == b"a" * 7
    assert memory.read_cstring(BASE) == b""
    memory.write(BASE + 2 * PAGE - 3, b"end")
    assert fault_of(memory.read_cstring, BASE + 2 * PAGE - 3) == (BASE + 2 * PAGE, READ, False)
    memory.write(BASE + 2 * PAGE - 1, b"\0")
    assert memory.read_cstring(BASE + 2 * PAGE - 3) == b"en"


# Addresses


def test_the_top_byte_is_ignored(memory: Memory) -> None:
    memory.map(BASE, 2 * PAGE, RW)
    tagged = 0xAB << 56 | BASE
    memory.write(tagged + PAGE - 2, b"tags")
    memory.poke((1 << 56) + BASE, b"host")
    assert memory.read(BASE + PAGE - 2, 4) == b"tags" == memory.peek(tagged + PAGE - 2, 4)
    assert memory.read_cstring(0xFF << 56 | BASE) == b"host"
    assert memory.resolve(tagged, READ) == entry(memory, tagged) == entry(memory, BASE)
    assert fault_of(memory.read, tagged + 2 * PAGE - 1, 2) == (BASE + 2 * PAGE, READ, False)
    assert fault_of(memory.resolve, tagged + 2 * PAGE, WRITE) == (BASE + 2 * PAGE, WRITE, False)


@pytest.mark.parametrize("bit", range(VA_BITS, 56))
def test_bits_beyond_the_address_space_fault(memory: Memory, bit: int) -> None:
    memory.map(0, 2 * PAGE, RW)
    bad = 1 << bit | 8
    assert fault_of(memory.read, bad, 8) == (bad, READ, False)
    assert fault_of(memory.write, bad, b"x") == (bad, WRITE, False)
    assert fault_of(memory.peek, bad, 8) == (bad, READ, False)
    assert fault_of(memory.resolve, bad, FETCH) == (bad, FETCH, False)


def test_the_ends_of_the_address_space(memory: Memory) -> None:
    memory.map(0, PAGE, RW)
    memory.map(VA_END - PAGE, PAGE, RW)
    memory.write(VA_END - 1, b"z")
    assert memory.read(VA_END - 1, 1) == b"z"
    assert fault_of(memory.read, VA_END - 1, 2) == (VA_END, READ, False)
    for last in (-1, (1 << 64) - 1):
        assert fault_of(memory.read, last, 2) == ((1 << 64) - 1, READ, False)
        assert fault_of(memory.write, last, b"ab") == ((1 << 64) - 1, WRITE, False)


@pytest.mark.parametrize(
    ("start", "length"),
    [(1, PAGE), (0, 1), (0, 0), (0, -PAGE), (-PAGE, PAGE), (VA_END, PAGE), (VA_END - PAGE, 2 * PAGE)],
)
def test_ranges_must_be_whole_pages_of_the_address_space(memory: Memory, start: int, length: int) -> None:
    for action in (memory.unmap, lambda s, n: memory.protect(s, n, R), lambda s, n: memory.map(s, n, R)):
        with pytest.raises(ValueError, match="cannot map"):
            action(start, length)


def test_bad_permissions_and_offsets_are_refused(memory: Memory) -> None:
    with pytest.raises(ValueError, match="permission"):
        memory.map(0, PAGE, 8)
    for offset in (1, -PAGE):
        with pytest.raises(ValueError, match="offset"):
            memory.map(0, PAGE, R, Image(TEXT), offset)


# Images and copy-on-write


def test_image_is_padded_and_read_zero_past_the_end(memory: Memory) -> None:
    image = Image(TEXT, "text")
    assert (image.size, image.address % PAGE) == (len(TEXT), 0)
    memory.map(BASE, 6 * PAGE, RX, image)
    assert memory.read(BASE, 6 * PAGE) == TEXT.ljust(6 * PAGE, b"\0")
    assert memory.read(BASE, 8, FETCH) == TEXT[:8]
    memory.map(BASE, PAGE, R, image, 2 * PAGE)
    assert memory.read(BASE, 10) == TEXT[2 * PAGE :][:10]
    assert memory.private_pages == 0


def test_an_empty_image_is_zeros(memory: Memory) -> None:
    memory.map(BASE, PAGE, R, Image(b""))
    assert memory.read(BASE, PAGE) == bytes(PAGE)


def test_machines_share_an_image_and_do_not_see_each_others_writes() -> None:
    image = Image(TEXT)
    one, two = Memory(), Memory()
    for memory in (one, two):
        memory.map(BASE, 3 * PAGE, RW, image)
        memory.read(BASE, 1)
    assert host(one, BASE) == host(two, BASE) == image.address
    one.write(BASE, b"mine")
    one.poke(BASE + PAGE, b"mine")
    assert host(one, BASE) != image.address
    assert two.read(BASE, 3 * PAGE) == TEXT.ljust(3 * PAGE, b"\0")
    assert one.read(BASE, 8) == b"mine" + TEXT[4:8]


def test_shared_pages_never_get_the_write_bit(memory: Memory) -> None:
    memory.map(BASE, PAGE, RWX, Image(TEXT))
    memory.map(BASE + PAGE, PAGE, RWX)
    for address in (BASE, BASE + PAGE):
        for kind in (READ, FETCH):
            assert memory.resolve(address, kind) & 7 == R_BIT | X_BIT
        shared = host(memory, address)
        assert memory.resolve(address, WRITE) & 7 == R_BIT | W_BIT | X_BIT
        assert host(memory, address) != shared
    assert ctypes.string_at(ZERO_PAGE, PAGE) == bytes(PAGE)


def test_the_memory_limit_counts_private_pages_only() -> None:
    memory = Memory(limit=2 * PAGE)
    memory.map(BASE, 1 << 30, RW)
    memory.read(BASE, 16 * PAGE)
    memory.write(BASE, bytes(2 * PAGE))
    for write in (memory.write, memory.poke):
        with pytest.raises(OutOfMemory):
            write(BASE + PAGE, b"x" * 2 * PAGE)
    assert memory.read(BASE, 3 * PAGE) == bytes(3 * PAGE), "all or nothing"
    snapshot = memory.snapshot()
    memory.write(BASE, b"x" * 2 * PAGE)  # copies of frozen pages need no more of the limit
    memory.unmap(BASE, PAGE)
    memory.write(BASE + 2 * PAGE, b"y")
    assert memory.private_pages == 2
    memory.restore(snapshot)
    assert memory.private_pages == 2


# What derived caches are told


def test_on_remap_hears_of_every_change_but_guest_writes(memory: Memory) -> None:
    heard: list[tuple[int, int]] = []

    def since() -> list[tuple[int, int]]:
        result = [((start - BASE) // PAGE, (end - BASE) // PAGE) for start, end in heard]
        heard.clear()
        return result

    memory.on_remap = lambda start, end: heard.append((start, end))
    memory.map(BASE, 8 * PAGE, RWX)
    assert since() == [(0, 8)]
    memory.write(BASE, b"x")
    memory.read(BASE, 1, FETCH)
    snapshot = memory.snapshot()
    assert since() == []
    memory.protect(BASE + PAGE, PAGE, R)
    assert since() == [(1, 2)]
    memory.unmap(BASE + 6 * PAGE, PAGE)
    assert since() == [(6, 7)]
    memory.poke(BASE + 3 * PAGE - 1, b"ab")
    assert since() == [(2, 4)]
    memory.write(BASE, b"y")
    memory.restore(snapshot)
    assert sorted(since()) == [(0, 1), (1, 2), (2, 3), (3, 4), (6, 7)]
    memory.restore(snapshot)
    assert since() == []


def test_on_remap_finds_the_change_done(memory: Memory) -> None:
    seen: list[bytes] = []
    memory.map(BASE, PAGE, RW)
    snapshot = memory.snapshot()
    memory.on_remap = lambda start, end: seen.append(memory.peek(start, 3))
    memory.poke(BASE, b"new")
    memory.restore(snapshot)
    assert seen == [b"new", bytes(3)]


# What it costs the host


def usage() -> tuple[int, int]:
    """Bytes of address space and of resident memory of this process."""
    with open("/proc/self/statm") as statm:
        total, resident = statm.read().split()[:2]
    return int(total) * PAGE, int(resident) * PAGE


@pytest.mark.parametrize("close", [False, True])
def test_a_memory_is_cheap_and_gives_everything_back(close: bool) -> None:
    gc.collect()
    total, resident = usage()
    started = time.perf_counter()
    memories = [Memory() for _ in range(32)]
    seconds = (time.perf_counter() - started) / 32
    assert seconds < 1e-3
    grown_total, grown_resident = usage()
    assert grown_total - total >= 32 << 30
    assert grown_resident - resident < 2 << 20
    for memory in memories:
        memory.map(BASE, 1 << 30, RW)
        for address in range(BASE, BASE + (1 << 20), PAGE):
            memory.write(address, b"x")
        if close:
            memory.close()
    assert close or usage()[1] - resident > 32 << 20
    if close:
        assert usage()[0] - total < 1 << 30
        with pytest.raises(ValueError, match="released"):
            memories[0].read(BASE, 1)
    del memories, memory
    gc.collect()
    assert usage()[0] - total < 1 << 30
    assert usage()[1] - resident < 8 << 20
