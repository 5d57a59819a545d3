"""Sections of ELF files of 64 bits, for what reads thousands of them or as a program starts.

They are read here rather than with pyelftools (as in `kvrm.cli.image`), which makes Python objects of every
header and symbol and takes longer to import than a short guest runs.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import Final, NamedTuple

PROGBITS, SYMTAB, RELA, NOBITS = 1, 2, 4, 8
WRITABLE, ALLOCATED, EXECUTABLE = 1, 2, 4
_HEADER: Final = Struct("<IIQQQQIIQQ")


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


def sections_of(data: bytes) -> list[Section]:
    """The section headers of an ELF file, if all sections lie within the file."""
    (start,), (size, count) = unpack_from("<Q", data, 40), unpack_from("<HH", data, 58)
    if not start or size != _HEADER.size or start + size * count > len(data):
        return []
    found = [Section(*_HEADER.unpack_from(data, start + size * i)) for i in range(count)]
    inside = all(s.kind == NOBITS or s.offset + s.size <= len(data) for s in found)
    return found if inside else []
