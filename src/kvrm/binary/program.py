"""What patterns needs of a program's file: its executable bytes at their addresses, its entry, its symbols.

Section headers are optional: a stripped program has none of its symbols, and may have no sections either.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvrm.binary.frames import spans
from kvrm.errors import ProgramError
from kvrm.isa.execution import Words
from kvrm.linux import elf
from kvrm.memory import Prot

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PROGBITS, _SYMTAB, _NOBITS, _ALLOCATED, _EXECUTABLE, _FUNC = 1, 2, 8, 2, 4, 2


@dataclass(frozen=True, slots=True)
class Run:
    """A run of code: where it starts, and its words."""

    start: int
    words: Words

    @property
    def end(self) -> int:
        """The address after the last word."""
        return self.start + 4 * len(self.words)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function that the symbol table names; `size` is in bytes, and may be 0."""

    size: int
    names: tuple[str, ...]


class Program:
    """An AArch64 program as it is linked. Raises ProgramError for anything else."""

    def __init__(self, data: bytes, name: str) -> None:
        executable = elf.parse(data, name)
        self.data, self.name, self.entry = data, name, executable.entry
        self.bias = 0
        if executable.position_independent:
            from kvrm.linux.loader import load_bias

            self.bias = load_bias(executable)
        self.segments = executable.segments
        sections = _sections(data)
        self.runs = _code(data, sections) or [
            _run(data, s.vaddr, s.offset, s.filesz) for s in self.segments if s.prot & Prot.X
        ]
        self.symbols = _symbols(data, sections)
        self.frames = dict(_frames(data, sections))

    @classmethod
    def of(cls, path: Path) -> Program:
        """The program in a file."""
        try:
            return cls(path.read_bytes(), str(path))
        except OSError as error:
            raise ProgramError(f"{path}: {error.strerror}") from None

    def words(self, start: int, stop: int) -> Words:
        """The words between two addresses of one run; fewer where it ends."""
        for run in self.runs:
            if run.start <= start < run.end:
                return run.words[(start - run.start) // 4 : (stop - run.start) // 4]
        return np.zeros(0, np.uint32)

    def bytes_at(self, address: int, length: int) -> bytes:
        """Bytes of the file by their address, as many as there are."""
        for s in self.segments:
            if s.vaddr <= address < s.vaddr + s.filesz:
                at = s.offset + address - s.vaddr
                return self.data[at : min(at + length, s.offset + s.filesz)]
        return b""


def _sections(data: bytes) -> list[tuple[int, ...]]:
    """The section headers, if all sections lie within the file."""
    (start,), (size, count) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
    if not start or size != _SECTION.size or start + size * count > len(data):
        return []
    found: list[tuple[int, ...]] = [_SECTION.unpack_from(data, start + size * i) for i in range(count)]
    return found if all(s[1] == _NOBITS or s[4] + s[5] <= len(data) for s in found) else []


def _code(data: bytes, sections: list[tuple[int, ...]]) -> list[Run]:
    wanted = _ALLOCATED | _EXECUTABLE
    return [_run(data, s[3], s[4], s[5]) for s in sections if s[1] == _PROGBITS and s[2] & wanted == wanted]


def _frames(data: bytes, sections: list[tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    """Starts and ends of functions by .eh_frame, if there is one."""
    (number,) = struct.unpack_from("<H", data, 62)
    names = sections[number] if number < len(sections) else None
    for section in sections:
        text = names and data[names[4] + section[0] : names[4] + section[0] + 10]
        if text == b".eh_frame\0":
            yield from spans(data[section[4] : section[4] + section[5]], section[3])


def _run(data: bytes, address: int, offset: int, size: int) -> Run:
    skip = -address % 4
    raw = data[offset + skip : offset + skip + (size - skip) // 4 * 4]
    return Run(address + skip, np.frombuffer(raw, "<u4").astype(np.uint32))


def _symbols(data: bytes, sections: list[tuple[int, ...]]) -> dict[int, Symbol]:
    """Address to the functions that the symbol table has there."""
    sizes: dict[int, int] = {}
    names: dict[int, list[str]] = {}
    for section in sections:
        if section[1] != _SYMTAB or section[6] >= len(sections):
            continue
        text = sections[section[6]]
        strings = data[text[4] : text[4] + text[5]]
        for name, info, _, number, value, size in _SYMBOL.iter_unpack(
            data[section[4] : section[4] + section[5] // _SYMBOL.size * _SYMBOL.size]
        ):
            if info & 15 == _FUNC and number and name < len(strings):
                sizes[value] = max(sizes.get(value, 0), size)
                names.setdefault(value, []).append(
                    strings[name : strings.find(b"\0", name)].decode("latin-1")
                )
    return {value: Symbol(size, tuple(sorted(set(names[value])))) for value, size in sizes.items()}
