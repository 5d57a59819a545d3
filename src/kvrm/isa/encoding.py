"""Bit diagrams: the 32-bit pictures of the Arm manual's encodings, and exact set arithmetic on them.

A `Cube` is the set of words that agree with `value` on the bits of `mask`. Allocated words are a diagram's
cube minus the cubes of its unallocated conditions, so questions such as "do two encodings overlap?" have
exact answers over all 2^32 words without enumerating them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


class EncodingError(ValueError):
    """A diagram or condition that does not describe 32 bits."""


@dataclass(frozen=True, slots=True)
class Cube:
    """All 32-bit words w with w & mask == value."""

    mask: int
    value: int

    def meets(self, other: Cube) -> bool:
        """Whether a word is in both."""
        return not (self.value ^ other.value) & self.mask & other.mask

    def __and__(self, other: Cube) -> Cube:
        return Cube(self.mask | other.mask, self.value | other.value)

    def minus(self, other: Cube) -> Iterator[Cube]:
        """Disjoint cubes that hold what is in this one and not in `other`."""
        if not self.meets(other):
            yield self
            return
        mask, value = self.mask, self.value
        free = other.mask & ~self.mask
        while free:
            bit = free & -free
            free ^= bit
            yield Cube(mask | bit, value | (~other.value & bit))
            mask, value = mask | bit, value | (other.value & bit)

    @property
    def size(self) -> int:
        """Number of words."""
        return 1 << (32 - self.mask.bit_count())


def subtract(cube: Cube, holes: Iterable[Cube]) -> list[Cube]:
    """Disjoint cubes that make up `cube` without `holes`."""
    parts = [cube]
    for hole in holes:
        parts = [rest for part in parts for rest in part.minus(hole)]
    return parts


@dataclass(frozen=True, slots=True)
class Field:
    """A named run of bits."""

    name: str
    low: int
    width: int

    def of(self, word: int) -> int:
        """The field's value in `word`."""
        return (word >> self.low) & ((1 << self.width) - 1)


@dataclass(frozen=True, slots=True)
class Diagram:
    """Fixed bits and fields, parsed from text like ``sf 0 0 11010110 Rm:5 00001 0 Rn:5 Rd:5``."""

    text: str
    cube: Cube
    fields: tuple[Field, ...]

    @staticmethod
    def parse(text: str) -> Diagram:
        """Parse a diagram, most significant bit first; `name` is one bit and `name:n` is n bits."""
        low, mask, value = 32, 0, 0
        fields: list[Field] = []
        for token in text.split():
            if not token.strip("01"):
                low -= len(token)
                mask |= ((1 << len(token)) - 1) << max(low, 0)
                value |= int(token, 2) << max(low, 0)
                continue
            name, _, width = token.partition(":")
            if not name.isidentifier() or (width and not width.isdecimal()):
                raise EncodingError(f"{token!r} is neither bits nor a field in {text!r}")
            low -= int(width or 1)
            fields.append(Field(name, low, int(width or 1)))
        if low:
            raise EncodingError(f"{text!r} has {32 - low} bits, not 32")
        if len({f.name for f in fields}) != len(fields):
            raise EncodingError(f"a field is named twice in {text!r}")
        return Diagram(text, Cube(mask, value), tuple(fields))

    def field(self, name: str) -> Field:
        for f in self.fields:
            if f.name == name:
                return f
        raise EncodingError(f"no field {name!r} in {self.text!r}")

    def values(self, word: int) -> dict[str, int]:
        """Every field's value in `word`."""
        return {f.name: f.of(word) for f in self.fields}

    def condition(self, text: str) -> Cube:
        """The cube of a conjunction like ``sf=0 imm6=1xxxxx`` (binary digits, x for any)."""
        cube = self.cube
        for term in text.split():
            name, _, digits = term.partition("=")
            f = self.field(name)
            if len(digits) != f.width or digits.strip("01x"):
                raise EncodingError(
                    f"{term!r} does not give {f.width} binary digits of {name} in {self.text!r}"
                )
            mask = int(digits.replace("0", "1").replace("x", "0"), 2)
            cube &= Cube(mask << f.low, int(digits.replace("x", "0"), 2) << f.low)
        return cube

    def encode(self, **fields: int) -> int:
        """The word with the given field values; missing fields are zero."""
        word = self.cube.value
        for name, value in fields.items():
            f = self.field(name)
            if value >> f.width:
                raise EncodingError(f"{name}={value} does not fit {f.width} bits")
            word |= value << f.low
        return word
