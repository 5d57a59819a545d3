"""Object code in the memory of this process: an ELF file of x86-64, as LLVM makes it, relocated.

LLVM can link it too, but importing LLVM takes longer than all else that a short guest needs. An object refers
to no symbol outside (`kvrm.staging.host.move`), so each is linked by itself.
"""

from __future__ import annotations

import ctypes
import mmap
from struct import Struct, pack_into
from typing import Final

from kvrm.elf_sections import ALLOCATED, NOBITS, RELA, SYMTAB, WRITABLE, Section, sections_of
from kvrm.errors import KvrmError
from kvrm.memory.pages import PAGE, anonymous, host_address

SYMBOL: Final = Struct("<IBBHQQ")
RELOCATION: Final = Struct("<QIIq")
UNWIND = 0x70000001
"""A kind of section of x86-64."""
UNDEFINED, GLOBAL = 0, 1
ABSOLUTE, RELATIVE, BY_ENTRY = 1, (2, 4), (9, 41, 42)
"""R_X86_64_64; PC32 and PLT32; GOTPCREL and its variants, which want a word that has the symbol's address."""


class Linked:
    """The code of one object, which can run as long as this lives."""

    def __init__(self, code: bytes) -> None:
        sections = sections_of(code)
        places, fixed, end = _places(sections)
        symbols, self._named = _symbols(code, sections, places)
        relocations = [
            (places[section.info] + offset, kind, symbols[symbol], addend)
            for section in sections
            if section.kind == RELA and section.info in places
            for offset, kind, symbol, addend in RELOCATION.iter_unpack(section.content(code))
        ]
        self._memory = anonymous(end + 8 * sum(kind in BY_ENTRY for _, kind, _, _ in relocations))
        self._base = host_address(self._memory)
        for i, place in places.items():
            if sections[i].kind != NOBITS:
                self._memory[place : place + sections[i].size] = sections[i].content(code)
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
    for written in (0, WRITABLE):
        fixed, end = end, -(-end // PAGE) * PAGE
        for i, section in enumerate(sections):
            if section.flags & ALLOCATED and section.flags & WRITABLE == written and section.kind != UNWIND:
                places[i] = -(-end // section.alignment) * section.alignment
                end = places[i] + section.size
    return places, fixed, -(-end // 8) * 8


def _symbols(
    code: bytes, sections: list[Section], places: dict[int, int]
) -> tuple[dict[int, int], dict[str, int]]:
    """Offsets in memory of the symbols of those sections by number, and of the global ones by name."""
    table = next(section for section in sections if section.kind == SYMTAB)
    names = sections[table.link].content(code)
    numbered, named = {}, {}
    for i, (name, info, _, section, value, _) in enumerate(SYMBOL.iter_unpack(table.content(code))):
        text = names[name : names.index(0, name)].decode()
        if section in places:
            numbered[i] = places[section] + value
            if info >> 4 == GLOBAL:
                named[text] = numbered[i]
        elif section == UNDEFINED and i:
            raise LookupError(f"an object refers to {text}, which is outside")
    return numbered, named


def _make_executable(address: int, size: int) -> None:
    protect = ctypes.CDLL(None).mprotect
    if protect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise KvrmError("this host lets no process make code: its mprotect refuses PROT_EXEC")
