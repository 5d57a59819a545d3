"""Object code in the memory of this process: an ELF file of x86-64, as LLVM makes it, relocated.

LLVM can link it too, but importing LLVM takes longer than all else that a short guest needs. An object refers
to no symbol outside (`kvrm.staging.host.move`), so each is linked by itself.
"""

from __future__ import annotations

import ctypes
import mmap
from struct import Struct, pack_into, unpack_from
from typing import Final, NamedTuple

from kvrm.errors import KvrmError
from kvrm.memory.pages import PAGE, anonymous, host_address

SECTION: Final = Struct("<IIQQQQIIQQ")
SYMBOL: Final = Struct("<IBBHQQ")
RELOCATION: Final = Struct("<QIIq")
SYMTAB, RELA, NOBITS, UNWIND = 2, 4, 8, 0x70000001
WRITE, ALLOC = 1, 2
UNDEFINED, GLOBAL = 0, 1
ABSOLUTE, RELATIVE, BY_ENTRY = 1, (2, 4), (9, 41, 42)
"""R_X86_64_64; PC32 and PLT32; GOTPCREL and its variants, which want a word that has the symbol's address."""


class Section(NamedTuple):
    """A row of the table of sections."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    row: int


class Linked:
    """The code of one object, which can run as long as this lives."""

    def __init__(self, code: bytes) -> None:
        start, count = unpack_from("<Q", code, 40)[0], unpack_from("<H", code, 60)[0]
        sections = [Section(*SECTION.unpack_from(code, start + i * SECTION.size)) for i in range(count)]
        places, fixed, end = _places(sections)
        symbols, self._named = _symbols(code, sections, places)
        relocations = [
            (places[section.info] + offset, kind, symbols[symbol], addend)
            for section in sections
            if section.type == RELA and section.info in places
            for offset, kind, symbol, addend in RELOCATION.iter_unpack(_content(code, section))
        ]
        self._memory = anonymous(end + 8 * sum(kind in BY_ENTRY for _, kind, _, _ in relocations))
        self._base = host_address(self._memory)
        for i, place in places.items():
            if sections[i].type != NOBITS:
                self._memory[place : place + sections[i].size] = _content(code, sections[i])
        for at, kind, value, addend in relocations:
            if kind == ABSOLUTE:
                pack_into("<Q", self._memory, at, self._base + value + addend)
            elif kind in RELATIVE:
                pack_into("<i", self._memory, at, value + addend - at)
            elif kind in BY_ENTRY:
                pack_into("<Q", self._memory, end, self._base + value)
                pack_into("<i", self._memory, at, end + addend - at)
                end += 8
            else:
                raise NotImplementedError(f"relocation {kind}")
        _make_executable(self._base, fixed)

    def address(self, name: str) -> int:
        """The host address of a global symbol; 0 if there is none."""
        return self._base + self._named[name] if name in self._named else 0


def _places(sections: list[Section]) -> tuple[dict[int, int], int, int]:
    """Offsets in memory of the sections that code needs; the end of those that are only read, and of all."""
    places, fixed, end = {}, 0, 0
    for written in (0, WRITE):
        fixed, end = end, -(-end // PAGE) * PAGE
        for i, section in enumerate(sections):
            if section.flags & ALLOC and section.flags & WRITE == written and section.type != UNWIND:
                places[i] = -(-end // section.alignment) * section.alignment
                end = places[i] + section.size
    return places, fixed, -(-end // 8) * 8


def _symbols(
    code: bytes, sections: list[Section], places: dict[int, int]
) -> tuple[dict[int, int], dict[str, int]]:
    """Offsets in memory of the symbols of those sections by number, and of the global ones by name."""
    table = next(section for section in sections if section.type == SYMTAB)
    names = _content(code, sections[table.link])
    numbered, named = {}, {}
    for i, (name, info, _, section, value, _) in enumerate(SYMBOL.iter_unpack(_content(code, table))):
        text = names[name : names.index(0, name)].decode()
        if section in places:
            numbered[i] = places[section] + value
            if info >> 4 == GLOBAL:
                named[text] = numbered[i]
        elif section == UNDEFINED and i:
            raise LookupError(f"an object refers to {text}, which is outside")
    return numbered, named


def _content(code: bytes, section: Section) -> bytes:
    return code[section.offset : section.offset + section.size]


def _make_executable(address: int, size: int) -> None:
    protect = ctypes.CDLL(None).mprotect
    if protect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise KvrmError("this host lets no process make code: its mprotect refuses PROT_EXEC")
