"""Regions compiled by several processes."""

from __future__ import annotations

from collections.abc import Iterator

from kvrm.engine.translator.compilers import Compilers
from kvrm.engine.translator.region import Region
from kvrm.isa.features import CORTEX_A76
from oracle.translator_side import region_around

RET = 0xD65F03C0


def regions(first: int, count: int) -> list[Region]:
    """Of which no two are equal: add x0, x0, #number; ret."""
    return [region_around((0x91000000 | n << 10, RET), CORTEX_A76) for n in range(first, first + count)]


def test_each_is_made_once() -> None:
    wanted = regions(2000, 7)
    got = list(Compilers(3).made(iter(wanted), lambda: False))
    assert sorted(one.key for one in got) == sorted(region.key for region in wanted)
    assert all(one.file.code for one in got)


def test_none_is_begun_once_it_is_late() -> None:
    """But those that are being compiled are not lost."""
    asked: list[Region] = []

    def ask() -> Iterator[Region]:
        for region in regions(2100, 20):
            asked.append(region)
            yield region

    got = list(Compilers(2).made(ask(), lambda: len(asked) == 5))
    assert sorted(one.key for one in got) == sorted(region.key for region in asked) and len(asked) == 5


def test_a_process_that_dies_costs_a_region() -> None:
    compilers = Compilers(2)
    assert len(list(compilers.made(iter(regions(2200, 4)), lambda: False))) == 4
    for process in compilers.processes:
        process.kill()
        process.wait()
    got = list(compilers.made(iter(regions(2300, 8)), lambda: False))
    assert 6 <= len(got) < 8
    assert len(list(compilers.made(iter(regions(2400, 3)), lambda: False))) == 3
