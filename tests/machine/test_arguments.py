"""A mistake of the caller is a KvrmError that says what to do; numpy's numbers are numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvrm
from patience import SECONDS

LOOP = bytes.fromhex("00040091ffffff17")  # add x0, x0, #1; b .-4
TOP = 1 << 39
NO_INTEGERS = [1.5, 4096.0, "4096", b"x", None, True, [4096], np.float64(4), np.array([1, 2])]


def machine(**options: Any) -> kvrm.Machine:
    m = kvrm.Machine(**options)
    m.write_memory(0x1000, LOOP, prot="rx")
    m.set_pc(0x1000)
    return m


def refused(action: Callable[[], Any]) -> None:
    """It is a KvrmError of one line that does not blame KVRM."""
    with pytest.raises(kvrm.KvrmError) as error:
        action()
    assert not isinstance(error.value, kvrm.HostError)
    assert "\n" not in str(error.value) and "fault of KVRM" not in str(error.value)


# -- numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [v for v in NO_INTEGERS if v is not None] + [-1])
def test_budgets_are_integers(value: Any) -> None:
    m = machine()
    for name in ("max_instructions", "max_batches", "instructions_per_batch"):
        refused(lambda name=name: m.run(**{name: value}))
        refused(lambda name=name: m.start(**{name: value}))
    assert m.run(max_instructions=4).retired == 4


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.uint64])
def test_numpy_integers_are_integers(kind: Any) -> None:
    m = machine()
    assert m.run(max_instructions=kind(6)).retired == 6
    m.set_pc(np.uint64(0x1000))
    m.breakpoints.add(np.uint32(0x1004))
    assert m.run(max_instructions=100).stop is kvrm.Stop.BREAKPOINT
    m.x[kind(3)] = kind(7)
    m.sp = np.int64(-16)
    assert m.x[3] == 7 and m.sp == (1 << 64) - 16
    m.x[0] = np.int64(-1)
    assert m.x[0] == (1 << 64) - 1
    assert m.read_memory(np.uint64(0x1000), kind(8)) == LOOP


@pytest.mark.parametrize("value", [v for v in NO_INTEGERS if v is not None])
def test_registers_take_integers(value: Any) -> None:
    m = machine()
    m.x[0] = 5

    def put(name: str) -> None:
        setattr(m, name, value)

    def put_element(file: Any, index: Any, what: Any) -> None:
        file[index] = what

    for name in ("sp", "pc", "nzcv", "fpcr", "fpsr"):
        refused(lambda name=name: put(name))
    for file in (m.x, m.v):
        refused(lambda file=file: put_element(file, 0, value))
        refused(lambda file=file: put_element(file, value, 0))
    assert (m.x[0], m.pc) == (5, 0x1000)


@pytest.mark.parametrize("index", [31, 32, 100, 1 << 70, slice(0, 4)])
def test_registers_that_do_not_exist(index: Any) -> None:
    m = machine()
    refused(lambda: m.x[index])
    if index != 31:
        refused(lambda: m.v[index])


def test_system_registers_keep_what_msr_keeps() -> None:
    m = machine()
    for value in (1 << 40, (1 << 64) - 1, 1 << 31):
        m.fpcr = value
        got, code = m.fpcr, bytes.fromhex("00441bd5")  # msr fpcr, x0
        other = kvrm.Machine()
        other.write_memory(0x2000, code, prot="rx")
        other.set_pc(0x2000)
        other.x[0] = value
        other.run(max_instructions=1)
        assert got == other.fpcr and got < 1 << 32


# -- addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", [0x1001, 0x1002, 0x1003, -4, TOP + 2, 1 << 64, *NO_INTEGERS])
def test_a_breakpoint_is_where_an_instruction_can_be(address: Any) -> None:
    m = machine()
    lanes = m.fork(2)
    for points in (m.breakpoints, lanes.breakpoints):
        points.add(0x1000)
        refused(lambda points=points: points.add(address))
        refused(lambda points=points: points.update([0x1004, address]))
        refused(lambda points=points: points.symmetric_difference_update([0x1004, address]))
        refused(lambda points=points: points.discard(address))
        assert points == {0x1000}

    def assign(to: Any) -> None:
        to.breakpoints = {0x1004, address} if address.__hash__ else [address]

    refused(lambda: assign(m))
    refused(lambda: assign(lanes))
    assert m.breakpoints == lanes.breakpoints == {0x1000}


@pytest.mark.parametrize("engine", ["tiered", "interpreter", "translator", "reference"])
@pytest.mark.parametrize("pc", [0x1001, 0x1002, TOP, 1 << 52, (1 << 56) - 4, 0x41414141414141])
def test_a_pc_where_no_instruction_can_be(engine: str, pc: int) -> None:
    m = machine(engine=engine)
    m.set_pc(pc)
    result = m.run(max_instructions=10)
    assert (result.stop, result.retired) == (kvrm.Stop.FAULT, 0)
    assert result.fault is not None and result.fault.mapped == (pc in (0x1001, 0x1002))
    assert result.signal == (7 if pc % 4 else 11)


@pytest.mark.parametrize("start", [-1, TOP, TOP - 4, 1 << 64, *[v for v in NO_INTEGERS if v is not None]])
def test_memory_outside_the_address_space(start: Any) -> None:
    m = machine()
    refused(lambda: m.read_memory(start, 8))
    refused(lambda: m.write_memory(start, bytes(8)))
    refused(lambda: m.memory[start : (start + 8 if isinstance(start, int) else 8)])
    refused(lambda: m.disassemble(start, 3))


@pytest.mark.parametrize("length", [-1, 1 << 40, 1.0, "8"])
def test_lengths(length: Any) -> None:
    m = machine()
    refused(lambda: m.read_memory(0x1000, length))
    refused(lambda: m.disassemble(0x1000, length) if length != 1 << 40 else m.read_memory(0, length))


def test_contents_and_permissions() -> None:
    m = machine()
    for data in ("text", None, 5, 1.0, [1, 2]):
        refused(lambda data=data: m.write_memory(0x3000, data))
    for prot in ("rq", 5, None):
        refused(lambda prot=prot: m.write_memory(0x3000, b"x", prot=prot))
    m.write_memory(0x3000, np.arange(4, dtype=np.uint32))
    assert m.read_memory(0x3000, 8) == np.arange(2, dtype=np.uint32).tobytes()


def test_more_than_the_limit() -> None:
    with pytest.raises(kvrm.KvrmError):
        machine(memory_limit=0)


# -- options, lanes and results ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "fast"},
        {"engine": 5},
        {"target": "tpu"},
        {"memory_limit": -1},
        {"memory_limit": 1.5},
        {"features": 5},
        {"features": "none such"},
        {"seed": "s"},
        {"fp_flags": 3},
        {"policies": 5},
        {"lanes": 0},
        {"lanes": 1.0},
        {"lanes": 1 << 60},
        {"args": "one"},
        {"args": [5]},
        {"env": ["A=1"]},
        {"env": {"A": 5}},
        {"stdin": 5},
        {"stdout": "file"},
        {"rw": 5},
        {"root": 5},
    ],
)
def test_options(examples: Path, options: dict[str, Any]) -> None:
    refused(lambda: kvrm.Machine(examples / "hello", **options))


@pytest.mark.parametrize("program", [5, ["hello"], "/no/such/file", b"no program"])
def test_programs(program: Any) -> None:
    refused(lambda: kvrm.Machine(program))


def test_lanes_and_their_results(examples: Path) -> None:
    lanes = kvrm.Machine(examples / "hello").fork(4)
    lanes.keep = ("x1",)
    for count in (0, -1, 1.5, "4", None):
        refused(lambda count=count: kvrm.Machine(examples / "hello").fork(count))
    for name in ("x99", "pc2", 5):
        refused(lambda name=name: lanes.registers[name])
    results = lanes.run()
    refused(lambda: results.registers["x5"])
    for number in (4, -5, 1.0, "0", None):
        refused(lambda number=number: results.lane(number))
    assert results.lane(-1) == results.lane(3)


@pytest.mark.parametrize("timeout", ["1", -1, float("nan"), True, [1]])
def test_timeouts(timeout: Any) -> None:
    m = machine()
    m.start(max_instructions=10)
    refused(lambda: m.wait(timeout))
    assert m.wait(SECONDS).retired == 10
