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
from kvrm.binary.symbols import function_symbols
from kvrm.elf_sections import Section, sections_of
from kvrm.errors import ProgramError
from kvrm.isa.execution import Words
from kvrm.linux import elf
from kvrm.memory import Prot


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
        sections = sections_of(data)
        code = [s for s in sections if s.is_code]
        self.runs = [_run(data, s.address, s.offset, s.size) for s in code] or [
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


def _frames(data: bytes, sections: list[Section]) -> Iterator[tuple[int, int]]:
    """Starts and ends of functions by .eh_frame, if there is one."""
    (number,) = struct.unpack_from("<H", data, 62)
    names = sections[number].content(data) if number < len(sections) else b""
    for section in sections:
        if names[section.name :].startswith(b".eh_frame\0"):
            yield from spans(section.content(data), section.address)


def _run(data: bytes, address: int, offset: int, size: int) -> Run:
    skip = -address % 4
    raw = data[offset + skip : offset + skip + (size - skip) // 4 * 4]
    return Run(address + skip, np.frombuffer(raw, "<u4").astype(np.uint32))


def _symbols(data: bytes, sections: list[Section]) -> dict[int, Symbol]:
    """Address to the functions that the symbol table has there."""
    found: dict[int, tuple[int, set[str]]] = {}
    for _, value, size, name in function_symbols(data, sections):
        most, names = found.get(value, (0, set()))
        found[value] = max(most, size), names | {name}
    return {value: Symbol(size, tuple(sorted(names))) for value, (size, names) in found.items()}
