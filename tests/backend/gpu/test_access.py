"""One access has one meaning: the staged text as Python and natively, and the functions shaped by hand."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from llvmlite import ir

import device_on_host
from group_world import SIZES, Words, World, address
from kvrm.backend.gpu import access, group_memory
from kvrm.backend.gpu.device_abi import GROUP, LOCAL_POINTER, Module, Own
from kvrm.memory import VA_BITS
from kvrm.staging import native
from kvrm.staging.device import DEVICE, begin_kernel
from kvrm.staging.emitter import PTR
from kvrm.staging.kernel import module_text

WORDS = 8
Run = Callable[[bool, int, int, int, Words], tuple[bool, int]]
"""Makes an access: whether it writes, lane, address, bytes, words that it takes or fills in; whether it was
done, and what a quick one returned or 0."""


@dataclass
class Staged:
    """By the staged text, which `read` and `write` run."""

    world: World
    read: Callable[..., int]
    write: Callable[..., int]

    def __call__(
        self, writes: bool, lane: int, address: int, size: int, data: np.ndarray
    ) -> tuple[bool, int]:
        run = self.write if writes else self.read
        return run(*self.world.arguments(lane, address, size, data)) == 0, 0


def natively(world: World) -> Staged:
    texts = {"read": group_memory.read_slow, "write": group_memory.write_slow}
    loader = native.loaded(module_text("slow", texts, DEVICE))
    t = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_uint64] * 7)
    made = Staged(world, *(t(loader.address(name)) for name in texts))
    made.read.loader = loader  # type: ignore[attr-defined]
    return made


def by_hand(world: World) -> Run:
    """By what handlers call."""
    module = Module(LOCAL_POINTER, device_on_host.WarpOfOne())
    for kind in ("read", "write"):
        for size in SIZES:
            e, (own, address, data, status) = begin_kernel(module, f"{kind}_{size}", 4)
            words, t = e.inttoptr(data, PTR), ir.IntType(8 * size)
            at_hand = e.inttoptr(own, LOCAL_POINTER)
            if kind == "read":
                page, value = access.read_far(e, at_hand, address, t)
                e.store(value, words, align=1)
            else:
                page = access.write_far(e, at_hand, address, e.load(words, typ=t, align=1))
            e.store(page, e.inttoptr(status, PTR))
            e.ret_void()
    device = device_on_host.HostDevice()
    loaded = device.load(device.compile(str(module), 0))
    kernels = {
        (kind == "write", size): loaded.function(f"{kind}_{size}")
        for kind in ("read", "write")
        for size in SIZES
    }

    def run(writes: bool, lane: int, address: int, size: int, data: Words) -> tuple[bool, int]:
        kernel, status = kernels[writes, size], np.zeros(1, np.uint64)
        world.own[Own.STATE // 8] = world.states[lane].ctypes.data
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 4)(kernel._address)
        kernel._set[2](lane)
        call(world.own.ctypes.data, address, data.ctypes.data, status.ctypes.data)
        found = int(status[0])
        return found != access.REFUSED, found if found > access.DONE else 0

    return run


@pytest.mark.parametrize("seed", range(4))
def test_an_access_has_one_meaning(seed: int) -> None:
    """Results, and all of the group's memory after a few hundred accesses of random lanes."""
    rng = random.Random(seed)
    world = World(rng)
    before = [array.copy() for array in world.changing()]
    wanted = [
        (rng.random() < 0.5, rng.randrange(GROUP), address(rng, size), size, rng.randbytes(8 * WORDS))
        for size in rng.choices(SIZES, k=400)
    ]
    python = Staged(world, group_memory.read_slow, group_memory.write_slow)
    outcomes = []
    for run in (python, natively(world), by_hand(world)):
        for array, was in zip(world.changing(), before, strict=True):
            array[...] = was
        found = []
        for writes, lane, at, size, text in wanted:
            data = np.frombuffer(text if writes else bytes(8 * WORDS), np.uint64).copy()
            done, page = run(writes, lane, at, size, data)
            assert not done or at & (1 << 56) - 1 < 1 << VA_BITS
            if page:
                entry = group_memory.entry_of(world.root.ctypes.data, world.table.ctypes.data, at)
                assert page == group_memory.page_of(entry, lane)
            found.append((done, data.tobytes() if done else b""))
        outcomes.append((found, [array.tobytes() for array in world.changing()]))
    assert {done for done, _ in outcomes[0][0]} == {False, True}
    assert world.next[0] > 0
    for other in outcomes[1:]:
        assert other[0] == outcomes[0][0]
        assert other[1] == outcomes[0][1]
