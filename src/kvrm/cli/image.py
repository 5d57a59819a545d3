"""What the listing commands need of an ELF file: code, words at addresses, and symbols."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import kvrm


@dataclass(frozen=True)
class Code:
    """A run of executable bytes at a guest address."""

    name: str
    start: int
    data: bytes

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.start + len(self.data)


class Image:
    """The executable parts of an AArch64 ELF file, as it is linked (a PIE is not moved).

    Raises `kvrm.ProgramError` for anything else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                elf = ELFFile(file)
                if elf["e_machine"] != "EM_AARCH64" or not elf.little_endian or elf.elfclass != 64:
                    raise kvrm.ProgramError(f"{path}: not a little-endian AArch64 program")
                _require_inside(elf, path)
                self.code = _sections(elf) or _segments(elf)
                self.symbols = _symbols(elf)
        except OSError as error:
            raise kvrm.ProgramError(f"{path}: {error.strerror}") from None
        except kvrm.KvrmError:
            raise
        except (ELFError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            # A damaged file makes the parser fail in any of these ways.
            raise kvrm.ProgramError(f"{path}: not a readable ELF file ({error})") from None
        self._starts = sorted(self.symbols)

    def word(self, address: int) -> int:
        """The instruction word at `address`; raises `kvrm.UsageError` where there is no code."""
        for code in self.code:
            if code.start <= address <= code.end - 4:
                offset = address - code.start
                return int.from_bytes(code.data[offset : offset + 4], "little")
        raise kvrm.UsageError(f"{self.path}: no code at {address:#x}")

    def address(self, text: str) -> int:
        """The value of a number or of a symbol's name; raises `kvrm.UsageError`."""
        for address, name in self.symbols.items():
            if name == text:
                return address
        try:
            return int(text, 0)
        except ValueError:
            raise kvrm.UsageError(f"{self.path}: {text!r} is neither an address nor a symbol") from None

    def describe(self, address: int) -> str:
        """`symbol+0x10` for an address at or after a symbol of the same run of code, else nothing."""
        index = bisect_right(self._starts, address) - 1
        code = next((code for code in self.code if code.start <= address < code.end), None)
        if index < 0 or code is None or self._starts[index] < code.start:
            return ""
        name, offset = self.symbols[self._starts[index]], address - self._starts[index]
        return f"{name}+{offset:#x}" if offset else name


def _require_inside(elf: ELFFile, path: Path) -> None:
    """ProgramError if a header says that more lies in the file than the file has.

    The parser believes headers: it would ask for memory, or count symbols, until the host has no more.
    """
    tables = [
        ("the section headers", elf["e_shoff"], elf.num_sections() * elf["e_shentsize"]),
        ("the program headers", elf["e_phoff"], elf.num_segments() * elf["e_phentsize"]),
    ]
    for what, start, size in tables:
        _require(what, start, size, elf, path)
    for number in range(elf.num_sections()):
        header = elf.get_section(number).header
        if header["sh_type"] not in ("SHT_NOBITS", "SHT_NULL"):
            _require(f"section {number}", header["sh_offset"], header["sh_size"], elf, path)
    for number in range(elf.num_segments()):
        header = elf.get_segment(number).header
        _require(f"segment {number}", header["p_offset"], header["p_filesz"], elf, path)


def _require(what: str, start: int, size: int, elf: ELFFile, path: Path) -> None:
    if start + size > elf.stream_len:
        raise kvrm.ProgramError(f"{path}: {what}, {size:#x} bytes at {start:#x}, are not all in the file")


def _sections(elf: ELFFile) -> list[Code]:
    wanted = SH_FLAGS.SHF_ALLOC | SH_FLAGS.SHF_EXECINSTR
    return [
        Code(section.name, section["sh_addr"], section.data())
        for section in elf.iter_sections()
        if section["sh_flags"] & (wanted | SH_FLAGS.SHF_COMPRESSED) == wanted
        and section["sh_type"] == "SHT_PROGBITS"
    ]


def _segments(elf: ELFFile) -> list[Code]:
    """For a file whose section headers were stripped."""
    return [
        Code(f"segment {number}", segment["p_vaddr"], segment.data())
        for number, segment in enumerate(elf.iter_segments("PT_LOAD"))
        if segment["p_flags"] & P_FLAGS.PF_X
    ]


def _symbols(elf: ELFFile) -> dict[int, str]:
    """Address to the name of a function or label; global names win over local ones."""
    found: dict[int, tuple[bool, str]] = {}
    for section in elf.iter_sections():
        if not isinstance(section, SymbolTableSection):
            continue
        for symbol in section.iter_symbols():
            info = symbol["st_info"]
            if info["type"] not in ("STT_FUNC", "STT_NOTYPE"):
                continue
            if symbol["st_shndx"] in ("SHN_UNDEF", "SHN_ABS"):
                continue
            if not symbol.name or symbol.name.startswith("$"):  # mapping symbols
                continue
            rank = (info["bind"] == "STB_GLOBAL", symbol.name)
            found[symbol["st_value"]] = max(found.get(symbol["st_value"], (False, "")), rank)
    return {address: name for address, (_, name) in found.items()}
