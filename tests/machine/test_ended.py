"""An ended machine stays ended; a snapshot that does not belong is refused before anything changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvrm
from linux_tools import Elf
from translating import assemble, needs_assembler

EXITS = "mov x0, #7\n mov x8, #93\n svc #0\n udf #1"
KILLED = "mov x0, #1000\n mov x1, #6\n mov x8, #129\n svc #0\n udf #1"


def ended(text: str) -> kvrm.Machine:
    m = kvrm.Machine(Elf(patches={0x800: assemble(text)}).data())
    m.run()
    return m


@needs_assembler
@pytest.mark.parametrize(("text", "stop"), [(EXITS, kvrm.Stop.EXIT), (KILLED, kvrm.Stop.SIGNAL)])
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
    assert m.wait(60).stop is stop


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


def test_a_bare_machine_refuses_a_program(examples: Path) -> None:
    bare = kvrm.Machine()
    with pytest.raises(kvrm.UsageError):
        bare.restore(kvrm.Machine(examples / "hello").snapshot())
