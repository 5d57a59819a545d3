"""Snapshots of guest memory, and what they cost."""

from __future__ import annotations

import ctypes
import gc
import time

import pytest

from kvrm.memory import PAGE, R_BIT, Image, Memory
from memory_tools import BASE, RW, TEXT, WRITE, R, entry, fault_of, host


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_restore_again_and_again_and_to_older_snapshots(memory: Memory) -> None:
    memory.map(BASE, 4 * PAGE, RW, Image(TEXT))
    start = memory.snapshot()
    memory.write(BASE, b"first")
    memory.map(BASE + 8 * PAGE, PAGE, RW)
    first = memory.snapshot()
    memory.write(BASE, b"second")
    memory.unmap(BASE + 2 * PAGE, PAGE)
    second = memory.snapshot()
    for snapshot, text, regions in 3 * [(start, TEXT[:6], 1), (second, b"second", 3), (first, b"first", 2)]:
        memory.restore(snapshot)
        for _ in range(2):
            assert memory.read(BASE, len(text)) == text
            assert len(memory.regions()) == regions
            memory.write(BASE, b"scribble")
            memory.map(BASE, 16 * PAGE, R)
            memory.restore(snapshot)


def test_restore_brings_back_permissions_and_backing_of_unwritten_pages(memory: Memory) -> None:
    image, other = Image(TEXT), Image(TEXT[::-1])
    memory.map(BASE, 3 * PAGE, R, image)
    snapshot = memory.snapshot()
    for again in ((R, image, PAGE), (R, other, 0), (R, None, 0), (RW, image, 0)):
        memory.map(BASE, PAGE, *again)
        memory.read(BASE, 1)
        memory.restore(snapshot)
        assert memory.read(BASE, PAGE) == TEXT[:PAGE]
        assert fault_of(memory.write, BASE, b"x") == (BASE, WRITE, True)
        assert len(memory.regions()) == 1


def test_frozen_pages_are_copied_before_a_write(memory: Memory) -> None:
    memory.map(BASE, PAGE, RW)
    memory.write(BASE, b"old")
    before = host(memory, BASE)
    snapshot = memory.snapshot()
    assert entry(memory, BASE) == before | R_BIT, "still readable, no longer writable"
    memory.write(BASE, b"new")
    assert host(memory, BASE) != before
    assert ctypes.string_at(before, 3) == b"old"
    memory.restore(snapshot)
    assert memory.read(BASE, 3) == b"old"
    assert host(memory, BASE) == before


def test_unmapped_pages_live_on_in_a_snapshot(memory: Memory) -> None:
    memory.map(BASE, PAGE, RW)
    memory.write(BASE, b"kept")
    snapshot = memory.snapshot()
    memory.unmap(BASE, PAGE)
    memory.map(BASE + 2 * PAGE, 8 * PAGE, RW)
    memory.write(BASE + 2 * PAGE, b"x" * 8 * PAGE)
    memory.restore(snapshot)
    assert memory.read(BASE, 4) == b"kept"


def test_a_dropped_snapshot_gives_its_pages_back(memory: Memory) -> None:
    memory.map(BASE, PAGE, RW)
    seen = set()
    for n in range(100):
        memory.write(BASE, bytes([n]))
        seen.add(host(memory, BASE))
        snapshot = memory.snapshot()  # the one before is dropped here
        assert memory.read(BASE, 1) == bytes([n])
    assert len(seen) <= 3
    memory.restore(snapshot)


def test_another_memory_can_start_from_a_snapshot(memory: Memory) -> None:
    memory.map(BASE, 2 * PAGE, RW)
    memory.write(BASE, b"common")
    snapshot = memory.snapshot()
    lanes = [Memory() for _ in range(3)]
    for n, lane in enumerate(lanes):
        lane.restore(snapshot)
        assert host(lane, BASE) == 0
        lane.write(BASE + 6, bytes([n]))
    del memory
    gc.collect()
    for n, lane in enumerate(lanes):
        assert lane.read(BASE, 7) == b"common" + bytes([n])


def test_restore_costs_what_was_written(memory: Memory) -> None:
    memory.map(BASE, 20000 * PAGE, RW)
    for n in range(20000):
        memory.resolve(BASE + n * PAGE, WRITE)
    snapshot = memory.snapshot()
    started = time.perf_counter()
    for _ in range(200):
        memory.write(BASE + PAGE, b"dirty")
        memory.restore(snapshot)
    assert time.perf_counter() - started < 0.2
