"""One of each is added in the way that docs/design/extending.md says, and used."""

from __future__ import annotations

import inspect
import os
import re
import struct
import subprocess
import sys
from collections.abc import Set
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import device_on_host
import kvrm
from kvrm.backend import protocols
from kvrm.backend.cpu.workers import CpuBackend
from kvrm.backend.gpu import driver, warp
from kvrm.backend.gpu.runner import GpuBackend
from kvrm.engine.interpreter.engine import Interpreter
from kvrm.engine.interpreter.library import library
from kvrm.engine.interpreter.stage import HandlerStage
from kvrm.engine.interpreter.variant_handlers import build_handlers
from kvrm.isa.a64 import decode
from kvrm.isa.execution import execution_of
from kvrm.linux.files.devices import DEVICES, Character
from kvrm.linux.syscall_table import TABLE
from kvrm.machine.engines import TARGETS
from kvrm.machine.lanes_job import Job
from kvrm.machine.policies import POLICIES
from kvrm.machine.runner import Plan
from kvrm.observe.observer import Accesses
from kvrm.staging.emitter import Module
from lane_tools import DATA
from lane_tools import machine as function
from linux_tools import Elf, Guest
from store_counter import CountingStage, StoreCounter

PAGE = Path(__file__).parents[2] / "docs/design/extending.md"


def test_each_row_of_the_page_is_tried() -> None:
    rows = re.findall(r"^\| an? ([^|]*) \|", PAGE.read_text(), re.M)
    assert rows == ["instruction", "system call", "device", "observer", "policy", "backend", "GPU driver"]
    for row in rows:
        assert any(name.startswith(f"test_{row.replace(' ', '_').lower()}") for name in globals()), row


def machine(**options: Any) -> kvrm.Machine:
    """A machine that is about to do nine rounds of arithmetic, each with a store."""
    m = function("interpreter", **options)
    m.x[1] = 9
    return m


INSTRUCTION = """
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, Static, insn
from kvrm.values import Bits

EXECUTION = Execution.ARITHMETIC

@insn("TRIPLE", "sf 000000 1111 00000000000 Rn:5 Rd:5", "triple {Rd:R}, {Rn:R}")
def triple(m: Context, sf: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 if sf else 32
    m.x[Rd, n] = m.x[Rn, n] + m.x[Rn, n] + m.x[Rn, n]
"""
USES_IT = """
import group_of_its_own
import kvrm
for engine in ("reference", "interpreter"):
    m = kvrm.Machine(engine=engine)
    m.write_memory(0x1000, (1 << 31 | 0b1111 << 21 | 5 << 5 | 7).to_bytes(4, "little"), prot="rx")
    m.x[5] = 14
    m.set_pc(0x1000)
    print(m.run(max_instructions=1).stop, m.x[7], *m.disassemble(0x1000))
"""


def test_instruction(tmp_path: Path) -> None:
    (tmp_path / "group_of_its_own.py").write_text(INSTRUCTION)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "KVRM_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", USES_IT], env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.stdout == 2 * "Stop.BUDGET 42 triple x7, x5\n", done.stderr


def test_system_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest makes it, and ends with its result."""
    module = ModuleType("kvrm.linux.calls.example")
    module.triple = lambda process, n: 3 * n  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    row = replace(TABLE[166], number=600, name="triple", function="example.triple")
    assert row.kinds in "uxo"
    monkeypatch.setitem(TABLE, 600, row)
    code = (0xD2804B08, 0xD28001C0, 0xD4000001, 0xD2800BA8, 0xD4000001)  # x8 = 600, x0 = 14, svc; exit
    program = Elf(patches={0x800: struct.pack("<5I", *code)}).data()
    assert kvrm.Machine(program).run().exit_code == 42


def test_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(DEVICES, "ones", Character(240, 0, lambda process, size: size * b"\1", full=True))
    guest = Guest(tmp_path)
    assert guest.contents("/dev/ones") == (1 << 19) * b"\1"
    assert guest.put("/dev/ones", b"x") == -28  # ENOSPC
    assert guest.stat("/dev/ones")[6] == os.makedev(240, 0)


class Counting:
    """Notes every instruction, and every access."""

    def __init__(self) -> None:
        self.retired: list[int] = []
        self.after_each = 0
        self.accesses: list[Accesses] = []

    def before(self, retired: int) -> None:
        self.retired.append(retired)

    def after(self) -> None:
        self.after_each += 1

    def attach(self, peek: Any) -> None:
        self.peek = peek

    def feed(self, a: Accesses) -> None:
        self.accesses.append(a)


def test_observer_of_instructions() -> None:
    plain, observer = machine(), Counting()
    m = machine(observers=[observer])
    expected, result = plain.run(), m.run()
    assert (result.stop, result.retired, m.pc) == (expected.stop, expected.retired, plain.pc)
    assert observer.retired == list(range(result.retired)) and observer.after_each == result.retired


def test_observer_of_accesses() -> None:
    plain = machine()
    plain.run()
    for given in ("observers", "policies"):
        observer = Counting()
        m = machine(observers=[observer]) if given == "observers" else machine(policies={"memory": observer})
        assert m.run().retired == plain.retired
        assert sum(len(a.address) for a in observer.accesses) == 1 + 9
        assert all(observer.peek(int(pc), 4) for a in observer.accesses for pc in np.unique(a.pc))


def test_observer_in_handlers() -> None:
    """One that counts in native code, of which a run without instructions has none."""
    plain, observer = machine(), StoreCounter()
    m = machine(observers=[observer])
    expected, result = plain.run(), m.run()
    assert (result.stop, result.retired, m.pc) == (expected.stop, expected.retired, plain.pc)
    assert observer.bytes_stored == 9 * 8


def handlers_text(stage: type[HandlerStage]) -> str:
    """LLVM text of a few handlers."""
    module = Module(name="handlers")
    for word in (0xF9000440, 0xA9400C22, 0xF1000421, 0x54FFFFA1, 0x1E622820):
        decoded = decode(word)
        assert decoded is not None
        definition = decoded.definition
        build_handlers(module, definition.key, definition, definition.statics_of(word), stage)
    return str(module)


def test_observer_that_is_not_there_costs_nothing() -> None:
    """Handlers are those that an observer would get which emits nothing, and watched ones are kept apart."""
    watched, plain = machine(observers=[StoreCounter()]).lane.engine, machine().lane.engine
    assert type(watched) is type(plain) is Interpreter and plain.enterable and not watched.enterable
    empty = type("Empty", (HandlerStage,), {})
    assert handlers_text(empty) == handlers_text(HandlerStage) != handlers_text(CountingStage)
    assert library() is library("") and library(StoreCounter.stage) is not library()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observers": [object()]}, "methods of an observer"),
        ({"observers": [Counting]}, "methods of an observer"),
        ({"observers": 7}, "a set or list"),
        ({"observers": [Counting()], "lanes": 2}, "one lane"),
        ({"observers": [StoreCounter(), StoreCounter()]}, "one observer"),
        ({"observers": [StoreCounter(), Counting()]}, "one observer"),
        ({"observers": [StoreCounter()], "policies": {"loops": "rule"}}, "skips loops"),
        ({"observers": [StoreCounter()], "policies": {"dispatch": "inline"}}, "dispatch=inline"),
        ({"observers": [StoreCounter()], "engine": "tiered"}, "engine interpreter"),
    ],
)
def test_observers_that_a_machine_cannot_have(options: dict[str, Any], message: str) -> None:
    with pytest.raises(kvrm.UsageError, match=message):
        kvrm.Machine(**options)


def test_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("policies_of_its_own")
    module.mine = execution_of  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(POLICIES["dispatch"], "mine", "policies_of_its_own:mine")
    m, plain = machine(policies={"dispatch": "mine"}), machine()
    assert m.run().retired == plain.run().retired and m.policies["dispatch"].words > 0


class CountingBackend(CpuBackend):
    """Runs lanes on the CPU, and notes how many instructions they may run."""

    def run(self, job: Job, plan: Plan, breakpoints: Set[int], threads: int) -> None:
        self.budget = plan.budget
        super().run(job, plan, breakpoints, threads)


def test_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("backend_of_its_own")
    module.Mine = CountingBackend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(TARGETS, "mine", "backend_of_its_own:Mine")
    lanes, plain = machine(target="mine").fork(3), machine().fork(3)
    results = lanes.run(50)
    assert results.retired.tolist() == plain.run(50).retired.tolist()
    assert isinstance(lanes.backend, CountingBackend) and lanes.backend.budget == 50


def parameters(function: Any) -> list[tuple[str, Any]]:
    """Names and defaults of a method's parameters."""
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(
    ("protocol", "implementations"),
    [
        (protocols.Backend, (CpuBackend, GpuBackend)),
        (protocols.Driver, (driver.Device, device_on_host.HostDevice)),
        (protocols.Module, (driver.Module, device_on_host.HostModule)),
        (protocols.Kernel, (driver.Kernel, device_on_host.HostKernel)),
        (protocols.Buffer, (driver.Buffer, device_on_host.HostBuffer)),
        (warp.Warp, (warp.NvidiaWarp, device_on_host.WarpOfOne)),
    ],
)
def test_implementations_have_what_is_declared(protocol: type, implementations: tuple[type, ...]) -> None:
    declared = {name: value for name, value in vars(protocol).items() if inspect.isfunction(value)}
    methods = {name: value for name, value in declared.items() if not name.startswith("_")}
    assert methods
    for implementation in implementations:
        for name, method in methods.items():
            assert parameters(getattr(implementation, name)) == parameters(method), (implementation, name)


def test_gpu_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' driver, which is one that the package does not have, runs a machine."""
    device_on_host.use("host", monkeypatch)
    m, plain = machine(target="cuda"), machine()
    assert m.run().retired == plain.run().retired
    assert m.memory[DATA : DATA + 64] == plain.memory[DATA : DATA + 64]
