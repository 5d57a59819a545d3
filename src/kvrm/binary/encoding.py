"""What policies see of functions: instructions, without what a linker or the address of the code decides.

Masked are the distances of all branches, ADR, ADRP and literal loads, and the low twelve bits of addresses:
immediates of ADD and of loads and stores whose base register was last written, in the order of memory, by
ADRP or from the thread pointer. It is the same for objects, whose relocations are still to come, and for
programs.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvrm.isa.a64 import decode_many, definitions
from kvrm.isa.definition import Definition, definition_of
from kvrm.isa.execution import Words
from kvrm.isa.probe import Probe

Integers = npt.NDArray[np.int64]
Small = npt.NDArray[np.uint16]

RELATIVE = {"imm26", "imm19", "imm14", "immlo", "immhi"}
"""Fields that are distances from the instruction."""
TARGETS = ("Rd", "Rt")
SECOND = ("Rm", "Rt2", "Rs")
REGISTERS = {*TARGETS, *SECOND, "Rn", "Ra"}
NO_REGISTER = 32
NEAR = 8
"""Instructions that a near branch passes, at most."""
NOT_RELATIVE, BACK, FAR_BACK, AHEAD, FAR_AHEAD, OUTSIDE, CALL = range(7)
"""What kind of branch an instruction is: within the function and how far, or out of it."""
KINDS = 7
TPIDR_EL0 = 0xD53BD040
"""MRS Xt, TPIDR_EL0, less the register."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Instructions of many functions, one after the other; function i has those from starts[i] on.

    `masked` are the words less what is masked, uint32; `definition` indices of definitions, -1 for none;
    `target`, `base` and `second` register numbers or NO_REGISTER; `rest` the word's other fields as they are
    in place, uint32; `kind` the kind of branch. All (instructions,), `starts` (functions + 1,).
    """

    starts: Integers
    masked: Words
    definition: npt.NDArray[np.int32]
    target: Small
    base: Small
    second: Small
    rest: Words
    kind: Small

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True)
class _Layout:
    """For each definition, and last for no definition: where registers are (or -1), masks of fields.

    `branch` is the width of a branch's distance, `writes` whether bits 4:0 name a general register it writes.
    """

    target: npt.NDArray[np.int8]
    base: npt.NDArray[np.int8]
    second: npt.NDArray[np.int8]
    relative: Words
    offset: Words
    rest: Words
    branch: npt.NDArray[np.int8]
    writes: npt.NDArray[np.bool_]


def encode(functions: Sequence[Words]) -> Encoded:
    """Functions given as their words (uint32), each in its order in memory."""
    starts = np.concatenate([[0], np.cumsum([len(words) for words in functions])]).astype(np.int64)
    words = np.concatenate([*functions, np.zeros(0, np.uint32)]).astype(np.uint32)
    found, layout = decode_many(words), _layout()
    relative = layout.relative[found]
    masked = words & ~relative & ~np.where(_on_page(words, found, starts), layout.offset[found], 0)
    return Encoded(
        starts=starts,
        masked=masked.astype(np.uint32),
        definition=found,
        target=_register(words, layout.target[found]),
        base=_register(words, layout.base[found]),
        second=_register(words, layout.second[found]),
        rest=(masked & layout.rest[found]).astype(np.uint32),
        kind=_kinds(words, found, starts),
    )


def _register(words: Words, low: npt.NDArray[np.int8]) -> Small:
    shifts = np.maximum(low, 0).astype(np.uint32)
    return np.where(low < 0, NO_REGISTER, words >> shifts & np.uint32(31)).astype(np.uint16)


def _on_page(words: Words, found: npt.NDArray[np.int32], starts: Integers) -> npt.NDArray[np.bool_]:
    """Whether what wrote the base register last was an ADRP or an MRS of the thread pointer."""
    forms = found == definitions.index(definition_of("adrp"))
    forms |= words & np.uint32(0xFFFFFFE0) == TPIDR_EL0
    written = np.where(_layout().writes[found], words & np.uint32(31), NO_REGISTER)
    base, places = words >> np.uint32(5) & np.uint32(31), np.arange(len(words))
    first = np.repeat(starts[:-1], np.diff(starts))
    hit = np.zeros(len(words), np.bool_)
    for register in range(31):
        last = np.maximum.accumulate(np.where(written == register, places, -1))
        before = np.concatenate([[-1], last[:-1]])
        used = (base == register) & (before >= first)
        hit[used] = forms[before[used]]
    return hit


def _kinds(words: Words, found: npt.NDArray[np.int32], starts: Integers) -> Small:
    """The kind of each branch."""
    width = _layout().branch[found]
    low = np.where(width == 26, 0, 5).astype(np.uint32)
    bits = np.where(width > 0, width, 1).astype(np.int64)
    raw = (words >> low).astype(np.int64) & (1 << bits) - 1
    distance = np.where(raw >> bits - 1 & 1, raw - (1 << bits), raw)
    lengths = np.diff(starts)
    place = np.arange(len(words)) - np.repeat(starts[:-1], lengths)
    to = place + distance
    inside = (to >= 0) & (to < np.repeat(lengths, lengths)) & (distance != 0)
    far = np.abs(distance) > NEAR
    kind = np.where(distance < 0, np.where(far, FAR_BACK, BACK), np.where(far, FAR_AHEAD, AHEAD))
    kind = np.where(inside, kind, OUTSIDE)
    kind = np.where(found == definitions.index(definition_of("bl")), CALL, kind)
    return np.where(width > 0, kind, NOT_RELATIVE).astype(np.uint16)


@functools.cache
def _layout() -> _Layout:
    rows = [_fields(d) for d in definitions]
    columns = list(zip(*rows, (-1, -1, -1, 0, 0, 0xFFFFFFFF, 0, 0), strict=True))
    kinds = (np.int8, np.int8, np.int8, np.uint32, np.uint32, np.uint32, np.int8, np.bool_)
    return _Layout(*(np.array(c, kind) for c, kind in zip(columns, kinds, strict=True)))


def _fields(d: Definition) -> tuple[int, ...]:
    """The row of a definition in `_Layout`."""
    fields = {f.name: f for f in d.diagram.fields}

    def low(names: Sequence[str]) -> int:
        return next((fields[name].low for name in names if name in fields), -1)

    def mask(names: set[str]) -> int:
        return sum((1 << f.width) - 1 << f.low for name, f in fields.items() if name in names)

    relative = mask(RELATIVE)
    bits = next((fields[name].width for name in ("imm26", "imm19", "imm14") if name in fields), 0)
    literal = d.name.endswith("(literal)")
    registers = mask({name for name in REGISTERS if name in fields and fields[name].width == 5})
    rest = 0xFFFFFFFF & ~d.diagram.cube.mask & ~registers
    offset = mask({"imm12"}) if low(["Rn"]) == 5 else 0
    bases = low(["Rn"]), low(SECOND)
    return low(TARGETS), *bases, relative, offset, rest, 0 if literal else bits, _writes(d)


def _writes(d: Definition) -> bool:
    """Whether the field in bits 4:0 is a general register that the definition writes."""
    probe = Probe()
    statics = dict(zip((f.name for f in d.statics), next(d.variants()), strict=True))
    leaves = {f.name: probe.leaf(f.name, f.width) for f in d.parameters if f.name not in statics}
    d.run(probe, statics | leaves)
    lowest = {f.name for f in d.diagram.fields if f.low == 0 and f.width == 5}
    return not lowest.isdisjoint(probe.effects.x_written)


def signature(masked: Words) -> bytes:
    """What functions have in common that differ only in what is masked: 8 bytes."""
    return zlib.crc32(masked.tobytes()).to_bytes(4, "little") + zlib.adler32(masked.tobytes()).to_bytes(
        4, "little"
    )
