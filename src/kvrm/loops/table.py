"""The table for loops: what training programs' loops did, by the shape of the body.

A shape is the body with its immediates left out and its registers numbered in the order in which they appear,
so that one row serves all loops which differ in those only.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kvrm.array_files import read_array
from kvrm.errors import UsageError
from kvrm.isa.a64 import decode
from kvrm.loops.sites import Body
from kvrm.loops.structure import CONDITIONS, Bound, Effect, Structure

NAME = "loops-table"
SHIPPED = Path(__file__).parent
NOWHERE = 63
"""For a row's register fields: none."""
Rows = Any
"""Two columns of uint64, in ascending order of the first: a hash of a shape, and what its loops do."""


def shape_of(body: Body) -> tuple[int, list[int]]:
    """A hash of the shape, and the registers in the order in which they appear."""
    registers: list[int] = []
    text = []
    for word in body:
        d = decode(word)
        if d is None:
            text.append("?")
            continue
        text.append(d.definition.key)
        for name, value in d.fields.items():
            if name.startswith("R"):
                if value not in registers:
                    registers.append(value)
                text.append(f"r{registers.index(value)}")
            elif not name.startswith("imm"):
                text.append(f"{name}{value}")
    digest = hashlib.blake2b(" ".join(text).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little"), registers


def learn(loops: Iterable[tuple[Body, Structure | None]]) -> Rows:
    """The table of some loops: the commonest structure of each shape that has been understood."""
    seen: dict[int, Counter[int]] = {}
    for body, structure in loops:
        shape, registers = shape_of(body)
        seen.setdefault(shape, Counter())[_packed(structure, registers)] += 1
    rows = sorted((shape, found.most_common(1)[0][0]) for shape, found in seen.items())
    return np.array([row for row in rows if row[1]], np.uint64).reshape(-1, 2)


def _packed(structure: Structure | None, registers: list[int]) -> int:
    """A number of a structure, its registers by their order in the body; 0 for none."""
    if structure is None:
        return 0
    s = structure
    named = [_number(r, registers) for r in (s.counter, s.step, s.bound_register)]
    packed = 1
    for value in (s.counted, s.bound, CONDITIONS.index(s.condition), s.effect, *named):
        packed = packed << 6 | value
    return packed


def _number(register: int | None, registers: list[int]) -> int:
    return NOWHERE if register is None else registers.index(min(register, 31))


class Table:
    """A table as a policy."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __call__(self, bodies: Sequence[Body]) -> list[Structure | None]:
        """What loops of the same shape did."""
        return [self._found(body) for body in bodies]

    def _found(self, body: Body) -> Structure | None:
        shape, registers = shape_of(body)
        at = int(np.searchsorted(self._rows[:, 0], np.uint64(shape)))
        if at == len(self._rows) or int(self._rows[at, 0]) != shape:
            return None
        packed = int(self._rows[at, 1])
        counted, bound, condition, effect, *named = (packed >> 6 * i & 63 for i in range(6, -1, -1))
        counter, step, register = (_register(number, registers) for number in named)
        return Structure(
            bool(counted), counter, step, Bound(bound), register, CONDITIONS[condition], Effect(effect)
        )


def _register(number: int, registers: list[int]) -> int | None:
    if number >= len(registers):
        return None
    return 32 if registers[number] == 31 else registers[number]


def read(directory: Path = SHIPPED) -> Rows:
    """The rows of `directory`, those that ship by default. Raises UsageError."""
    path = directory / f"{NAME}.npy"
    rows = read_array(path)
    if rows.dtype != np.uint64 or rows.ndim != 2 or rows.shape[1] != 2:
        raise UsageError(f"{path}: {rows.shape} of {rows.dtype}, not two columns of uint64")
    return rows


def shipped() -> Table:
    """The table that ships, as a policy."""
    return Table(read())
