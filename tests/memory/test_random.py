"""Guest memory on a random walk, compared at every step with a model made of dictionaries."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from kvrm.memory import PAGE, W_BIT, X_BIT, AccessKind, GuestFault, Image, Memory, Snapshot
from kvrm.memory.pages import ZERO_PAGE
from memory_tools import FETCH, READ, VA_END, WRITE, entry


@dataclass
class ModelPage:
    prot: int
    data: bytearray

    def copy(self) -> ModelPage:
        return ModelPage(self.prot, bytearray(self.data))


@dataclass
class Model:
    """Guest memory as one dictionary from page number to page."""

    pages: dict[int, ModelPage] = field(default_factory=dict)

    def copy(self) -> Model:
        return Model({number: page.copy() for number, page in self.pages.items()})

    def fault(self, address: int, length: int, bits: int) -> tuple[int, bool] | None:
        """First bad byte, and whether it is mapped; `bits` 0 asks only whether the bytes are mapped."""
        for byte in range(address, address + length):
            page = self.pages.get(byte >> 12)
            if page is None or (bits and not page.prot & bits):
                return byte, page is not None
        return None

    def load(self, address: int, length: int) -> bytes:
        return bytes(self.pages[byte >> 12].data[byte & 4095] for byte in range(address, address + length))

    def store(self, address: int, data: bytes) -> None:
        for byte, value in enumerate(data, address):
            self.pages[byte >> 12].data[byte & 4095] = value


class Walk:
    """The same random operations on a `Memory` and on a `Model`."""

    # Clusters of pages: the start, an ordinary place that crosses a table page (2 MiB), and the end.
    CLUSTERS = (range(4), range(1020, 1032), range((VA_END >> 12) - 4, VA_END >> 12))
    UNIVERSE = tuple(number for cluster in CLUSTERS for number in cluster)

    WEIGHTS: ClassVar = {
        "map": 3,
        "unmap": 2,
        "protect": 4,
        "read": 8,
        "write": 8,
        "peek": 3,
        "poke": 3,
        "resolve": 8,
        "snapshot": 2,
        "restore": 3,
        "drop": 1,
    }

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.memory = Memory()
        self.model = Model()
        self.images = [Image(self.random.randbytes(n)) for n in (5000, PAGE, 1, 0)]
        self.saved: list[tuple[Snapshot, Model]] = []
        self.done: Counter[str] = Counter()
        self.decoded: dict[int, bytes] = {}
        self.memory.on_remap = self.forget

    def forget(self, start: int, end: int) -> None:
        for number in [n for n in self.decoded if start <= n << 12 < end]:
            del self.decoded[number]

    def pages(self) -> range:
        cluster = self.random.choice(self.CLUSTERS)
        first = self.random.choice(cluster)
        return range(first, self.random.randint(first, cluster[-1]) + 1)

    def place(self) -> tuple[int, int]:
        """An address and a length, often across a page end, mostly where something is mapped."""
        anywhere = not self.model.pages or self.random.random() < 0.2
        address = self.random.choice(self.UNIVERSE if anywhere else list(self.model.pages)) << 12
        address += self.random.choice((0, 1, PAGE - 1, PAGE - 4, self.random.randrange(PAGE)))
        return address, self.random.choice((1, 2, 8, 16, self.random.randint(1, 3 * PAGE)))

    def tagged(self, address: int) -> int:
        return address | self.random.choice((0, 0, self.random.getrandbits(8) << 56))

    def faults(self, address: int, length: int, kind: AccessKind, host: bool, *call: Any) -> bool:
        """Whether the model faults; if so, `call` (a function and its arguments) must fault the same way."""
        expected = self.model.fault(address, length, 0 if host else kind)
        if expected is None:
            return False
        function, *arguments = call
        with pytest.raises(GuestFault) as caught:
            function(*arguments)
        assert (caught.value.address, caught.value.mapped) == expected
        assert caught.value.kind == kind
        return True

    def map(self) -> None:
        pages, prot = self.pages(), self.random.randrange(8)
        image = self.random.choice((None, None, *self.images))
        offset = self.random.randrange(3) * PAGE
        self.memory.map(pages[0] << 12, len(pages) * PAGE, prot, image, offset)
        for position, number in enumerate(pages):
            data = bytes(PAGE)
            if image:
                whole = ctypes.string_at(image.address, image.size)
                data = whole[offset + position * PAGE :][:PAGE].ljust(PAGE, b"\0")
            self.model.pages[number] = ModelPage(prot, bytearray(data))

    def unmap(self) -> None:
        pages = self.pages()
        self.memory.unmap(pages[0] << 12, len(pages) * PAGE)
        for number in pages:
            self.model.pages.pop(number, None)

    def protect(self) -> None:
        pages, prot = self.pages(), self.random.randrange(8)
        whole = self.memory.protect(pages[0] << 12, len(pages) * PAGE, prot)
        assert whole == all(number in self.model.pages for number in pages)
        for number in pages:
            if number not in self.model.pages:
                break
            self.model.pages[number].prot = prot

    def read(self) -> None:
        (address, length), kind = self.place(), self.random.choice((READ, READ, FETCH))
        guest = self.tagged(address)
        if self.faults(address, length, kind, False, self.memory.read, guest, length, kind):
            return
        assert self.memory.read(guest, length, kind) == self.model.load(address, length)
        self.done["read"] += 1
        if kind == FETCH:
            for number in range(address >> 12, (address + length - 1 >> 12) + 1):
                self.decoded[number] = bytes(self.model.pages[number].data)

    def write(self) -> None:
        address, length = self.place()
        guest, data = self.tagged(address), self.random.randbytes(length)
        if self.faults(address, length, WRITE, False, self.memory.write, guest, data):
            return
        self.memory.write(guest, data)
        self.model.store(address, data)
        self.forget(address & -PAGE, address + length)  # what `ic ivau` does
        self.done["write"] += 1

    def peek(self) -> None:
        address, length = self.place()
        guest = self.tagged(address)
        if not self.faults(address, length, READ, True, self.memory.peek, guest, length):
            assert self.memory.peek(guest, length) == self.model.load(address, length)
            self.done["peek"] += 1

    def poke(self) -> None:
        address, length = self.place()
        guest, data = self.tagged(address), self.random.randbytes(length)
        if not self.faults(address, length, WRITE, True, self.memory.poke, guest, data):
            self.memory.poke(guest, data)
            self.model.store(address, data)
            self.done["poke"] += 1

    def resolve(self) -> None:
        (address, _), kind = self.place(), self.random.choice(list(AccessKind))
        guest = self.tagged(address)
        if not self.faults(address, 1, kind, False, self.memory.resolve, guest, kind):
            assert self.memory.resolve(guest, kind) == entry(self.memory, address)
            assert entry(self.memory, address) & kind
            self.done["resolve"] += 1

    def snapshot(self) -> None:
        self.saved.append((self.memory.snapshot(), self.model.copy()))
        if len(self.saved) > 4:
            del self.saved[self.random.randrange(5)]

    def restore(self) -> None:
        if self.saved:
            snapshot, model = self.random.choice(self.saved)
            self.memory.restore(snapshot)
            self.model = model.copy()
            self.done["restore"] += 1

    def drop(self) -> None:
        if self.saved:
            del self.saved[self.random.randrange(len(self.saved))]

    def check(self) -> None:
        """What native code would see through the table, and what a code cache would believe."""
        owners: set[int] = set()
        for number in self.UNIVERSE:
            found = entry(self.memory, number << 12)
            bits, page = found & 4095, self.model.pages.get(number)
            if page is None:
                assert found == 0
            elif found:
                assert bits & ~page.prot == 0
                assert ctypes.string_at(found & -PAGE, PAGE) == page.data
            if bits & W_BIT:
                assert found & -PAGE not in owners
                owners.add(found & -PAGE)
        assert ZERO_PAGE not in owners
        for image in self.images:
            assert not owners & set(range(image.address, image.address + image.size, PAGE))
        for snapshot, _ in self.saved:
            assert not owners & {page.address for page in snapshot.pages.values()}
        for number, data in self.decoded.items():
            assert self.model.pages[number].prot & X_BIT
            assert self.model.pages[number].data == data
        runs = [(r.start >> 12, r.end >> 12, int(r.prot)) for r in self.memory.regions()]
        assert {n: prot for start, end, prot in runs for n in range(start, end)} == {
            number: page.prot for number, page in self.model.pages.items()
        }

    def step(self) -> None:
        (operation,) = self.random.choices(list(self.WEIGHTS), list(self.WEIGHTS.values()))
        getattr(self, operation)()
        self.check()


@pytest.mark.parametrize("seed", [0, 1, 2, None])
def test_random_walk_agrees_with_the_model(seed: int | None) -> None:
    if seed is None:
        seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    walk = Walk(seed)
    for _ in range(4000):
        walk.step()
    assert min(walk.done[name] for name in ("read", "write", "peek", "poke", "resolve", "restore")) > 20
