"""The first and the last page of the address space run, stop and fault as any other, whatever runs them."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import pytest

import kvrm
from kvrm import Fault, Stop
from kvrm.memory import PAGE, AccessKind
from oracle.translator_side import use_memory_store
from translating import eager

FETCH, READ, WRITE = AccessKind.FETCH, AccessKind.READ, AccessKind.WRITE
END, WRAP = 1 << 39, 1 << 64
LAST, BELOW, MIDDLE = END - PAGE, END - 2 * PAGE, 0x1_0000
TAG = 0x5A << 56
VALUE = 0x1122334455667788
ADD_1, SUB_X1 = 0x91000400, 0xD1000421  # add x0, x0, #1; sub x1, x1, #1
BRK, NOP, BR_X3, BLR_X3, RET = 0xD4200000, 0xD503201F, 0xD61F0060, 0xD63F0060, 0xD65F03C0
LDR, STR, LDP_Q, STP_Q = 0xF9400041, 0xF9000041, 0xAD400440, 0xAD000440  # x1, or q0 and q1, [x2]
STR_W, IC_IVAU, ISB = 0xB9000041, 0xD50B7522, 0xD5033FDF  # str w1, [x2]; ic ivau, x2
STRB_NEXT = 0x38001441  # strb w1, [x2], #1
CBNZ_X1, LITERAL_X1, B_AL = 0xB5000001, 0x58000001, 0x5400000E
ADR_X3_BACK = 0x10800003  # adr x3, . - 1 MiB
REGISTERS = (*(f"x{i}" for i in range(4)), "x30", "v0", "v1")


def imm19(word: int, offset: int) -> int:
    return word | (offset // 4 & 0x7FFFF) << 5


def b(offset: int, link: int = 0) -> int:
    return 0x14000000 | link << 31 | offset // 4 & 0x3FFFFFF


def tbz_x0(offset: int) -> int:
    return 0x36000000 | (offset // 4 & 0x3FFF) << 5


CODE = {
    0: [b(-4), imm19(CBNZ_X1, -8), imm19(LITERAL_X1, -16), ADR_X3_BACK, BR_X3, ADD_1, BRK],
    PAGE - 8: [ADD_1, ADD_1],
    MIDDLE: [BR_X3, BLR_X3, BRK, LDR, BRK, STR, BRK, LDP_Q, BRK, STP_Q, BRK, STRB_NEXT, b(-4)],
    BELOW: [b(PAGE), BRK],
    LAST - 8: [ADD_1, ADD_1],
    LAST: [ADD_1, BRK, ADD_1, RET, b(-PAGE - 12), STR_W, IC_IVAU, ISB, NOP, BRK],
    END - 48: [
        b(48),
        b(48, link=1),
        imm19(B_AL, 0xF_FFFC),
        tbz_x0(0x7FFC),
        imm19(CBNZ_X1, 32),
        b(0x7FF_FFFC),
        imm19(LITERAL_X1, 24),
        imm19(LITERAL_X1, 16),
        NOP,
    ],
    END - 12: [ADD_1, SUB_X1, imm19(CBNZ_X1, -8)],
}


class Case(NamedTuple):
    """Where to begin, and how that ends; x1 to x3 at the beginning."""

    pc: int
    stop: Stop
    retired: int
    end: int
    fault: Fault | None = None
    x1: int = 0
    x2: int = 0
    x3: int = 0


def lost(pc: int, retired: int, end: int, **registers: int) -> Case:
    return Case(pc, Stop.FAULT, retired, end, Fault(end, FETCH, bool(end & 3)), **registers)


def reaches(pc: int, retired: int, end: int, **registers: int) -> Case:
    return Case(pc, Stop.BRK, retired, end, **registers)


def refused(pc: int, address: int, kind: AccessKind, retired: int = 0, **registers: int) -> Case:
    return Case(pc, Stop.FAULT, retired, pc, Fault(address, kind, False), **registers)


CASES = {
    "the last word": lost(END - 4, 1, END),
    "a loop of the last words": lost(END - 12, 150, END, x1=50),
    "in from the page below": reaches(LAST - 8, 3, LAST + 4),
    "in by a known target": reaches(BELOW, 2, LAST + 4),
    "in by a register": reaches(MIDDLE, 2, LAST + 4, x3=LAST),
    "in by a register with a tag": reaches(MIDDLE, 2, LAST + 4, x3=LAST | TAG),
    "in by a call, and back": reaches(MIDDLE + 4, 3, MIDDLE + 8, x3=LAST + 8),
    "out by a known target": reaches(LAST + 16, 1, BELOW + 4),
    "code that writes code": reaches(LAST + 20, 4, LAST + 36, x1=ADD_1, x2=LAST + 32),
    "b to the end": lost(END - 48, 1, END),
    "bl beyond": lost(END - 44, 1, END + 4),
    "b.al beyond": lost(END - 40, 1, END - 40 + 0xF_FFFC),
    "tbz beyond": lost(END - 36, 1, END - 36 + 0x7FFC),
    "cbnz to the end": lost(END - 32, 1, END, x1=1),
    "b far beyond": lost(END - 28, 1, END - 28 + 0x7FF_FFFC),
    "a literal at the end": refused(END - 24, END, READ),
    "a literal across the end": refused(END - 20, END, READ),
    "begin at the end": lost(END, 0, END),
    "begin at the end, with a tag": lost(END | TAG, 0, END),
    "begin in the last page, with a tag": reaches(LAST | TAG, 1, LAST + 4),
    "begin at 2^55": lost(1 << 55, 0, 1 << 55),
    "begin at 2^64 - 4": lost(WRAP - 4, 0, WRAP - 4),
    "to 2^64 - 4": lost(MIDDLE, 1, WRAP - 4, x3=WRAP - 4),
    "to the middle of a word": lost(MIDDLE, 1, LAST + 2, x3=LAST + 2 | TAG),
    "the first page": reaches(20, 1, 24),
    "from the first page to the next": lost(PAGE - 8, 2, PAGE),
    "b before the first word": lost(0, 1, WRAP - 4),
    "cbnz before the first word": lost(4, 1, WRAP - 4, x1=1),
    "a literal before the first word": refused(8, WRAP - 8, READ),
    "adr before the first word": lost(12, 2, WRAP + 12 - (1 << 20)),
    "fill up to the end": refused(MIDDLE + 44, END, WRITE, 40, x1=7, x2=END - 20),
}
for name, word, kind, width in (
    ("ldr", LDR, READ, 8),
    ("str", STR, WRITE, 8),
    ("ldp", LDP_Q, READ, 32),
    ("stp", STP_Q, WRITE, 32),
):
    pc, half = MIDDLE + 4 * CODE[MIDDLE].index(word), width // 2
    CASES |= {
        f"{name} of the last bytes": reaches(pc, 1, pc + 4, x1=VALUE, x2=END - width),
        f"{name} of the first bytes": reaches(pc, 1, pc + 4, x1=VALUE, x2=0),
        f"{name} across the end": refused(pc, END, kind, x1=VALUE, x2=END - half),
        f"{name} across the end, with a tag": refused(pc, END, kind, x1=VALUE, x2=END - half | TAG),
        f"{name} after the end": refused(pc, END, kind, x1=VALUE, x2=END),
        f"{name} across 2^56": refused(pc, (1 << 56) - half, kind, x1=VALUE, x2=(1 << 56) - half),
        f"{name} across 2^64": refused(pc, WRAP - half, kind, x1=VALUE, x2=WRAP - half),
    }


def machine(engine: str, **options: Any) -> kvrm.Machine:
    m = use_memory_store(kvrm.Machine(engine=engine, **options))
    for address, words in CODE.items():
        m.write_memory(address, struct.pack(f"<{len(words)}I", *words), prot="rwx")
    return m


def begin(m: kvrm.Machine, case: Case) -> None:
    m.set_pc(case.pc)
    m.x[1], m.x[2], m.x[3] = case.x1, case.x2, case.x3


def ends(r: Any, retired: int) -> tuple[Any, ...]:
    return r.stop, retired, r.pc, r.fault


def values(m: kvrm.Machine) -> list[Any]:
    vectors = [[m.v[i] & (1 << 64) - 1, m.v[i] >> 64] for i in range(2)]
    return [*(m.x[i] for i in range(4)), m.x[30], *vectors]


@pytest.fixture(scope="module")
def right() -> dict[str, tuple[list[Any], bytes]]:
    """What each case leaves in registers and in the last page, as the reference engine has it."""
    m, found = machine("reference"), {}
    start = m.snapshot()
    for name, case in CASES.items():
        m.restore(start)
        begin(m, case)
        m.run(max_instructions=300)
        found[name] = values(m), m.memory[LAST:END]
    return found


@pytest.fixture(params=["reference", "interpreter", "tiered", "translator", "stress"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    eager(monkeypatch)
    return str(request.param)


def check(m: kvrm.Machine, piece: int, right: dict[str, Any]) -> None:
    """Run all cases, `piece` instructions at a time."""
    start = m.snapshot()
    for name, case in CASES.items():
        m.restore(start)
        begin(m, case)
        while (r := m.run(max_instructions=piece)).stop is Stop.BUDGET:
            pass
        assert ends(r, m.retired) == case[1:5], name
        assert (values(m), m.memory[LAST:END]) == right[name], name


@pytest.mark.parametrize("piece", [300, 1, 7])
def test_engines(engine: str, piece: int, right: dict[str, Any]) -> None:
    check(machine(engine), piece, right)


@pytest.mark.parametrize("policy", [{"loops": "rule"}, {"dispatch": "network"}, {"dispatch": "inline"}])
def test_policies(policy: dict[str, str], right: dict[str, Any]) -> None:
    check(machine("interpreter", policies=policy), 300, right)
    check(machine("interpreter", policies=policy), 1, right)


def check_lanes(m: kvrm.Machine, right: dict[str, Any], **options: Any) -> None:
    lanes = m.fork(len(CASES))
    for register in ("pc", "x1", "x2", "x3"):
        lanes.registers[register] = np.array([getattr(case, register) for case in CASES.values()], np.uint64)
    lanes.keep = (*REGISTERS, slice(LAST, END))
    results = lanes.run(300, **options)
    for number, (name, case) in enumerate(CASES.items()):
        one = results.lane(number)
        assert ends(one, one.retired) == case[1:5], name
        kept = [results.registers[register][number].tolist() for register in REGISTERS]
        assert (kept, results.memory[slice(LAST, END)][number].tobytes()) == right[name], name


def test_lanes(engine: str, right: dict[str, Any]) -> None:
    check_lanes(machine(engine), right)
    check_lanes(machine(engine), right, instructions_per_batch=1)


def test_lanes_on_the_device(place: str, right: dict[str, Any]) -> None:
    check_lanes(machine("tiered", target="cuda"), right)


def test_one_lane_on_the_device(place: str, right: dict[str, Any]) -> None:
    check(machine("interpreter", target="cuda"), 300, right)


NOWHERE = (END, WRAP - 4, END - 36 + 0x7FFC)
"""Breakpoints where nothing can run: a run stops there before the fetch."""


def test_breakpoints(engine: str) -> None:
    m = machine(engine)
    m.breakpoints.update((END - 8, BELOW + 4, *NOWHERE))
    begin(m, CASES["a loop of the last words"]._replace(x1=2))
    runs = [m.run(max_instructions=300) for _ in range(4)]
    assert [(r.stop, r.retired, r.pc) for r in runs] == [
        (Stop.BREAKPOINT, 1, END - 8),
        (Stop.BREAKPOINT, 3, END - 8),
        (Stop.BREAKPOINT, 2, END),
        (Stop.FAULT, 0, END),
    ]


def check_breakpoints_of_lanes(m: kvrm.Machine) -> None:
    m.breakpoints.update(NOWHERE)
    names = ("the last word", "b to the end", "tbz beyond", "to 2^64 - 4", "begin at the end", "bl beyond")
    for budget, batch in ((300, 300), (300, 1), (1, 1)):
        lanes = m.fork(len(names))
        for register in ("pc", "x3"):
            lanes.registers[register] = np.array(
                [getattr(CASES[name], register) for name in names], np.uint64
            )
        results = lanes.run(budget, instructions_per_batch=batch)
        for number, name in enumerate(names):
            one, case = results.lane(number), CASES[name]
            stop = Stop.BREAKPOINT if case.end in NOWHERE and case.retired else Stop.FAULT
            want = Stop.BUDGET if case.retired == budget else stop
            assert (one.stop, one.retired, one.pc) == (want, case.retired, case.end), (name, budget, batch)


def test_breakpoints_of_lanes(engine: str) -> None:
    check_breakpoints_of_lanes(machine(engine))


def test_breakpoints_of_lanes_on_the_device(place: str) -> None:
    check_breakpoints_of_lanes(machine("tiered", target="cuda"))
