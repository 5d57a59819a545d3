"""Files of arrays that are another's, missing, or damaged anywhere: one line that says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from kvrm import UsageError
from kvrm.array_files import read_array, read_fields, save_fields


@dataclass
class Pair:
    """Two arrays."""

    one: np.ndarray
    other: np.ndarray


def test_what_was_written_is_read(tmp_path: Path) -> None:
    pair = Pair(np.arange(300), np.ones((2, 3)))
    save_fields(tmp_path / "pair.npz", pair)
    again = read_fields(tmp_path / "pair.npz", Pair, "no pair")
    assert (again.one == pair.one).all() and (again.other == pair.other).all()


def test_what_is_something_else_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.arange(3))
    save_fields(tmp_path / "pair.npz", Pair(np.arange(300), np.arange(3)))
    np.savez(tmp_path / "less.npz", one=np.arange(3))
    (tmp_path / "text").write_text("no arrays")
    (tmp_path / "empty").write_bytes(b"")
    for name in ("one.npy", "less.npz", "text", "empty"):
        with pytest.raises(UsageError, match="no pair"):
            read_fields(tmp_path / name, Pair, "no pair")
    for name in ("pair.npz", "text", "empty"):
        with pytest.raises(UsageError, match="not a NumPy array"):
            read_array(tmp_path / name)
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match=r"No such file|Is a directory"):
            read_array(path)
        with pytest.raises(UsageError, match=r"No such file|Is a directory"):
            read_fields(path, Pair, "no pair")


def test_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    path, rng = tmp_path / "pair.npz", np.random.default_rng(0)
    save_fields(path, Pair(np.arange(300), np.arange(3)))
    good, refused = path.read_bytes(), 0
    for end in range(0, len(good), 37):
        path.write_bytes(good[:end])
        with pytest.raises(UsageError, match="no pair"):
            read_fields(path, Pair, "no pair")
    for _ in range(300):
        data = bytearray(good)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        try:
            read_fields(path, Pair, "no pair")
        except UsageError:
            refused += 1
    assert refused > 100
