"""Target "cuda": what lanes do there is what they do on the CPU.

Without a GPU the device's code runs on the host (`device_on_host`); `-m gpu` runs the same on a GPU.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import device_on_host
import device_words
import kvrm
from kvrm import Stop
from kvrm.backend.gpu import device_engine, driver, runner
from kvrm.backend.gpu.arrays import DeviceArray, on_host
from kvrm.isa.a64 import definitions
from lane_tools import CODE, DATA, REGISTERS, SPANS, WORDS, Do, facts, lanes_of, machine, mixture

BUDGET = 2000


pytestmark = pytest.mark.usefixtures("place")


def on(target: str, make: Callable[[], kvrm.Machine], monkeypatch: pytest.MonkeyPatch) -> kvrm.Machine:
    monkeypatch.setenv("KVRM_TARGET", target)
    return make()


class TestLanes:
    def test_a_mixture_of_everything(self, monkeypatch: pytest.MonkeyPatch) -> None:
        what, number = mixture(300)
        want = lanes_of(on("cpu", machine, monkeypatch), what, number).run(BUDGET)
        got = lanes_of(on("cuda", machine, monkeypatch), what, number).run(BUDGET)
        for lane in range(len(what)):
            assert facts(got, lane) == facts(want, lane), (Do(int(what[lane])), int(number[lane]))

    def test_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        what, number = mixture(150)
        want = lanes_of(on("cpu", machine, monkeypatch), what, number)
        got = lanes_of(on("cuda", machine, monkeypatch), what, number)
        for budget in (1, 5, 3, 40, 500):
            one, other = want.run(budget), got.run(budget)
            assert all(facts(one, lane) == facts(other, lane) for lane in range(len(what))), budget

    def test_again_from_the_beginning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        what, number = mixture(100)
        lanes = lanes_of(on("cuda", machine, monkeypatch), what, number)
        first = lanes.run(BUDGET)
        lanes.reset()
        lanes.registers["x1"] = number
        again = lanes.run(BUDGET)
        assert all(facts(first, lane) == facts(again, lane) for lane in range(len(what)))

    def test_breakpoints_of_a_later_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are honoured though a region covers them, which is used again when they are gone."""
        in_loop = CODE + 4 * WORDS.index(0xF9000440)
        seen = []
        for target in ("cpu", "cuda"):
            lanes = lanes_of(on(target, machine, monkeypatch), np.full(40, Do.COUNT), np.arange(40) + 100)
            runs = [lanes.run(50)]
            lanes.breakpoints.add(in_loop)
            runs += [lanes.run(50), lanes.run(50)]
            lanes.breakpoints.remove(in_loop)
            runs.append(lanes.run(150))
            seen.append([facts(r, lane) for r in runs for lane in range(40)])
        assert any(region.covers(in_loop) for region in lanes.backend.code.regions)
        assert seen[0] == seen[1]

    def test_in_the_background(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From the thread that runs it, and after one from this thread."""
        lanes = lanes_of(on("cuda", machine, monkeypatch), np.full(40, Do.COUNT), np.arange(40) + 5)
        want = lanes.run(BUDGET)
        lanes.reset()
        lanes.start(BUDGET)
        got = lanes.wait()
        assert all(facts(got, lane) == facts(want, lane) for lane in range(40))

    def test_arrays_on_the_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What lanes begin with may be there; registers and memory are there without a copy."""
        gpu, rows = driver.device(), np.random.default_rng(1).integers(0, 256, (70, 16), np.uint8)
        number, start = np.arange(70) + 3, SPANS[0].start
        seen = []
        for target in ("cpu", "cuda"):
            lanes = lanes_of(on(target, machine, monkeypatch), np.full(70, Do.COUNT), number)
            buffer = gpu.upload(rows)
            there = DeviceArray(buffer.address, rows.shape, np.uint8, buffer)
            lanes.memory[start + 32 : start + 48] = rows if target == "cpu" else there
            results = lanes.run(BUDGET)
            seen.append([facts(results, lane) for lane in range(70)])
        assert seen[0] == seen[1]
        words = lanes.on_device.registers["x0"].__cuda_array_interface__
        assert words["shape"] == (3, 32) and words["strides"][1] == 8
        for lane in (0, 31, 32, 69):
            one = np.zeros(1, np.uint64)
            at = words["data"][0] + lane // 32 * words["strides"][0] + lane % 32 * 8
            gpu.view(DeviceArray(at, (1,), np.uint64, None)).read(one)
            assert one[0] == results.registers["x0"][lane]
        copied = lanes.on_device.memory[start + 32 : start + 48]
        assert (on_host(gpu, copied) == rows).all()

    @pytest.mark.parametrize("name", ["v1", "nzcv", "x31"])
    def test_bad_arrays(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        buffer = driver.device().upload(bytes(640))
        lanes = on("cuda", machine, monkeypatch).fork(40)
        start = SPANS[0].start
        with pytest.raises(kvrm.UsageError, match="run the lanes first"):
            lanes.on_device  # noqa: B018
        with pytest.raises(kvrm.UsageError, match="takes contiguous uint8 of shape"):
            lanes.memory[start : start + 16] = DeviceArray(buffer.address, (40, 8), np.uint8, buffer)
        with pytest.raises(kvrm.UsageError, match="target is not cuda"):
            on("cpu", machine, monkeypatch).fork(40).memory[start : start + 16] = DeviceArray(
                buffer.address, (40, 16), np.uint8, buffer
            )
        lanes.run(1)
        if name == "v1":
            assert lanes.on_device.registers[name].shape == (2, 32, 2)
        else:
            with pytest.raises(kvrm.UsageError, match="on the device there are"):
                lanes.on_device.registers[name]

    def test_a_breakpoint_that_was_passed_is_passed_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lanes begin at one whose store waits for the pool to grow; the program: str x1, [x2]; brk."""
        seen = []
        for target in ("cpu", "cuda"):
            m = kvrm.Machine(target=target, engine="interpreter")
            m.write_memory(CODE, struct.pack("<2I", 0xF9000041, 0xD4200000), prot="rx")
            m.lane.memory.map(DATA, 64 * 0x1000, kvrm.Prot.R | kvrm.Prot.W)
            m.set_pc(CODE)
            lanes = m.fork(64)
            lanes.registers["x2"] = DATA + 0x1000 * np.arange(64)
            lanes.breakpoints.add(CODE)
            results = lanes.run(10)
            seen.append([(r.stop, r.retired) for r in map(results.lane, range(64))])
        assert seen[0] == seen[1] == [(Stop.BRK, 1)] * 64

    def test_nothing_is_above_the_last_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The program: ldr x0, [x1]; str x0, [x1]; brk; the last page of the address space is mapped."""
        last, seen = (1 << 39) - 0x1000, []
        for target in ("cpu", "cuda"):
            m = kvrm.Machine(target=target, engine="interpreter")
            m.write_memory(CODE, struct.pack("<3I", 0xF9400020, 0xF9000020, 0xD4200000), prot="rx")
            m.write_memory(last, b"last", prot="rw")
            m.set_pc(CODE)
            lanes = m.fork(5)
            lanes.registers["x1"] = [last, last + 0x1000, last + 0xFF9, (1 << 56) - 8, 1 << 40]
            results = lanes.run(10)
            seen.append([(r.stop, r.fault, r.retired) for r in map(results.lane, range(5))])
        assert seen[0] == seen[1]
        assert [stop for stop, _, _ in seen[0]] == [Stop.BRK] + 4 * [Stop.FAULT]

    @pytest.mark.parametrize("megabytes", [8, 1024])
    def test_a_pool_that_runs_out(self, megabytes: int, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        """It grows as long as the device has memory; then lanes that need a page go on on the CPU."""
        if place != "host" and megabytes == 8:
            pytest.skip("a GPU has more memory than this takes")
        monkeypatch.setattr(device_on_host.HostDevice, "memory", megabytes << 20)
        what = np.array([Do.MANY, Do.COUNT, Do.MANY, Do.STRADDLE] * 12)
        want = lanes_of(on("cpu", machine, monkeypatch), what, np.arange(48) + 1)
        got = lanes_of(on("cuda", machine, monkeypatch), what, np.arange(48) + 1)
        for _ in range(2):
            for budget in (700, 301, 2 * BUDGET):
                one, other = want.run(budget), got.run(budget)
                assert all(facts(one, lane) == facts(other, lane) for lane in range(48)), budget
            assert (got.left_device == 0) == (megabytes == 1024)
            want.reset()
            got.reset()

    def test_memory_and_vectors_go_in_and_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(1)
        data, vectors = rng.integers(0, 256, (70, 64), np.uint8), rng.integers(0, 1 << 63, (70, 2), np.uint64)
        runs = []
        for target in ("cpu", "cuda"):
            lanes = on(target, machine, monkeypatch).fork(70)
            lanes.registers["x0"] = np.full(70, Do.STRADDLE)
            lanes.registers["v3"], lanes.registers["nzcv"] = vectors, np.arange(70) % 16
            start = SPANS[0].start
            lanes.memory[start + 4070 : start + 4134] = data
            lanes.keep = (*REGISTERS, "v3", *SPANS)
            runs.append(lanes.run(BUDGET))
        assert all(facts(runs[0], lane) == facts(runs[1], lane) for lane in range(70))
        assert (runs[1].registers["v3"] == vectors).all()


@pytest.mark.parametrize(
    "part", [pytest.param(i, marks=() if i % 6 == 0 else pytest.mark.slow) for i in range(12)]
)
def test_words(part: int) -> None:
    names = frozenset(d.key for d in definitions[part::12])
    for words in device_words.batches(part, 3, 200, names):
        assert not device_words.differences(words, 5, part)


COMMANDS = {
    "primes": (["500"], b""),
    "expression": ([], b"1+2*3\n(4-7)*2\n10/3\n((\n"),
    "sha256": ([], b"abc" * 300),
    "hello": ([], b""),
    "faults": (["write"], b""),
    "mandelbrot": ([], b""),
}


class TestOneLane:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_programs(self, name: str, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_engine, "PROFILED", 500)
        args, stdin = COMMANDS[name]
        seen: list[Any] = []
        for target in ("cpu", "cuda"):
            m = kvrm.Machine(examples / name, args=args, stdin=stdin, target=target)
            r = m.run(max_instructions=300_000)
            seen.append((r.stop, r.retired, r.exit_code, r.signal, r.fault, r.stdout, r.stderr, m.pc, m.sp))
            seen[-1] += ([m.x[i] for i in range(31)], [m.v[i] for i in range(32)], m.nzcv)
        assert seen[0] == seen[1]

    def test_budgets_and_breakpoints(self) -> None:
        """The program: mov x0, #100; 1: subs x0, x0, #1; b.ne 1b; brk #0."""
        code = (
            0xD2800C80,
            0xF1000400,
            0x54FFFFE1,
            0xD42000E0,
        )
        m = kvrm.Machine(target="cuda", engine="interpreter")
        m.write_memory(0x1000, b"".join(w.to_bytes(4, "little") for w in code), prot="rx")
        m.set_pc(0x1000)
        assert m.run(max_instructions=4).stop is Stop.BUDGET and m.x[0] == 98 and m.retired == 4
        m.breakpoints.add(0x1008)
        for left in (97, 96):
            result = m.run()
            assert (result.stop, m.pc, m.x[0]) == (Stop.BREAKPOINT, 0x1008, left)
        m.breakpoints.clear()
        assert m.run().stop is Stop.BRK and m.x[0] == 0 and m.retired == 201

    def test_breakpoints_of_a_later_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_engine, "PROFILED", 50)
        in_loop = CODE + 4 * WORDS.index(0xF9000440)
        m = machine(target="cuda")
        m.x[0], m.x[1] = Do.COUNT, 1000
        m.run(max_instructions=100)
        m.breakpoints.add(in_loop)
        for _ in range(3):
            assert m.run(max_instructions=100).stop is Stop.BREAKPOINT and m.pc == in_loop
        m.breakpoints.remove(in_loop)
        assert m.run(max_instructions=100).stop is Stop.BUDGET
        assert any(region.covers(in_loop) for region in m.lane.engine.code.regions)

    def test_code_that_changes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_engine, "PROFILED", 0)
        seen = []
        for target in ("cpu", "cuda"):
            m = on(target, machine, monkeypatch)
            m.x[0], m.x[1] = Do.MODIFY, 7
            results = [m.run(max_instructions=BUDGET)]
            m.set_pc(results[0].pc - 0xFF8)
            m.x[0], m.x[1] = Do.MODIFY, 9
            results.append(m.run(max_instructions=BUDGET))
            seen.append([(r.stop, r.retired, r.pc) for r in results] + [m.x[i] for i in range(31)])
        assert seen[0] == seen[1]


def test_without_a_gpu_the_message_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("libcuda was not found")

    class Driver:
        cuInit = staticmethod(refuse)

    monkeypatch.setattr(driver, "_driver", Driver)
    for module in (driver, device_engine, runner):
        monkeypatch.setattr(module, "device", driver.Device)
    with pytest.raises(kvrm.KvrmError, match="cannot be used: libcuda was not found"):
        kvrm.Machine(target="cuda")
    with pytest.raises(kvrm.UsageError, match="no target 'gpu'; there are cpu, cuda, auto"):
        kvrm.Machine(target="gpu")
    assert kvrm.Machine(target="auto").target == "cpu"
