"""Translated code stops where the interpreter stops, in the same state: budgets, breakpoints, jumps.

Each scenario runs on an engine that translates and on the interpreter, and must give the same observations.
"""

from __future__ import annotations

from typing import Any

import pytest

import kvrm
from translating import (
    CODE,
    DATA,
    compare,
    eager,
    machine,
    needs_assembler,
    observed,
    regions,
    translated,
)

pytestmark = needs_assembler

ALONE = ("translator", "tiered")
"""Engines that do not alternate with others: after a run it is known which regions are in place."""

NESTED = """
    mov x9, #3
1:  mov x10, #4
2:  bl 5f
    subs x10, x10, #1
    b.ne 2b
    tbz x9, #0, 3f
    add x0, x0, #100
3:  sub x9, x9, #1
    cbnz x9, 1b
    brk #0
5:  add x0, x0, #1
    cmp x0, x10
    cset w3, gt
    csel x4, x0, x4, lt
    ret
"""
"""Loops in a loop that call a function; how many instructions that takes is what the reference says."""


@pytest.fixture(params=["translator", "tiered", "stress"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    eager(monkeypatch)
    name: str = request.param
    return name


# -- counts ----------------------------------------------


def test_every_budget(engine: str) -> None:
    """Every number of instructions is a point where a run may end, and another go on."""

    def scenario(name: str) -> list[Any]:
        m = machine(name, NESTED)
        start = m.snapshot()
        total = m.run().retired
        seen = [total]
        for budget in range(total + 2):
            m.restore(start)
            seen += [observed(m, budget), observed(m, 7), observed(m)]
        return seen

    assert compare(engine, scenario)[0] == 1 + 3 * (1 + 4 * 8 + 3) + 2


def test_large_budgets_are_exact(engine: str) -> None:
    m = machine(engine, "1: add x0, x0, #1\n add x1, x1, x0\n cbnz x0, 1b\n brk #0")
    done = 0
    for budget in (1, 10_000, 99_999, 100_001, 250_000, 3):
        assert m.run(max_instructions=budget).retired == budget
        done += budget
        assert (m.retired, m.x[0], m.pc) == (done, (done + 2) // 3, CODE + done % 3 * 4)
    assert translated(m, CODE)


def test_the_clock_counts_instructions(engine: str) -> None:
    def scenario(name: str) -> list[Any]:
        m = machine(
            name,
            "mov x9, #50\n1: mrs x0, cntvct_el0\n add x1, x1, x0\n sub x9, x9, #1\n cbnz x9, 1b\n brk #0",
        )
        return [observed(m, 33), observed(m)]

    compare(engine, scenario)


def test_system_calls_in_a_loop(engine: str) -> None:
    def scenario(name: str) -> list[Any]:
        m = machine(name, "mov x9, #30\n1: add x0, x0, #3\n svc #1\n sub x9, x9, #1\n cbnz x9, 1b\n brk #2")
        return [observed(m) for _ in range(32)]

    seen = compare(engine, scenario)
    assert [s[0] for s in seen[29:]] == [kvrm.Stop.SYSCALL, kvrm.Stop.BRK, kvrm.Stop.BRK]


# -- breakpoints ----------------------------------------------


@pytest.mark.parametrize("offset", [0, 4, 8, 12, 16])
def test_breakpoints_come_and_go_in_a_hot_loop(engine: str, offset: int) -> None:
    text = "1: add x0, x0, #1\n mul x1, x1, x0\n cmp x0, x2\n csel x3, x0, x3, lo\n b.ne 1b\n brk #0"

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        m.x[2] = 100_000
        seen = [observed(m, 20_000)]
        if name in ALONE:
            assert translated(m, CODE + offset)
        for at in (CODE + offset, CODE + 4, CODE + offset):
            m.breakpoints ^= {at}
            seen += [observed(m, 5_000) for _ in range(5)]
            if name in ALONE:
                assert not any(region.covers(b) for region in regions(m) for b in m.breakpoints)
        m.breakpoints.clear()
        seen += [observed(m, 20_000)]
        if name in ALONE:
            assert translated(m, CODE + offset)
        return [*seen, observed(m)]

    assert compare(engine, scenario)[-1][0] is kvrm.Stop.BRK


def test_a_breakpoint_where_a_region_leads(engine: str) -> None:
    def scenario(name: str) -> list[Any]:
        m = machine(name, "1: add x0, x0, #1\n tbnz x0, #4, 2f\n b 1b\n2: mov x0, #0\n b 1b")
        observed(m, 3000)
        m.breakpoints.add(CODE + 12)
        return [observed(m, 1000) for _ in range(20)]

    assert all(s[0] is kvrm.Stop.BREAKPOINT for s in compare(engine, scenario))


def test_traces_are_the_same(
    engine: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVRM_TRACE", "insn,regs,mem")
    seen = []
    for name in (engine, "interpreter"):
        machine(name, NESTED).run()
        seen.append(capsys.readouterr().err)
    assert seen[0] == seen[1] and seen[0].count("add x0, x0, #1") == 12


# -- jumps ----------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        0,
        2,
        DATA,
        DATA + 4096,
        CODE + 2,
        CODE + 1,
        CODE | 0x5A << 56,
        (1 << 39) - 4,
        1 << 39,
        1 << 55,
        (1 << 64) - 4,
    ],
)
@pytest.mark.parametrize("branch", ["br x5", "blr x5", "ret x5"])
def test_wild_jumps_out_of_a_loop(engine: str, branch: str, target: int) -> None:
    text = f"1: add x0, x0, #1\n cmp x0, #200\n csel x5, x6, x7, eq\n {branch}\n2: b 1b"

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        m.x[6], m.x[7] = target, CODE + 16
        return [observed(m, 5000), observed(m, 10)]

    compare(engine, scenario)


def test_a_register_branch_whose_target_is_known(engine: str) -> None:
    """ADR makes a known address: a branch to it leads where no survey of the code saw an edge."""
    text = """
        subs x2, x2, x2
        b 1f
     1: adr x1, 1b
        add x0, x0, #1
        cset x3, eq
        subs xzr, x3, x0
        br x1
    """
    m = machine(engine, text)
    for budget in (1000, 1, 7, 30_000):
        before = m.retired
        assert m.run(max_instructions=budget).stop is kvrm.Stop.BUDGET
        assert m.retired - before == budget
    iterations, rest = divmod(m.retired - 2, 5)
    assert m.x[0] == iterations + (rest >= 2)


def test_indirect_branches_with_many_targets(engine: str) -> None:
    cases = "\n".join(f"{10 + i}: add x0, x0, #{i * 3}\n eor x1, x1, x0, ror #{i}\n b 2f" for i in range(32))
    table = "\n".join(f" b {10 + i}f" for i in range(32))
    text = f"""
    mov x9, #3000
1:  mov x3, #0x5851
    madd x4, x4, x3, x9
    ubfx x5, x4, #7, #5
    adr x6, 3f
    add x6, x6, x5, lsl #2
    br x6
3:  {table}
    {cases}
2:  adr x7, 4f
    tst x4, #64
    add x8, x7, #12
    csel x7, x7, x8, eq
    blr x7
    sub x9, x9, #1
    cbnz x9, 1b
    brk #0
4:  add x2, x2, #1
    ret
    nop
    add x2, x2, #5
    br x30
"""

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        return [observed(m, 1234), observed(m, 5678), observed(m)]

    compare(engine, scenario)


@pytest.mark.parametrize("offset", range(4096 - 24, 4096 + 4, 4))
def test_loops_across_pages(engine: str, offset: int) -> None:
    def scenario(name: str) -> list[Any]:
        m = machine(name, NESTED, place=CODE + offset)
        start = m.snapshot()
        seen = [observed(m, 11), observed(m, 40), observed(m)]
        m.restore(start)
        m.breakpoints.add(CODE + 4096)
        return [*seen, observed(m), observed(m), observed(m)]

    compare(engine, scenario)


def test_off_the_end_of_the_address_space(engine: str) -> None:
    def scenario(name: str) -> list[Any]:
        m = machine(name, "1: add x0, x0, #1\n cmp x0, #300\n b.ne 1b\n nop", place=(1 << 39) - 4096 - 16)
        return [observed(m, 100), observed(m), observed(m)]

    assert compare(engine, scenario)[1][3].address == (1 << 39) - 4096


# -- floating point ----------------------------------------------


def test_the_rounding_mode_changes_in_a_loop(engine: str) -> None:
    """Compiled code is for FPCR = 0; whatever else a program sets is honoured at once."""
    text = """
    mov x9, #200
1:  and x3, x9, #7
    cmp x3, #4
    csel x3, x3, xzr, lo
    lsl x3, x3, #22
    msr fpcr, x3
    fdiv d1, d2, d3
    fadd d4, d4, d1
    fsub s5, s6, s7
    frinti d8, d4
    mrs x4, fpcr
    add x0, x0, x4
    fadd d2, d2, d3
    sub x9, x9, #1
    cbnz x9, 1b
    brk #0
"""

    def scenario(name: str) -> list[Any]:
        m = machine(name, text)
        m.v[2], m.v[3], m.v[6], m.v[7] = 0x3FF0000000000001, 0x4008000000000000, 0x3F800001, 0x33800000
        return [observed(m, 777), observed(m)]

    compare(engine, scenario)


def test_tracked_exceptions_are_not_lost(engine: str) -> None:
    def scenario(name: str) -> list[Any]:
        text = "1: fdiv d1, d2, d3\n add x0, x0, #1\n cmp x0, #99\n b.ne 1b\n brk #0"
        m = machine(name, text, fp_flags=True)
        m.v[2], m.v[3] = 0x3FF0000000000000, 0x4008000000000000
        return [observed(m)]

    assert compare(engine, scenario)[0][4][7] & 0x10
