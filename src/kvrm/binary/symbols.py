"""Functions that symbol tables of AArch64 ELF files name, for what reads thousands of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kvrm.elf_sections import SYMTAB, Section

_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_FUNC = 2


class FunctionSymbol(NamedTuple):
    """A function that a symbol table names: section number, value, and bytes, which may be 0."""

    section: int
    value: int
    size: int
    name: str


def function_symbols(data: bytes, sections: list[Section]) -> Iterator[FunctionSymbol]:
    """The functions that symbol tables name, defined in the file."""
    for table in sections:
        if table.kind != SYMTAB or table.link >= len(sections):
            continue
        strings = sections[table.link].content(data)
        symbols = np.frombuffer(data, _SYMBOL, table.size // _SYMBOL.itemsize, table.offset)
        functions = symbols[(symbols["info"] & 15 == _FUNC) & (symbols["section"] > 0)]
        for name, _, _, number, value, size in functions[functions["name"] < len(strings)].tolist():
            text = strings[name : strings.find(b"\0", name)].decode("latin-1")
            yield FunctionSymbol(number, value, size, text)
