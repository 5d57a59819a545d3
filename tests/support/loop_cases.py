"""Loops with a name, and runs of them at the edges of what can be skipped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from kvrm.memory import PAGE
from loop_tools import CODE, DATA, TOP, Lab, add, back, encode

READ_ONLY, WRITABLE, EXECUTABLE = DATA + 8 * PAGE, DATA + 9 * PAGE, DATA + 10 * PAGE
COUNT = [add(2, -1), encode("cbnz", sf=1, Rt=2)]
COMPARE = [encode("subs_shift", sf=1, Rn=0, Rm=2, Rd=31), encode("b_cond", cond=1)]
FILL = back([encode("str_x_post", imm9=8, Rn=0, Rt=3), *COUNT])
BYTES = back([encode("strb_w_post", imm9=1, Rn=0, Rt=3), *COUNT])
COPY = back([encode("ldr_x_post", imm9=8, Rn=1, Rt=4), encode("str_x_post", imm9=8, Rn=0, Rt=4), *COUNT])
COPY_DOWN = back([encode("ldr_x_pre", imm9=-8, Rn=1, Rt=4), encode("str_x_pre", imm9=-8, Rn=0, Rt=4), *COUNT])
SUM = back([encode("ldrb_w_post", imm9=1, Rn=0, Rt=4), encode("add_shift", Rm=4, Rn=5, Rd=5), *COMPARE])
LENGTH = back([encode("ldrb_w_post", imm9=1, Rn=0, Rt=4), encode("cbnz", Rt=4)])
TIGHT = back([encode("add_shift", sf=1, Rm=3, Rn=5, Rd=5), *COUNT])
MEMSET = back(
    [
        encode("stp_q_offset", imm7=2, Rt2=0, Rn=3, Rt=0),
        encode("stp_q_pre", imm7=4, Rt2=0, Rn=3, Rt=0),
        encode("subs_imm", sf=1, imm12=64, Rn=2, Rd=2),
        encode("b_cond", cond=8),
    ]
)
MEMCPY = back(
    [
        encode("stp_q_offset", imm7=1, Rt2=1, Rn=3, Rt=0),
        encode("ldp_q_offset", imm7=5, Rt2=1, Rn=1, Rt=0),
        encode("stp_q_offset", imm7=3, Rt2=3, Rn=3, Rt=2),
        encode("ldp_q_offset", imm7=7, Rt2=3, Rn=1, Rt=2),
        add(1, 64),
        add(3, 64),
        encode("subs_imm", sf=1, imm12=64, Rn=2, Rd=2),
        encode("b_cond", cond=8),
    ]
)
SIEVE = back(
    [
        encode("strb_w_register", Rm=0, option=3, Rn=3, Rt=31),
        encode("add_shift", sf=1, Rm=1, Rn=0, Rd=0),
        encode("subs_shift", Rm=6, Rn=0, Rd=31),
        encode("b_cond", cond=13),
    ]
)


def stack_counts(step: int) -> list[int]:
    """A loop that fills memory from SP on, which advances by `step` up to x6."""
    store = encode("str_x_post", imm9=step, Rn=31, Rt=3)
    compare = encode("subs_ext", sf=1, Rm=6, option=3, Rn=31, Rd=31)
    return back([store, compare, encode("b_cond", cond=1)])


STACK_COUNTS = stack_counts(16)
WRAPS = (0, 1, 2, 3, 5, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 32) - 2, 1 << 63, (1 << 63) - 1, -1, -2, -40)
"""Counts that are zero, huge, or about to wrap."""


def set_registers(lab: Lab, registers: dict[str, int]) -> None:
    """Those by name, and all others too."""
    for r in range(31):
        lab.state.x[r] = registers.get(f"x{r}", 0)
    lab.state.sp, lab.state.nzcv, lab.state.pc = registers.get("sp", DATA), 0, CODE
    for i in range(32):
        lab.state.v[i] = (i + 1) * 0x0123456789ABCDEF_FEDCBA9876543210 % (1 << 128)


class Run(NamedTuple):
    """A loop, how many instructions it may take, and the registers that are not zero when it begins."""

    body: list[int]
    budget: int
    registers: dict[str, int]


def run(body: list[int], budget: int = 100_000, **registers: int) -> Run:
    return Run(body, budget, registers)


def counters_that_wrap() -> Iterator[Run]:
    """Every condition, at counts that are zero, huge, or about to wrap."""
    conditions = (0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13)
    for cond, wide, key, step in product(conditions, (0, 1), ("subs_imm", "adds_imm"), (1, 3, 4095)):
        body = back([add(7, 1), encode(key, sf=wide, imm12=step, Rn=2, Rd=2), encode("b_cond", cond=cond)])
        for start in WRAPS:
            yield run(body, 2000, x2=start)


def bits_and_zeros() -> Iterator[Run]:
    for key, bit, step in product(("tbz", "tbnz", "cbz", "cbnz"), (0, 3, 31, 32, 63), (1, -1, 8)):
        fields = {"b5": bit >> 5, "b40": bit & 31} if key in ("tbz", "tbnz") else {"sf": bit >> 5}
        body = back([add(2, step), encode(key, Rt=2, **fields)])
        for start in WRAPS:
            yield run(body, 2000, x2=start)


def comparisons_of_all_kinds() -> Iterator[Run]:
    for cond in range(14):
        body = back(
            [add(2, 5), encode("subs_shift", sf=0, Rm=3, Rn=2, Rd=31), encode("b_cond", cond=cond)]
            if cond not in (6, 7)
            else [add(2, 5), encode("cbnz", sf=1, Rt=2)]
        )
        for start, bound in product(WRAPS, (0, 1, 100, -1, 1 << 31, (1 << 31) - 1, (1 << 32) - 1)):
            yield run(body, 1000, x2=start, x3=bound)


def copies_that_overlap() -> Iterator[Run]:
    """Forwards and backwards: bytes that are copied twice, or not."""
    for apart in (-4096, -128, -64, -24, -8, -4, -1, 0, 1, 4, 8, 24, 64, 128, 4096):
        for body, count in product((COPY, COPY_DOWN), (1, 2, 3, 9, 200)):
            yield run(body, x1=DATA + 2 * PAGE, x0=DATA + 2 * PAGE + apart, x2=count)
        yield run(MEMCPY, x1=DATA + PAGE, x3=DATA + PAGE + apart, x2=64 * 20)


def faults_in_the_middle() -> Iterator[Run]:
    """Stores run into a hole, a read-only page, code, and the end of the address space; loads after it."""
    places = (DATA + 6 * PAGE, READ_ONLY, EXECUTABLE, EXECUTABLE + PAGE, TOP + 2 * PAGE)
    for place, before in product(places, (0, 1, 8, 60, 64, 100, 2000)):
        yield run(FILL, x0=place - before, x2=3000, x3=5)
        yield run(MEMSET, x3=place - before - 32, x2=64 * 3000)
        yield run(COPY, x0=DATA, x1=place - before, x2=3000)
        yield run(COPY_DOWN, x0=DATA + 2 * PAGE, x1=place + before, x2=3000)
        yield run(SUM, x0=place - before, x2=0)
        yield run(LENGTH, x0=place - before)


def addresses_with_tags() -> Iterator[Run]:
    for tag, body in product((0, 0x7F, 0xFF), (FILL, COPY, SUM)):
        yield run(body, x0=DATA + 9 | tag << 56, x1=READ_ONLY | tag << 56, x2=500, x3=9)


def registers_with_two_roles() -> Iterator[Run]:
    """The counter is the address, the loaded value, or what is stored."""
    bodies = [
        [encode("str_x_post", imm9=8, Rn=2, Rt=2), *COUNT],
        [encode("ldr_x_post", imm9=8, Rn=0, Rt=2), *COUNT],
        [encode("ldr_x_post", imm9=8, Rn=0, Rt=0), *COUNT],
        [encode("str_x_register", Rm=2, option=3, S=1, Rn=0, Rt=31), *COUNT],
        [encode("strb_w_register", Rm=2, option=3, Rn=2, Rt=3), *COUNT],
        [
            encode("add_shift", sf=1, Rm=2, Rn=2, Rd=2),
            encode("subs_shift", sf=1, Rm=3, Rn=2, Rd=31),
            COMPARE[1],
        ],
        [encode("str_x_post", imm9=-16, Rn=31, Rt=3), *COUNT],
    ]
    for body, start in product(bodies, (0, 1, 2, 50, DATA // 2 + 8, DATA)):
        yield run(back(body), 3000, x0=DATA + PAGE, x2=start, x3=9, sp=DATA + PAGE)


def the_stack_pointer_counts() -> Iterator[Run]:
    for step, start in product((16, 32, 8, 24, -16), (DATA + 3200, DATA + 3208, DATA + 3201)):
        yield run(stack_counts(step), 3000, sp=start, x6=start + 100 * step, x3=3)


ADVERSARIES = (
    counters_that_wrap,
    bits_and_zeros,
    comparisons_of_all_kinds,
    copies_that_overlap,
    faults_in_the_middle,
    addresses_with_tags,
    registers_with_two_roles,
    the_stack_pointer_counts,
)
"""Runs at the edges of what can be skipped."""
