"""Inputs of lanes: registers and memory of their own, and mistakes in them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import kvrm
from kvrm import Stop
from lane_tools import (
    CODE,
    DATA,
    FIXED,
    OWN,
    REGISTERS,
    Do,
    lanes_of,
    machine,
)


def test_inputs_that_do_not_fit() -> None:
    lanes = machine(memory_limit=8 * 4096).fork(2)
    lanes.memory[DATA + 0x2000 : DATA + 0x9000] = np.zeros((2, 0x7000), np.uint8)
    with pytest.raises(kvrm.UsageError, match="memory_limit"):
        lanes.run()


class TestInputs:
    def test_all_registers(self, engine: str) -> None:
        m = machine(engine)
        m.write_memory(0x30_0000, struct.pack("<I", 0xD503201F) * 1024, prot="rx")  # nop
        lanes = m.fork(5)
        rng = np.random.default_rng(3)
        words = {name: rng.integers(0, 1 << 64, 5, np.uint64) for name in REGISTERS}
        words["v31"] = words["v0"] = rng.integers(0, 1 << 64, (5, 2), np.uint64)
        words["nzcv"] = np.array([0, 15, 1, 8, 6])
        for name, values in words.items():
            lanes.registers[name] = values
        lanes.registers["pc"] = 0x30_0000 + 4 * np.arange(5)
        lanes.keep = tuple(words)
        results = lanes.run(max_instructions=7)
        for name, values in words.items():
            assert (results.registers[name] == values).all(), name
        assert results.pc.tolist() == [0x30_001C + 4 * i for i in range(5)]
        assert sorted(lanes.registers) == sorted([*words, "pc"]) and len(lanes.registers) == len(words) + 1

    def test_signed_and_small_integers(self) -> None:
        lanes = machine().fork(2)
        lanes.registers["x0"] = np.array([-1, 5], np.int8)
        lanes.registers["x1"] = [1 << 63, 0]
        assert lanes.registers["x0"].tolist() == [(1 << 64) - 1, 5]

    @pytest.mark.parametrize("start", [DATA + 8, DATA + 0xFFF, FIXED + 13])
    def test_memory_whatever_its_permissions(self, engine: str, start: int) -> None:
        m = machine(engine)
        data = np.random.default_rng(4).integers(0, 256, (6, 9), np.uint8)
        lanes = lanes_of(m, [Do.LOST] * 6, [0] * 6)
        lanes.memory[start : start + 9] = data
        lanes.keep = (slice(start - 8, start + 24),)
        data[:] = 0
        for _ in range(2):
            results = lanes.run()
            around = m.memory[start - 8 : start + 24]
            for lane in range(6):
                given = lanes.memory[start : start + 9][lane].tobytes()
                kept = results.memory[start - 8 : start + 24][lane].tobytes()
                assert kept == around[:8] + given + around[17:]
            assert (results.memory[start : start + 9] == lanes.memory[start : start + 9]).all()
            lanes.reset()

    def test_code(self, engine: str) -> None:
        m = machine(engine)
        m.set_pc(OWN)
        lanes = m.fork(9, 2)
        words = np.array([0xD2800000 | i << 5 for i in range(9)], np.uint32)  # mov x0, #i
        lanes.memory[OWN : OWN + 4] = words.view(np.uint8).reshape(9, 4)
        assert lanes.run().registers["x0"].tolist() == list(range(9))

    def test_a_page_of_code_and_data(self, engine: str) -> None:
        m = kvrm.Machine(engine=engine)
        # add x0, x0, x1; str x0, [x2]; ldr x0, [x2]; brk #0
        m.write_memory(CODE, struct.pack("<4I", 0x8B010000, 0xF9000040, 0xF9400040, 0xD4200000))
        m.set_pc(CODE)
        m.x[2] = CODE + 0x800
        lanes = m.fork(10, 1)
        lanes.registers["x0"] = lanes.registers["x1"] = np.arange(10)
        lanes.keep = ("x0", slice(CODE + 0x800, CODE + 0x808))
        results = lanes.run()
        assert results.stops == {Stop.BRK: 10}
        assert results.registers["x0"].tolist() == list(range(0, 20, 2))
        assert results.memory[CODE + 0x800 : CODE + 0x808][:, 0].tolist() == list(range(0, 20, 2))

    def test_inputs_count_when_lanes_begin(self) -> None:
        lanes = lanes_of(machine(), [Do.LOOP] * 2, [5, 6])
        lanes.run(10)
        lanes.registers["x1"] = [7, 8]
        assert lanes.run(10).registers["x1"].tolist() == [5, 6]
        lanes.reset()
        assert lanes.run(10).registers["x1"].tolist() == [7, 8]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m: kvrm.Machine(lanes=0),
        lambda m: kvrm.Machine(lanes=-1),
        lambda m: kvrm.Machine(lanes=2.0),
        lambda m: m.lanes,
        lambda m: m.fork(0),
        lambda m: m.fork(2, 0),
        lambda m: setattr(m.fork(2), "threads", 0),
        lambda m: m.fork(2).registers.__setitem__("x31", [1, 2]),
        lambda m: m.fork(2).registers.__setitem__("x0", [1, 2, 3]),
        lambda m: m.fork(2).registers.__setitem__("x0", 1),
        lambda m: m.fork(2).registers.__setitem__("x0", [True, False]),
        lambda m: m.fork(2).registers.__setitem__("x0", [1.0, 2.0]),
        lambda m: m.fork(2).registers.__setitem__("x0", [1, 1 << 64]),
        lambda m: m.fork(2).registers.__setitem__("x0", [[1], [2, 3]]),
        lambda m: m.fork(2).registers.__setitem__("x0", ["1", "2"]),
        lambda m: m.fork(2).registers.__setitem__("v0", [1, 2]),
        lambda m: m.fork(2).registers["x5"],
        lambda m: m.fork(2).memory.__setitem__(slice(DATA, DATA + 4), np.zeros((2, 5), np.uint8)),
        lambda m: m.fork(2).memory.__setitem__(slice(DATA, DATA + 4), np.zeros((2, 4), np.uint16)),
        lambda m: m.fork(2).memory.__setitem__(slice(DATA + 4, DATA), np.zeros((2, 4), np.uint8)),
        lambda m: m.fork(2).memory.__setitem__(slice(DATA, None), np.zeros((2, 4), np.uint8)),
        lambda m: m.fork(2).memory.__setitem__(DATA, np.zeros((2, 1), np.uint8)),
        lambda m: m.fork(2).memory.__setitem__(slice(1 << 39, 1 + (1 << 39)), np.zeros((2, 1), np.uint8)),
        lambda m: setattr(m.fork(2), "keep", ("x0", "w1")),
        lambda m: setattr(m.fork(2), "keep", (slice(4),)),
        lambda m: setattr(m.fork(2), "stdin", [b"1", b"2"]),
        lambda m: setattr(m.fork(2), "args", [["1"], ["2"]]),
        lambda m: m.fork(2).run(-1),
        lambda m: m.fork(2).run(max_batches=-1),
        lambda m: m.fork(2).run(instructions_per_batch=0),
        lambda m: m.fork(2).run(1).memory[0:4],
        lambda m: m.fork(2).wait(),
    ],
)
def test_mistakes_are_one_line(wrong: Any) -> None:
    with pytest.raises(kvrm.UsageError) as caught:
        wrong(machine())
    assert "\n" not in str(caught.value) and str(caught.value)


@pytest.mark.parametrize("missing", [slice(1 << 32, 1 + (1 << 32)), slice(FIXED + 0xFFF, FIXED + 0x1001)])
def test_memory_that_is_not_there(missing: slice) -> None:
    lanes = machine().fork(2)
    lanes.keep = (missing,)
    with pytest.raises(kvrm.UsageError, match="no guest memory"):
        lanes.run()
    lanes.keep = ()
    lanes.memory[missing] = np.zeros((2, missing.stop - missing.start), np.uint8)
    with pytest.raises(kvrm.UsageError, match="no guest memory"):
        lanes.start()
