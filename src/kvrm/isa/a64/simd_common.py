"""What the groups of Advanced SIMD share: arrangements in text, halves of registers, cumulative saturation."""

from __future__ import annotations

import re
from typing import NamedTuple

from kvrm.isa.assembly import printer
from kvrm.isa.context import Context, System
from kvrm.isa.definition import Decoded
from kvrm.values import Bits

QC = 27
"""The bit of FPSR that saturating instructions set (cumulative saturation)."""

LETTERS = {8: "b", 16: "h", 32: "s", 64: "d", 128: "q"}
"""Letters of the element sizes in bits."""

# -- Encodings ------------------------------------------------------------------------------------------------


def without_sizes(allowed: str, vector: bool = True) -> str:
    """Unallocated conditions of a `size` field that may only mean `allowed`, some of "bhsd"; one D is no vector."""
    holes = [f"size={i:02b}" for i, letter in enumerate("bhsd") if letter not in allowed]
    if vector and "d" in allowed:
        holes.append("size=11 Q=0")
    return " | ".join(holes)


def key_of(name: str, *suffixes: str) -> str:
    """A definition's key from the manual's name: "SQDMLAL, SQDMLAL2 (vector)" becomes sqdmlal_vector."""
    return "_".join([*re.findall(r"\w+", re.sub(r", \w+2\b", "", name).lower()), *suffixes])


def mnemonic_of(name: str) -> str:
    """The (first) mnemonic in the manual's name."""
    return name.replace(",", " ").split()[0].lower()


# -- Text -----------------------------------------------------------------------------------------------------


def element_size(d: Decoded) -> int:
    """Bits of an element: fixed by the definition, or given by its `size` field."""
    fixed = d.definition.bound.get("esize")
    return fixed if isinstance(fixed, int) else 8 << d.size


def arranged(r: int, n: int, esize: int) -> str:
    """A vector register of n bits: ``v1.8h``."""
    return f"v{r}.{n // esize}{LETTERS[esize]}"


@printer
def vector(d: Decoded, r: int) -> str:
    """Vector register, its length by `Q`."""
    return arranged(r, 128 if d.Q else 64, element_size(d))


@printer
def vector_bytes(d: Decoded, r: int) -> str:
    """Vector of bytes, its length by `Q`."""
    return arranged(r, 128 if d.Q else 64, 8)


@printer
def vector_pairs(d: Decoded, r: int) -> str:
    """Vector of elements twice as wide, its length by `Q`."""
    return arranged(r, 128 if d.Q else 64, 2 * element_size(d))


@printer
def vector_wide(d: Decoded, r: int) -> str:
    """Whole register of elements twice as wide."""
    return arranged(r, 128, 2 * element_size(d))


@printer
def scalar(d: Decoded, r: int) -> str:
    """Scalar SIMD&FP register."""
    return f"{LETTERS[element_size(d)]}{r}"


@printer
def scalar_wide(d: Decoded, r: int) -> str:
    """Scalar twice as wide."""
    return f"{LETTERS[2 * element_size(d)]}{r}"


@printer
def two(d: Decoded, q: int) -> str:
    """The 2 of mnemonics that use the upper half."""
    return "2" if q else ""


@printer
def own_size(d: Decoded, size: int) -> str:
    """The element size, as the shift of SHLL."""
    return str(8 << size)


# -- Registers ------------------------------------------------------------------------------------------------


class Saturated(NamedTuple):
    """Lanes that may have been clamped, and one bit for each that was."""

    value: Bits
    clamped: Bits


def settle(m: Context, result: Bits | Saturated) -> Bits:
    """The lanes; FPSR.QC is set if any was clamped."""
    if isinstance(result, Bits):
        return result
    m.sys[System.FPSR] = m.sys[System.FPSR] | result.clamped.whole.ne(0).zext(64).lsl(QC)
    return result.value


def half(m: Context, r: Bits, Q: int, esize: int) -> Bits:
    """Vpart[]: the lower (Q=0) or upper 64 bits of a register as lanes."""
    return (m.v[r, 128].split(64).lane(1) if Q else m.v[r, 64]).split(esize)


def write_half(m: Context, r: Bits, Q: int, value: Bits) -> None:
    """Vpart[] =: the lower 64 bits with zero above (Q=0), or the upper 64 bits alone."""
    if Q:
        m.v[r, 128] = m.v[r, 128].split(64).with_lane(1, value.whole)
    else:
        m.v[r, 64] = value
