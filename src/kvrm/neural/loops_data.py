"""The data set: loop bodies out of programs and libraries, labelled by the analyser.

Bodies are split by the file that they are from, a program, a library or a whole Debian package, so that what
is learned from one program is tried on others. A body that several files have counts once, where training
comes first; addresses inside a body are masked, so that the same code at another place is the same body.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvrm.array_files import read_fields, save_fields
from kvrm.binary.archives import objects_in
from kvrm.elf_sections import EXECUTABLE, PROGBITS, sections_of
from kvrm.errors import UsageError
from kvrm.loops.find import loops_in
from kvrm.loops.iteration import MOST_WORDS
from kvrm.loops.oracle import oracle
from kvrm.loops.sites import Body
from kvrm.neural.loops_network import labels_of

TRAIN, VALIDATION, TEST = range(3)
SHARES = (6, 1, 3)
"""Of ten files, about how many are for training, validation and test."""


def split_of(name: str) -> int:
    """Which part a file is in: a hash of its name says, so adding files moves none."""
    tenth = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") % sum(SHARES)
    return TRAIN if tenth < SHARES[0] else VALIDATION if tenth < SHARES[0] + SHARES[1] else TEST


def masked(body: Body) -> Body:
    """A body without the addresses in it: those of ADR, ADRP and literal loads."""
    return tuple(_masked(word) for word in body)


def _masked(word: int) -> int:
    if word & 0x1F000000 == 0x10000000:
        return word & ~0x60FFFFE0
    return word & ~0xFFFFE0 if word & 0x3B000000 == 0x18000000 else word


def code_in(path: Path) -> Iterator[bytes]:
    """The executable sections of the AArch64 ELF files in a file (`objects_in`)."""
    for data in objects_in(path):
        for section in sections_of(data):
            if section.kind == PROGBITS and section.flags & EXECUTABLE:
                yield section.content(data)


def bodies_in(code: bytes) -> Iterator[Body]:
    """The bodies of single-block loops."""
    words = array("I", code[: len(code) & -4]).tolist()
    for first, last in loops_in(words):
        yield masked(tuple(words[first : last + 1]))


@dataclass(frozen=True, slots=True)
class LoopData:
    """Bodies with words (n, MOST_WORDS), lengths (n), labels (n, 8) and part (n).

    `seen` tells how many loops each part had before duplicates were removed.
    """

    words: Any
    lengths: Any
    labels: Any
    part: Any
    seen: Any

    def rows(self, part: int) -> Any:
        return np.flatnonzero(self.part == part)

    def bodies(self, part: int) -> list[Body]:
        return [tuple(self.words[i, : self.lengths[i]].tolist()) for i in self.rows(part)]

    def hash_of(self, part: int) -> str:
        """What names a part: SHA-256 of its bodies and labels in order."""
        digest = hashlib.sha256()
        for i in self.rows(part):
            digest.update(self.words[i, : self.lengths[i]].tobytes() + self.labels[i].tobytes())
        return digest.hexdigest()


def collect(paths: Iterable[Path]) -> LoopData:
    """The data set of some files. Raises UsageError if they have no loops."""
    parts: list[set[Body]] = [set() for _ in SHARES]
    seen = [0] * len(SHARES)
    for path in paths:
        part = split_of(path.name.partition("_")[0])
        for code in code_in(path):
            for body in bodies_in(code):
                parts[part].add(body)
                seen[part] += 1
    parts[VALIDATION] -= parts[TRAIN]
    parts[TEST] -= parts[TRAIN] | parts[VALIDATION]
    bodies = [(part, body) for part, found in enumerate(parts) for body in sorted(found)]
    if not bodies:
        raise UsageError("there is no loop in these files")
    words = np.zeros((len(bodies), MOST_WORDS), np.uint32)
    for row, (_, body) in zip(words, bodies, strict=True):
        row[: len(body)] = body
    labels = [labels_of(oracle([body])[0]) for _, body in bodies]
    return LoopData(
        words,
        np.array([len(body) for _, body in bodies], np.uint8),
        np.array(labels, np.int8),
        np.array([part for part, _ in bodies], np.uint8),
        np.array(seen, np.int64),
    )


def save(data: LoopData, path: Path) -> None:
    save_fields(path, data)


def read(path: Path) -> LoopData:
    """What `save` wrote. Raises UsageError."""
    return read_fields(path, LoopData, "not a data set of `kvrm data loops`")
