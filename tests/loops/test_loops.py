"""Loops that are skipped: what the analyser says, and that a skip leaves what plain execution leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

import kvrm
from kvrm.isa.features import feature_set
from kvrm.lane.words import SP
from kvrm.loops import plan
from kvrm.loops.analysis import analyse
from kvrm.loops.find import loop_at, loops_in
from kvrm.loops.iteration import Unsuitable
from kvrm.loops.structure import Bound, Condition, Effect, Structure
from kvrm.memory import PAGE
from loop_cases import (
    ADVERSARIES,
    BYTES,
    COPY,
    COUNT,
    EXECUTABLE,
    FILL,
    LENGTH,
    MEMCPY,
    MEMSET,
    READ_ONLY,
    SIEVE,
    STACK_COUNTS,
    SUM,
    TIGHT,
    WRITABLE,
    Run,
    set_registers,
)
from loop_maker import Maker, random_start
from loop_tools import BRK, CODE, DATA, Lab, Outcome, add, back, encode


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(1)


def both(lab: Lab, body: list[int], budget: int = 100_000, **registers: int) -> tuple[Outcome, int]:
    """What both ways of running leave, which must be the same, and how many iterations were skipped."""
    lab.load(body)
    set_registers(lab, registers)
    start = lab.state.save()
    plain = lab.run(lab.plain, start, budget, frozenset())
    lab.install()
    skipped = lab.run(lab.skipping, start, budget, frozenset())
    assert skipped == plain
    return plain, lab.iterations()


# -- the analyser --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "structure"),
    [
        (TIGHT, Structure(True, 2, None, Bound.ZERO, None, Condition.NE, Effect.PURE)),
        (FILL, Structure(True, 2, None, Bound.ZERO, None, Condition.NE, Effect.FILL)),
        (COPY, Structure(True, 2, None, Bound.ZERO, None, Condition.NE, Effect.COPY)),
        (SUM, Structure(True, 0, None, Bound.REGISTER, 2, Condition.NE, Effect.REDUCTION)),
        (LENGTH, Structure(False, None, None, Bound.ZERO, None, Condition.NE, Effect.SEARCH)),
        (MEMSET, Structure(True, 2, None, Bound.CONSTANT, None, Condition.HI, Effect.FILL)),
        (MEMCPY, Structure(True, 2, None, Bound.CONSTANT, None, Condition.HI, Effect.COPY)),
        (SIEVE, Structure(True, 0, 1, Bound.REGISTER, 6, Condition.LE, Effect.FILL)),
    ],
)
def test_structures(body: list[int], structure: Structure) -> None:
    assert analyse(body, CODE).structure == structure


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([encode("str_x_post", imm9=8, Rn=0, Rt=2), *COUNT], "a counter is stored"),
        ([encode("ldr_x_unsigned", Rn=0, Rt=0), *COUNT], "does not go in equal steps"),
        ([encode("adcs", sf=1, Rm=3, Rn=3, Rd=5), *COUNT], "flags of the iteration before"),
        ([encode("ldxr_x", Rn=0, Rt=4), *COUNT], "system register|aligned"),
        ([encode("fadd_scalar", ftype=1, Rm=1, Rn=1, Rd=1), *COUNT], "floating-point"),
        ([encode("ubfm", sf=1, N=1, immr=1, imms=63, Rn=5, Rd=5), *COUNT], "read that is not known"),
        ([add(3, 1), encode("cbnz", sf=1, Rt=2)], "does not depend on a counter"),
        ([encode("b", imm26=2), *COUNT], "a branch"),
        (
            [encode("ldr_x_unsigned", Rn=0, Rt=5), encode("str_x_unsigned", Rn=0, Rt=3), *COUNT],
            "loads beside stores",
        ),
    ],
)
def test_what_is_not_understood_says_why(body: list[int], reason: str) -> None:
    with pytest.raises(Unsuitable, match=reason):
        analyse(back(body), CODE)


def test_an_instruction_that_the_machine_lacks_is_no_loop() -> None:
    body = back([encode("dc_cvap", Rt=1), *COUNT])
    assert analyse(body, CODE).structure.effect is Effect.PURE
    with pytest.raises(Unsuitable, match="that there is not"):
        analyse(body, CODE, feature_set("armv8.0"))


def test_loops_are_found() -> None:
    words = [add(1, 1), *FILL, add(1, 1), *LENGTH, encode("b", imm26=-3)]
    assert list(loops_in(words)) == [(1, 3), (5, 6)]
    assert [loop_at(words, i) for i in range(8)] == [None, (1, 3), (1, 3), (1, 3), None, (5, 6), (5, 6), None]


# -- skips that are worth having -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "registers", "iterations"),
    [
        (TIGHT, {"x2": 1000, "x3": 7}, 999),
        (FILL, {"x0": DATA + 24, "x2": 100, "x3": 77}, 99),
        (BYTES, {"x0": WRITABLE + 3, "x2": 4000, "x3": 0x1AB}, 3999),
        (COPY, {"x0": DATA + PAGE - 56, "x1": READ_ONLY, "x2": 300}, 299),
        (SUM, {"x0": READ_ONLY + 1, "x2": READ_ONLY + 3001, "x5": -5}, 2999),
        (MEMSET, {"x3": DATA + 4096 - 200, "x2": 64 * 40}, 39),
        (SIEVE, {"x3": DATA, "x0": 10, "x1": 7, "x6": 9000}, (9000 - 10) // 7),
    ],
)
def test_all_iterations_but_the_last_are_skipped(
    lab: Lab, body: list[int], registers: dict[str, int], iterations: int
) -> None:
    """With pages present; the first run has touched them."""
    lab.load(body)
    for page in range(6):
        lab.memory.own(DATA + page * PAGE)
        lab.memory.resolve(DATA + page * PAGE, 2)
    _, skipped = both(lab, body, **registers)
    assert iterations - 8 <= skipped <= iterations


def test_a_search_skips_up_to_what_it_looks_for(lab: Lab) -> None:
    data = lab.memory.read(READ_ONLY, PAGE)
    zero = data.index(b"\0", 1)
    _, iterations = both(lab, LENGTH, x0=READ_ONLY + 1)
    assert iterations == zero - 1 or iterations == 0


# -- adversaries ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("runs", ADVERSARIES)
def test_adversaries(lab: Lab, runs: Callable[[], Iterable[Run]]) -> None:
    for run in runs():
        both(lab, run.body, run.budget, **run.registers)


def test_the_stack_pointer_may_count() -> None:
    assert analyse(STACK_COUNTS, CODE).structure.counter == SP


@pytest.mark.parametrize(("start", "skips"), [(0, True), (8, False), (1, False)])
def test_iterations_are_skipped_only_while_sp_is_aligned(lab: Lab, start: int, skips: bool) -> None:
    sp = DATA + start
    outcome, iterations = both(lab, STACK_COUNTS, sp=sp, x6=sp + 3200, x3=3)
    assert (iterations > 100) is skips
    assert (outcome.retired == 0) is not skips


def test_a_copy_whose_registers_hold_something_else_is_not_skipped(lab: Lab) -> None:
    """What MEMCPY stores first is not what is in front of its source; the second iteration's is."""
    outcome, iterations = both(lab, MEMCPY, x1=READ_ONLY, x3=DATA + PAGE, x2=64 * 20)
    assert iterations == 0 and outcome.retired > 100


def test_a_copy_whose_registers_hold_what_was_loaded_is(lab: Lab) -> None:
    lab.load(MEMCPY)
    source = READ_ONLY + 256
    words = [lab.memory.read(source + 16 * i, 16) for i in range(1, 5)]
    lab.state.pc, lab.state.x[1], lab.state.x[3], lab.state.x[2] = CODE, source, DATA + 3 * PAGE + 5, 64 * 20
    for i, word in enumerate(words):
        lab.state.v[i] = int.from_bytes(word, "little")
    lab.memory.resolve(DATA + 3 * PAGE, 2)
    start = lab.state.save()
    plain = lab.run(lab.plain, start, 10_000, frozenset())
    lab.memory.resolve(DATA + 3 * PAGE, 2)
    assert lab.install()
    assert lab.run(lab.skipping, start, 10_000, frozenset()) == plain
    assert lab.iterations() > 10


@pytest.mark.parametrize("step", [31, 32, 33, 48, 0])
def test_pairs_of_vectors_are_stored_in_the_order_of_iterations(lab: Lab, step: int) -> None:
    """Each iteration stores 32 bytes, which the next one may overlap."""
    store = encode("stp_q_offset", imm7=0, Rt2=22, Rn=0, Rt=21)
    lab.state.v[21], lab.state.v[22] = (int.from_bytes(bytes(range(n, n + 16)), "little") for n in (1, 101))
    for page in range(2):
        lab.memory.resolve(DATA + page * PAGE, 2)
    _, skipped = both(lab, back([store, add(0, step), *COUNT]), x0=DATA + 40, x2=90)
    assert (skipped > 80) is (step != 31)


def test_stores_into_code_are_not_skipped(lab: Lab) -> None:
    """Pages that can be executed, of others and its own."""
    _, iterations = both(lab, FILL, x0=EXECUTABLE + 8, x2=100, x3=1)
    assert iterations == 0
    machine, plain = (_writes_itself(policies) for policies in ({"loops": "oracle"}, {}))
    for m in (machine, plain):
        m.run(max_instructions=30_000)
    assert list(machine.x) == list(plain.x) and machine.pc == plain.pc
    assert machine.memory[0x1000:0x3000] == plain.memory[0x1000:0x3000]


def _writes_itself(policies: dict[str, str]) -> kvrm.Machine:
    """A fill of two pages that begins in front of itself, on a page that may be written and executed."""
    machine = kvrm.Machine(engine="interpreter", policies=policies)
    words = b"".join(word.to_bytes(4, "little") for word in [*FILL, BRK])
    machine.write_memory(0x1000, bytes(2 * PAGE), "rwx")
    machine.write_memory(0x1800, words)
    machine.set_pc(0x1800)
    machine.x[0], machine.x[2], machine.x[3] = 0x1000, 1000, 0x1234
    return machine


def test_every_budget(lab: Lab) -> None:
    """It may end in the loop, at any instruction."""
    for body in (FILL, COPY, SUM, LENGTH, TIGHT):
        for budget in range(1, 90):
            outcome, _ = both(lab, body, budget, x0=DATA + 8, x1=READ_ONLY, x2=25, x3=3)
            assert outcome.retired <= budget


def test_a_loop_with_a_breakpoint_inside_is_not_skipped(lab: Lab) -> None:
    for at in range(len(FILL) + 1):
        lab.load(FILL)
        lab.state.pc, lab.state.x[0], lab.state.x[2] = CODE, DATA + 8, 40
        start, breaks = lab.state.save(), frozenset({CODE + 4 * at})
        plain = lab.run(lab.plain, start, 1000, breaks)
        lab.skipping.run(0, breaks)
        assert lab.install() == (at == len(FILL))
        assert lab.run(lab.skipping, start, 1000, breaks) == plain
        lab.skipping.run(0, frozenset())
        lab.plain.run(0, frozenset())


def test_a_breakpoint_that_is_set_later_stops_the_loop(lab: Lab) -> None:
    lab.load(TIGHT)
    assert lab.install()
    lab.state.pc, lab.state.x[2] = CODE, 100
    outcome = lab.run(lab.skipping, lab.state.save(), 1000, frozenset({CODE + 4}))
    assert outcome.pc == CODE + 4 and outcome.retired == 1
    lab.skipping.run(0, frozenset())


def test_code_that_is_written_is_forgotten(lab: Lab) -> None:
    lab.load(TIGHT)
    assert lab.install()
    other = [encode("add_imm", sf=1, imm12=1, Rn=5, Rd=5), *TIGHT[1:]]
    outcome, _ = both(lab, other, x2=50, x3=7)
    lab.state.load(outcome.state)
    assert lab.state.x[5] == 50


# -- random loops --------------------------------------------------------------------------------------------
def compare(seed: int, wanted: int, each: int = 30) -> int:
    """Run random loops twice until that many runs have skipped iterations; how many runs there were."""
    lab, runs, skips, number = Lab(seed), 0, 0, 0
    while skips < wanted:
        number += 1
        rng = random.Random(seed << 32 | number)
        lab.load(Maker(rng).body())
        if not lab.install():
            continue
        for i in range(each):
            start = random_start(rng, lab)
            budget = rng.choice((3000, 3000, rng.randrange(1, 400)))
            plain = lab.run(lab.plain, start, budget, frozenset())
            lab.install()
            before = lab.iterations()
            skipped = lab.run(lab.skipping, start, budget, frozenset())
            assert skipped == plain, (seed, number, i)
            runs, skips = runs + 1, skips + (lab.iterations() > before)
    return runs


def test_random_loops() -> None:
    assert compare(7, 3000) < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_million_skips(seed: int) -> None:
    compare(seed, 100_000)


@pytest.mark.parametrize("place", [plan.COST, plan.EXIT, plan.MOVING])
def test_wrong_plans_are_seen(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison notices a skip that counts, leaves or moves registers wrongly."""
    right = plan.plan_of

    def wrong(loop: object, head: int, least: int | None = None) -> object:
        words = right(loop, head, least)  # type: ignore[arg-type]
        if place == plan.COST:
            words[place // 8] += 1
        elif place == plan.EXIT:
            words[place // 8] = 0
        else:
            words[place // 8 + 1] = 0
        return words

    monkeypatch.setattr(plan, "plan_of", wrong)
    with pytest.raises(AssertionError):
        compare(7, 300)
