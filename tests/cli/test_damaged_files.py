"""Listing commands on files whose headers lie: one line, exit code 2, no matter what."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import kvrm
from kvrm.cli.image import Image

HUGE = (1 << 62, 1 << 40, (1 << 64) - 1, 1 << 31)
SECTION, SEGMENT = 64, 56
Patch = Callable[[bytearray, int], None]


def _put(data: bytearray, offset: int, value: int) -> None:
    struct.pack_into("<Q", data, offset, value)


def _in_section(number: int, field: int) -> Patch:
    def patch(data: bytearray, value: int) -> None:
        (headers,) = struct.unpack_from("<Q", data, 40)
        _put(data, headers + SECTION * number + field, value)

    return patch


def _in_segment(number: int, field: int) -> Patch:
    def patch(data: bytearray, value: int) -> None:
        (headers,) = struct.unpack_from("<Q", data, 32)
        _put(data, headers + SEGMENT * number + field, value)

    return patch


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize(
    "patch", [*(_in_section(n, f) for n in range(1, 6) for f in (24, 32)), _in_segment(0, 32)]
)
def test_a_range_outside_the_file_is_refused(
    examples: Path, tmp_path: Path, patch: Patch, value: int
) -> None:
    data = bytearray((examples / "expression").read_bytes())
    patch(data, value)
    path = tmp_path / "damaged"
    path.write_bytes(data)
    try:
        Image(path)
    except kvrm.ProgramError as error:
        assert "\n" not in str(error)
    else:
        pytest.fail("it was read")


def test_any_damage_is_a_program_error(examples: Path, tmp_path: Path) -> None:
    """Random fields of headers get random values; the file is read, or refused."""
    good, rng, path = (examples / "expression").read_bytes(), random.Random(5), tmp_path / "damaged"
    (sections,) = struct.unpack_from("<Q", good, 40)
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            where = rng.choice(
                (rng.randrange(16, 64), rng.randrange(64, 400), rng.randrange(sections, len(data)))
            )
            data[where] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        path.write_bytes(data)
        try:
            image = Image(path)
            assert all(len(code.data) <= len(good) for code in image.code)
        except kvrm.ProgramError:
            refused += 1
    assert 40 < refused < 400
