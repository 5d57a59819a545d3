"""From a word to its definition."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from kvrm.isa.definition import BUCKET_SHIFT, Decoded, Definition, bucket_keys, definitions


@lru_cache(maxsize=1)
def _buckets(count: int) -> list[list[int]]:
    """Indices of the definitions to try, by bits 31:21 of the word."""
    buckets: list[list[int]] = [[] for _ in range(1 << (32 - BUCKET_SHIFT))]
    for index, d in enumerate(definitions):
        for key in bucket_keys(d.diagram.cube):
            buckets[key].append(index)
    return buckets


@lru_cache(maxsize=1 << 16)
def _find(word: int, count: int) -> Definition | None:
    for index in _buckets(count)[word >> BUCKET_SHIFT]:
        d = definitions[index]
        cube = d.diagram.cube
        if word & cube.mask == cube.value and not any(word & h.mask == h.value for h in d.unallocated):
            return d
    return None


def definition_for(word: int) -> Definition | None:
    """The definition that `word` is allocated to, or None."""
    return _find(word, len(definitions))


def decode(word: int, pc: int = 0) -> Decoded | None:
    """The definition and field values of `word`, or None if it is not allocated (or not yet defined)."""
    d = definition_for(word)
    return None if d is None else Decoded(word, d, d.diagram.values(word), pc)


def decode_many(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Index into `definitions` of each word, -1 where none; shape as `words`."""
    found = np.full(words.shape, -1, np.int32)
    keys = words >> BUCKET_SHIFT
    order = np.argsort(keys, kind="stable")
    edges = np.searchsorted(keys[order], np.arange(len(_buckets(len(definitions))) + 1))
    for key, rows in enumerate(_buckets(len(definitions))):
        at = order[edges[key] : edges[key + 1]]
        if not len(at) or not rows:
            continue
        these = words[at]
        for index in rows:
            d = definitions[index]
            hit = these & np.uint32(d.diagram.cube.mask) == np.uint32(d.diagram.cube.value)
            for hole in d.unallocated:
                hit &= these & np.uint32(hole.mask) != np.uint32(hole.value)
            found[at[hit]] = index
    return found
