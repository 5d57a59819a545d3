"""Changes since a snapshot: undone by copying, or taken away and given back."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from queue import Queue
from random import Random
from threading import Thread

import pytest

from kvrm.memory import PAGE, W_BIT, Changes, GuestFault, Image, Memory, OutOfMemory
from memory_tools import BASE, RW, RWX, TEXT, R, entry


def contents(memory: Memory) -> list[object]:
    """All that a guest could see."""
    regions = memory.regions()
    return [*regions, *(memory.peek(r.start, r.end - r.start) for r in regions)]


def test_own_ignores_permissions_and_gives_none() -> None:
    memory = Memory()
    memory.map(BASE, PAGE, R, Image(TEXT))
    memory.snapshot()
    host = memory.own(BASE + 5) // PAGE * PAGE + 5
    ctypes.memmove(host, b"mine", 4)
    assert memory.read(BASE, 10) == TEXT[:5] + b"mine" + TEXT[9:10]
    assert not entry(memory, BASE) & W_BIT
    with pytest.raises(GuestFault):
        memory.own(BASE + PAGE)


def test_own_counts_against_the_limit() -> None:
    memory = Memory(PAGE)
    memory.map(BASE, 2 * PAGE, RW)
    memory.snapshot()
    memory.own(BASE)
    with pytest.raises(OutOfMemory):
        memory.own(BASE + PAGE)


def test_changed_pages_are_undone_by_copying() -> None:
    memory = Memory()
    memory.map(BASE, 3 * PAGE, RW, Image(TEXT))
    memory.map(BASE + 8 * PAGE, PAGE, RW)
    memory.write(BASE, b"before the snapshot")
    snapshot = memory.snapshot()
    before = contents(memory)
    for _ in range(3):
        memory.write(BASE + PAGE - 2, b"over a page's end")
        memory.write(BASE + 8 * PAGE, b"zeros")
        changed = memory.changed_pages()
        assert {index for index, _, _ in changed} == {(BASE >> 12) + i for i in (0, 1, 8)}
        for index, private, pristine in changed:
            assert entry(memory, index << 12) == private | RW
            ctypes.memmove(private, pristine, PAGE)
        assert contents(memory) == before
    memory.restore(snapshot)
    assert memory.changed_pages() == []


def test_remapped_tells_of_every_kind_of_change() -> None:
    memory = Memory()
    memory.map(BASE, 2 * PAGE, RW)
    snapshot = memory.snapshot()
    for change in (
        lambda: memory.map(BASE, PAGE, R),
        lambda: memory.unmap(BASE, PAGE),
        lambda: memory.protect(BASE, PAGE, RWX),
    ):
        assert not memory.remapped
        change()
        assert memory.remapped
        memory.restore(snapshot)


def test_changes_are_taken_away_and_given_back_to_any_memory() -> None:
    rng = Random(4)
    memories = [Memory(), Memory()]
    memories[0].map(BASE, 8 * PAGE, RW, Image(TEXT * 3))
    memories[0].write(BASE + 5 * PAGE, b"frozen")
    snapshot = memories[0].snapshot()
    memories[1].restore(snapshot)
    pristine = contents(memories[0])
    kept = []
    for iteration in range(20):
        memory = memories[iteration % 2]
        for _ in range(rng.randrange(4)):
            memory.write(BASE + rng.randrange(7 * PAGE), rng.randbytes(40))
        if rng.random() < 0.5:
            memory.unmap(BASE + rng.randrange(8) * PAGE, PAGE)
            memory.map(BASE + 16 * PAGE, PAGE, R, Image(TEXT))
        expected = contents(memory)
        kept.append((memory.take_changes(), expected))
        assert contents(memory) == pristine
    rng.shuffle(kept)
    for iteration, (changes, expected) in enumerate(kept):
        memory = memories[iteration % 2]
        memory.put_changes(changes)
        assert contents(memory) == expected
        written = next(r.start for r in memory.regions() if r.prot == RW)
        memory.write(written, b"later")
        memory.restore(snapshot)
        assert contents(memory) == pristine


def test_code_derived_from_changed_pages_is_dropped() -> None:
    memory = Memory()
    memory.map(BASE, 4 * PAGE, RWX)
    snapshot = memory.snapshot()
    memory.write(BASE + PAGE, b"code")
    told: list[int] = []
    memory.on_remap = lambda start, end: told.extend(range(start, end, PAGE))
    changes = memory.take_changes()
    assert told == [BASE + PAGE]
    told.clear()
    memory.put_changes(changes)
    assert told == [BASE + PAGE]
    memory.restore(snapshot)


@pytest.fixture
def restless() -> Iterator[None]:
    """The threads alternate all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_pages_that_other_threads_release(restless: None) -> None:
    memory, other = Memory(), Memory()
    memory.map(BASE, 64 * PAGE, RW)
    snapshot = memory.snapshot()
    other.restore(snapshot)
    waiting: Queue[Changes | None] = Queue(4)

    def release() -> None:
        while (changes := waiting.get()) is not None:
            other.put_changes(changes)
            other.restore(snapshot)

    thread = Thread(target=release)
    thread.start()
    rng = Random(5)
    for iteration in range(300):
        mark = iteration.to_bytes(4, "little") * (PAGE // 4)
        indices = rng.sample(range(64), 40)
        for index in indices:
            memory.write(BASE + index * PAGE, mark)
        assert all(memory.read(BASE + index * PAGE, PAGE) == mark for index in indices)
        waiting.put(memory.take_changes())
    waiting.put(None)
    thread.join()
    memory.write(BASE, b"last")
    assert memory.private_pages == 1
