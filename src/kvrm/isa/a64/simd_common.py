"""What the groups of Advanced SIMD share: vector and scalar shapes, register text, cumulative saturation.

Many vector instructions have a scalar form that does the same to one element. Both forms share one operation;
the scalar form is registered with `Q` bound to SCALAR.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from kvrm.isa.assembly import printer
from kvrm.isa.context import Context, System
from kvrm.isa.definition import Decoded, Execution, insn
from kvrm.values import Bits, from_lanes

SCALAR = 2
"""Instead of Q (0 or 1): one element."""

QC = 27
"""The bit of FPSR that saturating instructions set (cumulative saturation)."""

LETTERS = {8: "b", 16: "h", 32: "s", 64: "d"}
"""Letters of the element sizes in bits."""

Operation = Callable[..., None]

# -- Shapes ---------------------------------------------------------------------------------------------


def datasize(Q: int, esize: int) -> int:
    """Bits of the registers that are used."""
    return esize if Q == SCALAR else 64 << Q


def shape(Q: int, size: int) -> tuple[int, int]:
    """Bits of the registers and of their elements, for the fields Q and size."""
    return datasize(Q, 8 << size), 8 << size


def widesize(Q: int, esize: int) -> int:
    """Bits of a register that is used whole whatever Q says, because another one is used by halves."""
    return esize if Q == SCALAR else 128


def half(m: Context, r: Bits, Q: int, esize: int) -> Bits:
    """Vpart[]: the lower (Q=0) or upper (Q=1) 64 bits of a register as elements, or one element."""
    if Q == SCALAR:
        return m.v[r, esize]
    return (m.v[r, 128].split(64).lane(1) if Q else m.v[r, 64]).split(esize)


def write_half(m: Context, r: Bits, Q: int, value: Bits) -> None:
    """Vpart[] =: the lower 64 bits (Q=0) or one element with zero above, or the upper 64 bits alone (Q=1)."""
    if Q == 1:
        m.v[r, 128] = from_lanes([m.v[r, 64], value.whole])
    else:
        m.v[r, value.width * value.lanes] = value


# -- Saturation -----------------------------------------------------------------------------------------


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


# -- Registration ---------------------------------------------------------------------------------------


def key_of(name: str, *suffixes: str) -> str:
    """A definition's key from the manual's name: "SQDMLAL, SQDMLAL2 (vector)" becomes sqdmlal_vector."""
    return "_".join([*re.findall(r"\w+", re.sub(r", \w+2\b", "", name).lower()), *suffixes])


def mnemonic_of(name: str) -> str:
    """The (first) mnemonic in the manual's name."""
    return name.replace(",", " ").split()[0].lower()


def without_sizes(allowed: str) -> str:
    """Unallocated conditions of a `size` field that may only mean `allowed`, some of "bhsd"."""
    return " | ".join(f"size={i:02b}" for i, letter in enumerate("bhsd") if letter not in allowed)


def family(
    name: str,
    diagrams: tuple[str, str],
    asm: str,
    sizes: tuple[str, str],
    operation: Operation,
    op: object,
    feature: str | None = None,
    execution: Execution | None = None,
) -> None:
    """Register the vector and the scalar form of an instruction.

    `sizes` are those that each form has, some of "bhsd"; none if there is no such form. A vector of one D is
    not allocated. `asm` lacks the mnemonic. `feature` and `execution` are as in `insn`.
    """
    text = mnemonic_of(name) + asm
    (vector, scalar), (vector_sizes, scalar_sizes) = diagrams, sizes
    shared: dict[str, Any] = {"feature": feature, "execution": execution, "op": op}
    if vector_sizes:
        holes = without_sizes(vector_sizes) + (" | size=11 Q=0" if "d" in vector_sizes else "")
        key = key_of(name)
        insn(name, vector, text, key=key, unallocated=holes, **shared)(operation)
    if scalar_sizes:
        holes = without_sizes(scalar_sizes)
        key = key_of(name, "scalar")
        insn(name, scalar, text, key=key, unallocated=holes, Q=SCALAR, **shared)(operation)


# -- Text -----------------------------------------------------------------------------------------------


def element_size(d: Decoded) -> int:
    """Bits of an element: fixed by the definition, or given by its `size` field."""
    fixed = d.definition.bound.get("esize")
    return fixed if isinstance(fixed, int) else 8 << d.size


def arranged(r: int, n: int, esize: int) -> str:
    """A vector register of n bits: ``v1.8h``."""
    return f"v{r}.{n // esize}{LETTERS[esize]}"


def _sized(d: Decoded, r: int, esize: int) -> str:
    return arranged(r, 64 << d.Q, esize) if "Q" in d.fields else f"{LETTERS[esize]}{r}"


@printer
def vec(d: Decoded, r: int) -> str:
    """Vector register, its length by `Q`; a scalar register where the diagram has no Q."""
    return _sized(d, r, element_size(d))


@printer
def vec_pairs(d: Decoded, r: int) -> str:
    """The same with elements twice as wide."""
    return _sized(d, r, 2 * element_size(d))


@printer
def vec_wide(d: Decoded, r: int) -> str:
    """A whole register of elements twice as wide, or a scalar twice as wide."""
    esize = 2 * element_size(d)
    return arranged(r, 128, esize) if "Q" in d.fields else f"{LETTERS[esize]}{r}"


@printer
def vec_bytes(d: Decoded, r: int) -> str:
    """Vector of bytes, its length by `Q`."""
    return arranged(r, 64 << d.Q, 8)


@printer
def vec_words(d: Decoded, r: int) -> str:
    """Vector of words, its length by `Q`."""
    return arranged(r, 64 << d.Q, 32)


@printer
def two(d: Decoded, _: int) -> str:
    """The 2 of mnemonics that use the upper half."""
    return "2" if d.fields.get("Q") else ""
