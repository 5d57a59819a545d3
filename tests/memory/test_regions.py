"""Regions of guest memory: splitting, joining, protecting, clearing, finding room."""

from __future__ import annotations

import time

import pytest

from kvrm.memory import PAGE, Image, Memory, Prot, Region
from memory_tools import BASE, READ, RW, TEXT, VA_END, WRITE, R, entry, fault_of, host


@pytest.fixture
def memory() -> Memory:
    return Memory()


def spans(memory: Memory) -> list[tuple[int, int, int]]:
    return [((r.start - BASE) // PAGE, (r.end - BASE) // PAGE, int(r.prot)) for r in memory.regions()]


def test_part_of_a_region_splits_it_and_equal_neighbours_join(memory: Memory) -> None:
    memory.map(BASE, 8 * PAGE, RW)
    assert memory.protect(BASE + 2 * PAGE, 2 * PAGE, R)
    assert spans(memory) == [(0, 2, RW), (2, 4, R), (4, 8, RW)]
    memory.unmap(BASE + PAGE, 2 * PAGE)
    assert spans(memory) == [(0, 1, RW), (3, 4, R), (4, 8, RW)]
    memory.map(BASE + PAGE, 2 * PAGE, R)
    assert spans(memory) == [(0, 1, RW), (1, 4, R), (4, 8, RW)]
    assert memory.protect(BASE, 8 * PAGE, RW)
    assert spans(memory) == [(0, 8, RW)]


def test_pieces_of_a_backed_region_keep_their_offsets(memory: Memory) -> None:
    image = Image(TEXT, "text")
    memory.map(BASE, 3 * PAGE, R, image, name="program")
    memory.unmap(BASE + PAGE, PAGE)
    assert memory.regions() == [
        Region(BASE, BASE + PAGE, R, image, 0, "program"),
        Region(BASE + 2 * PAGE, BASE + 3 * PAGE, R, image, 2 * PAGE, "program"),
    ]
    assert memory.read(BASE + 2 * PAGE, 100) == TEXT[2 * PAGE :][:100]
    memory.map(BASE + PAGE, PAGE, R, image, PAGE, "program")
    assert memory.regions() == [Region(BASE, BASE + 3 * PAGE, R, image, 0, "program")]
    memory.map(BASE + PAGE, PAGE, R, image, 0, "program")
    assert len(memory.regions()) == 3, "the same image at another offset is another region"


def test_protect_keeps_contents_even_through_no_permissions(memory: Memory) -> None:
    memory.map(BASE, 2 * PAGE, RW)
    memory.write(BASE, b"kept")
    memory.protect(BASE, PAGE, Prot.NONE)
    assert fault_of(memory.read, BASE, 4) == (BASE, READ, True)
    memory.protect(BASE, PAGE, R)
    assert memory.read(BASE, 4) == b"kept"
    assert fault_of(memory.write, BASE, b"x") == (BASE, WRITE, True)
    memory.protect(BASE, PAGE, RW)
    memory.write(BASE + 4, b"!")
    assert memory.read(BASE, 5) == b"kept!"


def test_protect_stops_at_a_hole(memory: Memory) -> None:
    memory.map(BASE, 2 * PAGE, RW)
    memory.map(BASE + 3 * PAGE, PAGE, RW)
    assert not memory.protect(BASE + PAGE, 3 * PAGE, R)
    assert spans(memory) == [(0, 1, RW), (1, 2, R), (3, 4, RW)]
    assert not memory.protect(BASE + 2 * PAGE, 2 * PAGE, R)
    assert not memory.protect(BASE + 8 * PAGE, PAGE, R)
    assert spans(memory) == [(0, 1, RW), (1, 2, R), (3, 4, RW)]


def test_mapping_again_discards_contents_and_reuses_pages_zeroed(memory: Memory) -> None:
    memory.map(BASE, 4 * PAGE, RW)
    memory.write(BASE, b"x" * 4 * PAGE)
    pages = {host(memory, BASE + n * PAGE) for n in range(4)}
    memory.map(BASE + PAGE, 2 * PAGE, RW)
    assert memory.private_pages == 2
    assert memory.read(BASE, 4 * PAGE) == b"x" * PAGE + bytes(2 * PAGE) + b"x" * PAGE
    memory.write(BASE + PAGE, b"y")
    memory.write(BASE + 2 * PAGE, b"y")
    assert memory.read(BASE + PAGE, PAGE) == b"y".ljust(PAGE, b"\0")
    assert {host(memory, BASE + n * PAGE) for n in range(4)} == pages


def test_find_free(memory: Memory) -> None:
    low, high = 0x10000, 0x20000
    find = memory.find_free
    assert find(PAGE) == VA_END - PAGE
    assert find(PAGE, low=low, high=high) == high - PAGE
    assert find(1, low=low, high=high) == high - PAGE, "lengths are rounded up"
    assert find(high - low, low=low, high=high) == low
    assert find(high - low + PAGE, low=low, high=high) is None
    memory.map(0x1E000, 4 * PAGE, R)  # across `high`
    memory.map(0x1A000, 2 * PAGE, R)
    assert find(2 * PAGE, low=low, high=high) == 0x1C000
    assert find(3 * PAGE, low=low, high=high) == 0x17000
    assert find(10 * PAGE, low=low, high=high) == low
    assert find(11 * PAGE, low=low, high=high) is None
    assert find(PAGE, 0x12000, low, high) == 0x12000
    assert find(2 * PAGE, 0x19000, low, high) == 0x1C000, "an occupied hint is no use"
    assert find(4 * PAGE, 0x16000, low, high) == 0x16000, "right before a region"
    assert find(2 * PAGE, 0x1C000, low, high) == 0x1C000
    assert find(PAGE, 0x1C000, low, high) == 0x1C000, "right after a region"
    assert find(PAGE, 0x12001, low, high) == 0x1D000
    assert find(PAGE, high, low, high) == 0x1D000


def test_giant_regions_cost_nothing(memory: Memory) -> None:
    started = time.perf_counter()
    for _ in range(100):
        memory.map(PAGE, VA_END - PAGE, RW)
        memory.write(VA_END // 2 - 2, b"data")
        memory.protect(PAGE, VA_END - PAGE, R)
        assert memory.read(VA_END // 2 - 2, 4) == b"data"
        memory.unmap(PAGE, VA_END - PAGE)
        assert entry(memory, VA_END // 2) == 0
        assert memory.private_pages == 0
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize("pages", [1, 511, 512, 8192, 8193, 8200, 20000])
@pytest.mark.parametrize("first", [0, 1, 511, 700])
def test_clearing_a_range_clears_it_exactly(memory: Memory, first: int, pages: int) -> None:
    start = BASE + first * PAGE
    end = start + pages * PAGE
    memory.map(BASE, 30000 * PAGE, R)
    inside = [start, (start + end) // 2 & -PAGE, end - PAGE]
    outside = [start - PAGE, end] if first else [end]
    for address in inside + outside:
        memory.resolve(address, READ)
    memory.unmap(start, pages * PAGE)
    assert [entry(memory, address) for address in inside] == [0] * 3
    assert all(entry(memory, address) for address in outside)
