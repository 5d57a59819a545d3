"""The table of a lane's words."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kvrm.isa.context import System
from kvrm.lane import words
from kvrm.lane.state import State
from kvrm.lane.words import REGISTERS, STATE_BYTES, TABLE, Part


@pytest.fixture(params=TABLE, ids=lambda part: part.name)
def part(request: pytest.FixtureRequest) -> Part:
    row: Part = request.param
    return row


def test_parts_follow_each_other_and_fit() -> None:
    assert all(one.end == other.offset for one, other in pairwise(TABLE))
    assert TABLE[0].offset == 0 and TABLE[-1].end <= STATE_BYTES
    assert len({part.name for part in TABLE}) == len(TABLE)


def test_a_vector_of_a_part_is_aligned(part: Part) -> None:
    assert part.offset % max(8, part.size) == 0


def test_system_registers_have_room() -> None:
    assert max(System) < next(part.elements for part in TABLE if part.name == "system")


def test_python_reads_registers_where_the_table_has_them() -> None:
    state = State()
    for number in range(31):
        state.x[number] = number + 1
        assert state.get(REGISTERS[f"x{number}"]) == number + 1
    for number in range(32):
        state.v[number] = number << 64 | 5
        assert state.get(REGISTERS[f"v{number}"]) == 5
        assert state.get(REGISTERS[f"v{number}"] + 8) == number
    state.sp, state.nzcv = 77, 0b1010
    assert state.get(REGISTERS["sp"]) == 77 and state.get(REGISTERS["nzcv"]) == 0x00010001


def test_a_saved_state_has_what_is_architectural(part: Part) -> None:
    state = State()
    state.set(part.offset, 9)
    other = State()
    other.load(state.save())
    kept = part.offset < words.EXIT_OFFSET and part.name != "discard"
    assert other.get(part.offset) == (9 if kept else 0)
