"""An ended machine stays ended; a snapshot that does not belong is refused before anything changes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import kvrm
from linux_tools import Elf
from patience import SECONDS
from translating import assemble, needs_assembler

# ppoll(NULL, 0, NULL, NULL, 0)
WAITS = "mov x0, #0\n mov x1, #0\n mov x2, #0\n mov x3, #0\n mov x8, #73\n svc #0\n udf #1"
EXITS = "mov x0, #7\n mov x8, #93\n svc #0\n udf #1"
KILLED = "mov x0, #1000\n mov x1, #6\n mov x8, #129\n svc #0\n udf #1"


ENDS = [(EXITS, kvrm.Stop.EXIT), (KILLED, kvrm.Stop.SIGNAL), (WAITS, kvrm.Stop.SYSCALL)]


def ended(text: str, **options: Any) -> kvrm.Machine:
    m = kvrm.Machine(Elf(patches={0x800: assemble(text)}).data(), **options)
    m.run()
    return m


@needs_assembler
@pytest.mark.parametrize(("text", "stop"), ENDS)
def test_an_ended_program_stays_ended(text: str, stop: kvrm.Stop) -> None:
    m = ended(text)
    first = m.run(max_instructions=100)
    assert first.stop is stop
    snapshot = m.snapshot()
    m.restore(snapshot)
    again = m.run(max_instructions=100)
    assert (again.stop, again.exit_code, again.signal, again.pc) == (
        stop,
        first.exit_code,
        first.signal,
        first.pc,
    )
    lanes = m.fork(3)
    results = lanes.run(max_instructions=100)
    assert results.stops == {stop: 3} and not results.retired.any()
    m.start(max_instructions=100)
    assert m.wait(SECONDS).stop is stop


@needs_assembler
@pytest.mark.parametrize(("text", "stop"), ENDS)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_lanes_of_an_ended_program_have_ended(text: str, stop: kvrm.Stop, target: str, place: str) -> None:
    m = ended(text, target=target)
    first = m.run()
    lanes = m.fork(3)
    lanes.registers["x5"], lanes.keep = [1, 2, 3], ("x5", "sp")
    for budget in (None, 0, 100):
        results = lanes.run(budget)
        for number in range(3):
            one = results.lane(number)
            assert (one.stop, one.exit_code, one.signal, one.pc) == (
                *(stop, first.exit_code, first.signal),
                first.pc,
            )
            assert one.message == first.message and not one.retired
        assert results.registers["x5"].tolist() == [1, 2, 3]
    assert lanes.poll().finished == 3
    lanes.reset()
    lanes.registers["pc"] = [first.pc] * 3
    assert lanes.run(100).stops == {kvrm.Stop.UNDEFINED: 3}, "set_pc makes a machine go on, too"


@needs_assembler
def test_a_machine_with_lanes_takes_an_end_over() -> None:
    m = ended(EXITS)
    many = ended(EXITS, lanes=2)
    many.restore(m.snapshot())
    many.lanes.reset()
    results = many.run()
    assert results.exit_code.tolist() == [7, 7] and not results.retired.any()


@needs_assembler
def test_set_pc_makes_it_go_on() -> None:
    m = ended(EXITS)
    m.set_pc(m.pc)
    assert m.run().stop is kvrm.Stop.UNDEFINED


def test_an_earlier_snapshot_makes_it_live_again(examples: Path) -> None:
    m = kvrm.Machine(examples / "hello")
    start = m.snapshot()
    first = m.run()
    m.restore(start)
    again = m.run()
    assert (again.retired, again.stdout) == (first.retired, first.stdout) and again.retired


def _others(examples: Path) -> list[Any]:
    bare = kvrm.Machine()
    bare.write_memory(0x1000, bytes(8), prot="rx")
    hello = examples / "hello"
    return [
        bare.snapshot(),
        kvrm.Machine(examples / "sha256").snapshot(),
        kvrm.Machine(hello, features="armv8.0").snapshot(),
        kvrm.Machine(hello, fp_flags=True).snapshot(),
        kvrm.Machine(hello, root=examples).snapshot(),
        kvrm.Machine(hello, stdout=io.BytesIO()).snapshot(),  # type: ignore[arg-type]
        kvrm.Machine(hello).fork(2),
        kvrm.Machine(hello).lane.memory.snapshot(),
        None,
        b"snapshot",
        object(),
        kvrm.Machine(hello),
    ]


def test_a_snapshot_that_does_not_belong_is_refused(examples: Path) -> None:
    m = kvrm.Machine(examples / "hello")
    m.run(max_instructions=3)
    before = m.pc, m.sp, [m.x[i] for i in range(31)], m.retired
    for other in _others(examples):
        with pytest.raises(kvrm.UsageError):
            m.restore(other)
        assert (m.pc, m.sp, [m.x[i] for i in range(31)], m.retired) == before
    assert m.run().stop is kvrm.Stop.EXIT


def test_a_snapshot_of_a_machine_made_alike_belongs(examples: Path) -> None:
    one, other = (kvrm.Machine(examples / "hello") for _ in range(2))
    one.run(max_instructions=3)
    other.restore(one.snapshot())
    assert other.pc == one.pc and other.run().stdout == one.run().stdout


def test_a_snapshot_of_more_memory_than_the_limit_is_refused() -> None:
    large, small = kvrm.Machine(), kvrm.Machine(memory_limit=8 << 12)
    large.write_memory(0x10000, bytes(9 << 12))
    small.write_memory(0x1000, b"kept")
    small.x[3], large.x[3] = 5, 6
    with pytest.raises(kvrm.UsageError, match="the memory limit is 32768"):
        small.restore(large.snapshot())
    assert small.read_memory(0x1000, 4) == b"kept" and small.x[3] == 5
    large.restore(small.snapshot())
    assert large.read_memory(0x1000, 4) == b"kept"


def test_a_bare_machine_refuses_a_program(examples: Path) -> None:
    bare = kvrm.Machine()
    with pytest.raises(kvrm.UsageError):
        bare.restore(kvrm.Machine(examples / "hello").snapshot())
