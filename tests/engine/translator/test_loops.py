"""Loops whose iterations translated code runs together: accesses checked at once, NaNs looked for late.

Each scenario runs on an engine that translates and on the interpreter, and must give the same observations.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

import kvrm
from kvrm.engine.translator.paths import LARGEST_LOOP, LARGEST_TRIMMED, Paths
from kvrm.isa.features import CORTEX_A76
from kvrm.memory import Prot
from translating import DATA, DATA_SIZE, assemble, compare, eager, machine, needs_assembler, observed

pytestmark = needs_assembler


@pytest.fixture(params=["translator", "tiered", "stress"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    eager(monkeypatch)
    name: str = request.param
    return name


# -- accesses that are checked together ----------------------------------------------

CLOSED = DATA + DATA_SIZE // 2
"""A page that is not there, or only readable."""
GROUPS = {
    "loads": "ldp x1, x4, [x2]\n ldr x5, [x2, #24]\n add x2, x2, #32",
    "copy": "ldp x5, x6, [x2], #16\n stp x5, x6, [x3], #16",
    "to itself": "ldr x1, [x2]\n add x1, x1, x0\n str x1, [x2], #8",
    "ahead": "ldr x1, [x2, #-8]\n str x1, [x2, #40]\n add x2, x2, #8",
    "down": "str x0, [x2, #-16]!\n ldr x1, [x2, #8]\n str x1, [x2]",
    "vectors": "ldp q1, q2, [x2]\n stp q2, q1, [x3]\n add x2, x2, #32\n add x3, x3, #32",
    "vector": "ldr q1, [x2], #16\n add v1.4s, v1.4s, v2.4s\n str q1, [x3], #16",
    "bytes": "ldrb w1, [x2, #3]\n strh w1, [x2, #1]\n add x2, x2, #5",
    "index": "ldr w1, [x2, x6, lsl #2]\n str w1, [x3, x6, lsl #2]\n add x6, x6, #1",
    "stride": "str x0, [x2]\n add x2, x2, x7",
    "base lost": "ldr x1, [x2]\n str x1, [x2, #8]\n and x2, x2, #-8\n add x2, x2, #24",
    "far apart": "ldr x1, [x2]\n str x1, [x2, #1016]\n add x2, x2, #8",
    "wide stores": "st1 {v1.2d, v2.2d, v3.2d, v4.2d}, [x2], #64",
    "wide loads": "ld1 {v1.2d, v2.2d, v3.2d, v4.2d}, [x2], #64",
    "stack": "stp x0, x2, [sp, #-32]!\n ldr x1, [sp, #8]",
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    ("prot", "start"),
    [
        ("", 13),
        ("r", 0),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in [("", 0), ("", 4), ("r", 4), ("r", 13)]),
    ],
)
def test_a_fault_in_a_group(engine: str, group: str, prot: str, start: int) -> None:
    """The forbidden access, and no other before or after it, stops the loop, wherever an iteration begins."""
    text = f"1: {GROUPS[group]}\n add x0, x0, #1\n cmp x0, x9\n b.ne 1b\n brk #0"
    down = group in ("down", "stack")

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        for i in range(0, DATA_SIZE, 8):
            m.memory[DATA + i : DATA + i + 8] = (i * 0x0101_0203).to_bytes(8, "little")
        closed = CLOSED - 8192 if down else CLOSED
        m.lane.memory.protect(closed, 4096, Prot.R if prot else Prot(0))
        m.x[2], m.x[3] = (CLOSED if down else CLOSED - 4096 - 128) + start, CLOSED - 6000 + 3 * start
        m.sp = CLOSED - 64 + (start & ~15)
        m.x[7], m.x[9] = 248, 1 << 40
        for i in range(32):
            m.v[i] = i << 70 | i
        seen = [observed(m, budget) for budget in (9, 11, 100_000, 5)]
        m.lane.memory.protect(closed, 4096, Prot.R | Prot.W)
        return [*seen, observed(m, 50), observed(m, 300)]

    seen = compare(engine, scenario)
    assert seen[2][0] is kvrm.Stop.FAULT or prot


@pytest.mark.parametrize("group", ["copy", "vectors", "index"])
def test_every_number_of_iterations(engine: str, group: str) -> None:
    """A loop ends after any number of iterations, and so does a budget."""
    text = f"1: {GROUPS[group]}\n add x0, x0, #1\n cmp x0, x9\n b.ne 1b\n mov x8, x0\n brk #0"

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        m.x[2], m.x[3], m.x[9] = DATA, DATA + 4096, 200
        start = m.snapshot()
        seen = [observed(m)]
        for iterations in range(1, 20):
            m.restore(start)
            m.x[9] = iterations
            seen += [observed(m, 37), observed(m)]
        for budget in range(1, 60):
            m.restore(start)
            seen.append(observed(m, budget))
        return seen

    compare(engine, scenario)


def test_a_loop_of_two_blocks(engine: str) -> None:
    """It ends in the middle of an iteration, or at its end."""
    text = """
    mov x9, #6
3:  mov x2, x7
1:  ldrb w1, [x2], #1
    cbz w1, 2f
    add x0, x0, x1
    cmp w1, w5
    b.ne 1b
2:  cset x8, hi
    add x7, x7, #1
    sub x9, x9, #1
    cbnz x9, 3b
    brk #0
"""

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        start, seen = m.snapshot(), []
        for at in range(4, 40):
            for last in (0, 77):
                m.restore(start)
                place = DATA + 4096 - 20
                m.memory[place : place + 60] = bytes(1 + i % 9 for i in range(60))
                m.memory[place + at : place + at + 1] = bytes([last])
                m.x[7], m.x[5] = place, 77
                seen += [observed(m, 50 + at), observed(m)]
        return seen

    compare(engine, scenario)


# -- floating point ----------------------------------------------

DOUBLES = (0x7FF0000000000001, 0xFFF8000000000123, 0x7FF0000000000000, 0xFFF0000000000000, 0, 1 << 63)
SINGLES = (0x7F800001, 0xFFC00123, 0x7F800000, 0xFF800000, 0, 1 << 31)
CHAINS = {
    "scalar": (
        "ldr d1, [x2], #8\n fmul d2, d1, d3\n fadd d4, d4, d2\n fsub d5, d2, d1\n fdiv d6, d5, d4"
        "\n fsqrt d7, d6\n fmadd d8, d5, d6, d1\n fadd d9, d9, d8\n str d6, [x3], #8\n fadd d4, d3, d3"
    ),
    "vector": (
        "ldr q1, [x2], #16\n fmul v2.4s, v1.4s, v3.4s\n fadd v4.4s, v2.4s, v1.4s\n fadd v5.2d, v4.2d, v2.2d"
        "\n fmla v6.4s, v4.4s, v1.4s\n str q4, [x3], #16\n fsub v7.4s, v6.4s, v2.4s\n fneg v8.4s, v7.4s"
    ),
    "mixed": (
        "ldr q1, [x2], #16\n fadd v2.2d, v1.2d, v3.2d\n fmul d4, d2, d1\n fadd s5, s4, s1\n mov d6, v2.d[1]"
        "\n fadd d7, d6, d4\n fmul v8.2d, v2.2d, v1.d[1]\n str d7, [x3], #8"
    ),
    "conditions": "ldp d1, d2, [x2], #8\n fmul d4, d1, d3\n fcmp d4, d2\n"
    + "\n".join(
        f" cset w4, {c}\n eor x5, x4, x5, ror #1" for c in "eq ne cs cc mi pl vs vc hi ls ge lt gt le".split()
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_nans_in_a_chain(engine: str, chain: str) -> None:
    """A NaN shows up in any iteration and place of a chain of operations."""
    text = f"1: {CHAINS[chain]}\n sub x9, x9, #1\n cbnz x9, 1b\n brk #0"

    def scenario(name: str) -> list[Any]:
        m, seen = machine(name, text), []
        start = m.snapshot()
        for wrong in range(len(DOUBLES) + 1):
            m.restore(start)
            for i in range(256):
                number = struct.pack("<d", i * 1.25 - 60) if i & 1 else struct.pack("<2f", i * 0.75, -i)
                m.memory[DATA + 8 * i : DATA + 8 * i + 8] = number
            for i in range(5, 250, 17) if wrong < len(DOUBLES) else ():
                single = struct.pack("<II", SINGLES[wrong], i << 20)
                bad = single if i % 3 == 0 else DOUBLES[wrong].to_bytes(8, "little")
                m.memory[DATA + 8 * i : DATA + 8 * i + 8] = bad
            m.x[2], m.x[3], m.x[9] = DATA, DATA + 8192, 120
            for i in range(16):
                m.v[i] = 0x3FF8000000000000 << 64 | 0x4004000000000000 + i
            seen += [observed(m, 333), observed(m, 17), observed(m)]
        return seen

    compare(engine, scenario)


# -- regions ----------------------------------------------


def test_a_loop_too_large_loses_its_rarest_branches() -> None:
    """The inner loop is kept whole, what surrounds it is not."""
    inner = "2: add x0, x0, #1\n tbz x0, #3, 3f\n add x1, x1, #1\n3: cbnz x0, 2b"
    code = assemble("1: mov x0, #9\n" + inner + "\n nop" * LARGEST_LOOP + "\n b 1b")
    words = struct.unpack(f"<{len(code) // 4}I", code)
    paths = Paths(lambda pc: words[pc // 4 :], CORTEX_A76)
    iteration = [1, 2, 3, 4] * 3 + [1, 2, 4] * 40
    paths.add([4 * at for at in ([0, *iteration, *range(5, len(words))] * 4)])
    region = paths.grow(4)
    assert region is not None and region.size <= LARGEST_TRIMMED
    assert region.blocks.keys() == {4, 12, 16}
