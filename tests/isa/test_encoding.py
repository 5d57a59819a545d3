"""The description language: diagrams, conditions, exact overlap, and errors that name the line."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kvrm.isa import check, probe
from kvrm.isa import definition as definition_module
from kvrm.isa.a64 import decode, decode_many, definition_of, definitions
from kvrm.isa.definition import DefinitionError, Execution, Static, insn, overlaps
from kvrm.isa.encoding import Cube, Diagram, EncodingError, subtract
from kvrm.values import Bits

EXECUTION = Execution.SYSTEM


@pytest.fixture
def scratch(monkeypatch):
    """Definitions made in a test vanish after it."""
    monkeypatch.setattr(definition_module, "definitions", [])
    monkeypatch.setattr(definition_module, "_keys", {})
    return definition_module.definitions


def test_diagram_fields():
    d = Diagram.parse("sf 0 0 11010110 Rm:5 00001 0 Rn:5 Rd:5")
    assert d.values(0x9AC20820) == {"sf": 1, "Rm": 2, "Rn": 1, "Rd": 0}
    assert d.encode(sf=1, Rm=2, Rn=1, Rd=0) == 0x9AC20820


@pytest.mark.parametrize(
    "text",
    ["0", "0" * 33, "Rn:5 Rn:5 " + "0" * 22, "R-n:5 " + "0" * 27, "Rn:x " + "0" * 27, ""],
    ids=["short", "long", "twice", "name", "width", "empty"],
)
def test_bad_diagrams(text):
    with pytest.raises(EncodingError):
        Diagram.parse(text)


@pytest.mark.parametrize("condition", ["Rq=11111", "Rn=111", "Rn=1111y", "Rn"])
def test_bad_conditions(condition):
    with pytest.raises(EncodingError):
        Diagram.parse("Rn:5 " + "0" * 27).condition(condition)


def test_cube_subtraction_counts_words():
    whole = Cube(0, 0)
    holes = [Cube(0xF0, 0x30), Cube(0x3, 0x1), Cube(0xFF, 0x31)]
    parts = subtract(whole, holes)
    assert sum(p.size for p in parts) == (1 << 32) * (1 - 1 / 16) * (1 - 1 / 4)
    assert not any(a.meets(b) for i, a in enumerate(parts) for b in parts[:i])


def test_no_overlap_over_all_words():
    assert overlaps() == []


def test_a_planted_overlap_is_found(scratch):
    @insn("ONE", "0000 x:4 " + "0" * 24, "one")
    def one(m): ...

    @insn("TWO", "000 y 1 " + "z:3 " + "0" * 24, "two", unallocated="y=1")
    def two(m): ...

    (found,) = overlaps()
    assert "TWO overlaps ONE" in found and "test_encoding.py" in found


def test_holes_prevent_overlap(scratch):
    @insn("ONE", "0000 x:4 " + "0" * 24, "one", unallocated="x=1xxx")
    def one(m): ...

    @insn("TWO", "0000 1 z:3 " + "0" * 24, "two")
    def two(m): ...

    assert overlaps() == []


def test_a_parameter_that_is_no_field_fails_at_import(scratch):
    with pytest.raises(DefinitionError, match=r"test_encoding.py:\d+: BAD: no field 'Rq'"):

        @insn("BAD", "Rn:5 " + "0" * 27, "bad")
        def bad(m, Rq: Bits): ...


def test_a_printer_that_does_not_exist_fails(scratch):
    @insn("BAD", "Rn:5 " + "0" * 27, "bad {Rn:nothing}")
    def bad(m, Rn: Bits): ...

    with pytest.raises(DefinitionError, match="no printer 'nothing'"):
        probe.check(scratch)


def _mistakes():
    def python_if(m, Rn, sf):
        if m.x[Rn, 64].eq(0):
            m.x[Rn, 64] = 1

    def width(m, Rn, sf):
        m.x[Rn, 64] = m.x[Rn, 64] + m.x[Rn, 32]

    def equality(m, Rn, sf):
        m.x[Rn, 64] = m.x[Rn, 64] == 1

    def assignment(m, Rn, sf):
        m.x[Rn, 64] = m.x[Rn, 32]

    def unbound(m, Rn, sf):
        m.x[Rn, 64] = nothing  # noqa: F821

    return [python_if, width, equality, assignment, unbound]


@pytest.mark.parametrize("operation", _mistakes(), ids=lambda f: f.__name__)
def test_mistakes_in_operations_name_their_line(scratch, operation):
    operation.__annotations__["sf"] = Static
    insn("BAD", "Rn:5 sf " + "0" * 26, "bad")(operation)
    first = operation.__code__.co_firstlineno
    with pytest.raises(DefinitionError, match=rf"test_encoding.py:{first + 1}: BAD "):
        probe.check(scratch)


def test_all_definitions_pass_the_check():
    check.check_all()


def test_vectorised_decoder_agrees_with_the_scalar_one():
    rng = random.Random(5)
    words = [rng.getrandbits(32) for _ in range(5000)]
    words += [
        d.diagram.cube.value | rng.getrandbits(32) & ~d.diagram.cube.mask
        for d in definitions
        for _ in range(4)
    ]
    found = decode_many(np.array(words, np.uint32))
    for word, index in zip(words, found, strict=True):
        d = decode(word)
        assert (d and d.definition) is (definitions[index] if index >= 0 else None), hex(word)


def test_effects():
    d = decode(0xF85F8C41)  # ldr x1, [x2, #-8]!
    assert d is not None
    e = probe.effects_of(d)
    assert (e.x_read, sorted(e.x_written), e.memory) == ([2], [1, 2], [("read", 64)])
    assert definition_of("udiv").name == "UDIV"
