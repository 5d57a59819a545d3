"""`kvrm disasm`: a listing of a program's code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from kvrm.cli.exits import Exit
from kvrm.cli.image import Code, Image
from kvrm.isa.a64 import disassemble

TO_LABEL = re.compile(r"(?:b|bl|b\.\w+|cbn?z|tbn?z|adr) (?:.*, )?#(0x[0-9a-f]+)$")
"""The text of an instruction that names an address in the code."""


def list_program(path: Path, start: str | None, stop: str | None) -> int:
    """Print the listing between two addresses or symbols; return the exit code. Raises `kvrm.KvrmError`."""
    image = Image(path)
    low = 0 if start is None else image.address(start)
    high = 1 << 64 if stop is None else image.address(stop)
    for code in image.code:
        if low < code.end and high > code.start:
            print(f"\n{code.name}:")
            sys.stdout.writelines(_lines(image, code, max(low, code.start), min(high, code.end)))
    return Exit.OK


def _lines(image: Image, code: Code, low: int, high: int) -> Iterator[str]:
    for address in range(low & ~3, high & ~3, 4):
        if address in image.symbols:
            yield f"\n{address:016x} <{image.symbols[address]}>:\n"
        offset = address - code.start
        word = int.from_bytes(code.data[offset : offset + 4], "little")
        yield f"{address:8x}:  {word:08x}  {instruction_text(image, word, address)}\n"


def instruction_text(image: Image, word: int, address: int, bias: int = 0) -> str:
    """The assembly of a word, with the symbol that it goes to; `bias` is where memory has the program."""
    text = disassemble(word, address) or f".inst {word:#010x}"
    target = TO_LABEL.match(text)
    label = image.describe(int(target[1], 16) - bias) if target else ""
    return f"{text} <{label}>" if label else text
