"""The weights that ship: flat arrays of float32, and beside each a JSON file that tells how it was made."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kvrm.array_files import read_array
from kvrm.errors import INSTALL_NETWORKS, UsageError

Floats = npt.NDArray[np.float32]
T = TypeVar("T", bound=np.generic)
SHIPPED = Path(__file__).parent


def load(name: str, count: int, directory: Path = SHIPPED) -> Floats:
    """The `count` parameters of a network. Raises UsageError for no file, and for one with something else."""
    path = path_of(f"{name}.npy", directory)
    flat: Floats = read_array(path)
    if flat.dtype != np.float32 or flat.shape != (count,):
        raise UsageError(f"{path}: {flat.shape} of {flat.dtype}, not ({count},) of float32")
    if not np.isfinite(flat).all():
        raise UsageError(f"{path}: not all of its numbers are finite")
    return flat


def path_of(name: str, directory: Path) -> Path:
    """A file of weights, or the manifest beside them. Raises UsageError where what ships is not installed."""
    path = directory / name
    if directory == SHIPPED and not path.exists():
        raise UsageError(f"weights are not installed, there is no {name}: {INSTALL_NETWORKS}")
    return path


def hash_of(flat: npt.NDArray[np.generic]) -> str:
    """What names these parameters: SHA-256 of their bytes, little-endian."""
    return hashlib.sha256(flat.astype(flat.dtype.newbyteorder("<")).tobytes()).hexdigest()


def views_of(flat: npt.NDArray[T], shapes: Iterable[tuple[int, ...]]) -> list[npt.NDArray[T]]:
    """Arrays of these shapes: views of a flat array that has them one after the other."""
    parts, at = [], 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(flat[at : at + size].reshape(shape))
        at += size
    return parts


def parts_of(flat: Floats, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    """The same by name."""
    return dict(zip(shapes, views_of(flat, shapes.values()), strict=True))
