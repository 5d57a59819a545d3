"""ELF executables: the headers that a loader needs.

They are read here rather than with pyelftools, whose import alone takes 40 ms of every start: a loader needs
64 + 56 n bytes, of a file in which nothing can be trusted. The listing commands, which need sections and
symbols, do use it (`kvrm.cli.image`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kvrm.errors import ProgramError
from kvrm.memory import PAGE, VA_BITS, VA_END, Prot

ET_EXEC: Final = 2
ET_DYN: Final = 3
_EM_AARCH64: Final = 183
_MACHINES: Final = {3: "32-bit x86", 8: "MIPS", 40: "32-bit Arm", 62: "x86-64", 243: "RISC-V"}
_TYPES: Final = {0: "no type", 1: "an object file, not linked", 4: "a core dump"}

PT_LOAD: Final = 1
PT_INTERP: Final = 3
PT_PHDR: Final = 6
PT_GNU_STACK: Final = 0x6474E551

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_MOST_SEGMENTS: Final = 65536 // _SEGMENT.size
"""The kernel's own limit: program headers take at most 64 KiB."""
_PF_X, _PF_W, _PF_R = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Segment:
    """A program header. Sizes and addresses are in bytes."""

    kind: int
    flags: int
    offset: int
    vaddr: int
    filesz: int
    memsz: int
    align: int

    @property
    def end(self) -> int:
        """The address after the last byte in memory."""
        return self.vaddr + self.memsz

    @property
    def prot(self) -> Prot:
        """Permissions of its pages; what may be written or executed can be read (arm64 without EPAN)."""
        prot = Prot.W if self.flags & _PF_W else Prot.NONE
        prot |= Prot.X if self.flags & _PF_X else Prot.NONE
        return prot | (Prot.R if prot or self.flags & _PF_R else Prot.NONE)


@dataclass(frozen=True, slots=True)
class Executable:
    """A program that can be loaded: every segment lies within the file and the address space.

    `data` is the file; `phdr` is the address of the program headers in memory, 0 if they are not loaded.
    """

    data: bytes
    position_independent: bool
    entry: int
    phdr: int
    phnum: int
    segments: tuple[Segment, ...]
    interpreter: bytes | None
    executable_stack: bool

    @property
    def start(self) -> int:
        """The lowest address, page aligned, before a base is added."""
        return min(segment.vaddr for segment in self.segments) & -PAGE

    @property
    def end(self) -> int:
        """The address after the last segment, before a base is added."""
        return max(segment.end for segment in self.segments)

    @property
    def align(self) -> int:
        """The largest alignment that a segment asks for, at least a page."""
        return max(PAGE, *(segment.align for segment in self.segments))


def parse(data: bytes, name: str) -> Executable:
    """Check an ELF file and take from it what a loader needs.

    Raises ProgramError, with one line that starts with `name`, for everything that is not a sound 64-bit
    little-endian AArch64 executable. The cost does not depend on the sizes that the file claims.
    """
    try:
        return _parse(data)
    except _Bad as bad:
        raise ProgramError(f"{name}: {bad}") from None


class _Bad(Exception):
    """Why a file cannot be run."""


def _parse(data: bytes) -> Executable:
    header = _header(data)
    e_type, entry, phoff, phentsize, phnum = header[1], header[4], header[5], header[9], header[10]
    if phentsize != _SEGMENT.size:
        raise _Bad(f"program headers of {phentsize} bytes, expected {_SEGMENT.size}")
    if not 0 < phnum <= _MOST_SEGMENTS:
        raise _Bad(f"{phnum} program headers, expected 1 to {_MOST_SEGMENTS}")
    if phoff + phnum * _SEGMENT.size > len(data):
        raise _Bad("truncated: the program headers lie beyond the end of the file")
    every = [_segment(data, phoff + index * _SEGMENT.size) for index in range(phnum)]
    loads = [segment for segment in every if segment.kind == PT_LOAD and segment.memsz]
    for segment in loads:
        _check_segment(segment, len(data), e_type == ET_EXEC)
    _check_layout(loads)
    if not any(s.vaddr <= entry < s.end and s.prot & Prot.X for s in loads) or entry % 4:
        raise _Bad(f"the entry point {entry:#x} is not in executable code")
    return Executable(
        data=data,
        position_independent=e_type == ET_DYN,
        entry=entry,
        phdr=_phdr(every, loads, phoff),
        phnum=phnum,
        segments=tuple(loads),
        interpreter=_interpreter(every, data),
        executable_stack=any(s.kind == PT_GNU_STACK and s.flags & _PF_X for s in every),
    )


def _header(data: bytes) -> tuple[int, ...]:
    if data[:4] != b"\x7fELF":
        kind = "a script" if data[:2] == b"#!" else "empty" if not data else "not an ELF file"
        raise _Bad(f"{kind}; a program is an AArch64 ELF executable")
    if len(data) < _HEADER.size:
        raise _Bad("truncated: the ELF header is incomplete")
    header: tuple[int, ...] = _HEADER.unpack_from(data)
    e_type, machine = header[1], header[2]
    if data[4] != 2 or data[5] != 1:
        bits = {1: "32-bit", 2: "64-bit"}.get(data[4], "of an unknown class")
        order = {1: "little-endian", 2: "big-endian"}.get(data[5], "of unknown byte order")
        raise _Bad(f"the ELF file is {bits} and {order}; KVRM runs 64-bit little-endian programs")
    if machine != _EM_AARCH64:
        raise _Bad(f"for {_MACHINES.get(machine, f'machine {machine}')}, not for AArch64")
    if e_type not in (ET_EXEC, ET_DYN):
        raise _Bad(f"not an executable: {_TYPES.get(e_type, f'ELF type {e_type}')}")
    return header


def _segment(data: bytes, offset: int) -> Segment:
    kind, flags, file_offset, vaddr, _, filesz, memsz, align = _SEGMENT.unpack_from(data, offset)
    return Segment(kind, flags, file_offset, vaddr, filesz, memsz, align)


def _check_segment(segment: Segment, size: int, fixed: bool) -> None:
    what = f"the segment at {segment.vaddr:#x}"
    if segment.filesz > segment.memsz:
        raise _Bad(f"{what} has {segment.filesz:#x} bytes in the file but {segment.memsz:#x} in memory")
    if segment.filesz and segment.offset + segment.filesz > size:
        raise _Bad(f"truncated: {what} lies beyond the end of the file")
    if segment.end > VA_END:
        raise _Bad(f"{what} ends at {segment.end:#x}, beyond the {VA_BITS}-bit address space")
    if fixed and segment.vaddr < PAGE:
        raise _Bad(f"{what} is in the first page, which is never mapped")
    if segment.align & (segment.align - 1) or segment.align > VA_END:
        raise _Bad(f"{what} has an alignment of {segment.align:#x}, which is not a usable power of two")
    if (segment.vaddr - segment.offset) % PAGE and segment.filesz:
        raise _Bad(f"{what} is at file offset {segment.offset:#x}: not the same offset in a page")


def _check_layout(loads: list[Segment]) -> None:
    if not loads:
        raise _Bad("no segment to load")
    ordered = sorted(loads, key=lambda segment: segment.vaddr)
    for before, after in pairwise(ordered):
        if after.vaddr < before.end:
            raise _Bad(f"the segments at {before.vaddr:#x} and {after.vaddr:#x} overlap")


def _phdr(every: list[Segment], loads: list[Segment], phoff: int) -> int:
    for segment in every:
        if segment.kind == PT_PHDR:
            return segment.vaddr
    for segment in loads:
        if segment.offset <= phoff < segment.offset + segment.filesz:
            return segment.vaddr + phoff - segment.offset
    return 0


def _interpreter(every: list[Segment], data: bytes) -> bytes | None:
    for segment in every:
        if segment.kind == PT_INTERP:
            path = data[segment.offset : segment.offset + segment.filesz]
            if not 2 <= len(path) <= 4096 or not path.endswith(b"\0"):
                raise _Bad("the name of the dynamic linker is damaged")
            return path[: path.index(b"\0")]
    return None
