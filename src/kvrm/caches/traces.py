"""Traces of memory accesses: recorded in a machine, kept in files of NumPy arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvrm.array_files import read_arrays
from kvrm.errors import UsageError
from kvrm.observe.observer import Accesses
from kvrm.staging.kernel import Array

Peek = Callable[[int, int], bytes]
"""Guest bytes at an address (`kvrm.memory.Memory.peek`)."""


@dataclass(frozen=True, slots=True)
class Trace:
    """n accesses by m static sites.

    `pc` (uint64, m) and `words` (uint32, m) are the sites' instructions. `site` (int32, n) is the index of
    the one that made an access, `address` (int64, n) where, `retired` (int64, n) instructions before it,
    `size` bytes (uint8, n), `write` (bool, n) whether it is a store.
    """

    pc: npt.NDArray[np.uint64]
    words: npt.NDArray[np.uint32]
    site: npt.NDArray[np.int32]
    address: Array
    retired: Array
    size: npt.NDArray[np.uint8]
    write: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.site)

    @property
    def sha256(self) -> str:
        """What names this trace: a hash of its arrays' little-endian bytes."""
        digest = hashlib.sha256()
        for field in fields(self):
            array = getattr(self, field.name)
            digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write a compressed .npz file; addresses and counts as differences, which are mostly small."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("address", "retired"):
            arrays[name] = np.diff(arrays[name], prepend=0)
        np.savez_compressed(path, **arrays, sha256=np.array(self.sha256))

    @staticmethod
    def load(path: Path) -> Trace:
        """Read a file of `save`. UsageError if it is something else, or damaged."""
        arrays = read_arrays(path, [*(field.name for field in fields(Trace)), "sha256"], "no trace")
        told = str(arrays.pop("sha256"))
        for name in ("address", "retired"):
            arrays[name] = np.cumsum(arrays[name])
        trace = Trace(**arrays)
        if trace.sha256 != told:
            raise UsageError(f"{path}: its arrays are not those of its hash")
        return trace

    def stream(self) -> tuple[Array, Array, Array, Array, int]:
        """What `Session.feed` takes."""
        site, write = self.site.astype(np.int64), self.write.astype(np.int64)
        return site, self.address, self.retired, write, len(self.pc)

    def part(self, first: float, last: float) -> Trace:
        """The accesses between two shares of all."""
        a, b = int(first * len(self)), int(last * len(self))
        rest = {name: getattr(self, name)[a:b] for name in ("site", "address", "retired", "size", "write")}
        return Trace(self.pc, self.words, **rest)


class Sites:
    """Numbers for instructions, in the order in which they are met; `words` grows with them."""

    def __init__(self, peek: Peek) -> None:
        self._peek = peek
        self._numbers: dict[int, int] = {}
        self._words: list[int] = []

    def __len__(self) -> int:
        return len(self._words)

    @property
    def words(self) -> npt.NDArray[np.uint32]:
        return np.array(self._words, np.uint32)

    @property
    def pcs(self) -> npt.NDArray[np.uint64]:
        return np.array(list(self._numbers), np.uint64)

    def numbers(self, pcs: npt.NDArray[np.uint64]) -> Array:
        """The sites of instructions at these addresses."""
        unique, which = np.unique(pcs, return_inverse=True)
        return np.array([self._number(pc) for pc in unique.tolist()], np.int64)[which]

    def _number(self, pc: int) -> int:
        if pc not in self._numbers:
            self._numbers[pc] = len(self._words)
            self._words.append(int.from_bytes(self._peek(pc, 4), "little"))
        return self._numbers[pc]


class Recording:
    """A memory policy of a machine that keeps all accesses.

    Those made before `skip` instructions had retired are left out, to within some thousands.
    """

    def __init__(self, skip: int = 0) -> None:
        self._skip = skip
        self._sites: Sites | None = None
        self._parts: list[tuple[Any, ...]] = []
        self.accesses = 0

    def attach(self, peek: Peek) -> None:
        self._sites = Sites(peek)

    def feed(self, a: Accesses) -> None:
        self.accesses += len(a.pc)
        if a.retired[-1] >= self._skip:
            assert self._sites is not None
            site = self._sites.numbers(a.pc).astype(np.int32)
            self._parts.append((site, a.address.astype(np.int64), a.retired, a.size, a.write))

    def trace(self) -> Trace:
        """What was kept. UsageError if that is nothing."""
        if self._sites is None or not self._parts:
            raise UsageError("no memory access was recorded")
        columns = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return Trace(self._sites.pcs, self._sites.words, *columns)


def traces_in(directory: Path) -> dict[str, Trace]:
    """The traces of a directory by name. UsageError if there are none."""
    found = {path.stem: Trace.load(path) for path in sorted(directory.glob("*.npz"))}
    if not found:
        raise UsageError(f"{directory}: no traces (kvrm data memory makes them)")
    return found
