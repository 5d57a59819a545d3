"""What the tests of the translator share: machines with code, and scenarios that engines must agree on."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any

import pytest

import cross
import kvrm
from kvrm.engine.translator.engine import Translator
from oracle.translator_side import use_memory_store

CODE, DATA = 0x1_0000, 0x20_0000
DATA_SIZE = 0x8000
SVC = 0xD4000001

Scenario = Callable[[str], list[Any]]
"""Takes an engine's name, returns what was observed."""

needs_assembler = pytest.mark.skipif(cross.missing() is not None, reason=str(cross.missing()))


def assemble(text: str) -> bytes:
    """The code of lines of assembly, which may have labels."""
    words = cross.assemble([text])
    return struct.pack(f"<{len(words)}I", *words)


def machine(engine: str, text: str, place: int = CODE, **options: Any) -> kvrm.Machine:
    """A bare machine about to run `text`, with data at DATA; what it compiles stays in memory."""
    m = use_memory_store(kvrm.Machine(engine=engine, **options))
    m.write_memory(place, assemble(text), prot="rwx")
    m.write_memory(DATA, bytes(DATA_SIZE), prot="rw")
    m.set_pc(place)
    return m


def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tiered engine sample all the time and translate whatever it sees; short slices for stress."""
    lengths = {"SHORTEST_SLICE": 150, "LONGEST_SLICE": 600, "LONGEST_TRACE": 90, "PROBE": 9}
    for name, value in (lengths | {"FIRST": 1, "HOT": 1, "COLD": 600}).items():
        monkeypatch.setattr(f"kvrm.engine.translator.engine.{name}", value)
    monkeypatch.setattr("kvrm.engine.stress.LONGEST_SLICE", 60)


def regions(m: kvrm.Machine) -> list[Any]:
    """The regions that stand in a machine's slots, of all engines that it has."""
    engines = (m.lane.engine, *getattr(m.lane.engine, "_native", ()))
    return [r for e in engines if isinstance(e, Translator) for r in e._active.values()]


def translated(m: kvrm.Machine, address: int) -> bool:
    """Whether a region in place covers an address."""
    return any(region.covers(address) for region in regions(m))


def state(m: kvrm.Machine) -> tuple[Any, ...]:
    """All registers and the count, to compare machines by."""
    return m.pc, m.retired, tuple(m.x), m.sp, tuple(m.v), m.nzcv, m.fpcr, m.fpsr


def compare(engine: str, scenario: Scenario) -> list[Any]:
    """What the engine observes, which must be what the interpreter does."""
    seen, wanted = scenario(engine), scenario("interpreter")
    for at, (one, other) in enumerate(zip(seen, wanted, strict=True)):
        if one != other:
            pytest.fail(f"observation {at} on {engine}: {one}\non the interpreter: {other}")
    return seen


def observed(m: kvrm.Machine, budget: int | None = None) -> tuple[Any, ...]:
    """Run, and say all that there is to see."""
    r = m.run(max_instructions=budget)
    data = hashlib.blake2b(m.memory[DATA : DATA + DATA_SIZE]).hexdigest()
    return r.stop, r.retired, r.message, r.fault, state(m), data
