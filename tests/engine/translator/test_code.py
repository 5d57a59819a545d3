"""Code that changes: by the guest, by the host, by mapping, by going back; and code that is not shared."""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

import kvrm
from kvrm.engine.translator import engine as tiered
from kvrm.memory import Prot
from translating import (
    CODE,
    DATA,
    assemble,
    compare,
    eager,
    machine,
    needs_assembler,
    observed,
    state,
    translated,
)

pytestmark = needs_assembler

RW, RX, RWX = Prot.R | Prot.W, Prot.R | Prot.X, Prot.R | Prot.W | Prot.X
ADD = 0x91000000
"""add x0, x0, #0"""

LOOP = "1: add x0, x0, #1\n add x1, x1, x0\n sub x9, x9, #1\n cbnz x9, 1b\n brk #0"
OTHER = "1: add x0, x0, #16\n eor x1, x1, x0\n sub x9, x9, #1\n cbnz x9, 1b\n brk #0"


@pytest.fixture(params=["translator", "tiered", "stress"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    eager(monkeypatch)
    name: str = request.param
    return name


# -- written by the guest --------------------------------------------

SYNC = "dc cvau, x3\n dsb ish\n ic ivau, x3\n dsb ish\n isb"

GENERATOR = f"""
    mov x9, #ITERATIONS
1:  ubfx x4, x9, #0, #11        // the code of this iteration: add x0, x0, #x4; ret
    movz w5, #0x9100, lsl #16
    orr w5, w5, w4, lsl #10
    str w5, [x3]
    {SYNC}
    mov x6, #3
2:  blr x3
    add x1, x1, x0
    sub x6, x6, #1
    cbnz x6, 2b
    sub x9, x9, #1
    cbnz x9, 1b
    brk #0
"""


@pytest.mark.parametrize("where", ["same page", "next page", "other page"])
def test_a_guest_that_compiles(engine: str, where: str) -> None:
    """Many times: write code, make it visible, run it in a loop."""
    place = {"same page": CODE + 0x800, "next page": CODE + 4096, "other page": DATA + 8192}[where]

    def scenario(name: str) -> list[Any]:
        m = machine(name, GENERATOR.replace("ITERATIONS", "60"))
        m.write_memory(place, assemble("nop\n ret"), prot="rwx")
        m.lane.memory.protect(place & -4096, 4096, RWX)
        m.x[3] = place
        return [observed(m, 333), observed(m)]

    assert compare(engine, scenario)[1][4][2][0] == 3 * sum(range(61))


def test_code_on_a_page_with_data(engine: str) -> None:
    """The loop's own page is written all the time; now and then a word of it is code that changes."""
    text = f"""
    adr x2, 9f
    adr x3, 3f
    mov x9, #600
1:  ldr x4, [x2]
    add x4, x4, #1
    str x4, [x2]
    tst x9, #31
    b.ne 3f
    and w5, w9, #64
    mov w6, #0x0400
    movk w6, #0x9100, lsl #16
    add w6, w6, w5, lsl #4
    str w6, [x3]
    {SYNC}
3:  add x0, x0, #1
    sub x9, x9, #1
    cbnz x9, 1b
    brk #0
    .p2align 3
9:  .quad 0
"""

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        return [observed(m, 1000), observed(m), bytes(m.memory[CODE : CODE + 256])]

    compare(engine, scenario)


def test_a_loop_that_changes_itself(engine: str) -> None:
    """The word that is changed is in the loop that changes it, in the block that goes on after ISB."""
    text = f"""
    adr x3, 2f
    mov x9, #120
1:  ldr w5, [x3]
    add w5, w5, #0x400          // one more in the immediate
    and w5, w5, #0xffbfffff     // below 4096
    str w5, [x3]
    {SYNC}
2:  add x0, x0, #1
    sub x9, x9, #1
    cbnz x9, 1b
    brk #0
"""
    compare(engine, lambda name: [observed(m := machine(name, text), 777), observed(m, 101), observed(m)])


def test_changed_code_that_is_not_made_visible_runs_after_it_is(engine: str) -> None:
    """Stores alone need not be seen; with IC IVAU they are, at once."""
    m = machine(engine, f"1: add x0, x0, #1\n cbnz x0, 1b\n brk #0\n2: str w5, [x3]\n {SYNC}\n br x3")
    m.run(max_instructions=5000)
    m.x[0], m.x[3], m.x[5] = 0, CODE, ADD | 16 << 10
    m.set_pc(CODE + 12)
    m.run(max_instructions=7 + 2 * 100)
    assert m.x[0] == 1600


def test_code_that_changes_while_the_program_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiered engine must not bring back a region whose code changed while it recorded a trace."""
    monkeypatch.setattr(tiered, "FIRST", 1)
    m = machine("tiered", LOOP)
    m.write_memory(DATA, assemble(f"nop\n str w5, [x3]\n {SYNC}\n br x3"), prot="rwx")
    m.lane.memory.protect(DATA, 4096, RWX)
    m.x[9] = 1 << 40
    m.run(max_instructions=1_000_000)
    assert translated(m, CODE)
    m.lane.engine._slice = 1
    m.x[0], m.x[3], m.x[5], m.x[9] = 0, CODE, ADD | 16 << 10, 100_000
    m.set_pc(DATA)
    assert m.run().stop is kvrm.Stop.BRK
    assert m.x[0] == 1_600_000


# -- changed from outside -------------------------------------------------------


def _poke(m: kvrm.Machine) -> None:
    m.memory[CODE : CODE + 4] = struct.pack("<I", ADD | 5 << 10)


def _write(m: kvrm.Machine) -> None:
    m.write_memory(CODE + 4, struct.pack("<I", 0xCA000021))  # eor x1, x1, x0


def _remap(m: kvrm.Machine) -> None:
    m.lane.memory.map(CODE, 4096, RWX)
    m.lane.memory.poke(CODE, assemble(OTHER))


def _unmap(m: kvrm.Machine) -> None:
    m.lane.memory.unmap(CODE, 4096)


def _forbid(m: kvrm.Machine) -> None:
    m.lane.memory.protect(CODE, 4096, RW)


def _allow(m: kvrm.Machine) -> None:
    m.lane.memory.protect(CODE, 4096, RX)


CHANGES: list[Callable[[kvrm.Machine], None]] = [
    _poke,
    _write,
    _remap,
    _forbid,
    _allow,
    _remap,
    _unmap,
    _remap,
]


def test_code_is_changed_from_outside(engine: str) -> None:
    def scenario(name: str) -> list[Any]:
        m = machine(name, LOOP)
        m.x[9] = 1 << 40
        seen = [observed(m, 2001)]
        for change in CHANGES:
            change(m)
            r = m.run(max_instructions=1501)
            seen.append((r.stop, r.retired, r.fault, state(m)))
            m.set_pc(CODE + 4)
        return seen

    compare(engine, scenario)


def test_back_to_a_snapshot_with_other_code(engine: str) -> None:
    def scenario(name: str) -> list[Any]:
        m = machine(name, LOOP)
        m.x[9] = 1 << 40
        seen = [observed(m, 2000)]
        old = m.snapshot()
        m.memory[CODE : CODE + len(assemble(OTHER))] = assemble(OTHER)
        seen.append(observed(m, 2000))
        new = m.snapshot()
        m.lane.memory.unmap(CODE, 4096)
        for back in (old, new, new, old, old, new):
            m.restore(back)
            seen += [observed(m, 1001), observed(m, 7)]
        return seen

    compare(engine, scenario)


def test_random_changes(engine: str) -> None:
    """Whatever happens to two pages of code between two runs, no stale word is run."""

    def scenario(name: str) -> list[Any]:
        rng = random.Random("changes")
        place = CODE + 4096 - 8
        m = machine(name, LOOP, place=place)
        m.x[9] = 1 << 40
        kept = [m.snapshot()]
        seen = []
        for _ in range(150):
            pick = rng.randrange(7)
            if pick == 0:
                m.memory[place : place + 4] = struct.pack("<I", ADD | rng.randrange(4096) << 10)
            elif pick == 1:
                at = place + 4 * rng.randrange(3)
                m.memory[at : at + 4] = struct.pack(
                    "<I", 0x8B000000 | rng.randrange(3) << 16 | rng.randrange(3)
                )
            elif pick == 2:
                m.lane.memory.protect(CODE + 4096 * rng.randrange(2), 4096, rng.choice((RX, RWX, RW)))
            elif pick == 3:
                m.breakpoints ^= {place + 4 * rng.randrange(4)}
            elif pick == 4:
                kept.append(m.snapshot())
            elif pick == 5:
                m.restore(rng.choice(kept))
            else:
                m.lane.memory.protect(CODE, 8192, RWX)
            r = m.run(max_instructions=rng.choice((1, 10, 400, 3000)))
            # on a page that cannot be executed a breakpoint may come before the fault, or after it
            allowed = any(a.start <= m.pc < a.end and a.prot & Prot.X for a in m.lane.memory.regions())
            stop = r.stop if allowed or m.pc not in m.breakpoints else "there"
            seen.append((stop, r.retired, state(m)))
            if r.stop is kvrm.Stop.FAULT or stop == "there":
                m.set_pc(place)
        return seen

    compare(engine, scenario)


def test_a_page_that_lost_its_permission_is_not_run_by_a_region_that_comes_late() -> None:
    """A region is compiled while the guest goes on; the second of its pages may not be executable by then."""
    place = CODE + 4096 - 8
    m = machine("translator", LOOP, place=place)
    m.x[9] = 1 << 40
    m.run(max_instructions=1000)
    engine: Any = m.lane.engine
    (late,) = [r for r in engine._regions.values() if len(r.pages) == 2][:1]
    m.lane.memory.protect(CODE + 4096, 4096, RW)
    m.set_pc(place)
    assert m.run(max_instructions=1).retired == 1
    engine._add(late)
    m.set_pc(place)
    r = m.run(max_instructions=1000)
    assert (r.stop, r.retired, r.pc) == (kvrm.Stop.FAULT, 2, CODE + 4096)


# -- several machines ------------------------------------------------------------


def test_machines_with_other_code_at_the_same_addresses(engine: str) -> None:
    one, two = machine(engine, LOOP), machine(engine, OTHER)
    two.lane.engine._store = one.lane.engine._store if hasattr(one.lane.engine, "_store") else None
    for m in (one, two):
        m.x[9] = 1 << 40
    for _ in range(20):
        for m in (one, two):
            assert m.run(max_instructions=404).retired == 404
    assert (one.x[0], two.x[0]) == (20 * 101, 20 * 101 * 16)


def test_machines_in_threads(engine: str) -> None:
    """Each thread has a machine of its own; all share what was compiled, and the compiler."""
    machines = [machine(engine, LOOP if i % 3 else OTHER, place=CODE + 4096 * (i % 2)) for i in range(6)]
    done: list[tuple[int, int]] = []

    def work(number: int) -> None:
        m = machines[number]
        m.x[9] = 3000
        while m.run(max_instructions=1501).stop is kvrm.Stop.BUDGET:
            pass
        done.append((number, m.x[0]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(machines))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [(i, 3000 if i % 3 else 48000) for i in range(len(machines))]


@pytest.mark.parametrize("first", ["cortex-a76", "armv8.0"])
def test_machines_with_other_features(engine: str, first: str) -> None:
    """A region with atomics serves no machine that has none."""
    text = "1: ldadd x3, x4, [x2]\n add x0, x0, #1\n cmp x0, #500\n b.ne 1b\n brk #0"
    store = None
    for features in (first, "cortex-a76", "armv8.0", "cortex-a76"):
        m = machine(engine, text, features=features)
        if hasattr(m.lane.engine, "_store"):
            store = m.lane.engine._store = store or m.lane.engine._store
        m.x[2], m.x[3] = DATA, 1
        r = m.run(max_instructions=1500)
        if features == "armv8.0":
            assert (r.stop, r.retired, r.pc) == (kvrm.Stop.UNDEFINED, 0, CODE)
        else:
            assert (r.stop, r.retired) == (kvrm.Stop.BUDGET, 1500)
            assert m.run().stop is kvrm.Stop.BRK and m.x[4] == 499
