"""ELF files in archives and Debian packages, and the functions of static libraries.

Everything is read from the bytes that are given; nothing is unpacked to disk.
"""

from __future__ import annotations

import io
import lzma
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvrm.binary.symbols import function_symbols
from kvrm.elf_sections import EXECUTABLE, sections_of
from kvrm.errors import UsageError
from kvrm.isa.execution import Words

_ARCHIVE, _ELF64 = b"!<arch>\n", b"\x7fELF\2\1"
_MEMBER = struct.Struct("16s12s6s6s8s10s2s")
_HEADER_BYTES = 64
_ET_REL, _AARCH64 = 1, 183


@dataclass(frozen=True, slots=True)
class Compiled:
    """A function of a static library: all its names, and its words."""

    names: tuple[str, ...]
    words: Words


def objects_in(path: Path) -> Iterator[bytes]:
    """The AArch64 ELF files in a file: itself, or those of an archive or Debian package, and archives there.

    None in another file. Raises UsageError for a file that cannot be read.
    """
    try:
        yield from _objects(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, ValueError) as error:
        raise UsageError(f"{path}: its files cannot be read ({error})") from None


def _objects(data: bytes) -> Iterator[bytes]:
    if data.startswith(_ARCHIVE):
        for name, member in _members(data):
            if name.startswith("data.tar"):
                with tarfile.open(fileobj=io.BytesIO(member)) as files:
                    for entry in files:
                        file = files.extractfile(entry) if entry.isfile() else None
                        yield from _objects(b"" if file is None else file.read())
            else:
                yield from _objects(member)
    elif len(data) >= _HEADER_BYTES and data.startswith(_ELF64) and _half(data, 18) == _AARCH64:
        yield data


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of each member of an ar archive; long names stay references."""
    at = len(_ARCHIVE)
    while at + _MEMBER.size <= len(data):
        name, _, _, _, _, size, _ = _MEMBER.unpack_from(data, at)
        at += _MEMBER.size
        length = int(size)
        yield name.decode("latin-1"), data[at : at + length]
        at += length + length % 2


def _half(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def functions_in(path: Path) -> Iterator[Compiled]:
    """Every function with a size of the object files in `path`. Raises UsageError, also if there is none."""
    objects = [data for data in objects_in(path) if _half(data, 16) == _ET_REL]
    if not objects:
        raise UsageError(
            f"{path}: neither an archive nor a Debian package with object files, nor an object file"
        )
    for data in objects:
        yield from _of_object(data)


def _of_object(data: bytes) -> Iterator[Compiled]:
    sections = sections_of(data)
    places: dict[tuple[int, int], tuple[int, set[str]]] = {}
    for number, value, size, name in function_symbols(data, sections):
        if size >= 4 and value % 4 == 0 and number < len(sections) and sections[number].flags & EXECUTABLE:
            most, names = places.get((number, value), (0, set()))
            places[number, value] = max(most, size), names | {name}
    for (number, value), (size, names) in places.items():
        first = sections[number].offset + value
        words = np.frombuffer(data[first : first + size // 4 * 4], "<u4").astype(np.uint32)
        yield Compiled(tuple(sorted(names)), words)
