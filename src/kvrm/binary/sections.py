"""Sections and symbols of AArch64 ELF files, for those who read thousands of functions.

They are read here rather than with pyelftools (as in `kvrm.cli.image`), which makes Python objects of every
header and symbol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

PROGBITS, SYMTAB, NOBITS = 1, 2, 8
ALLOCATED, EXECUTABLE = 2, 4
_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_FUNC = 2


class Section(NamedTuple):
    """A section header; `name` is where the name begins in the section of names."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int

    @property
    def is_code(self) -> bool:
        """Whether it is loaded to be executed."""
        wanted = ALLOCATED | EXECUTABLE
        return self.kind == PROGBITS and self.flags & wanted == wanted

    def content(self, data: bytes) -> bytes:
        """Its bytes in the file."""
        return data[self.offset : self.offset + self.size]


class FunctionSymbol(NamedTuple):
    """A function that a symbol table names: section number, value, and bytes, which may be 0."""

    section: int
    value: int
    size: int
    name: str


def sections_of(data: bytes) -> list[Section]:
    """The section headers of an ELF file, if all sections lie within the file."""
    (start,), (size, count) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
    if not start or size != _HEADER.size or start + size * count > len(data):
        return []
    found = [Section(*_HEADER.unpack_from(data, start + size * i)) for i in range(count)]
    inside = all(s.kind == NOBITS or s.offset + s.size <= len(data) for s in found)
    return found if inside else []


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
