"""From a region to object code, and that as something to keep."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvrm.staging import native, objects
from kvrm.staging.objects import Object

if TYPE_CHECKING:
    from kvrm.engine.translator.region import Region


@dataclass(frozen=True, slots=True)
class Compiled:
    """A region as machines use it: entered at `entry`, valid while `code` is there.

    `code` is pairs of address and bytes; `seconds` is what compiling took, `cached` whether that was earlier.
    """

    key: str
    number: int
    entry: int
    code: tuple[tuple[int, bytes], ...]
    file: Object
    seconds: float
    cached: bool = False

    @property
    def starts(self) -> frozenset[int]:
        """The addresses of the blocks."""
        return frozenset(start for start, _ in self.code)

    @property
    def addresses(self) -> frozenset[int]:
        """Those of all instructions."""
        return frozenset(pc for start, data in self.code for pc in range(start, start + len(data), 4))

    @property
    def pages(self) -> set[int]:
        """Numbers of the pages that the code lies on."""
        return {start >> 12 for start, _ in self.code}

    def covers(self, address: int) -> bool:
        """Whether the instruction at an address is part of the region."""
        return any(start <= address < start + len(data) for start, data in self.code)

    def pack(self) -> bytes:
        """As bytes, JSON; the object is there by name."""
        code = [[start, data.hex()] for start, data in self.code]
        head = {"key": self.key, "number": self.number, "entry": self.entry, "code": code}
        return json.dumps(head | {"seconds": self.seconds, "object": self.file.name}).encode()

    @staticmethod
    def unpack(data: bytes) -> Compiled | None:
        """The region of bytes that `pack` made; None if its object is not on disk."""
        head = json.loads(data)
        file = objects.find(head["object"])
        if file is None:
            return None
        code = tuple((start, bytes.fromhex(text)) for start, text in head["code"])
        return Compiled(head["key"], head["number"], head["entry"], code, file, head["seconds"], cached=True)


def compile_region(region: Region) -> Object:
    """An object with the function `region_<key>`."""
    from llvmlite import ir

    from kvrm.engine.translator.stage import build_region

    module = ir.Module(name=region.key)
    build_region(module, f"region_{region.key}", region)
    heading = _listing(region) if native.dumps() else ""
    return native.compile_object(str(module), heading, quickly=region.brief)


def _listing(region: Region) -> str:
    """What a region is, and its guest code."""
    from kvrm.isa.a64 import disassemble

    lines = [f"region {region.entry:#x}: {region.size} guest instructions, {len(region.blocks)} blocks"]
    for block in region.blocks.values():
        lines += [
            f"{pc:8x}:  {word:08x}  {disassemble(word, pc)}"
            for pc, word in zip(range(block.start, block.end, 4), block.words, strict=True)
        ]
    return "\n".join(lines)
