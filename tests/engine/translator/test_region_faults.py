"""Accesses that are refused, and memory that changes, in code that is translated: as in the interpreter."""

from __future__ import annotations

from typing import Any

import pytest

import kvrm
from kvrm.memory import Prot
from translating import (
    DATA,
    DATA_SIZE,
    compare,
    eager,
    machine,
    needs_assembler,
    observed,
    state,
)

pytestmark = needs_assembler


@pytest.fixture(params=["translator", "tiered", "stress"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    eager(monkeypatch)
    name: str = request.param
    return name


ACCESSES = {
    "load": "ldr x1, [x2], #24",
    "store": "str x0, [x2], #24",
    "byte": "ldrsb w1, [x2, #1]!",
    "pair": "ldp x1, x4, [x2], #16",
    "store pair": "stp x0, x2, [x2, #16]!",
    "base loaded": "ldp x5, x2, [x2]\n add x2, x2, #40",
    "unaligned": "ldur x1, [x2, #3]\n add x2, x2, #36",
    "vector": "ldr q1, [x2], #16",
    "structures": "ld4 {v1.16b, v2.16b, v3.16b, v4.16b}, [x2], #64",
    "store structures": "st3 {v0.2d, v1.2d, v2.2d}, [x2], #48",
    "index": "ldr w1, [x2, x6, lsl #2]\n add x6, x6, #1",
    "atomic": "ldadd x0, x1, [x2]\n add x2, x2, #8",
    "exclusive": "ldxr x1, [x2]\n stxr w4, x0, [x2]\n add x2, x2, #8",
    "stack": "str x0, [sp, #-16]!",
}


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("prot", ["", "r"])
def test_a_fault_after_many_iterations(engine: str, access: str, prot: str) -> None:
    """A loop walks over pages until one is not there, or only readable."""
    text = f"1: {ACCESSES[access]}\n add x0, x0, #1\n add x1, x1, x0\n b 1b"
    end, down = DATA + DATA_SIZE // 2, access == "stack"

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        for i in range(0, DATA_SIZE, 8):
            m.memory[DATA + i : DATA + i + 8] = (DATA + i).to_bytes(8, "little")
        closed = DATA if down else end
        m.lane.memory.protect(closed, 4096, Prot.R if prot else Prot(0))
        m.x[2] = m.sp = end if down else DATA + 16 * 7
        for i in range(32):
            m.v[i] = i << 70 | i
        seen = [observed(m, 9), observed(m, 11), observed(m, 100_000), observed(m, 5)]
        m.lane.memory.protect(closed, 4096, Prot.R | Prot.W)
        return [*seen, observed(m, 300)]

    seen = compare(engine, scenario)
    assert seen[2][0] is (
        kvrm.Stop.FAULT if not prot or "st" in ACCESSES[access] or access == "atomic" else seen[2][0]
    )


def test_pages_change_between_runs(engine: str) -> None:
    """What a region remembers of a page does not outlive its run."""
    text = "1: ldr x1, [x2]\n add x0, x0, x1\n str x0, [x3]\n sub x9, x9, #1\n cbnz x9, 1b\n brk #0"

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        m.x[2], m.x[3], m.x[9] = DATA, DATA + 4096, 1 << 40
        m.memory[DATA : DATA + 8] = (5).to_bytes(8, "little")
        seen = [observed(m, 1001)]
        for change in (
            lambda: m.lane.memory.protect(DATA, 4096, Prot(0)),
            lambda: m.lane.memory.protect(DATA, 4096, Prot.R),
            lambda: m.lane.memory.protect(DATA + 4096, 4096, Prot.R),
            lambda: m.lane.memory.protect(DATA + 4096, 4096, Prot.R | Prot.W),
            lambda: m.lane.memory.map(DATA, 4096, Prot.R),
            lambda: m.lane.memory.poke(DATA, (7).to_bytes(8, "little")),
            lambda: m.lane.memory.unmap(DATA, 4096),
            lambda: m.lane.memory.map(DATA, 4096, Prot.R | Prot.W),
            lambda: m.snapshot(),
        ):
            change()
            r = m.run(max_instructions=1003)
            seen.append((r.stop, r.retired, r.fault, state(m)))
        return seen

    compare(engine, scenario)


def test_a_snapshot_is_not_written_to(engine: str) -> None:
    """After a snapshot pages are copied on the first write, also by a region that wrote to them before."""

    def scenario(name: str) -> list[Any]:
        m = machine(name, "1: str x0, [x2, x0, lsl #3]\n add x0, x0, #1\n and x0, x0, #4095\n b 1b")
        m.x[2] = DATA
        seen = [observed(m, 5000)]
        kept = m.snapshot()
        seen += [observed(m, 7000), observed(m, 3)]
        later = m.snapshot()
        seen.append(observed(m, 20_000))
        for back in (kept, later, kept, kept):
            m.restore(back)
            seen += [state(m), bytes(m.memory[DATA : DATA + DATA_SIZE]), observed(m, 900)]
        return seen

    compare(engine, scenario)


def test_memory_runs_out_in_a_loop(engine: str) -> None:
    def scenario(name: str) -> list[Any]:
        m = machine(
            name, "1: str x2, [x2]\n add x2, x2, #1, lsl #12\n add x0, x0, #1\n b 1b", memory_limit=64 << 12
        )
        m.lane.memory.map(1 << 32, 1 << 31, Prot.R | Prot.W)
        m.x[2] = 1 << 32
        return [observed(m), observed(m)]

    assert compare(engine, scenario)[0][0] is kvrm.Stop.OUT_OF_MEMORY
