"""`kvrm profile`: one guest on the terminal, then where its time went."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import kvrm
from kvrm.cli.columns import columns
from kvrm.cli.disasm import instruction_text
from kvrm.cli.image import Image
from kvrm.cli.run import Options, exit_code, run_guest
from kvrm.linux.elf import parse
from kvrm.linux.loader import load_bias
from kvrm.observe.profile import HotRegion, Profile

TITLES = {
    "translated": "translated code",
    "interpreted": "interpreted code",
    "unsampled": "either, after the last sample",
    "reference": "reference engine",
    "following": "following the program",
    "calls": "system calls",
    "python": "between native code",
}

WIDTH = 110
"""Columns that the tables may take, however narrow the terminal is."""
SEEN = 0.005
"""The share of a region that a loop must have to be listed."""


def profile_program(
    program: Path, arguments: Sequence[str], options: Options, *, top: int, json_file: Path | None
) -> int:
    """Run `program`, then print its profile on stderr; return the exit code. Raises `kvrm.KvrmError`."""
    machine, result = run_guest(program, arguments, options)
    report = Report(machine.profile, Symbols(program), top)
    report.print(
        f"{program.name}: {result.retired:,} instructions in {result.seconds:.3f} s; {result.message}"
    )
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(machine.engine, result), indent=1) + "\n")
    return exit_code(result)


class Symbols:
    """The program's symbols at the addresses where it was loaded."""

    def __init__(self, program: Path) -> None:
        self._image = Image(program)
        self._bias = load_bias(parse(program.read_bytes(), str(program)))

    def at(self, address: int) -> str:
        """`symbol+0x10`, or nothing."""
        return self._image.describe(address - self._bias)

    def text(self, word: int, address: int) -> str:
        return instruction_text(self._image, word, address, self._bias)


class Report:
    """A profile in words."""

    def __init__(self, profile: Profile, symbols: Symbols, top: int) -> None:
        self._profile, self._symbols, self._top = profile, symbols, top
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._console.width = max(self._console.width, WIDTH)

    def print(self, heading: str) -> None:
        """Everything, hottest first."""
        p, out = self._profile, self._console.print
        hot = [region for region in p.regions if region.samples][: self._top]
        out(f"\n{heading}\n", markup=False)
        out(self._tiers())
        out(f"\n{p.compiled} regions compiled in {p.compile_seconds:.2f} s, {p.cached} found in the cache")
        for table in (self._regions(hot), self._places(), self._calls()):
            if table.row_count:
                out()
                out(table)
        for region in hot:
            self._region(region)

    def _tiers(self) -> Table:
        table = _table("where", "instructions", "share", "seconds", "share", "million/s", title="Time")
        p = self._profile
        for name, tier in p.tiers.items():
            if tier.instructions or tier.seconds:
                counts = (f"{tier.instructions:,}", f"{p.share(tier.instructions):.1%}")
                speed = f"{tier.instructions / tier.seconds / 1e6:,.0f}" if tier.seconds else ""
                part = f"{tier.seconds / p.seconds:.1%}" if p.seconds else ""
                some = tier.instructions > 0
                table.add_row(
                    TITLES[name],
                    *(counts if some else ("", "")),
                    f"{tier.seconds:.3f}",
                    part,
                    speed if some else "",
                )
        return table

    def _regions(self, hot: Iterable[HotRegion]) -> Table:
        table = _table("region", "instructions", "share", "seconds", "size", "compiled", title="Hot regions")
        for r in hot:
            made = "cached" if r.cached else f"{r.compile_seconds:.2f} s"
            share = f"{self._profile.share(r.instructions):.1%}"
            table.add_row(
                self._name(r.entry), f"{r.instructions:,}", share, f"{r.seconds:.3f}", str(r.size), made
            )
        return table

    def _places(self) -> Table:
        table = _table("64 bytes at", "instructions", "share", "seconds", title="Hot code outside of regions")
        table.add_column("tier", justify="left")
        table.add_column("why", justify="left")
        for place in self._profile.places[: self._top]:
            share = f"{self._profile.share(place.instructions):.1%}"
            table.add_row(
                self._name(place.address),
                f"{place.instructions:,}",
                share,
                f"{place.seconds:.3f}",
                place.tier,
                place.why,
            )
        return table

    def _calls(self) -> Table:
        table = _table("system call", "count", "seconds", title="System calls")
        for call in self._profile.calls[: self._top]:
            table.add_row(call.name, f"{call.count:,}", f"{call.seconds:.3f}")
        return table

    def _region(self, region: HotRegion) -> None:
        """A region's loops and code, with the share of its instructions at each pc that samples met."""
        out, total = self._console.print, region.instructions
        out(f"\nRegion {self._name(region.entry)}", style="bold", markup=False)
        for loop in region.loops():
            if (share := loop.instructions / total) >= SEEN:
                out(f"{share:7.1%} in the loop at {self._name(loop.head)}", markup=False)
        following = 0
        for start, data in region.code:
            if start != following:
                label = self._symbols.at(start)
                out(f"\n{start:16x} <{label}>:" if label else "", markup=False)
            following = start + len(data)
            for pc, word in _words(start, data):
                share_here = f"{region.at[pc] / total:.1%}" if pc in region.at else ""
                out(f"{share_here:>7} {pc:8x}:  {word:08x}  {self._symbols.text(word, pc)}", markup=False)

    def _name(self, address: int) -> str:
        symbol = self._symbols.at(address)
        return f"{address:#x} <{symbol}>" if symbol else f"{address:#x}"

    def as_json(self, engine: str, result: kvrm.Result) -> dict[str, Any]:
        p = self._profile
        return {
            "engine": engine,
            "stop": result.stop.name.lower(),
            "retired": result.retired,
            "seconds": p.seconds,
            "tiers": {name: asdict(tier) for name, tier in p.tiers.items()},
            "regions": [self._region_json(region) for region in p.regions],
            "places": [{"symbol": self._symbols.at(place.address), **asdict(place)} for place in p.places],
            "calls": [asdict(call) for call in p.calls],
        }

    def _region_json(self, region: HotRegion) -> dict[str, Any]:
        return {
            "entry": region.entry,
            "symbol": self._symbols.at(region.entry),
            "instructions": region.instructions,
            "seconds": region.seconds,
            "samples": region.samples,
            "compile_seconds": region.compile_seconds,
            "cached": region.cached,
            "loops": [{"head": loop.head, "instructions": loop.instructions} for loop in region.loops()],
            "code": [
                {
                    "address": pc,
                    "word": word,
                    "text": self._symbols.text(word, pc),
                    "instructions": region.at.get(pc, 0),
                }
                for start, data in region.code
                for pc, word in _words(start, data)
            ],
        }


def _table(*titles: str, title: str) -> Table:
    return columns(*titles, title=title, title_justify="left")


def _words(start: int, data: bytes) -> Iterable[tuple[int, int]]:
    return zip(range(start, start + len(data), 4), memoryview(data).cast("I"), strict=True)
