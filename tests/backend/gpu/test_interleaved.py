"""What lanes of a group agree on while all of them change it: pages taken, copies, and what pages show."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from group_world import PAGES, SIZES, World, address
from interleaving import interleaved
from kvrm.backend.gpu import group_memory, ranges
from kvrm.backend.gpu.device_abi import PAGES_LEFT, Param
from kvrm.backend.gpu.group_memory import BUSY, MAPPED, SHOWN, SLAB_BYTES, UNSURE
from kvrm.linux.resident.layout import FILE, MAP, Fixed
from kvrm.memory import PAGE
from kvrm.staging import device, host

LANES = 5
Access = tuple[bool, int, int, bytes]
"""Whether it writes, address, bytes, and what it writes."""


# -- pages that lanes write to -------------------------------------------------------------------------------
def access(world: World, lane: int, one: Access) -> bytes | None:
    """What was read or written; None if it was refused."""
    writes, at, size, text = one
    data = np.frombuffer(text if writes else bytes(64), np.uint64).copy()
    run = group_memory.write_slow if writes else group_memory.read_slow
    return None if run(*world.arguments(lane, at, size, data)) else data.tobytes()[:size]


def accesses(rng: random.Random) -> list[Access]:
    """All lanes write to the same pages first, and so at about the same moment."""
    first = [(True, page * PAGE + 8, 8, rng.randbytes(64)) for page in PAGES]
    return first + [
        (rng.random() < 0.6, address(rng, size), size, rng.randbytes(64)) for size in rng.choices(SIZES, k=8)
    ]


def entries(world: World) -> list[int]:
    """Addresses of the entries of all pages."""
    where = world.root.ctypes.data, world.table.ctypes.data
    return [group_memory.entry_of(*where, page * PAGE) for page in PAGES]


def seen(world: World, lane: int) -> list[bytes]:
    """What each page has for a lane, whether or not it may look."""
    found, data = [], np.zeros(PAGE // 8, np.uint64)
    for entry in entries(world):
        group_memory.take(group_memory.page_of(entry, lane), 0, data.ctypes.data, PAGE)
        found.append(data.tobytes())
    return found


def taken(world: World) -> list[int]:
    """Numbers of the pool's slabs that entries have."""
    slabs = [device.load(entry + group_memory.SLAB) for entry in entries(world)]
    assert BUSY not in slabs
    numbers = [(slab - world.slabs.ctypes.data) // SLAB_BYTES for slab in slabs if slab]
    return sorted(n for n in numbers if n < int(world.params[Param.SLAB_LIMIT]))


def together(seed: int, slabs: int) -> None:
    """Lanes at the same time have what each has alone, as far as the pool goes."""
    rng = random.Random(seed)
    world = World(rng, slabs)
    work = [accesses(rng) for _ in range(LANES)]
    before = [array.copy() for array in world.changing()]
    alone = [[access(world, lane, one) for one in work[lane]] for lane in range(LANES)]
    wanted, slabs_then = [seen(world, lane) for lane in range(LANES)], len(taken(world))
    for array, was in zip(world.changing(), before, strict=True):
        array[...] = was

    def of(lane: int) -> list[bytes | None]:
        return [access(world, lane, one) for one in work[lane]]

    found = interleaved(rng, [partial(of, lane) for lane in range(LANES)])
    assert taken(world) == list(range(int(world.next[0])))
    if slabs >= len(PAGES):
        assert found == alone and len(taken(world)) == slabs_then
        assert [seen(world, lane) for lane in range(LANES)] == wanted
    assert (world.pages == before[-1]).all()
    left = world.states[:LANES, PAGES_LEFT // 8].astype(np.int64)
    assert (left >= 0).all()


@pytest.mark.parametrize("slabs", [2, len(PAGES)])
def test_first_writes(slabs: int) -> None:
    for seed in range(12):
        together(seed, slabs)


# -- what pages show -----------------------------------------------------------------------------------------
class Mapped:
    """Lanes that map pages and unmap them, all of them mapping or all of them unmapping at a time."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self.world = rng, World(rng, len(PAGES))
        self._process = np.zeros(max(Fixed) + 1, np.uint64)
        contents = np.zeros(16 * PAGE + 32, np.uint8)
        self._contents, first = contents, contents.ctypes.data + 31 & -32
        self._process[Fixed.ZEROS] = first
        self._files = [first + PAGE * n for n in (1, 8)]
        self.world.params[Param.PROCESS] = self._process.ctypes.data
        for entry in entries(self.world):
            for word in range(4):
                host.store(entry + 8 * word, 0)
            host.store(entry, first)
        self.shows: list[dict[int, int]] = [{} for _ in range(LANES)]
        """For each lane its mapped pages, and what they show."""

    def _range(self) -> tuple[int, int]:
        first = self._rng.randrange(4)
        return first, self._rng.randrange(first + 1, 6)

    def map(self) -> None:
        """Most lanes map a range, of which they have nothing mapped."""
        zeros = self._process[Fixed.ZEROS]
        works: list[Callable[[], int]] = []
        wanted: list[tuple[int, dict[int, int]]] = []
        common = self._range()
        for lane in range(LANES):
            first, end = common if self._rng.random() < 0.7 else self._range()
            if self._rng.random() < 0.2 or any(n in self.shows[lane] for n in range(first, end)):
                continue
            content, size = self._rng.choice([0, 0, *self._files]), self._rng.randrange(2, 6) * PAGE
            rest = FILE if content else 0
            size = min(size, (end - first) * PAGE) if content else 0
            show = {n: content + (n - first) * PAGE | FILE for n in range(first, first + size // PAGE)}
            show |= {n: int(zeros) | rest for n in range(first + size // PAGE, end)}
            works.append(partial(self._show, lane, first, end, content, size, rest))
            wanted.append((lane, show))
        for (lane, show), done in zip(wanted, interleaved(self._rng, works), strict=True):
            if done:
                self.shows[lane] |= show
        self._check()

    def _show(self, lane: int, first: int, end: int, content: int, size: int, rest: int) -> int:
        world = self.world
        left = world.states[lane].ctypes.data + PAGES_LEFT
        where = world.params.ctypes.data, world.table.ctypes.data, lane
        start, stop = PAGES[first] * PAGE, PAGES[0] * PAGE + end * PAGE
        return ranges.show(*where, start, stop, 3 | MAP, left, content, size, rest)

    def unmap(self) -> None:
        """Some lanes give up a range."""
        works: list[Callable[[], int]] = []
        for lane in range(LANES):
            if self._rng.random() < 0.6:
                first, end = self._range()
                left = self.world.states[lane].ctypes.data + PAGES_LEFT
                where = self.world.params.ctypes.data, self.world.table.ctypes.data, lane
                span = PAGES[first] * PAGE, PAGES[0] * PAGE + end * PAGE
                works.append(partial(ranges.change, *where, *span, 0, left))
                for n in range(first, end):
                    self.shows[lane].pop(n, None)
        interleaved(self._rng, works)
        self._check()

    def _check(self) -> None:
        for number, entry in enumerate(entries(self.world)[:-1]):
            first = host.load(entry)
            assert not first & UNSURE
            for lane, shows in enumerate(self.shows):
                assert bool(group_memory.has(entry + MAPPED, lane)) == (number in shows)
                assert number not in shows or first & SHOWN == shows[number]


def mapping_and_unmapping(seed: int) -> int:
    """How many pages lanes had mapped in all."""
    mapped, count = Mapped(random.Random(seed)), 0
    for _ in range(12):
        mapped.map()
        count += sum(map(len, mapped.shows))
        mapped.unmap()
    return count


def test_what_pages_show() -> None:
    assert min(mapping_and_unmapping(seed) for seed in range(12)) > 20


# -- the tests can fail --------------------------------------------------------------------------------------
def two_steps(address: int, expected: int, value: int) -> int:
    """`replace`, but others can come between."""
    before = device.look(address)
    if before == expected:
        device.exchange(address, value)
    return before


def set_in_two_steps(address: int, bits: int) -> int:
    before = device.look_four(address)
    device.clear_four(address, 0xFFFFFFFF)
    device.set_four(address, before | bits)
    return before


def not_looking(address: int) -> int:
    return 0


PLANTED: dict[str, tuple[Any, str, Any, Callable[[int], object]]] = {
    "slabs taken twice": (group_memory, "replace", two_steps, lambda seed: together(seed, len(PAGES))),
    "numbers given twice": (
        group_memory,
        "add",
        lambda a, v: device.exchange(a, device.look(a) + v),
        lambda seed: together(seed, len(PAGES)),
    ),
    "own bits lost": (group_memory, "set_four", set_in_two_steps, lambda seed: together(seed, len(PAGES))),
    "claims written over": (ranges, "replace", two_steps, mapping_and_unmapping),
    "mapped bits lost": (ranges, "set_four", set_in_two_steps, mapping_and_unmapping),
    "others' pages not looked at": (ranges, "look_four", not_looking, mapping_and_unmapping),
}


@pytest.fixture(params=PLANTED)
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    module, name, wrong, run = PLANTED[request.param]
    monkeypatch.setattr(module, name, wrong)
    return run


def test_planted_errors_are_found(planted: Callable[[int], Any]) -> None:
    with pytest.raises(AssertionError):
        for seed in range(40):
            planted(seed)
