"""Where functions start and end by .eh_frame (LSB Core, 10.6.1), which stripping leaves in a program."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_PC_RELATIVE, _SDATA4, _UDATA4, _SDATA8, _UDATA8, _ABSOLUTE = 0x10, 0x0B, 0x03, 0x0C, 0x04, 0x00
_FORMATS = {_SDATA4: "<i", _UDATA4: "<I", _SDATA8: "<q", _UDATA8: "<Q", _ABSOLUTE: "<Q"}


def spans(data: bytes, address: int) -> Iterator[tuple[int, int]]:
    """Start and end of each function that the section at `address` describes; nothing after damage."""
    encodings: dict[int, int] = {}
    at = 0
    while at + 8 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        first, end = at + 4, at + 4 + length
        if not length or length == 0xFFFFFFFF or end > len(data) or length < 8:
            return
        (back,) = struct.unpack_from("<I", data, first)
        if not back:
            encodings[at] = _encoding(data[first + 4 : end])
        elif first - back in encodings:
            yield from _span(data, address, first + 4, end, encodings[first - back])
        at = end


def _span(data: bytes, address: int, at: int, end: int, encoding: int) -> Iterator[tuple[int, int]]:
    form = _FORMATS.get(encoding & 0x0F)
    if form is None or encoding & 0x70 not in (0, _PC_RELATIVE) or at + 2 * struct.calcsize(form) > end:
        return
    start, length = struct.unpack_from(form + form[1], data, at)
    if start or encoding & 0x70:
        start += address + at if encoding & 0x70 else 0
        yield start, start + length


def _encoding(cie: bytes) -> int:
    """How a CIE has the addresses of its FDEs."""
    text, _, rest = cie[1:].partition(b"\0")
    if not text.startswith(b"z"):
        return _ABSOLUTE
    rest = _after_number(_after_number(rest))[1:]  # alignments and the return register
    rest = _after_number(rest)
    for letter in text[1:].decode("latin-1"):
        if letter == "R" and rest:
            return rest[0]
        if letter == "L":
            rest = rest[1:]
        elif letter == "P" and rest:
            rest = rest[1 + struct.calcsize(_FORMATS.get(rest[0] & 0x0F, "<Q")) :]
    return _ABSOLUTE


def _after_number(data: bytes) -> bytes:
    """What follows a LEB128 number."""
    return data[next((i for i, byte in enumerate(data) if byte < 128), len(data)) + 1 :]
