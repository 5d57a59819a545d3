"""Marks of regions, pages that are dropped, images that end or are replaced."""

from __future__ import annotations

import pytest

from kvrm.memory import PAGE, BeyondFile, Image, Mark, Memory
from memory_tools import BASE, READ, RW, TEXT, WRITE, R, entry, fault_of


@pytest.fixture
def memory() -> Memory:
    return Memory()


def marks(memory: Memory) -> list[tuple[int, int, Mark]]:
    return [((r.start - BASE) // PAGE, (r.end - BASE) // PAGE, r.marks) for r in memory.regions()]


def test_marks_split_regions_and_change_nothing_else(memory: Memory) -> None:
    memory.map(BASE, 4 * PAGE, RW, marks=Mark.SHARED)
    memory.write(BASE + PAGE, b"kept")
    before = entry(memory, BASE + PAGE)
    assert memory.mark(BASE + PAGE, PAGE, Mark.LOCKED, Mark.SHARED)
    assert marks(memory) == [(0, 1, Mark.SHARED), (1, 2, Mark.LOCKED), (2, 4, Mark.SHARED)]
    assert entry(memory, BASE + PAGE) == before and memory.read(BASE + PAGE, 4) == b"kept"
    assert memory.mark(BASE + PAGE, PAGE, Mark.SHARED, Mark.LOCKED)
    assert marks(memory) == [(0, 4, Mark.SHARED)]
    assert not memory.mark(BASE + 3 * PAGE, 2 * PAGE, Mark.LOCKED), "there is a hole"
    assert marks(memory)[1] == (3, 4, Mark.SHARED | Mark.LOCKED)


def test_marks_are_kept_and_go_back_with_a_snapshot(memory: Memory) -> None:
    memory.map(BASE, 2 * PAGE, RW, marks=Mark.SHARED)
    snapshot = memory.snapshot()
    memory.protect(BASE, PAGE, R)
    memory.mark(BASE, 2 * PAGE, Mark.LOCKED)
    assert marks(memory) == [(0, 1, Mark.SHARED | Mark.LOCKED), (1, 2, Mark.SHARED | Mark.LOCKED)]
    assert memory.remapped
    memory.restore(snapshot)
    assert marks(memory) == [(0, 2, Mark.SHARED)]


def test_dropped_pages_show_what_was_there_first(memory: Memory) -> None:
    memory.map(BASE, 3 * PAGE, RW, Image(TEXT))
    snapshot = memory.snapshot()
    for page in range(3):
        memory.write(BASE + page * PAGE, b"x")
    assert memory.private(BASE, BASE + 3 * PAGE) == [BASE, BASE + PAGE, BASE + 2 * PAGE]
    memory.drop(BASE + PAGE, PAGE)
    assert memory.private(BASE, BASE + (1 << 30)) == [BASE, BASE + 2 * PAGE]
    assert memory.read(BASE + PAGE, PAGE) == TEXT[PAGE : 2 * PAGE]
    changes = memory.take_changes()
    assert memory.private_pages == 0
    memory.put_changes(changes)
    assert memory.private(BASE, BASE + 3 * PAGE) == [BASE, BASE + 2 * PAGE]
    memory.restore(snapshot)
    assert memory.read(BASE, len(TEXT)) == TEXT


def test_pages_past_an_image_that_ends(memory: Memory) -> None:
    image = Image(TEXT[: PAGE + 1], ends=True)
    memory.map(BASE, 4 * PAGE, RW, image)
    assert memory.regions()[0].limit == BASE + 2 * PAGE
    memory.write(BASE + 2 * PAGE - 1, b"x")
    for access, kind in ((memory.read, READ), (memory.peek, READ)):
        assert fault_of(access, BASE, 3 * PAGE) == (BASE + 2 * PAGE, kind, True)
    for change in (memory.write, memory.poke):
        assert fault_of(change, BASE + 2 * PAGE - 1, b"xy") == (BASE + 2 * PAGE, WRITE, True)
    with pytest.raises(BeyondFile):
        memory.resolve(BASE + 3 * PAGE, READ)
    with pytest.raises(BeyondFile):
        memory.own(BASE + 3 * PAGE)
    assert memory.filled(memory.regions()[0]) == 2 * PAGE
    memory.unmap(BASE, 2 * PAGE)
    assert memory.regions()[0].limit == BASE + 2 * PAGE, "nothing is behind all of it"


def test_an_image_is_replaced_wherever_it_is_shown(memory: Memory) -> None:
    old, new = Image(TEXT, ends=True), Image(TEXT[:PAGE].upper(), ends=True)
    memory.map(BASE, 4 * PAGE, RW, old)
    memory.map(BASE + 8 * PAGE, PAGE, R, old, PAGE)
    memory.write(BASE, b"x")
    memory.write(BASE + PAGE, b"y")
    snapshot = memory.snapshot()
    told: list[tuple[int, int]] = []
    memory.on_remap = lambda start, end: told.append((start, end))
    memory.reback(old, new)
    assert [region.backing for region in memory.regions()] == [new, new]
    assert memory.read(BASE, PAGE) == b"x" + TEXT[1:PAGE], "a private page stays"
    assert fault_of(memory.read, BASE + PAGE, 1) == (BASE + PAGE, READ, True)
    assert fault_of(memory.read, BASE + 8 * PAGE, 1) == (BASE + 8 * PAGE, READ, True)
    assert told == [(BASE, BASE + 4 * PAGE), (BASE + 8 * PAGE, BASE + 9 * PAGE)]
    memory.restore(snapshot)
    assert memory.read(BASE + PAGE, 1) == b"y" and memory.read(BASE + 8 * PAGE, 4) == TEXT[PAGE:][:4]
