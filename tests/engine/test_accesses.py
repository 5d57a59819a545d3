"""Accesses of handlers and regions, and by `Memory`, are those of the staged text (`kvrm.memory.access`).

Handlers and regions check pages by code of their own shape, as does `Memory` for what lies on one page. Here
loops of loads and stores go over pages of all permissions, at chosen and random addresses and steps.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

import kvrm
from kvrm import Prot, Stop
from kvrm.memory import PAGE, R_BIT, GuestFault, Memory, access
from kvrm.memory.pages import anonymous, host_address
from oracle.translator_side import use_memory_store

CODE, DATA, PAGES = 0x1_0000, 0x40_0000, 12
KINDS = (Prot.R, Prot.R | Prot.W, Prot.R | Prot.X, Prot.NONE, Prot.W)
SIZES = (1, 2, 4, 8, 16)
LOADS = (0x39400020, 0x79400020, 0xB9400020, 0xF9400020, 0x3DC00020)  # ldrb w0, [x1] ... ldr q0, [x1]
STORES = (0x39000025, 0x79000025, 0xB9000025, 0xF9000025, 0x3D800025)  # strb w5, [x1] ... str q5, [x1]
NOP = 0xD503201F
AGAIN = (0x8B020021, 0xF1000463, 0x54FFFF61, 0xD4000001)  # add x1, x1, x2; subs x3, x3, #1; b.ne; svc #0
LOADING = {
    size: (load, 0x9E660000 if size == 16 else NOP, 0xCA000084, *AGAIN)  # fmov x0, d0; eor x4, x4, x0
    for size, load in zip(SIZES, LOADS, strict=True)
}
STORING = {
    size: (0x9E6700A5 if size == 16 else NOP, store, 0x910004A5, *AGAIN)  # fmov d5, x5; ...; add x5, x5, #1
    for size, store in zip(SIZES, STORES, strict=True)
}
SNIPPETS = [(size, stores) for size in SIZES for stores in (False, True)]


def fill(memory: Memory, rng: random.Random) -> None:
    """Pages of all kinds, with a hole, some of them private and some shared with a snapshot."""
    for number in range(PAGES):
        if number != 5:
            memory.map(DATA + PAGE * number, PAGE, rng.choice(KINDS) if number > 2 else Prot.R | Prot.W)
            if rng.random() < 0.7:
                memory.poke(DATA + PAGE * number, rng.randbytes(PAGE))
    memory.snapshot()


def contents(memory: Memory) -> list[bytes]:
    """What is mapped of the data."""
    return [
        memory.peek(region.start, region.end - region.start)
        for region in memory.between(DATA, DATA + PAGE * PAGES)
    ]


def expected(memory: Memory, size: int, stores: bool, at: int, step: int, count: int) -> tuple[Any, ...]:
    """What the staged text makes of a loop: x4 or x5 at the end, the fault if there is one, and x3."""
    buffer = anonymous(PAGE)
    total, value = 0, 7
    for left in range(count, 0, -1):
        try:
            if stores:
                buffer[:16] = value.to_bytes(16, "little")
                assert access.write(memory, at, size, host_address(buffer)) == 0
                value += 1
            else:
                assert access.read(memory, at, size, host_address(buffer)) == 0
                assert memory.read(at, size) == buffer[:size]
                total ^= int.from_bytes(buffer[: min(size, 8)], "little")
        except GuestFault as fault:
            return total, value, left, (fault.address, int(fault.kind), fault.mapped)
        at = at + step & (1 << 64) - 1
    return total, value, 0, None


def addresses(rng: random.Random, size: int) -> tuple[int, int, int]:
    """Where a loop begins, how far it goes each time, and how often."""
    page = DATA + PAGE * rng.randrange(PAGES)
    at = page + rng.choice([0, PAGE - size, PAGE - size + 1, PAGE - 1, rng.randrange(PAGE)])
    at = rng.choice(
        [at, at, at, at | 0x5A << 56, (1 << 39) - size, (1 << 39) - 1, (1 << 55) + at, (1 << 64) - 1]
    )
    return at, rng.choice([size, -size, 1, 0, PAGE - 1, rng.randrange(-PAGE, PAGE)]), rng.randrange(1, 40)


@pytest.mark.parametrize("engine", ["reference", "interpreter", "translator"])
def test_engines_access_what_the_staged_text_does(engine: str) -> None:
    rng = random.Random(11)
    m = kvrm.Machine(engine=engine)
    use_memory_store(m)
    for i, (size, stores) in enumerate(SNIPPETS):
        words = STORING[size] if stores else LOADING[size]
        m.write_memory(CODE + 64 * i, struct.pack("<7I", *words), prot="rx")
    model = Memory()
    fill(m.lane.memory, random.Random(3))
    fill(model, random.Random(3))
    begun, ends, faults = (m.lane.memory.snapshot(), model.snapshot()), 0, 0
    for _ in range(60 if engine == "reference" else 600):
        if rng.random() < 0.2:
            m.lane.memory.restore(begun[0])
            model.restore(begun[1])
        i = rng.randrange(len(SNIPPETS))
        size, stores = SNIPPETS[i]
        at, step, count = addresses(rng, size)
        m.x[1], m.x[2], m.x[3], m.x[4], m.x[5] = at, step & (1 << 64) - 1, count, 0, 7
        m.set_pc(CODE + 64 * i)
        result = m.run()
        want = expected(model, size, stores, at, step, count)
        fault = None
        if result.stop is Stop.FAULT:
            assert result.fault is not None
            fault = (result.fault.address, int(result.fault.kind), result.fault.mapped)
            faults += 1
        else:
            assert result.stop is Stop.SYSCALL
            ends += 1
        assert (m.x[4], m.x[5], m.x[3], fault) == want, (size, stores, hex(at), step, count)
        assert contents(m.lane.memory) == contents(model)
    assert ends > 10 and faults > 10


@pytest.mark.parametrize("seed", range(3))
def test_memory_reads_and_writes_what_the_staged_text_does(seed: int) -> None:
    """Ranges of any length: the same bytes, or the same fault and nothing changed."""
    rng, buffer = random.Random(seed), anonymous(4 * PAGE)
    by_hand, staged = Memory(), Memory()
    for memory in (by_hand, staged):
        fill(memory, random.Random(seed))
    for _ in range(2000):
        at, _, _ = addresses(rng, 8)
        size = rng.choice([1, 8, rng.randrange(1, PAGE), rng.randrange(1, 3 * PAGE)])
        data = rng.randbytes(size)
        outcomes: list[object] = []
        writes = rng.random() < 0.5
        for memory in (by_hand, staged):
            try:
                if memory is by_hand:
                    outcomes.append(memory.write(at, data) if writes else memory.read(at, size))
                elif writes:
                    buffer[:size] = data
                    assert access.write(memory, at, size, host_address(buffer)) == 0
                    outcomes.append(None)
                else:
                    assert access.read(memory, at, size, host_address(buffer)) == 0
                    outcomes.append(buffer[:size])
            except GuestFault as fault:
                outcomes.append((fault.address, fault.kind, fault.mapped))
        assert outcomes[0] == outcomes[1], (hex(at), size)
        assert contents(by_hand) == contents(staged)
    assert access.reached(staged, DATA + PAGE, 2 * PAGE, R_BIT) == 2 * PAGE
