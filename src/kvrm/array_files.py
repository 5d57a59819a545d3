"""Files of NumPy arrays that KVRM has written: data sets, traces, tables and weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from kvrm.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def read_array(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file. Raises UsageError."""
    try:
        found = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except Exception:  # of damage, NumPy complains by several exceptions
        found = None
    if not isinstance(found, np.ndarray):
        raise UsageError(f"{path}: not a NumPy array")
    return found


def read_arrays(path: Path, names: Iterable[str], otherwise: str) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a .npz file by name. Raises UsageError; `otherwise` is said of another or a damaged file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in names}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # of damage, zipfile, zlib and NumPy complain by a dozen exceptions
        raise UsageError(f"{path}: {otherwise} ({error})") from None


def save_fields(path: Path, arrays: DataclassInstance) -> None:
    """Write a dataclass of arrays to a .npz file."""
    np.savez_compressed(path, **{field.name: getattr(arrays, field.name) for field in fields(arrays)})


def read_fields(path: Path, kind: type[T], otherwise: str) -> T:
    """The dataclass that `save_fields` wrote. Raises UsageError as `read_arrays` does."""
    return kind(**read_arrays(path, [field.name for field in fields(kind)], otherwise))
