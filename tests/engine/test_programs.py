"""Random programs with loops and calls: all engines against QEMU, and against one another in random slices.

`KVRM_TEST_PROGRAMS` sets their number, `KVRM_TEST_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random
import struct
from typing import Any

import pytest

import kvrm
from against_qemu import SEED, compare, qemu_oracle
from kvrm.isa.a64 import definitions, disassemble
from kvrm.isa.context import System
from oracle.case import DATA_BASE, DATA_END, DATA_SIZE, Case, Kind, data_area
from oracle.kvrm_side import KvrmSide
from oracle.translator_side import TranslatorSide, use_memory_store
from programs import random_program, random_state
from translating import eager

PROGRAMS = int(os.environ.get("KVRM_TEST_PROGRAMS", 12))
PARTS = 2
STEPS = 1 << 16
STATES = 3
KINDS = ("all", "flags", "all", "memory", "all", "floats")
PLACES = (0x10000, 0x10F40, 0x7F_FFFF_E000)
"""Where programs are put: on one page, across two, at the end of the address space."""


def listing(words: tuple[int, ...], start: int = 0) -> str:
    lines = (f"  {start + 4 * i:x} {w:08x} {disassemble(w, start + 4 * i)}" for i, w in enumerate(words))
    return "\n".join(lines)


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_against_qemu(part: int) -> None:
    rng = random.Random(f"{SEED} programs {part}")
    cases: list[Case] = []
    for number in range(PROGRAMS // PARTS):
        words = random_program(rng, KINDS[number % len(KINDS)])
        cases += [random_state(rng, words) for _ in range(STATES)]
    wanted = qemu_oracle().run(cases)
    translator, interpreter = TranslatorSide(STEPS), KvrmSide("interpreter", step_limit=STEPS)
    for side in (translator, interpreter):
        for case, want, got in zip(cases, wanted, side.run(cases), strict=True):
            lines = compare(definitions[0], want, got) if want.kind is not Kind.BROKEN else []
            assert not lines, f"seed {SEED} {side.engine}: {'; '.join(lines[:5])}\n{listing(case.words)}"
    assert translator.retired == interpreter.retired
    assert sum(translator.retired) > 10 * len(cases)
    assert sum(translator.interpreted) < 0.1 * sum(len(case.words) for case in cases)


class Lockstep:
    """Machines with one program each, on different engines, that must never differ."""

    def __init__(self, engines: list[str], words: tuple[int, ...], place: int) -> None:
        self.words, self.place = words, place
        self.machines = [use_memory_store(kvrm.Machine(engine=e, features="all")) for e in engines]
        code = struct.pack(f"<{len(words)}I", *words)
        for m in self.machines:
            m.write_memory(place, code, prot="rx")
            m.write_memory(DATA_BASE, bytes(DATA_SIZE), prot="rw")

    def start(self, case: Case) -> None:
        for m in self.machines:
            m.memory[DATA_BASE:DATA_END] = data_area(case.data_seed)
            for i, value in enumerate(case.x):
                m.x[i] = value
            for i, value in enumerate(case.v):
                m.v[i] = value
            m.sp, m.nzcv, m.fpcr, m.fpsr = case.sp, case.nzcv, case.fpcr, case.fpsr
            for register in (System.TPIDR_EL0, System.MONITOR_ADDRESS, System.MONITOR_SIZE):
                m.state.set_system(register, 0)
            m.set_pc(self.place)

    def run(self, budget: int, breakpoints: set[int]) -> kvrm.Stop:
        seen = []
        for m in self.machines:
            m.breakpoints = set(breakpoints)
            r = m.run(max_instructions=budget)
            seen.append((r.stop, r.retired, r.message, *state_of(m)))
        for m, other in zip(self.machines[1:], seen[1:], strict=True):
            names = ["stop", "retired", "message", "pc", "x", "sp", "v", "nzcv", "fpcr", "fpsr", "data"]
            bad = [f"{name}: {a} is {b}" for name, a, b in zip(names, seen[0], other, strict=True) if a != b]
            assert not bad, (
                f"seed {SEED} {m.engine} budget {budget}: {bad}\n{listing(self.words, self.place)}"
            )
        return seen[0][0]


def state_of(m: kvrm.Machine) -> tuple[Any, ...]:
    """All that a program can see, but x as one tuple and so on."""
    return (
        hex(m.pc),
        [hex(x) for x in m.x],
        m.sp,
        [hex(v) for v in m.v],
        m.nzcv,
        m.fpcr,
        m.fpsr,
        bytes(m.memory[DATA_BASE:DATA_END]),
    )


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
@pytest.mark.parametrize("engine", ["translator", "tiered", "stress"])
def test_engines_agree_in_slices(engine: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same slices and breakpoints on the interpreter and another engine; the code stays where it is."""
    eager(monkeypatch)
    rng = random.Random(f"{SEED} slices {kind}")
    for number in range(max(1, PROGRAMS // 20) * (4 if engine == "tiered" else 1)):
        words = random_program(rng, kind)
        engines = ["interpreter", engine, *(["reference"] if number == 0 else [])]
        pair = Lockstep(engines, words, rng.choice(PLACES))
        for _ in range(STATES):
            _run_in_slices(rng, pair)


def _run_in_slices(rng: random.Random, pair: Lockstep) -> None:
    pair.start(random_state(rng, pair.words))
    longest = rng.choice((3, 40, 400, 4000))
    breakpoints: set[int] = set()
    stop, left = kvrm.Stop.BUDGET, 150
    while stop in (kvrm.Stop.BUDGET, kvrm.Stop.BREAKPOINT) and left:
        left -= 1
        if rng.random() < 0.1:
            breakpoints ^= {pair.place + 4 * rng.randrange(len(pair.words))}
        if len(breakpoints) > 3:
            breakpoints.clear()
        stop = pair.run(rng.randint(1, longest), breakpoints)
