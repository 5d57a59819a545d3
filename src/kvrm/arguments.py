"""What callers give: a check for each kind of argument, used by every public entry point.

Each check takes the argument's name and value and gives the value in the one form that the code inside works
with, so numpy's integers and arrays of bytes never get further than this. A value that does not fit is a
UsageError that says what the argument takes.

numpy is imported by the checks that need it: a start of one machine needs none of them, and importing it
would take a third of its time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from operator import index as as_index
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

from kvrm.errors import OutOfRange, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_SCALARS = int | float | str | bytes | bool | None
_WIDTH = 60
U64 = (1 << 64) - 1


def shown(value: object) -> str:
    """A value in a message: short, and never an error of its own."""
    if not isinstance(value, _SCALARS):
        return f"a {type(value).__name__}"
    # Python refuses to write out an integer of thousands of decimal digits
    text = f"{value:#x}" if isinstance(value, int) and abs(value) >> 64 else repr(value)
    return shortened(text)


def shortened(text: str) -> str:
    """A text that may be of any length, in a message."""
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def integer(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """An int, from anything that Python takes for an index, numpy's integers among them; no bool."""
    number = _index_or_none(value)
    fits = number is not None and (least is None or number >= least) and (most is None or number <= most)
    if number is None or not fits:
        limits = [] if least is None else [f"at least {least}"]
        limits += [] if most is None else [f"at most {most}"]
        what = ", ".join(["an integer", " and ".join(limits)] if limits else ["an integer"])
        raise UsageError(f"{name} is {shown(value)}; it takes {what}")
    return number


def word(name: str, value: Any) -> int:
    """The value of a 64-bit register: an integer modulo 2^64."""
    return integer(name, value) & U64


def _index_or_none(value: Any) -> int | None:
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return as_index(value)
    except TypeError:
        return None


def element(name: str, value: Any, count: int) -> int:
    """The number of one of `count` things, from 0 on."""
    number = _index_or_none(value)
    if number is None or not 0 <= number < count:
        raise OutOfRange(f"{name}[{shown(value)}]: it takes one integer from 0 to {count - 1}")
    return number


def position(name: str, value: Any, count: int) -> int:
    """The same with Python's way to count from the end, -1 being the last."""
    number = _index_or_none(value)
    if number is None or not -count <= number < count:
        raise OutOfRange(f"{name}[{shown(value)}]: it takes one integer from {-count} to {count - 1}")
    return number % count


def positions(name: str, value: slice, count: int) -> range:
    """Which of `count` things a slice means."""
    try:
        return range(*value.indices(count))
    except (TypeError, ValueError):
        raise UsageError(f"{name}[...]: a slice takes integers, and a step that is not 0") from None


def seconds(name: str, value: Any) -> float | None:
    """How long to wait; None: for ever."""
    if value is None:
        return None
    is_number = isinstance(value, Real) and value is not True
    # not "value < 0": neither holds for a NaN
    if not (is_number and value >= 0):
        raise UsageError(f"{name} is {shown(value)}; it takes seconds, at least 0, or None")
    return float(min(value, TIMEOUT_MAX))


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if isinstance(value, bool):
        return value
    import numpy as np

    if not isinstance(value, np.bool_):
        raise UsageError(f"{name} is {shown(value)}; it takes True or False")
    return bool(value)


def choice(name: str, value: Any, known: Iterable[str]) -> str:
    """One of the names in `known`."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise UsageError(f"no {name} {shown(value)}; there are {', '.join(names)}")
    return value


def data(name: str, value: Any) -> bytes:
    """Bytes, from any contiguous buffer of numbers."""
    if isinstance(value, bytes):
        return value
    try:
        return bytes(memoryview(value).cast("B"))
    except (TypeError, ValueError, BufferError):
        raise UsageError(f"{name} is {shown(value)}; it takes bytes, or a contiguous array") from None


def encoded(name: str, value: Any) -> bytes:
    """A string of C, from str or bytes."""
    try:
        text = value if isinstance(value, bytes) else os.fsencode(value) if isinstance(value, str) else None
    except UnicodeError:
        text = None
    if text is None:
        raise UsageError(f"{name} has {shown(value)} in it; it takes str and bytes")
    if b"\0" in text:
        raise UsageError(f"{name} has {shown(value)} in it; a string of C cannot contain a zero byte")
    return text


def path(name: str, value: Any, what: str = "a path") -> Path | None:
    """A file name, or None; `what` else the argument takes is for the message."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise UsageError(f"{name} is {shown(value)}; it takes {what}")
    return Path(value)


def sequence(name: str, value: Any, of: str) -> Sequence[Any]:
    """A list or something like it, but no str or bytes; `of` says of what, for the message."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
        raise UsageError(f"{name} is {shown(value)}; it takes a list of {of}")
    return value


def collection(name: str, value: Any, of: str) -> list[Any]:
    """A set, a list or anything else to iterate over, but no str or bytes; `of` says of what."""
    try:
        items = None if isinstance(value, str | bytes) else list(value)
    except TypeError:
        items = None
    if items is None:
        raise UsageError(f"{name} is {shown(value)}; it takes a set or list of {of}")
    return items


def mapping(name: str, value: Any, of: str) -> Mapping[Any, Any]:
    """A dict or something like it; `of` says of what, for the message."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} is {shown(value)}; it takes a dict of {of}")
    return value


def on_device(name: str, value: Any) -> tuple[tuple[int, ...], np.dtype[Any], bool] | None:
    """Shape, dtype and whether it is contiguous, of an array in a GPU's memory; None of anything else."""
    there = getattr(value, "__cuda_array_interface__", None)
    if there is None:
        return None
    import numpy as np

    try:
        return tuple(there["shape"]), np.dtype(there["typestr"]), there.get("strides") is None
    except (AttributeError, KeyError, TypeError):
        raise UsageError(f"{name} has a __cuda_array_interface__ that is not one of version 2 or 3") from None


def array(name: str, value: Any) -> npt.NDArray[Any]:
    """An array in the host's memory, of whatever shape and dtype."""
    import numpy as np

    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise UsageError(f"{name} is {shown(value)} that numpy makes no array of") from None
