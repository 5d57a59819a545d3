"""A segment of the handler library, as an object and as bytes."""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from pathlib import Path

Variant = tuple[str, tuple[int, ...]]
"""A handler's name: the definition's key and its static field values."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Some handlers: their object's name, and rows (bits 31:21, mask, value, variant number) that lead there.

    A row is four 32-bit numbers. `features` has for each variant what it needs (`Definition.feature`), ""
    for nothing. As bytes a segment is the length of a JSON head (8 bytes), the head, the rows.
    """

    name: str
    variants: list[Variant]
    features: list[str]
    rows: array[int]
    object: str

    def pack(self) -> bytes:
        head = {
            "name": self.name,
            "variants": self.variants,
            "features": self.features,
            "object": self.object,
        }
        text = json.dumps(head).encode()
        return len(text).to_bytes(8, "little") + text + self.rows.tobytes()

    @staticmethod
    def unpack(data: bytes) -> Segment:
        """The segment of bytes that `pack` made."""
        start = 8 + int.from_bytes(data[:8], "little")
        head = json.loads(data[8:start])
        rows = array("I", data[start:])
        return Segment(head["name"], _variants(head), head["features"], rows, head["object"])

    @staticmethod
    def peek(path: Path, skip: int) -> list[Variant]:
        """The variants of a file, `skip` bytes before it; OSError or ValueError if it is no segment."""
        with path.open("rb") as file:
            file.seek(skip)
            size = int.from_bytes(file.read(8), "little")
            if size > path.stat().st_size:
                raise ValueError(f"{path} is damaged")
            return _variants(json.loads(file.read(size)))


def _variants(head: dict[str, list[tuple[str, list[int]]]]) -> list[Variant]:
    return [(key, tuple(statics)) for key, statics in head["variants"]]
