"""`kvrm where`: from an instruction word to its definition in the source."""

from __future__ import annotations

import os
from pathlib import Path

import kvrm
from kvrm.cli.exits import Exit
from kvrm.cli.image import Image
from kvrm.isa.a64 import decode, disassemble
from kvrm.isa.definition import Decoded


def explain(what: str) -> int:
    """Print what is known about `WORD` or `PROGRAM@ADDRESS`; raises `kvrm.KvrmError`."""
    program, at, address = what.rpartition("@")
    if at:
        image = Image(Path(program))
        pc = image.address(address)
        word = image.word(pc)
        place = f"{pc:#x}  {image.describe(pc)}".rstrip()
    else:
        word, pc, place = _word(what), 0, ""
    decoded = decode(word, pc)
    if decoded is None:
        raise kvrm.UsageError(f"{word:#010x} is no instruction that is defined")
    definition = decoded.definition
    print(f"{word:#010x}  {disassemble(word, pc)}")
    if place:
        print(f"at          {place}")
    print(f"name        {definition.name}")
    print(f"class       {definition.execution.label}")
    print(f"defined in  {_reachable(definition.source)}")
    print(f"encoding    {definition.diagram.text}")
    print("\n" + diagram(decoded))
    return Exit.OK


def diagram(decoded: Decoded) -> str:
    """Four lines, a column per field or run of fixed bits: number of the top bit, name, bits, value."""
    fields = {field.low + field.width - 1: field for field in decoded.definition.diagram.fields}
    columns = []
    top = 31
    while top >= 0:
        if top in fields:
            field = fields[top]
            value = decoded.fields[field.name]
            columns.append((str(top), field.name, f"{value:0{field.width}b}", str(value)))
            top = field.low - 1
            continue
        low = max((other for other in fields if other < top), default=-1) + 1
        fixed = decoded.word >> low & (1 << (top - low + 1)) - 1
        columns.append((str(top), "", f"{fixed:0{top - low + 1}b}", ""))
        top = low - 1
    widths = [max(map(len, column)) for column in columns]
    titles = ("bit", "field", "bits", "value")
    rows = []
    for title, cells in zip(titles, zip(*columns, strict=True), strict=True):
        row = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        rows.append(f"{title:<6}{row}".rstrip())
    return "\n".join(rows)


def _word(text: str) -> int:
    """A 32-bit word in hexadecimal, with or without 0x, as listings print it."""
    try:
        word = int(text, 16)
    except ValueError:
        raise kvrm.UsageError(f"{text!r} is neither a hexadecimal word nor PROGRAM@ADDRESS") from None
    if not 0 <= word < 1 << 32:
        raise kvrm.UsageError(f"{text} does not fit 32 bits")
    return word


def _reachable(source: str) -> str:
    """`source` (file:line below the directory that holds the package) as a path that works from here."""
    path = Path(kvrm.__file__).parents[1] / source
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
