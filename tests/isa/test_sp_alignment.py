"""A load or store that begins with SP faults unless SP is a multiple of 16: Linux sets SCTLR_EL1.SA0."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import numpy as np
import pytest

import kvrm
from kvrm import Fault, Stop
from kvrm.isa.a64 import Definition, decode, definitions
from kvrm.isa.definition import Execution
from kvrm.memory import AccessKind, Prot
from oracle.translator_side import use_memory_store
from translating import eager
from words import random_word

SIGBUS = 7
SEED = random.SystemRandom().randrange(1 << 32)
CODE, DATA, SIZE = 0x1_0000, 0x20_0000, 0x4_0000
STACK = DATA + SIZE // 2
LDR, STR, STXR = 0xF94003E0, 0xF90003E0, 0xC8017FE0  # x0, [sp]; stxr w1, x0, [sp]
LDR_8, LDR_PRE_8, LDR_X1 = 0xF94007E0, 0xF8408FE0, 0xF8616BE0  # x0: [sp, #8]; [sp, #8]!; [sp, x1]
LDR_LITERAL, LDR_X2, STR_XZR_X2 = 0x58000000, 0xF9400040, 0xF900005F
PRFM, PRFUM, PRFM_X1 = 0xF98003E0, 0xF88003E0, 0xF8A16BE0
ADD_8, ADD_X2, SUB_X1 = 0x910023FF, 0x8B2263FF, 0xCB2163FF  # sp, sp, ...
MOV_X0_SP, CMP_SP = 0x910003E0, 0xF10023FF
ADD_X0, SUB_X3, CBNZ_X3, BRK = 0x91000400, 0xD1000463, 0xB5FFFF83, 0xD4200000  # back by 16


def begins_with_register(d: Definition) -> bool:
    registers = {f.name for f in d.diagram.fields}
    return d.execution is Execution.LOAD_STORE and "Rn" in registers and not d.key.startswith("prf")


BASED = [d for d in definitions if begins_with_register(d)]


def at_sp(d: Definition, rng: random.Random) -> int:
    """A word of the definition that begins with SP."""
    while True:
        word = random_word(d, rng) | 31 << 5
        if d.feature == "FEAT_LRCPC2":
            word &= ~(15 << 12)  # an offset that leaves an address aligned
        again = decode(word)
        if again is not None and again.definition is d and not (d.unpredictable and d.unpredictable(again)):
            return word


def machine(engine: str, words: Sequence[int], sp: int, target: str = "cpu") -> kvrm.Machine:
    m = use_memory_store(kvrm.Machine(engine=engine, features="all", target=target))
    m.write_memory(CODE, struct.pack(f"<{len(words)}I", *words), prot="rx")
    m.lane.memory.map(DATA, SIZE, Prot.R | Prot.W)
    m.set_pc(CODE)
    m.sp = sp
    for i in range(31):
        m.x[i] = 16 * i
    return m


def wanted(d: Definition, sp: int) -> Fault:
    """Exclusive or not, with or without a written-back address: SP is where it is told to be."""
    return Fault(sp, AccessKind.WRITE if d.key.startswith("st") else AccessKind.READ, True)


@pytest.fixture(params=["reference", "interpreter", "tiered", "translator", "stress"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    eager(monkeypatch)
    return str(request.param)


def test_every_load_and_store(engine: str) -> None:
    rng = random.Random(SEED)
    based = BASED if engine in ("reference", "interpreter", "tiered") else rng.sample(BASED, 20)
    words = [at_sp(d, rng) for d in based]
    m = machine(engine, [one for word in words for one in (word, BRK)], STACK + 8)
    m.lane.engine.prepare()
    start, before = m.snapshot(), (m.state.save()[0], m.memory[DATA : DATA + SIZE])
    for at, (word, d) in enumerate(zip(words, based, strict=True)):
        m.restore(start)
        m.set_pc(CODE + 8 * at)
        r = m.run(max_instructions=1)
        what = f"seed {SEED}, {word:08x} ({d.source})"
        assert (r.stop, r.signal, r.retired, r.pc) == (Stop.FAULT, SIGBUS, 0, m.pc), what
        assert r.fault == wanted(d, STACK + 8), what
        assert r.message == f"SP alignment fault at pc {m.pc:#x}: sp {STACK + 8:#x} is not a multiple of 16"
        assert (m.state.save()[0], m.memory[DATA : DATA + SIZE]) == before, what
        m.sp = STACK
        assert m.run(max_instructions=1).stop is Stop.BUDGET, what


def check_lanes(based: Sequence[Definition], engine: str, target: str) -> None:
    rng = random.Random(SEED)
    words = [at_sp(d, rng) for d in based]
    m = machine(engine, [one for word in words for one in (word, BRK)], STACK, target)
    m.lane.engine.prepare()
    lanes = m.fork(2 * len(words))
    lanes.registers["pc"] = np.arange(len(words), dtype=np.uint64).repeat(2) * np.uint64(8) + np.uint64(CODE)
    lanes.registers["sp"] = np.tile(np.array([STACK, STACK + 1], np.uint64), len(words))
    results = lanes.run(1)
    for number, d in enumerate(based):
        good, bad = results.lane(2 * number), results.lane(2 * number + 1)
        what = f"seed {SEED}, {words[number]:08x} ({d.source})"
        assert (good.stop, good.retired) == (Stop.BUDGET, 1), what
        assert (bad.stop, bad.signal, bad.retired, bad.pc) == (Stop.FAULT, SIGBUS, 0, CODE + 8 * number), what
        assert bad.fault == wanted(d, STACK + 1), what


def test_lanes(engine: str) -> None:
    check_lanes(BASED[:: 1 if engine in ("interpreter", "tiered") else 9], engine, "cpu")


def test_lanes_on_the_device(place: str) -> None:
    check_lanes(random.Random(SEED).sample(BASED, 40), "tiered", "cuda")


def test_one_lane_on_the_device(place: str) -> None:
    m = machine("interpreter", [ADD_X0, LDR], STACK + 8, "cuda")
    r = m.run(max_instructions=5)
    assert (r.stop, r.signal, r.retired, r.fault) == (
        Stop.FAULT,
        SIGBUS,
        1,
        wanted(decode(LDR).definition, m.sp),
    )


@pytest.mark.parametrize("word", [LDR_8, LDR_PRE_8, LDR_X1, STXR], ids=hex)
@pytest.mark.parametrize("sp", [STACK + 8, STACK - 1, 24, (1 << 64) - 8], ids=hex)
def test_nothing_else_is_looked_at_first(engine: str, word: int, sp: int) -> None:
    """Not that the address is a multiple of 16, nor what is mapped, nor whether STXR would store."""
    m = machine(engine, [word], sp)
    m.x[1] = -sp
    r = m.run(max_instructions=1)
    assert (r.stop, r.signal, r.fault.address, m.sp) == (Stop.FAULT, SIGBUS, sp, sp)


@pytest.mark.parametrize(
    "word", [PRFM, PRFUM, PRFM_X1, LDR_LITERAL, ADD_8, ADD_X2, SUB_X1, MOV_X0_SP, CMP_SP], ids=hex
)
def test_what_does_not_begin_with_sp(engine: str, word: int) -> None:
    m = machine(engine, [word], STACK + 8)
    assert m.run(max_instructions=1).stop is Stop.BUDGET


@pytest.mark.parametrize("word", [LDR_X2, STR_XZR_X2], ids=hex)
def test_other_registers_may_be_odd(engine: str, word: int) -> None:
    m = machine(engine, [word], STACK + 8)
    m.x[2] = DATA + 3
    assert m.run(max_instructions=1).stop is Stop.BUDGET


LOOP = [STR, ADD_X0, SUB_X1, SUB_X3, CBNZ_X3, LDR, LDR_8, ADD_8, LDR_8, BRK]


@pytest.mark.parametrize(
    ("x1", "x3", "retired", "pc"),
    [(32, 90, 453, CODE + 32), (8, 90, 5, CODE), (-48, 61, 308, CODE + 32), (1 << 63 | 16, 1, 8, CODE + 32)],
)
def test_in_a_loop(engine: str, x1: int, x3: int, retired: int, pc: int) -> None:
    """Regions need not look each time, and the state is right where they find it."""
    m = machine(engine, LOOP, STACK)
    m.x[1], m.x[3] = x1, x3
    r = m.run(max_instructions=1000)
    other = machine("reference", LOOP, STACK)
    other.x[1], other.x[3] = x1, x3
    right = other.run(max_instructions=1000)
    assert (r.pc, r.fault, m.state.save()) == (right.pc, right.fault, other.state.save())
    assert (r.stop, m.retired, r.pc) == (Stop.FAULT, retired, pc)
