"""The oracles themselves: QEMU and Unicorn agree with each other, and see what they are supposed to see."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

import cross

from . import words
from .case import (
    BRK_WORD,
    BROKEN,
    CODE_BASE,
    DATA_BASE,
    DATA_END,
    DATA_SIZE,
    ENTRY,
    MAX_WORDS,
    PAGE,
    Case,
    Kind,
    Outcome,
    changed_words,
    data_area,
    data_words,
    differences,
)
from .operands import Index, aim_memory, chosen_float, chosen_integer, chosen_v, random_case
from .qemu import QemuOracle

unicorn_oracle = pytest.importorskip(
    "oracle.unicorn_oracle", reason="Unicorn is not installed", exc_type=ImportError
)

Run = Callable[[Sequence[Case]], list[Outcome]]


@pytest.fixture(scope="module")
def qemu_run() -> Run:
    reason = QemuOracle.unavailable()
    if reason:
        pytest.skip(reason)
    return QemuOracle().run


@pytest.fixture(scope="module")
def unicorn_run() -> Run:
    run: Run = unicorn_oracle.UnicornOracle().run
    return run


@pytest.fixture(params=["qemu_run", "unicorn_run"])
def run(request: pytest.FixtureRequest) -> Run:
    run: Run = request.getfixturevalue(request.param)
    return run


def start(*lines: str, **registers: int) -> Case:
    """A case for assembly `lines` with random registers but those named (x0, v3, sp, ...)."""
    case = random_case(Random(1), cross.assemble(lines), data_seed=7)
    case.fpsr = 0
    for name, value in registers.items():
        if name[0] in "xv" and name[1:].isdigit():
            getattr(case, name[0])[int(name[1:])] = value
        else:
            setattr(case, name, value)
    return case


def test_qemu_and_unicorn_agree_on_integer_words(qemu_run: Run, unicorn_run: Run) -> None:
    rng = Random(20)
    cases = []
    for word in cross.assemble(words.REGISTER_FORMS):
        cases += [random_case(rng, (word,), esize=64, data_seed=1) for _ in range(10)]
    for line, word in zip(words.MEMORY_FORMS, cross.assemble([*words.MEMORY_FORMS]), strict=True):
        for _ in range(10):
            case = random_case(rng, (word,), data_seed=1)
            access = words.MEMORY_FORMS[line]
            aim_memory(
                rng, case, access.base, size=access.size, offset=access.offset, index=access.index, miss=0
            )
            cases.append(case)
    found = []
    for case, want, got in zip(cases, qemu_run(cases), unicorn_run(cases), strict=True):
        assert want.kind is Kind.BRK, (case, want)
        if lines := differences(want, got):
            found.append(f"{case.words[0]:08x}: {'; '.join(lines)}")
    assert not found, found


def test_faulting_loads_agree(qemu_run: Run, unicorn_run: Run) -> None:
    rng = Random(21)
    loads = [line for line in words.MEMORY_FORMS if line.startswith("ld")]
    cases = []
    for line, word in zip(loads, cross.assemble(loads), strict=True):
        access = words.MEMORY_FORMS[line]
        for _ in range(10):
            case = random_case(rng, (word,), data_seed=1)
            aim_memory(
                rng, case, access.base, size=access.size, offset=access.offset, index=access.index, miss=1
            )
            cases.append(case)
    faults = 0
    for case, want, got in zip(cases, qemu_run(cases), unicorn_run(cases), strict=True):
        assert not differences(want, got), (case, differences(want, got))
        faults += want.kind is Kind.FAULT
    assert faults > len(cases) * 3 // 4


def test_fp_words_agree(qemu_run: Run, unicorn_run: Run) -> None:
    rng = Random(22)
    cases = [
        random_case(rng, (word,), esize=esize, fp=True, data_seed=1)
        for esize, lines in words.FP_FORMS.items()
        for word in cross.assemble(lines)
        for _ in range(50)
    ]
    for case, want, got in zip(cases, qemu_run(cases), unicorn_run(cases), strict=True):
        assert not differences(want, got), (case, differences(want, got))


def test_nothing_else_changes(run: Run) -> None:
    case = start("udiv x0, x1, x2", x1=100, x2=7)
    (outcome,) = run([case])
    want = Outcome(
        Kind.BRK, ENTRY + 4, None, (14, *case.x[1:]), case.sp, tuple(case.v), case.nzcv, 0, 0, case.tpidr, {}
    )
    assert differences(want, outcome) == []
    assert outcome == want


def test_data_area_is_the_generators(run: Run) -> None:
    loads = start("ldr x0, [x3]", "ldr x1, [x4]", x3=DATA_BASE, x4=DATA_END - 8)
    store = start("strb w0, [x3]", x0=0, x3=DATA_BASE + 9)
    first, second = run([loads, store])
    assert first.x[:2] == (data_words(7)[0], data_words(7)[-1])
    area = bytearray(data_area(7))
    area[9] = 0
    assert second.data == changed_words(7, bytes(area)) == {8: int(data_words(7)[1]) & ~0xFF00}
    assert run([loads])[0] == first


@pytest.mark.parametrize(
    ("line", "x1", "kind", "pc", "address"),
    [
        ("ldr x0, [x1]", DATA_END - 4, Kind.FAULT, ENTRY, DATA_END),
        ("ldr x0, [x1]", DATA_BASE - 4, Kind.FAULT, ENTRY, DATA_BASE - 4),
        ("str x0, [x1]", ENTRY + 64, Kind.FAULT, ENTRY, ENTRY + 64),
        ("br x1", DATA_BASE, Kind.FAULT, DATA_BASE, DATA_BASE),
        ("br x1", CODE_BASE - 4, Kind.FAULT, CODE_BASE - 4, CODE_BASE - 4),
        ("br x1", CODE_BASE + PAGE, Kind.BRK, CODE_BASE + PAGE, None),
        ("br x1", CODE_BASE + 2, Kind.ALIGNMENT, CODE_BASE + 2, CODE_BASE + 2),
        ("ldxr x0, [x1]", DATA_BASE + 4, Kind.ALIGNMENT, ENTRY, None),
        ("brk #77", 0, Kind.BRK, ENTRY, None),
        ("hlt #0", 0, Kind.UNDEFINED, ENTRY, None),
        ("udf #0", 0, Kind.UNDEFINED, ENTRY, None),
        ("msr daifset, #2", 0, Kind.UNDEFINED, ENTRY, None),
        ("b . + 64", 0, Kind.BRK, ENTRY + 64, None),
        ("b . - 0x8000000", 0, Kind.FAULT, ENTRY - 0x8000000, ENTRY - 0x8000000),
    ],
)
def test_stops(run: Run, line: str, x1: int, kind: Kind, pc: int, address: int | None) -> None:
    case = start(line, x1=x1)
    (outcome,) = run([case])
    assert (outcome.kind, outcome.pc) == (kind, pc)
    if address is not None:
        assert outcome.fault_address == address
    assert outcome.x == tuple(case.x)


def test_blocks_and_stack(run: Run) -> None:
    push = start(
        "mov sp, x1", "stp x2, x30, [sp, #-16]!", "mov x18, sp", "ldp x3, x4, [sp], #16", x1=DATA_END
    )
    loop = start("mov x0, #10", "subs x0, x0, #1", "b.ne . - 4", "cset x1, eq")
    pushed, looped = run([push, loop])
    assert (pushed.x[18], pushed.sp, pushed.x[3:5]) == (DATA_END - 16, DATA_END, (push.x[2], push.x[30]))
    assert pushed.data == {DATA_SIZE - 16: push.x[2], DATA_SIZE - 8: push.x[30]}
    assert (looped.x[:2], looped.nzcv, looped.pc) == ((0, 1), 0b0110, ENTRY + 16)


def test_endless_words_time_out_and_others_go_on(run: Run) -> None:
    good = start("add x0, x1, x2", x1=1, x2=2)
    outcomes = run([good, start("b ."), good, start("str x1, [x3]", "b . - 4", x3=DATA_BASE), good])
    assert [outcome.kind for outcome in outcomes] == [
        Kind.BRK,
        Kind.TIMEOUT,
        Kind.BRK,
        Kind.TIMEOUT,
        Kind.BRK,
    ]
    assert outcomes[0] == outcomes[2] == outcomes[4]
    assert outcomes[0].data == {}


def test_cases_are_independent(run: Run) -> None:
    """No exclusive monitor, system register, code or data of one case is seen by the next."""
    reserve = start("ldxr x0, [x1]", x1=DATA_BASE)
    store = start("stxr w2, x3, [x1]", x1=DATA_BASE)
    system = start(
        "msr fpcr, x1", "msr fpsr, x1", "msr tpidr_el0, x1", "str x1, [x4]", x1=0x0300_0000, x4=DATA_BASE
    )
    lone = run([store])
    assert lone[0].x[2] == 1
    assert run([reserve, store, system, store])[1::2] == lone * 2
    both = start("ldxr x0, [x1]", "stxr w2, x3, [x1]", x1=DATA_BASE)
    assert run([both])[0].x[2] == 0


def test_refuses_what_it_must(run: Run) -> None:
    with pytest.raises(ValueError, match="SVC"):
        run([Case((0xD400_0001,))])
    with pytest.raises(ValueError, match="words"):
        run([Case(())])
    with pytest.raises(ValueError, match="words"):
        run([Case((BRK_WORD,) * (MAX_WORDS + 1))])


def test_qemu_model_limits_features(qemu_run: Run) -> None:
    atomic = start("ldadd x0, x1, [x2]", x2=DATA_BASE)
    assert qemu_run([atomic])[0].kind is Kind.BRK
    assert QemuOracle("cortex-a57").run([atomic])[0].kind is Kind.UNDEFINED
    with pytest.raises(RuntimeError, match="no-such-cpu"):
        QemuOracle("no-such-cpu").run([atomic])


def test_a_case_that_kills_qemu_costs_only_itself(qemu_run: Run, tmp_path: Path) -> None:
    oracle = QemuOracle()
    cut_short = tmp_path / "qemu"
    cut_short.write_text(f'#!/bin/sh\n"{oracle._qemu}" "$@" | head -c 2000\n')
    cut_short.chmod(0o755)
    cases = [start("mov x0, x1", x1=i) for i in range(7)]
    want = qemu_run(cases)
    oracle._qemu = str(cut_short)
    assert oracle.run(cases) == [*want[:2], BROKEN, *want[3:5], BROKEN, want[6]]


def test_differences_name_what_differs(qemu_run: Run) -> None:
    (outcome,) = qemu_run([start("nop")])
    planted = dataclasses.replace(
        outcome, x=(outcome.x[0] ^ 1, *outcome.x[1:]), nzcv=outcome.nzcv ^ 2, data={8: 1}
    )
    assert [line.split(":")[0] for line in differences(outcome, planted)] == ["nzcv", "x0", "data[0x8]"]


def test_chosen_values_fit_and_vary() -> None:
    rng = Random(5)
    for bits in (8, 16, 32, 64):
        values = {chosen_integer(rng, bits) for _ in range(2000)}
        assert {0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1} <= values
        assert all(0 <= value < 1 << bits for value in values)
    for bits, infinity in ((16, 0x7C00), (32, 0x7F80_0000), (64, 0x7FF0_0000_0000_0000)):
        floats = {chosen_float(rng, bits) for _ in range(2000)}
        assert all(0 <= value < 1 << bits for value in floats)
        assert {0, 1 << bits - 1, 1, infinity, infinity - 1, infinity + 1} <= floats
        assert chosen_v(rng, bits, fp=True) < 1 << 128


def test_aimed_addresses_are_those_accessed(qemu_run: Run) -> None:
    rng = Random(6)
    word = cross.assemble(["strb w1, [x2, w3, sxtw #0]"])
    cases, targets = [], []
    for _ in range(200):
        case = random_case(rng, word, data_seed=1)
        targets.append(aim_memory(rng, case, 2, size=1, index=Index(3, 6, 0), tag=0.5))
        cases.append(case)
    for case, target, outcome in zip(cases, targets, qemu_run(cases), strict=True):
        if outcome.kind is Kind.FAULT:
            assert outcome.fault_address == target
        elif data_area(1)[target - DATA_BASE] != case.x[1] & 0xFF:
            assert list(outcome.data) == [(target - DATA_BASE) // 8 * 8]
    assert {outcome.kind for outcome in qemu_run(cases)} == {Kind.BRK, Kind.FAULT}
