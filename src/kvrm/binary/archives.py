"""Functions of static libraries: from .a files, .o files and Debian packages that hold some.

Everything is read from the bytes that are given; nothing is unpacked to disk.
"""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from kvrm.errors import UsageError
from kvrm.isa.execution import Words

_ARCHIVE = b"!<arch>\n"
_MEMBER = struct.Struct("16s12s6s6s8s10s2s")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_ET_REL, _AARCH64, _SYMTAB, _RELA, _FUNC, _EXECUTABLE = 1, 183, 2, 4, 2, 4


@dataclass(frozen=True, slots=True)
class Compiled:
    """A function of a static library: all its names, its words, and which of them relocations change."""

    library: str
    names: tuple[str, ...]
    words: Words
    relocated: tuple[int, ...]


def functions_in(path: Path) -> Iterator[Compiled]:
    """Every function with a size in `path`, a .a, .o or .deb file. Raises UsageError for another file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    if data[:4] == b"\x7fELF":
        yield from _of_object(data, path.name)
        return
    if data[:8] != _ARCHIVE:
        raise UsageError(f"{path}: neither an archive, nor an object file, nor a Debian package")
    members = list(_members(data))
    if members and members[0][0] == "debian-binary":
        yield from _of_package(members, path)
    else:
        yield from _of_archive(members, path.name)


def _of_package(members: list[tuple[str, bytes]], path: Path) -> Iterator[Compiled]:
    content = next((data for name, data in members if name.startswith("data.tar")), b"")
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as files:
            for entry in files:
                name = PurePosixPath(entry.name)
                if entry.isfile() and name.suffix in (".a", ".o"):
                    held = files.extractfile(entry)
                    assert held is not None
                    data = held.read()
                    if data[:8] == _ARCHIVE:
                        yield from _of_archive(list(_members(data)), name.name)
                    else:
                        yield from _of_object(data, name.name)
    except (tarfile.TarError, EOFError) as error:
        raise UsageError(f"{path}: its files cannot be read ({error})") from None


def _of_archive(members: list[tuple[str, bytes]], library: str) -> Iterator[Compiled]:
    for _, data in members:
        yield from _of_object(data, library)


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of each member of an ar archive; long names stay references."""
    at = len(_ARCHIVE)
    while at + _MEMBER.size <= len(data):
        name, _, _, _, _, size, _ = _MEMBER.unpack_from(data, at)
        at += _MEMBER.size
        length = int(size)
        yield name.decode("latin-1").strip().removesuffix("/"), data[at : at + length]
        at += length + length % 2


def _of_object(data: bytes, library: str) -> Iterator[Compiled]:
    """The functions of a relocatable AArch64 object; nothing of another file."""
    if (
        len(data) < 64
        or data[:6] != b"\x7fELF\2\1"
        or struct.unpack_from("<HH", data, 16) != (_ET_REL, _AARCH64)
    ):
        return
    (start,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    sections = [_SECTION.unpack_from(data, start + i * _SECTION.size) for i in range(count)]
    relocated = _relocated(data, sections)
    for section in sections:
        if section[1] == _SYMTAB:
            symbols = np.frombuffer(data, _SYMBOL, section[5] // _SYMBOL.itemsize, section[4])
            text = sections[section[6]]
            strings = data[text[4] : text[4] + text[5]]
            yield from _of_symbols(data, library, sections, relocated, symbols, strings)


def _relocated(data: bytes, sections: list[tuple[int, ...]]) -> dict[int, np.ndarray]:
    """For each section, sorted offsets that relocations change."""
    found = {}
    for section in sections:
        if section[1] == _RELA:
            rows = np.frombuffer(data, _RELOCATION, section[5] // _RELOCATION.itemsize, section[4])
            found[section[7]] = np.unique(rows["offset"])
    return found


def _of_symbols(
    data: bytes,
    library: str,
    sections: list[tuple[int, ...]],
    relocated: dict[int, np.ndarray],
    symbols: np.ndarray,
    strings: bytes,
) -> Iterator[Compiled]:
    places: dict[tuple[int, int], tuple[int, set[str]]] = {}
    for symbol in symbols[(symbols["info"] & 15 == _FUNC) & (symbols["size"] >= 4)]:
        number, value = int(symbol["section"]), int(symbol["value"])
        if number >= len(sections) or not sections[number][2] & _EXECUTABLE or value % 4:
            continue
        name = strings[symbol["name"] : strings.index(b"\0", symbol["name"])].decode("latin-1")
        size, names = places.get((number, value), (0, set()))
        places[number, value] = max(size, int(symbol["size"])), names | {name}
    for (number, value), (size, names) in places.items():
        first = sections[number][4] + value
        words = np.frombuffer(data[first : first + size // 4 * 4], "<u4").astype(np.uint32)
        offsets = relocated.get(number, np.zeros(0, np.uint64))
        inside = offsets[(offsets >= value) & (offsets < value + size)]
        changed = tuple(int(o - value) // 4 for o in inside)
        yield Compiled(library, tuple(sorted(names)), words, changed)
